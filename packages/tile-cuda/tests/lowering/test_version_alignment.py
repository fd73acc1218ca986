"""Tensors of unknown sizes: one kernel for rows that begin at multiples of 16 bytes, another for the rest."""

from __future__ import annotations

import pytest
import torch

import tile_core as tile
import tile_core.language as T
from tile_core.testing.compare import assert_close

TARGET = "cuda -arch=sm_80"


def product(assumed=1):
    m, n, k = T.dynamic("m, n, k")

    @T.prim_func
    def main(A: T.Tensor((m, k), "float16"), B: T.Tensor((k, n), "float16"), C: T.Tensor((m, n), "float16")):
        if assumed > 1:
            T.assume(n % assumed == 0)
            T.assume(k % assumed == 0)
        with T.Kernel(T.ceildiv(n, 32), T.ceildiv(m, 32), threads=128) as (bx, by):
            A_shared = T.alloc_shared((32, 32), "float16")
            B_shared = T.alloc_shared((32, 32), "float16")
            acc = T.alloc_fragment((32, 32), "float32")
            T.clear(acc)
            for step in T.Pipelined(T.ceildiv(k, 32), num_stages=2):
                T.copy(A[by * 32, step * 32], A_shared)
                T.copy(B[step * 32, bx * 32], B_shared)
                T.gemm(A_shared, B_shared, acc)
            T.copy(acc, C[by * 32, bx * 32])

    return main


def kernels(function, **options):
    """The source of each device function."""
    source = tile.lower(function, target=TARGET, pass_configs=options).sources["kernel.cu"]
    return source.split('extern "C" __global__')[1:]


def test_the_first_version_copies_16_bytes_at_once_and_the_second_element_by_element():
    aligned, plain = kernels(product())
    assert "cp_async<16>" in aligned
    assert "cp_async" not in plain


@pytest.mark.parametrize(("assumed", "count"), [(1, 2), (4, 2), (8, 1), (16, 1)])
def test_what_is_assumed_needs_no_second_version(assumed, count):
    assert len(kernels(product(assumed))) == count


def test_an_option_leaves_one_version():
    assert len(kernels(product(), **{"tl.disable_alignment_versions": True})) == 1


def scaled(columns, along):
    """Y = X times a factor for the row, or for the column."""
    rows, count = T.dynamic("rows, count")

    @T.prim_func
    def main(
        X: T.Tensor((rows, columns), "float32"),
        F: T.Tensor((count,), "float32"),
        Y: T.Tensor((rows, columns), "float32"),
    ):
        with T.Kernel(rows, threads=32) as row:
            for j in T.Parallel(columns):
                Y[row, j] = X[row, j] * (F[j] if along else F[row])

    return main


@pytest.mark.parametrize(("along", "count"), [(False, 1), (True, 2)])
def test_only_rows_that_are_walked_along_are_asked_about(along, count):
    assert len(kernels(scaled(64, along))) == count


def test_rows_of_a_length_that_never_is_aligned_have_one_version():
    rows = T.dynamic("rows")

    @T.prim_func
    def main(X: T.Tensor((rows, 77), "float32"), Y: T.Tensor((rows, 77), "float32")):
        with T.Kernel(rows, threads=32) as row:
            for j in T.Parallel(77):
                Y[row, j] = X[row, j] + 1.0

    assert len(kernels(main)) == 1


def test_a_stride_that_is_known_at_the_call_counts_like_a_length():
    rows, pitch = T.dynamic("rows, pitch")

    @T.prim_func
    def main(X: T.StridedTensor((rows, 64), (pitch, 1), "float32"), Y: T.Tensor((rows, 64), "float32")):
        with T.Kernel(rows, threads=32) as row:
            for j in T.Parallel(64):
                Y[row, j] = X[row, j] + 1.0

    assert len(kernels(main)) == 2


@pytest.mark.layer("emulation")
def test_the_call_takes_the_version_that_fits():
    """Two kernels in one function, sizes in turn: aligned ones, and such that only one of them is not."""
    kernel = tile.compile(product(), target=TARGET, execution_backend="emulate")
    for m, n, k in [(33, 40, 64), (33, 41, 64), (5, 40, 30), (32, 32, 8), (1, 1, 1)]:
        a, b = torch.randn(m, k).half(), torch.randn(k, n).half()
        c = torch.full((m, n), float("nan"), dtype=torch.float16)
        kernel(a, b, c)
        assert_close(c, a @ b, reduction=k, scale=8, label=f"{m}×{n}×{k}")
