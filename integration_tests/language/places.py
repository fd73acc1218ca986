"""Where a kernel runs: one check for all places."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
import torch

import tile_core as tile
from tile_core.ir import PrimFunc
from tile_core.testing.compare import assert_close

__all__ = ["PLACES", "check"]

_EMULATED = {"target": "cuda -arch=sm_80", "execution_backend": "emulate"}

PLACES = [
    pytest.param("interpreter", marks=pytest.mark.layer("interpretation")),
    pytest.param("cpu", marks=pytest.mark.layer("conformance")),
    pytest.param("emulated", marks=[pytest.mark.layer("emulation"), pytest.mark.slow]),
    pytest.param("device", marks=pytest.mark.gpu),
]


def check(place: str, function: PrimFunc, *args: Any, want: dict[int, torch.Tensor], **tolerance: Any) -> Any:
    """Runs a kernel on copies of tensors and compares those that it changes.

    Args:
        place: of PLACES.
        args: one for each parameter, outputs too; addresses are those of CPU tensors, so such kernels are not for
            the device.
        want: position → what the argument holds afterwards.

    Returns:
        The compiled kernel, or None for the interpreter.
    """
    values = [x.clone() if i in want else x for i, x in enumerate(args)]
    kernel = None
    if place == "interpreter":
        from tile_core.interpreter import interpret

        interpret(function, *(_array(x) if isinstance(x, torch.Tensor) else x for x in values))
    elif place == "cpu":
        kernel = tile.compile(function, target="cpu")
        kernel(*values)
    elif place == "emulated":
        from tile_cuda.toolchain import compile_device

        kernel = tile.compile(function, **_EMULATED)
        kernel(*values)
        assert compile_device(kernel.kernel_source, "sm_80", name=kernel.name).cubin
    else:
        kernel = tile.compile(function, target="cuda")
        values = [x.cuda() if isinstance(x, torch.Tensor) else x for x in values]
        kernel(*values)
        values = [x.cpu() if isinstance(x, torch.Tensor) else x for x in values]
    for position, expected in want.items():
        if expected.is_floating_point():
            assert_close(values[position], expected, label=f"argument {position} on {place}", **tolerance)
        else:
            assert torch.equal(values[position], expected), (values[position], expected)
    return kernel


def _array(tensor: torch.Tensor) -> np.ndarray:
    if tensor.dtype is torch.bfloat16:
        return tensor.view(torch.int16).numpy().view(ml_dtypes.bfloat16)
    return tensor.numpy()
