"""How references compute: the numpy type in which an op accumulates into a buffer of some element type.

Floats of up to 32 bits accumulate in float32, float64 in float64, integers in their own type, wrapping. The rule is
part of the language: a backend that accumulates otherwise must stay inside the tolerance of the element type.
"""

from __future__ import annotations

from typing import Any

from ..dtypes import DType

__all__ = ["accumulator_type", "identity_value"]


def accumulator_type(dtype: DType) -> Any:
    """The numpy type in which values are accumulated into a buffer of type `dtype`."""
    import numpy

    if dtype.is_float:
        return numpy.float64 if dtype.bits == 64 else numpy.float32
    if dtype.is_bool:
        return numpy.bool_
    return getattr(numpy, dtype.name if dtype.bits >= 8 else f"{'u' * (dtype.kind == 'u')}int8")


def identity_value(kind: str, dtype: DType) -> int | float:
    """The value that changes nothing when combined by `kind`: sum, abssum, absmax, bitor, bitxor 0; max the smallest,
    min the largest; bitand all ones."""
    if kind in ("sum", "abssum", "absmax", "bitor", "bitxor", "add", "or", "xor"):
        return 0
    if kind == "max":
        return float("-inf") if dtype.is_float else dtype.min_value
    if kind == "min":
        return float("inf") if dtype.is_float else dtype.max_value
    if kind in ("bitand", "and"):
        return 1 if dtype.is_bool else (-1 if dtype.kind == "i" else dtype.max_value)
    raise ValueError(f"{kind!r} has no identity")
