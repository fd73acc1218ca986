"""Copies that rearrange, copies that go on while the kernel does, and what a copy may ask for."""

from __future__ import annotations

import pytest
import torch

import tile_core.language as T

from .places import PLACES, check

pytestmark = pytest.mark.parametrize("place", PLACES)


@pytest.mark.parametrize(
    ("shape", "kernel", "stride", "dilation", "pad"),
    [((2, 8, 9, 16), 3, 1, 1, 1), ((1, 9, 7, 8), 3, 2, 2, 2), ((2, 5, 6, 4), 2, 1, 1, 0)],
)
def test_a_convolution_as_a_product(place, shape, kernel, stride, dilation, pad):
    n, h, w, c = shape
    filters, block_m, block_n, block_k = 16, 32, 16, 32
    oh = (h + 2 * pad - dilation * (kernel - 1) - 1) // stride + 1
    ow = (w + 2 * pad - dilation * (kernel - 1) - 1) // stride + 1
    m, k = n * oh * ow, kernel * kernel * c

    @T.prim_func
    def main(
        data: T.Tensor(shape, "float16"),
        weight: T.Tensor((k, filters), "float16"),
        out: T.Tensor((m, filters), "float32"),
    ):
        with T.Kernel(T.ceildiv(m, block_m), threads=128) as bx:
            a, b = T.alloc_shared((block_m, block_k), "float16"), T.alloc_shared((block_k, block_n), "float16")
            c_local = T.alloc_fragment((block_m, block_n), "float32")
            T.clear(c_local)
            for step in T.Pipelined(T.ceildiv(k, block_k), num_stages=2):
                T.im2col(data, a, bx, step, kernel, stride, dilation, pad)
                T.copy(weight[step * block_k, 0], b)
                T.gemm(a, b, c_local)
            T.copy(c_local, out[bx * block_m, 0])

    torch.manual_seed(0)
    data, weight = torch.randn(shape).half(), torch.randn(kernel, kernel, c, filters).half()
    want = torch.nn.functional.conv2d(
        data.permute(0, 3, 1, 2).float(), weight.permute(3, 2, 0, 1).float(), None, stride, pad, dilation
    )
    rows = want.permute(0, 2, 3, 1).reshape(m, filters)
    check(place, main, data, weight.reshape(k, filters), torch.zeros(m, filters), want={2: rows}, reduction=k)


def test_tiles_are_transposed(place):
    @T.prim_func
    def main(A: T.Tensor((40, 24), "float16"), B: T.Tensor((24, 40), "float32"), C: T.Tensor((8, 16), "float16")):
        with T.Kernel(1, threads=64):
            tile, turned = T.alloc_shared((40, 24), "float16"), T.alloc_shared((24, 40), "float32")
            T.copy(A, tile)
            T.transpose(tile, turned)
            T.copy(turned, B)
            T.transpose(tile[8:24, 16:24], C)

    a = torch.randn(40, 24).half()
    outputs = torch.zeros(24, 40), torch.zeros(8, 16).half()
    check(place, main, a, *outputs, want={1: a.t().float(), 2: a[8:24, 16:24].t()})


def test_copies_under_way_while_others_are_worked_on(place):
    @T.prim_func
    def main(A: T.Tensor((4, 256), "float32"), B: T.Tensor((4, 256), "float32")):
        with T.Kernel(1, threads=64):
            ring = T.alloc_shared((2, 256), "float32")
            T.async_copy(A[0, :], ring[0, :])
            for i in T.serial(4):
                if i + 1 < 4:
                    T.async_copy(A[i + 1, :], ring[(i + 1) % 2, :])
                    T.ptx_wait_group(1)
                else:
                    T.ptx_wait_group(0)
                T.sync_threads()
                for j in T.Parallel(256):
                    B[i, j] = ring[i % 2, j] * 2
                T.sync_threads()

    a = torch.randn(4, 256)
    kernel = check(place, main, a, torch.zeros(4, 256), want={1: a * 2})
    if place == "emulated":
        assert "cp_async<16>" in kernel.kernel_source
        assert "cp_async_wait<1>" in kernel.kernel_source


def test_a_copy_that_nobody_waits_for_is_waited_for(place):
    @T.prim_func
    def main(A: T.Tensor((256,), "float32"), B: T.Tensor((256,), "float32")):
        with T.Kernel(1, threads=64):
            tile = T.alloc_shared((256,), "float32")
            T.async_copy(A, tile, coalesced_width=2)
            for j in T.Parallel(256):
                B[j] = tile[255 - j]

    a = torch.randn(256)
    kernel = check(place, main, a, torch.zeros(256), want={1: a.flip(0)})
    if place == "emulated":
        assert "cp_async<8>" in kernel.kernel_source


def test_threads_copy_elements_of_their_own(place):
    @T.prim_func
    def main(A: T.Tensor((200,), "float16"), B: T.Tensor((256,), "float16")):
        with T.Kernel(1, threads=32):
            tx = T.get_thread_binding()
            tile = T.alloc_shared((256,), "float16")
            at = tx * 8
            T.ptx_cp_async(T.access_ptr(tile[at], "w", 8), T.access_ptr(A[at], "r", 8), 8, at < 200)
            T.ptx_commit_group()
            T.ptx_wait_group(0)
            T.sync_threads()
            for k in T.serial(8):
                B[at + k] = tile[255 - at - k]

    a = torch.randn(200).half()
    want = torch.cat([a, torch.zeros(56).half()]).flip(0)
    check(place, main, a, torch.zeros(256).half(), want={1: want})


@pytest.mark.parametrize("prefer", ["sync", "cp_async", "tma"])
def test_how_a_copy_is_made_is_no_part_of_its_meaning(place, prefer):
    @T.prim_func
    def main(A: T.Tensor((64, 256), "float16"), B: T.Tensor((256, 64), "float16"), C: T.Tensor((64, 64), "float32")):
        with T.Kernel(1, threads=128):
            a, b = T.alloc_shared((64, 32), "float16"), T.alloc_shared((32, 64), "float16")
            c = T.alloc_fragment((64, 64), "float32")
            T.clear(c)
            for k in T.Pipelined(8, num_stages=2):
                T.copy(A[0, k * 32], a, prefer_instruction=prefer, eviction_policy="evict_first", disable_tma=True)
                T.copy(B[k * 32, 0], b, prefer_instruction=prefer, coalesced_width=4)
                T.gemm(a, b, c)
            T.copy(c, C)

    a, b = torch.randn(64, 256).half(), torch.randn(256, 64).half()
    kernel = check(place, main, a, b, torch.zeros(64, 64), want={2: a.float() @ b.float()}, reduction=256)
    if place == "emulated":
        assert ("cp_async<" in kernel.kernel_source) == (prefer != "sync")
