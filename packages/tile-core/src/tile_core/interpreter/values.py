"""Element types in numpy: which type holds them, how they convert, what marks memory that nobody wrote.

Integers of fewer than eight bits live one an element in int8 or uint8, wrapped by `wrap`; tfloat32 lives in float32
with the low thirteen bits of its mantissa rounded away. Everything else has a numpy or ml_dtypes type of its own, so
arithmetic on arrays rounds after each operation by itself.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from ..dtypes import DType
from .rounding import exact, round_to_format, round_to_integer

__all__ = ["compute_type", "convert", "numpy_type", "poison", "wide", "wrap"]

_ML_NAMES = {
    "bfloat16": "bfloat16",
    "float8_e3m4": "float8_e3m4",
    "float8_e4m3": "float8_e4m3",
    "float8_e4m3b11fnuz": "float8_e4m3b11fnuz",
    "float8_e4m3fn": "float8_e4m3fn",
    "float8_e4m3fnuz": "float8_e4m3fnuz",
    "float8_e5m2": "float8_e5m2",
    "float8_e5m2fnuz": "float8_e5m2fnuz",
    "float8_e8m0fnu": "float8_e8m0fnu",
    "float6_e2m3fn": "float6_e2m3fn",
    "float6_e3m2fn": "float6_e3m2fn",
    "float4_e2m1fn": "float4_e2m1fn",
}
_CONTAINERS = {"bool": "bool", "int4": "int8", "uint4": "uint8", "tfloat32": "float32", "handle": "int64"}
_numpy_types: dict[str, Any] = {}


def numpy_type(dtype: DType) -> np.dtype:
    """The numpy type that holds a scalar of `dtype` (vectors are an extra axis)."""
    name = dtype.scalar.name
    found = _numpy_types.get(name)
    if found is None:
        if name in _ML_NAMES:
            found = np.dtype(getattr(ml_dtypes, _ML_NAMES[name]))
        else:
            found = np.dtype(_CONTAINERS.get(name, name))
        _numpy_types[name] = found
    return found


def compute_type(dtype: DType) -> np.dtype:
    """The type in which functions such as exp are evaluated before rounding to `dtype`: float32 for floats below 32
    bits."""
    if dtype.is_float and dtype.bits < 32:
        return np.dtype(np.float32)
    return numpy_type(dtype)


def wide(values: Any, dtype: DType) -> np.ndarray:
    """Values as tile op references take them: floats below 32 bits as float32."""
    return np.asarray(values).astype(compute_type(dtype), copy=False)


def wrap(values: Any, dtype: DType) -> Any:
    """Values brought back into what `dtype` holds, where its container is wider than it."""
    name = dtype.scalar.name
    if name == "int4":
        return ((values & 15) ^ 8) - 8
    if name == "uint4":
        return values & 15
    if name == "tfloat32":
        bits = np.asarray(values, dtype=np.float32).view(np.uint32)
        rounded = (bits + np.uint32(0xFFF) + ((bits >> np.uint32(13)) & np.uint32(1))) & np.uint32(0xFFFFE000)
        return np.where(np.isfinite(values), rounded.view(np.float32), values)
    return values


def convert(
    values: Any, source: DType, target: DType, rounding: str = "", saturate: bool = True, random: Any = None
) -> Any:
    """Values of type `source` as `target`, by the rules of `casts`."""
    source, target = source.scalar, target.scalar
    if source is target:
        return values
    if target.is_bool:
        return np.asarray(values) != 0 if np.ndim(values) else np.bool_(values != 0)
    shaped: tuple[Any, ...] = (values,) if random is None else (values, random)
    scalar = all(np.ndim(v) == 0 for v in shaped)
    if not target.is_float:
        if not source.is_float:
            return wrap(_astype(values, numpy_type(target)), target)
        whole = round_to_integer(_astype(values, np.float64), target, numpy_type(target), rounding)
        return whole[()] if scalar else whole
    if rounding in ("", "rn") and target.bits > 8 and target.name != "tfloat32":
        direct = source.is_float or source.bits <= 16 or target.bits >= 32
        if direct and not (target.name == "bfloat16" and source.name == "float64"):
            if source.is_float and source.bits < 32:
                values = _astype(values, np.float32)
            return _astype(values, numpy_type(target))
    result = round_to_format(exact(values), target, rounding or "rn", saturate, random)
    result = result.astype(np.float32).astype(numpy_type(target)) if target.bits <= 32 else result
    return result[()] if scalar else result


def poison(size: int, dtype: DType) -> np.ndarray:
    """Memory that nobody wrote: NaN where the type has one, else a bit pattern that is unlikely to be meant."""
    held = numpy_type(dtype)
    if dtype.is_bool:
        return np.ones(size, dtype=held)
    if dtype.is_float:
        with np.errstate(all="ignore"):
            return np.full(size, np.nan, dtype=np.float32).astype(held)
    filled = np.full(size * held.itemsize, 0xA5, dtype=np.uint8).view(held)
    return np.ascontiguousarray(wrap(filled, dtype))


def _astype(values: Any, held: Any) -> Any:
    if isinstance(values, np.ndarray):
        return values.astype(held, copy=False)
    return np.asarray(values).astype(held)[()]
