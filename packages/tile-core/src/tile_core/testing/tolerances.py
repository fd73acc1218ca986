"""How close a result must be: one table, by element type.

`TOLERANCES` holds (relative, absolute) for one rounding of a value of order one in each type. A sum of `terms` such
values
has partial sums of order sqrt(k), each rounded once, so that its error has a standard deviation of about eps · terms
/ 5:
the absolute tolerance grows with `terms` itself (a quarter of it leaves room for the worst of a million elements), the
relative one with its root. Integers and bool are exact.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from ..dtypes import as_dtype

__all__ = ["TOLERANCES", "Tolerance", "tolerance"]


class Tolerance(NamedTuple):
    """|actual - expected| ≤ atol + rtol · |expected|"""

    rtol: float
    atol: float


EXACT = Tolerance(0.0, 0.0)

# About 8 units in the last place: kernels and references round intermediate results in different orders.
TOLERANCES: dict[str, Tolerance] = {
    "float64": Tolerance(2e-15, 2e-15),
    "float32": Tolerance(1e-6, 1e-6),
    "tfloat32": Tolerance(4e-3, 4e-3),
    "float16": Tolerance(4e-3, 4e-3),
    "bfloat16": Tolerance(3e-2, 3e-2),
    "float8_e4m3": Tolerance(0.25, 0.25),
    "float8_e4m3fn": Tolerance(0.25, 0.25),
    "float8_e4m3fnuz": Tolerance(0.25, 0.25),
    "float8_e4m3b11fnuz": Tolerance(0.25, 0.25),
    "float8_e3m4": Tolerance(0.125, 0.125),
    "float8_e5m2": Tolerance(0.5, 0.5),
    "float8_e5m2fnuz": Tolerance(0.5, 0.5),
    "float8_e8m0fnu": Tolerance(1.0, 1.0),
    "float6_e2m3fn": Tolerance(0.25, 0.25),
    "float6_e3m2fn": Tolerance(0.5, 0.5),
    "float4_e2m1fn": Tolerance(0.5, 0.5),
}


def tolerance(dtype: Any, terms: int = 1) -> Tolerance:
    """The tolerance for a result of type `dtype` that accumulates `terms` products or sums.

    Args:
        dtype: an element type, or what names one.
        terms: length of the longest accumulation behind one element (K of a gemm); 1 for element-wise work.
    """
    scalar = as_dtype(dtype).scalar
    if not scalar.is_float:
        return EXACT
    base = TOLERANCES[scalar.name]
    terms = max(1, terms)
    if scalar.bits < 32:
        # Narrow types round once, at the end: their accumulators are wider, so length hardly matters.
        growth = max(1.0, math.sqrt(terms) / 16)
        return Tolerance(base.rtol * growth, base.atol * growth)
    return Tolerance(base.rtol * math.sqrt(terms), base.atol * max(1.0, terms / 4))
