"""Three answers to one question: the interpreter's, the CPU backend's, and torch's (numpy's where torch lacks the type
or the operation).

A *case* is one tile with its own data, offsets or value, computed by one block of a kernel; for element-wise
operations and casts it is one element with its own operands. Many cases share a compiled kernel, so thousands need a
few dozen compilations.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

import tile_core as tile
from tile_core.dtypes import DType
from tile_core.interpreter import interpret
from tile_core.testing.compare import assert_close, to_numpy

__all__ = ["FLOATS", "INTEGERS", "NUMBERS", "agree", "as_tensor"]

INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
FLOATS = ("float16", "bfloat16", "float32", "float64")
NUMBERS = ("bool", *INTEGERS, *FLOATS)


def agree(
    function: Any,
    arguments: Sequence[np.ndarray],
    expected: dict[int, np.ndarray],
    *,
    dtype: str | None = None,
    reduction: int = 1,
    scale: float = 1.0,
    label: str = "",
) -> None:
    """Runs a function in the interpreter and on the CPU and compares both with what is expected, and with each other.

    Args:
        function: a PrimFunc that writes into its parameters.
        arguments: an array for each parameter; they are copied.
        expected: for the position of each output, what it should hold.
        dtype, reduction, scale: for the tolerance, see `assert_close`; `dtype` None is each output's own.

    Raises:
        AssertionError: says which two differ, and where.
    """
    interpreted = [a.copy() for a in arguments]
    interpret(function, *interpreted, check_written=True)
    kernel = tile.compile(function, target="cpu")
    tensors = [as_tensor(a) for a in arguments]
    kernel(*tensors)
    limits: dict[str, Any] = {"reduction": reduction, "scale": scale}
    for position, wanted in expected.items():
        name = f"{label or function.name}: {function.params[position].name}"
        compiled = to_numpy(tensors[position])
        kind = dtype or DType(function.params[position].dtype.name).name
        assert_close(interpreted[position], wanted, kind, label=f"{name}, interpreter beside torch", **limits)
        assert_close(compiled, wanted, kind, label=f"{name}, CPU beside torch", **limits)
        assert_close(compiled, interpreted[position], kind, label=f"{name}, CPU beside interpreter", **limits)


def as_tensor(array: np.ndarray) -> torch.Tensor:
    """A torch tensor with a copy of the array's values."""
    name = array.dtype.name
    if name == "bfloat16":
        return torch.from_numpy(array.copy().view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(array.copy())
