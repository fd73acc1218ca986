"""Values of every element type: as numpy has them, and as torch tensors carry them."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..casts import number_types
from ..dtypes import DType
from ..interpreter.values import numpy_type, wrap

__all__ = ["all_values", "empty_tensor", "equal_values", "from_tensor", "pack_nibbles", "to_tensor", "unpack_nibbles"]

# torch has no type for these: the bytes that hold them.
_BYTES = {d.name for d in number_types() if d.is_float and d.bits <= 8}


def all_values(dtype: DType, least: int = 2048, seed: int = 3) -> np.ndarray:
    """Every value of a type of 16 bits or fewer, repeated to `least` ones; special and random ones of wider types."""
    held = numpy_type(dtype)
    if dtype.is_bool:
        return np.resize(np.array([False, True]), least)
    if dtype.bits <= 8:
        bits = np.resize(np.arange(1 << dtype.bits, dtype=np.uint8), least)
        return wrap(bits.view(held), dtype) if dtype.is_int else bits.view(held)
    if dtype.bits == 16:
        return np.arange(1 << 16, dtype=np.uint16).view(held)
    random = np.random.default_rng(seed)
    count = max(least, 1 << 14)
    words = random.integers(0, 1 << 63, count, dtype=np.int64) * 2 + random.integers(0, 2, count)
    if dtype.is_int:
        # As many small numbers as large ones.
        return (words >> random.integers(0, 63, count)).astype(held)
    # Any bits of a float32, and numbers of moderate size, half of them in the middle between two of few bits.
    with np.errstate(all="ignore"):
        low = (words[: count // 2] & 0xFFFFFFFF).astype(np.uint32).view(np.float32).astype(np.float64)
    high = np.exp2(random.uniform(-24, 24, count // 2)) * random.choice([-1.0, 1.0], count // 2)
    high = np.where(random.random(count // 2) < 0.5, np.round(high * 256) / 256, high)
    values = np.concatenate([low, high])
    values[:12] = [0, -0.0, np.nan, np.inf, -np.inf, 1e300, -1e300, 2.0**31, -(2.0**63), 2.0**64, 5e-324, -1e-40]
    with np.errstate(all="ignore"):
        return wrap(values.astype(held), dtype)


def pack_nibbles(values: np.ndarray) -> np.ndarray:
    """Four-bit values as bytes of two, the first in the low half, along the last axis."""
    bits = values.view(np.uint8) & np.uint8(15)
    return bits[..., 0::2] | (bits[..., 1::2] << np.uint8(4))


def unpack_nibbles(data: np.ndarray, dtype: DType) -> np.ndarray:
    """The four-bit values in bytes."""
    data = data.view(np.uint8)
    bits = np.stack([data & np.uint8(15), data >> np.uint8(4)], axis=-1).reshape(*data.shape[:-1], -1)
    return wrap(bits.view(numpy_type(dtype)), dtype) if dtype.is_int else bits.view(numpy_type(dtype))


def to_tensor(values: np.ndarray, dtype: DType) -> Any:
    """A torch tensor that carries the values; types that torch lacks as bytes."""
    import torch

    values = np.ascontiguousarray(values)
    if dtype.bits == 4:
        return torch.from_numpy(pack_nibbles(values))
    if dtype.name == "bfloat16":
        return torch.from_numpy(values.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(values.view(np.uint8) if dtype.name in _BYTES else values)


def empty_tensor(dtype: DType, *shape: int) -> Any:
    """A torch tensor of zero bits for values of a type."""
    import torch

    if dtype.bits == 4:
        shape = (*shape[:-1], shape[-1] // 2)
    name = "uint8" if dtype.name in _BYTES or dtype.bits == 4 else {"tfloat32": "float32"}.get(dtype.name, dtype.name)
    return torch.zeros(shape, dtype=getattr(torch, name))


def from_tensor(tensor: Any, dtype: DType) -> np.ndarray:
    """The values that a torch tensor carries."""
    import torch

    if dtype.name == "bfloat16":
        return tensor.view(torch.int16).numpy().view(numpy_type(dtype))
    if dtype.bits == 4:
        return unpack_nibbles(tensor.view(torch.uint8).numpy(), dtype)
    if dtype.name in _BYTES:
        return tensor.view(torch.uint8).numpy().view(numpy_type(dtype))
    return tensor.numpy()


def equal_values(found: Any, expected: Any) -> np.ndarray:
    """Where two arrays of numbers agree: the same number with the same sign of zero, or both NaN."""
    if np.asarray(expected).dtype.kind in "iub":
        return np.asarray(found == expected)
    a, b = np.asarray(found).astype(np.float64), np.asarray(expected).astype(np.float64)
    return ((a == b) & (np.signbit(a) == np.signbit(b))) | (np.isnan(a) & np.isnan(b))
