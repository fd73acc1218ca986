"""Tensors over addresses: pointer parameters, and tables of addresses as a grouped product has them."""

from __future__ import annotations

import pytest
import torch

import tile_core.language as T

from .places import PLACES, check

# Addresses here are those of CPU tensors.
pytestmark = pytest.mark.parametrize("place", PLACES[:3])


def test_a_pointer_with_its_size_beside_it(place):
    @T.prim_func
    def main(p: T.ptr, n: T.int32, B: T.Tensor((4, 64), "float32")):
        A = T.make_tensor(p, (n, 64), "float32")
        with T.Kernel(4, threads=64) as bx:
            for i in T.Parallel(64):
                B[bx, i] = A[bx, i] * 2

    a = torch.randn(3, 64)
    want = torch.cat([a * 2, torch.zeros(1, 64)])
    check(place, main, a.data_ptr(), 3, torch.ones(4, 64), want={2: want})


def test_a_pointer_to_rows_with_gaps_that_is_written(place):
    @T.prim_func
    def main(p: T.ptr, A: T.Tensor((8, 16), "float32")):
        with T.Kernel(1, threads=64):
            out = T.make_tensor(p, (8, 16), "float32", strides=(24, 1))
            tile = T.alloc_shared((8, 16), "float32")
            T.copy(A, tile)
            T.copy(tile, out)

    out, a = torch.zeros(8, 24), torch.randn(8, 16)
    check(place, main, out.data_ptr(), a, want={})
    assert torch.equal(out[:, :16], a)
    assert not out[:, 16:].any()


def test_products_of_a_group_of_matrices_of_different_heights(place):
    block, k, n = 32, 64, 32

    @T.prim_func
    def main(
        a_table: T.Tensor((3,), "int64"),
        c_table: T.Tensor((3,), "int64"),
        heights: T.Tensor((3,), "int32"),
        B: T.Tensor((3, k, n), "float16"),
    ):
        with T.Kernel(2, 3, threads=128) as (bx, group):
            m = heights[group]
            A = T.make_tensor_from_addr(a_table[group], (m, k), "float16")
            C = T.make_tensor_from_addr(c_table[group], (m, n), "float32")
            a, b = T.alloc_shared((block, 32), "float16"), T.alloc_shared((32, n), "float16")
            c = T.alloc_fragment((block, n), "float32")
            T.clear(c)
            for step in T.Pipelined(k // 32, num_stages=2):
                T.copy(A[bx * block, step * 32], a)
                T.copy(B[group, step * 32, 0], b)
                T.gemm(a, b, c)
            T.copy(c, C[bx * block, 0])

    heights = [7, 64, 33]
    parts = [torch.randn(m, k).half() for m in heights]
    b = torch.randn(3, k, n).half()
    results = [torch.zeros(m, n) for m in heights]
    tables = [torch.tensor([t.data_ptr() for t in group]) for group in (parts, results)]
    check(place, main, *tables, torch.tensor(heights, dtype=torch.int32), b, want={})
    for part, matrix, result in zip(parts, b, results):
        torch.testing.assert_close(result, part.float() @ matrix.float(), rtol=1e-3, atol=1e-3)
