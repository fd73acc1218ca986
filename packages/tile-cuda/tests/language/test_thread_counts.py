"""Reductions, scans, copies and broadcasts by blocks of any number of warps, in the emulator."""

from __future__ import annotations

import pytest
import torch

import tile_core as tile
import tile_core.language as T
import tile_cuda.reference  # noqa: F401  (what the device functions compute)
from tile_core.testing.compare import assert_close
from tile_core.testing.passes import random_arguments, run_each_pass
from tile_cuda.toolchain import compile_device

THREADS = [
    pytest.param(n, marks=() if n in (96, 160) else pytest.mark.slow) for n in (32, 64, 96, 128, 160, 256, 384, 1024)
]


def lines(threads, rows, length):
    """Of each row: sum, largest, running sum and running maximum from the end; and the sum of all."""

    @T.prim_func
    def main(
        X: T.Tensor((rows, length), "float32"),
        S: T.Tensor((rows,), "float32"),
        L: T.Tensor((rows,), "float32"),
        R: T.Tensor((rows, length), "float32"),
        M: T.Tensor((rows, length), "float32"),
        A: T.Tensor((1,), "float32"),
    ):
        with T.Kernel(1, threads=threads):
            x = T.alloc_fragment((rows, length), "float32")
            sums, top = T.alloc_fragment((rows,), "float32"), T.alloc_fragment((rows,), "float32")
            total = T.alloc_fragment((1,), "float32")
            held, running = T.alloc_shared((rows, length), "float32"), T.alloc_shared((rows, length), "float32")
            T.copy(X, x)
            T.copy(X, held)
            T.reduce_sum(x, sums, dim=1)
            T.reduce_max(x, top, dim=1)
            T.reduce_sum(sums, total, dim=0)
            T.cumsum(held, running, dim=1)
            T.copy(running, R)
            T.cummax(held, dim=1, reverse=True)
            T.copy(held, M)
            T.copy(sums, S)
            T.copy(top, L)
            T.copy(total, A)

    return main


def expected(x):
    last = x.flip(1).cummax(1).values.flip(1)
    return [x.sum(1), x.amax(1), x.cumsum(1), last, x.sum().reshape(1)]


@pytest.mark.layer("emulation")
@pytest.mark.parametrize("threads", THREADS)
@pytest.mark.parametrize(("rows", "length"), [(3, 480), (1, 1000), pytest.param(50, 70, marks=pytest.mark.slow)])
def test_lines_by_any_number_of_threads(threads, rows, length):
    kernel = tile.compile(lines(threads, rows, length), target="cuda -arch=sm_80", execution_backend="emulate")
    x = torch.randn(rows, length)
    outputs = [torch.full_like(y, 77) for y in expected(x)]
    kernel(x, *outputs)
    for found, right in zip(outputs, expected(x)):
        assert_close(found, right, reduction=rows * length, scale=4)
    assert compile_device(kernel.kernel_source, "sm_80").cubin


@pytest.mark.parametrize("threads", [96, pytest.param(160, marks=pytest.mark.slow)])
def test_every_pass_keeps_what_is_computed(threads):
    function = lines(threads, 2, 200)
    run_each_pass(
        function,
        random_arguments(function),
        "cuda -arch=sm_80",
        unfinished=("LowerTileOp", "ApplyLayouts"),
        reduction=400,
    )


def source(function):
    return tile.lower(function, target="cuda -arch=sm_80").sources["kernel.cu"]


@pytest.mark.parametrize(("threads", "length"), [(96, 384), (160, 640), (384, 1536), (256, 1024)])
def test_warps_in_any_number_share_a_row_by_shuffles(threads, length):
    @T.prim_func
    def main(X: T.Tensor((2, length), "float32"), S: T.Tensor((2,), "float32")):
        with T.Kernel(1, threads=threads):
            x, s = T.alloc_fragment((2, length), "float32"), T.alloc_fragment((2,), "float32")
            T.copy(X, x)
            T.reduce_sum(x, s, dim=1)
            T.copy(s, S)

    text = source(main)
    assert "shfl_xor" in text and f"s_warps[((({threads // 32} * 2)" not in text
    assert f"share < {threads // 32};" in text


def test_few_long_lines_are_divided_among_the_threads():
    @T.prim_func
    def main(X: T.Tensor((1000,), "float32"), Y: T.Tensor((1000,), "float32")):
        with T.Kernel(1, threads=96):
            x = T.alloc_shared((1000,), "float32")
            T.copy(X, x)
            T.cumsum(x)
            T.copy(x, Y)

    text = source(main)
    # 32 stretches of 33 elements: an odd number keeps the threads in different banks.
    assert text.count("step < 33") + text.count("step_1 < 33") + text.count("step_2 < 33") == 2
