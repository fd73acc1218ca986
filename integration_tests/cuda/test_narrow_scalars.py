"""Scalars of float types that C does not have: in the kernel they are what rounding the number once gives."""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import torch

import tile_core as tile
import tile_core.language as T
from tile_core.dtypes import DType
from tile_core.errors import ArgumentError
from tile_core.interpreter import interpret
from tile_cuda.driver.execution import HostCall

# Rounded to fp32 first, the tie would go to 1. The last ones overflow, underflow and are exact.
VALUES = [1 + 2.0**-11 + 2.0**-40, -(1 + 2.0**-8 + 2.0**-40), 2.0**-24 * 0.7, 1e300, 1e-60, -0.0, 0.375, 3]
TYPES = {"float16": np.float16, "bfloat16": ml_dtypes.bfloat16, "float8_e5m2": ml_dtypes.float8_e5m2}
PLACES = {
    "cpu": {"target": "cpu"},
    "emulated": {"target": "cuda -arch=sm_80", "execution_backend": "emulate"},
}


def spread(name: str) -> Any:
    dtype = DType(name)

    @T.prim_func
    def main(factor: dtype, B: T.Tensor((40,), "float32")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(40):
                B[i] = T.cast(factor, "float32")

    return main


def rounded(value: float, dtype: str) -> float:
    """The nearest number of the type, ties to the one with an even last bit; beyond the largest by half a step inf."""
    held = TYPES[dtype]
    patterns = np.arange(1 << 8 * np.dtype(held).itemsize).astype(f"u{np.dtype(held).itemsize}")
    with np.errstate(invalid="ignore"):
        numbers = patterns.view(held).astype(np.float64)
    finite = np.isfinite(numbers)
    patterns, numbers = patterns[finite], numbers[finite]
    largest = np.sort(numbers)[-2:]
    if abs(value) >= largest[1] + (largest[1] - largest[0]) / 2:
        # fp8 conversions saturate.
        return math.copysign(largest[1] if np.dtype(held).itemsize == 1 else math.inf, value)
    distance = np.abs(numbers - value)
    nearest = np.flatnonzero(distance == distance.min())
    return float(numbers[nearest[np.argmin(patterns[nearest] % 2)]])


@pytest.mark.layer("emulation")
@pytest.mark.parametrize(
    ("place", "dtype"),
    [("cpu", "float16"), ("cpu", "bfloat16"), ("emulated", "float16"), ("emulated", "bfloat16"),
     pytest.param("emulated", "float8_e5m2", marks=pytest.mark.slow)],
)  # fmt: skip
def test_the_kernel_gets_the_number_rounded_once(place, dtype):
    kernel = tile.compile(spread(dtype), **PLACES[place])
    for value in VALUES:
        out = torch.zeros(40)
        kernel(value, out)
        assert out.eq(rounded(value, dtype)).all(), (value, out[0].item(), rounded(value, dtype))


def test_the_interpreter_agrees():
    for value in VALUES:
        if abs(value) > 1e100:
            continue  # numpy warns of the overflow
        out = np.zeros(40, dtype=np.float32)
        interpret(spread("float16"), value, out)
        assert (out == rounded(value, "float16")).all()


@pytest.mark.parametrize("dtype", sorted(TYPES))
def test_the_host_function_in_python_passes_what_the_c_stub_passes(dtype):
    """Both launch printers; the kernel's own conversion is numpy's here."""
    given = []

    class Taken:
        def launch(self, kernel, grid, threads, shared, arguments, device, stream):
            given.append(arguments[0].value)

    artifact = tile.lower(spread(dtype), target="cuda -arch=sm_80")
    text = artifact.sources["launch.py"].replace("'device_type', 0) == 2", "'device_type', 0) == 1")
    call = HostCall(spread(dtype), text, Taken(), {"main_kernel": 0})
    assert "tile_odd_float(tile_float(&args[0]))" in artifact.sources["host.c"]
    assert "const float factor" in artifact.sources["kernel.cu"]
    for value in VALUES:
        call(value, torch.zeros(40))
        with np.errstate(over="ignore"):
            found = float(np.float32(given[-1]).astype(TYPES[dtype]))
        assert found == rounded(value, dtype) or (abs(value) > 1e100 and math.isinf(found))


def test_a_scalar_of_another_kind_is_refused():
    kernel = tile.compile(spread("float16"), target="cpu")
    with pytest.raises(ArgumentError) as caught:
        kernel("two", torch.zeros(40))
    assert caught.value.code == "E-ARG-TYPE"
