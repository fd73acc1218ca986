"""One kernel in the interpreter, on the CPU, as emulated CUDA and through the device compiler."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

import tile_core as tile
from tile_core.interpreter import interpret
from tile_cuda.toolchain.nvrtc import compile_device
from tile_emulator import emulation

__all__ = ["CUDA", "everywhere", "machine_code", "on_device"]

CUDA = "cuda -arch=sm_80"


def everywhere(
    function: Any, *arrays: np.ndarray, interpreter: bool = True, schedules: tuple[str, ...] = ("latest",)
) -> dict[str, list[np.ndarray]]:
    """What each way of running leaves in the arrays; the emulator's runs must be clean."""
    found: dict[str, list[np.ndarray]] = {}
    if interpreter:
        found["interpreter"] = [a.copy() for a in arrays]
        interpret(function, *found["interpreter"])
    for target in ("cpu", CUDA):
        options = {} if target == "cpu" else {"execution_backend": "emulate"}
        kernel = tile.compile(function, target=target, **options)
        for schedule in schedules if target == CUDA else ("",):
            tensors = [torch.from_numpy(a.copy()) for a in arrays]
            if schedule:
                with emulation(schedule, 1 if schedule == "random" else 0):
                    kernel(*tensors)
            else:
                kernel(*tensors)
            found[f"{target} {schedule}".strip()] = [t.numpy() for t in tensors]
    return found


def machine_code(function: Any, arch: str = "sm_80") -> str:
    """Compiles the kernel for a device; gives its source."""
    source = tile.lower(function, target=f"cuda -arch={arch}").sources["kernel.cu"]
    assert compile_device(source, arch).cubin[:4] == b"\x7fELF"
    return source


def on_device(function: Any, *arrays: np.ndarray) -> list[np.ndarray]:
    """What the device of this machine leaves in the arrays."""
    tensors = [torch.from_numpy(a.copy()).cuda() for a in arrays]
    tile.compile(function, target="cuda")(*tensors)
    torch.cuda.synchronize()
    return [t.cpu().numpy() for t in tensors]
