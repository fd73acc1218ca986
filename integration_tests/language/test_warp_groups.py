"""T.ws: work for some of a block's warp groups."""

from __future__ import annotations

import pytest
import torch

import tile_core.language as T
from tile_core.errors import CompileError

from .places import PLACES, check

pytestmark = pytest.mark.parametrize("place", PLACES)


def test_each_group_has_its_own_product(place):
    @T.prim_func
    def main(A: T.Tensor((128, 64), "float16"), B: T.Tensor((64, 64), "float16"), C: T.Tensor((128, 64), "float32")):
        with T.Kernel(1, threads=256):
            b = T.alloc_shared((64, 64), "float16")
            T.copy(B, b)
            for group in range(1):
                with T.ws(0):
                    a = T.alloc_shared((64, 64), "float16")
                    c = T.alloc_fragment((64, 64), "float32")
                    T.copy(A[0:64, :], a)
                    T.clear(c)
                    T.gemm(a, b, c)
                    T.copy(c, C[0:64, :])
                with T.ws(1):
                    a1 = T.alloc_shared((64, 64), "float16")
                    c1 = T.alloc_fragment((64, 64), "float32")
                    T.copy(A[64:128, :], a1)
                    T.clear(c1)
                    T.gemm(a1, b, c1)
                    for i, j in T.Parallel(64, 64):
                        c1[i, j] = c1[i, j] * 2
                    T.copy(c1, C[64:128, :])

    a, b = torch.randn(128, 64).half(), torch.randn(64, 64).half()
    want = a.float() @ b.float()
    want[64:] *= 2
    kernel = check(place, main, a, b, torch.zeros(128, 64), want={2: want}, reduction=64)
    if place == "emulated":
        assert "bar_sync" in kernel.kernel_source


def test_one_group_loads_what_the_other_works_on(place):
    @T.prim_func
    def main(A: T.Tensor((8, 256), "float32"), B: T.Tensor((8, 256), "float32")):
        with T.Kernel(1, threads=256):
            tile = T.alloc_shared((256,), "float32")
            for i in T.serial(8):
                with T.ws(0):
                    T.copy(A[i, :], tile)
                with T.ws(1):
                    total = T.alloc_fragment((256,), "float32")
                    T.copy(tile, total)
                    for j in T.Parallel(256):
                        total[j] = total[j] * 2 + 1
                    T.copy(total, B[i, :])

    a = torch.randn(8, 256)
    check(place, main, a, torch.zeros(8, 256), want={1: a * 2 + 1})


def test_threads_of_a_group_have_statements_of_their_own(place):
    @T.prim_func
    def main(A: T.Tensor((384,), "int32"), B: T.Tensor((384,), "int32")):
        with T.Kernel(1, threads=384):
            tx = T.get_thread_binding()
            mark = T.alloc_var("int32", init=0)
            with T.ws(1, 2):
                mark = 5
                A[tx] = tx
            B[tx] = mark

    index = torch.arange(384, dtype=torch.int32)
    inside = index >= 128
    check(
        place,
        main,
        index * 0 - 1,
        index * 0,
        want={0: torch.where(inside, index, -1), 1: torch.where(inside, 5, 0).to(torch.int32)},
    )


def test_a_pipeline_and_a_sum_in_one_group(place):
    @T.prim_func
    def main(A: T.Tensor((64, 256), "float16"), B: T.Tensor((256, 64), "float16"), C: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=256), T.ws(1):
            a, b = T.alloc_shared((64, 32), "float16"), T.alloc_shared((32, 64), "float16")
            c, total = T.alloc_fragment((64, 64), "float32"), T.alloc_fragment((64,), "float32")
            T.clear(c)
            for k in T.Pipelined(8, num_stages=3):
                T.copy(A[0, k * 32], a)
                T.copy(B[k * 32, 0], b)
                T.gemm(a, b, c)
            T.reduce_sum(c, total, dim=1)
            T.copy(total, C)

    a, b = torch.randn(64, 256).half(), torch.randn(256, 64).half()
    want = (a.double() @ b.double()).sum(1).float()
    check(place, main, a, b, torch.zeros(64), want={2: want}, reduction=256 * 64)


def test_tiles_in_registers_belong_to_one_part(place):
    def kernel(where):
        @T.prim_func
        def main(A: T.Tensor((64, 64), "float32"), C: T.Tensor((64, 64), "float32")):
            with T.Kernel(1, threads=256):
                c = T.alloc_fragment((64, 64), "float32")
                T.clear(c)
                if where == "outside":
                    T.copy(A, c)
                if where == "other":
                    with T.ws(0):
                        T.copy(A, c)
                with T.ws(1):
                    for i, j in T.Parallel(64, 64):
                        c[i, j] = c[i, j] + 1
                    T.copy(c, C)

        return main

    a = torch.randn(64, 64)
    check(place, kernel("nowhere"), a, torch.zeros(64, 64), want={1: torch.ones(64, 64)})
    if place == "emulated":
        for where in ("outside", "other"):
            with pytest.raises(CompileError, match="E-LAYOUT-PART"):
                check(place, kernel(where), a, torch.zeros(64, 64), want={})
