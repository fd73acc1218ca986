"""Reductions and scans of every kind along every axis, in the interpreter, on the CPU and as CUDA."""

from __future__ import annotations

import numpy as np
import pytest

import tile_core.language as T
from integration_tests.operations.harness import everywhere, machine_code

pytestmark = [pytest.mark.layer("emulation"), pytest.mark.slow]

SHAPE = (4, 6, 10)
FLOATS = ("sum", "max", "min", "abssum", "absmax")
BITS = ("bitand", "bitor", "bitxor")


def numpy_of(kind, values, axis):
    values = np.abs(values) if kind.startswith("abs") else values
    function = {
        "sum": np.add,
        "abssum": np.add,
        "max": np.fmax,
        "absmax": np.fmax,
        "min": np.fmin,
        "bitand": np.bitwise_and,
        "bitor": np.bitwise_or,
        "bitxor": np.bitwise_xor,
    }[kind]
    return function, function.reduce(values, axis=axis)


def reductions(kinds, axis, dtype, shared):
    """Each kind into a cleared tile and onto what a tile holds."""
    kept = tuple(extent for position, extent in enumerate(SHAPE) if position != axis % 3)
    count = len(kinds)

    @T.prim_func
    def main(
        A: T.Tensor(SHAPE, dtype),
        B: T.Tensor((count, *kept), dtype),
        C: T.Tensor((count, *kept), dtype),
        D: T.Tensor(kept, dtype),
    ):
        with T.Kernel(1, threads=64):
            a = T.alloc_shared(SHAPE, dtype) if shared else T.alloc_fragment(SHAPE, dtype)
            T.copy(A, a)
            for k, kind in enumerate(kinds):
                b = T.alloc_fragment(kept, dtype)
                c = T.alloc_fragment(kept, dtype)
                T.copy(D, c)
                T.reduce(a, b, kind, dim=axis, clear=True, batch=2)
                T.reduce(a, c, kind, dim=axis, clear=False)
                T.copy(b, B[k, :, :])
                T.copy(c, C[k, :, :])

    return main


@pytest.mark.parametrize("axis", [0, *(pytest.param(a, marks=pytest.mark.slow) for a in (1, -1))])
@pytest.mark.parametrize(("kinds", "dtype"), [(FLOATS, "float32"), (BITS, "int32")])
def test_every_kind_along_every_axis(kinds, dtype, axis):
    shared = axis == 0
    rng = np.random.default_rng(1)
    a = rng.integers(-50, 50, SHAPE).astype(dtype)
    if dtype == "float32":
        a[rng.random(SHAPE) < 0.1] = 0
    kept = tuple(extent for position, extent in enumerate(SHAPE) if position != axis % 3)
    d = rng.integers(0, 9, kept).astype(dtype)
    wanted = [numpy_of(kind, a, axis) for kind in kinds]
    onto = [function(result, d) for function, result in wanted]
    function = reductions(kinds, axis, dtype, shared)
    zeros = np.zeros((len(kinds), *kept), dtype)
    for way, (_, b, c, _) in everywhere(function, a, zeros, zeros, d).items():
        assert np.array_equal(b, [result for _, result in wanted]), way
        assert np.array_equal(c, onto), way
    machine_code(function)


def scans(axis, reverse, dtype):
    @T.prim_func
    def main(A: T.Tensor(SHAPE, dtype), B: T.Tensor(SHAPE, dtype), C: T.Tensor(SHAPE, dtype)):
        with T.Kernel(1, threads=64):
            a = T.alloc_fragment(SHAPE, dtype)
            b = T.alloc_shared(SHAPE, dtype)
            T.copy(A, a)
            T.copy(A, b)
            T.cumsum(a, dim=axis, reverse=reverse)
            T.cummax(b, dim=axis, reverse=reverse)
            T.copy(a, B)
            T.copy(b, C)

    return main


@pytest.mark.parametrize("axis", [pytest.param(0, marks=pytest.mark.slow), 1, pytest.param(-1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("reverse", [False, True])
def test_scans_in_place(axis, reverse):
    a = np.random.default_rng(2).integers(-9, 9, SHAPE).astype(np.float32)
    turned = np.flip(a, axis) if reverse else a
    sums, largest = np.cumsum(turned, axis), np.maximum.accumulate(turned, axis)
    wanted = [np.flip(x, axis) if reverse else x for x in (sums, largest)]
    zeros = np.zeros(SHAPE, np.float32)
    for way, (_, b, c) in everywhere(scans(axis, reverse, "float32"), a, zeros, zeros).items():
        assert np.array_equal(b, wanted[0]) and np.array_equal(c, wanted[1]), way
    machine_code(scans(axis, reverse, "float32"))


@T.prim_func
def nan_rows(A: T.Tensor((8, 32), "float16"), B: T.Tensor((4, 8), "float16")):
    with T.Kernel(1, threads=32):
        a = T.alloc_fragment((8, 32), "float16")
        b = T.alloc_fragment((8,), "float16")
        T.copy(A, a)
        T.reduce_max(a, b, dim=1)
        T.copy(b, B[0, :])
        T.reduce_max(a, b, dim=1, nan_propagate=True)
        T.copy(b, B[1, :])
        T.reduce_min(a, b, dim=-1, nan_propagate=True)
        T.copy(b, B[2, :])
        T.reduce_absmax(a, b, dim=1, nan_propagate=True)
        T.copy(b, B[3, :])


def test_nan_is_skipped_unless_it_is_asked_for():
    a = np.random.default_rng(3).standard_normal((8, 32)).astype(np.float16)
    a[::2, 5] = np.nan
    for way, (_, b) in everywhere(nan_rows, a, np.zeros((4, 8), np.float16)).items():
        np.testing.assert_array_equal(b[0], np.nanmax(a, axis=1), err_msg=way)
        np.testing.assert_array_equal(b[1], np.max(a, axis=1), err_msg=way)
        np.testing.assert_array_equal(b[2], np.min(a, axis=1), err_msg=way)
        np.testing.assert_array_equal(b[3], np.max(np.abs(a), axis=1), err_msg=way)
    machine_code(nan_rows)
