"""Random values for each element type."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..dtypes import as_dtype
from ..interpreter import numpy_type
from .carriers import to_tensor

__all__ = ["random_array", "random_tensor"]


def random_array(
    shape: tuple[int, ...],
    dtype: Any,
    rng: np.random.Generator,
    *,
    special: bool = False,
    low: Any = None,
    high: Any = None,
) -> np.ndarray:
    """An array that a kernel can be tried on.

    Floats are normal, integers uniform over the type's range, bools fair.

    Args:
        shape, dtype: of the array.
        rng: source of the numbers; a seeded one makes the array reproducible.
        special: mixes in NaN, infinities, zeros of both signs, and the largest and smallest numbers.
        low, high: range of the numbers, uniform, `high` excluded for integers; both or neither.
    """
    dtype = as_dtype(dtype)
    held = numpy_type(dtype)
    if dtype.is_bool:
        return rng.integers(0, 2, shape).astype(held)
    if not dtype.is_float:
        first = dtype.min_value if low is None else low
        last = dtype.max_value if high is None else min(high - 1, dtype.max_value)
        wide = np.uint64 if dtype.kind == "u" else np.int64
        return rng.integers(first, last, shape, dtype=wide, endpoint=True).astype(held)
    values = rng.standard_normal(shape) if low is None else rng.uniform(low, high, shape)
    array = values.astype(np.float32 if dtype.bits < 32 else held).astype(held)
    if special and array.size:
        _sprinkle(array, rng)
    return array


def random_tensor(shape: tuple[int, ...], dtype: Any, rng: np.random.Generator, **options: Any) -> Any:
    """The same as a torch tensor, as bytes where torch lacks the type; see `random_array`."""
    import torch

    array = random_array(shape, dtype, rng, **options)
    name = as_dtype(dtype).name
    if as_dtype(dtype).bits < 8 or not hasattr(torch, name):
        return to_tensor(array, as_dtype(dtype))
    if array.dtype.kind in "biufc" and array.dtype.name == name:
        return torch.from_numpy(array)
    bits = array.view(np.int16 if array.itemsize == 2 else np.int8)
    return torch.from_numpy(bits).view(getattr(torch, name))


def _sprinkle(array: np.ndarray, rng: np.random.Generator) -> None:
    held = array.dtype
    wide = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0], dtype=np.float32)
    with np.errstate(all="ignore"):
        values = np.concatenate([wide.astype(held), _limits(held)])
    where = rng.integers(0, array.size, max(1, array.size // 8))
    array.reshape(-1)[where] = values[rng.integers(0, values.size, where.size)]


def _limits(held: np.dtype) -> np.ndarray:
    import ml_dtypes

    info = np.finfo(held) if held.kind == "f" else ml_dtypes.finfo(held)
    return np.array([info.max, info.min, info.smallest_normal], dtype=held)
