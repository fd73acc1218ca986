"""T.alloc_global: workspaces, shared by the launches of a function."""

from __future__ import annotations

import pytest
import torch

import tile_core.language as T

from .places import PLACES, check

pytestmark = pytest.mark.parametrize("place", PLACES)


def test_two_launches_with_a_workspace_between(place):
    n = T.dynamic("n")

    @T.prim_func
    def main(A: T.Tensor((n, 64), "float32"), B: T.Tensor((64,), "float32")):
        sums = T.alloc_global((n,), "float32")
        with T.Kernel(n, threads=64) as bx:
            row, total = T.alloc_fragment((1, 64), "float32"), T.alloc_fragment((1,), "float32")
            T.copy(A[bx, 0], row)
            T.reduce_sum(row, total, dim=1)
            T.copy(total, sums[bx])
        with T.Kernel(1, threads=64):
            for i in T.Parallel(64):
                B[i] = sums[i % n]

    a = torch.randn(10, 64)
    check(place, main, a, torch.zeros(64), want={1: a.sum(1)[torch.arange(64) % 10]}, reduction=64)


def test_a_split_sum_that_another_launch_completes(place):
    m, n, parts = 32, 32, 4

    @T.prim_func
    def main(A: T.Tensor((m, 128), "float16"), B: T.Tensor((128, n), "float16"), C: T.Tensor((m, n), "float32")):
        partial = T.alloc_global((parts, m, n), "float32")
        with T.Kernel(parts, threads=128) as part:
            a, b = T.alloc_shared((m, 32), "float16"), T.alloc_shared((32, n), "float16")
            c = T.alloc_fragment((m, n), "float32")
            T.copy(A[0, part * 32], a)
            T.copy(B[part * 32, 0], b)
            T.gemm(a, b, c, clear_accum=True)
            T.copy(c, partial[part, 0, 0])
        with T.Kernel(T.ceildiv(m, 8), threads=64) as bx:
            total = T.alloc_fragment((8, n), "float32")
            T.clear(total)
            for part in T.serial(parts):
                for i, j in T.Parallel(8, n):
                    total[i, j] += partial[part, bx * 8 + i, j]
            T.copy(total, C[bx * 8, 0])

    a, b = torch.randn(m, 128).half(), torch.randn(128, n).half()
    check(place, main, a, b, torch.zeros(m, n), want={2: a.float() @ b.float()}, reduction=128)


def test_a_workspace_that_is_asked_for_inside_a_kernel(place):
    @T.prim_func
    def main(A: T.Tensor((4, 32), "float32"), B: T.Tensor((4, 32), "float32")):
        with T.Kernel(4, threads=32) as bx:
            held = T.alloc_global((4, 32), "float32")
            tile = T.alloc_shared((1, 32), "float32")
            T.copy(A[bx, 0], tile)
            T.copy(tile, held[bx, 0])
            for i in T.Parallel(32):
                B[bx, i] = held[bx, i] + 1

    a = torch.randn(4, 32)
    check(place, main, a, torch.zeros(4, 32), want={1: a + 1})


def test_statements_of_a_block_see_what_those_before_left_in_device_memory(place):
    @T.prim_func
    def main(A: T.Tensor((64, 64), "float32"), B: T.Tensor((64, 64), "float32"), C: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=128):
            work = T.alloc_global((64, 64), "float32")
            tile = T.alloc_shared((64, 64), "float32")
            T.copy(A, tile)
            T.copy(tile, work)
            for i, j in T.Parallel(64, 64):
                B[i, j] = work[j, i] + 1
            for k in T.serial(3):
                for i in T.Parallel(64):
                    C[i] = B[63 - i, k]
                for i, j in T.Parallel(64, 64):
                    B[i, j] = B[i, j] + C[63 - j]

    a = torch.randn(64, 64)
    b = a.t() + 1
    c = torch.zeros(64)
    for k in range(3):
        c = b[:, k].flip(0).clone()
        b = b + c.flip(0)[None, :]
    kernel = check(place, main, a, torch.zeros(64, 64), torch.zeros(64), want={1: b, 2: c}, reduction=8)
    if place == "emulated":
        assert kernel.kernel_source.count("sync_threads(") >= 3


def test_the_host_gives_the_workspace_back_on_every_way_out(place):
    @T.prim_func
    def main(A: T.Tensor((16,), "float32")):
        held = T.alloc_global((16,), "float32")
        with T.Kernel(1, threads=32):
            for i in T.Parallel(16):
                held[i] = A[i] * 2
        with T.Kernel(1, threads=32):
            for i in T.Parallel(16):
                A[i] = held[15 - i]

    a = torch.randn(16)
    kernel = check(place, main, a, want={0: a.flip(0) * 2})
    if place == "cpu":
        stub = kernel.host_source[kernel.host_source.index("__tvm_ffi_main") :]
        launches = [line for line in stub.split("\n") if "main_kernel" in line and "if (" in line]
        assert len(launches) == 2
        assert all("TVMFFIObjectDecRef(held_tensor_memory); return -1;" in line for line in launches)
        assert "TVMFFIObjectDecRef(held_tensor_memory);\n  return 0;" in stub
