"""Rounding of exact values to the float formats and to integers, in numpy: the reading of `casts` that counts.

Values come as float64, which holds every float type and all integers below 2^53; wider integers are first rounded to
odd at 2^-52 of themselves, so that rounding to fewer bits gives what rounding the integer gives.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..casts import FORMATS
from ..dtypes import DType

__all__ = ["exact", "round_to_format", "round_to_integer"]


def exact(values: Any) -> np.ndarray:
    """Numbers as float64; 64-bit integers that it does not hold are rounded to odd."""
    array = np.asarray(values)
    if array.dtype.kind not in "iu" or array.dtype.itemsize < 8:
        return array.astype(np.float64)
    wide = (array >= 1 << 53) | (array <= -(1 << 53) if array.dtype.kind == "i" else False)
    if not np.any(wide):
        return array.astype(np.float64)
    sticky = (array & array.dtype.type(0xFFF) != 0).astype(array.dtype)
    odd = ((array >> array.dtype.type(12)) | sticky).astype(np.float64) * 4096.0
    return np.where(wide, odd, array.astype(np.float64))


def round_to_format(values: np.ndarray, target: DType, rounding: str, saturate: bool, random: Any = None) -> np.ndarray:
    """float64 values rounded to what `target` holds, still as float64; NaN where the type has one."""
    form = FORMATS[target.scalar.name]
    size = np.abs(values)
    finite = np.isfinite(values)
    with np.errstate(all="ignore"):
        _, exponent = np.frexp(np.where(finite, size, 0.0))
        # The weight of the last place; below the smallest normal value it stays.
        place = np.maximum(exponent - 1, form.least_exponent) - form.mantissa
        scaled = np.ldexp(np.where(finite, size, 0.0), -place)
        whole = _round(scaled, np.signbit(values), rounding, random)
        rounded = np.ldexp(whole, place)
    largest = form.largest_value
    infinite, over = ~finite & ~np.isnan(values), rounded > largest
    beyond = np.inf if form.infinity is not None else np.nan if form.nan is not None else largest
    if form.signed:
        top = largest if saturate and target.bits <= 8 else beyond
        # What is rounded towards zero stops at the largest value.
        inward = {
            "rz": np.ones_like(over),
            "rp": np.signbit(values),
            "rm": ~np.signbit(values),
        }.get(rounding, np.zeros_like(over))
        result = np.where(over, np.where(inward, largest, top), rounded)
        result = np.copysign(np.where(infinite, top, result), values)
        if form.specials == "fnuz":
            result = np.where(result == 0, 0.0, result)
    else:
        smallest = form.value(0)
        result = np.where(over | infinite, largest if saturate else np.nan, np.maximum(rounded, smallest))
        result = np.where((values <= 0), smallest if saturate else np.nan, result)
    return np.where(np.isnan(values), np.nan if form.nan is not None else largest, result)


def round_to_integer(values: np.ndarray, target: DType, held: np.dtype, rounding: str) -> np.ndarray:
    """float64 values as integers of type `target`: clamped to its range, 0 for NaN."""
    values = np.asarray(values)
    size = np.where(np.isnan(values), 0.0, np.abs(values))
    whole = np.copysign(_round(size, np.signbit(values), rounding or "rz", None), values)
    low, high = target.min_value, target.max_value
    # The bounds of 64-bit integers are no doubles: compare first, convert only what fits.
    inside = (whole >= float(low)) & (whole < float(high + 1))
    result = np.where(inside, whole, 0.0).astype(held)
    return np.where(inside, result, np.where(whole < 0, held.type(low), held.type(high)))


def _round(scaled: np.ndarray, negative: np.ndarray, rounding: str, random: Any) -> np.ndarray:
    if rounding == "rn":
        return np.rint(scaled)
    low = np.floor(scaled)
    if rounding == "rz":
        return low
    if rounding == "rs":
        fraction = np.floor((scaled - low) * 4294967296.0)
        return low + (fraction + np.asarray(random).astype(np.float64) >= 4294967296.0)
    away = ~negative if rounding == "rp" else negative
    return np.where(away, np.ceil(scaled), low)
