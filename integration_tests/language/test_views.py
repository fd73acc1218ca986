"""T.view, T.reshape: other shapes and types of the same memory."""

from __future__ import annotations

import pytest
import torch

import tile_core.language as T

from .places import PLACES, check

pytestmark = pytest.mark.parametrize("place", PLACES)


def test_a_tensor_as_integers(place):
    @T.prim_func
    def main(A: T.Tensor((64, 32), "float32"), B: T.Tensor((2048,), "int32")):
        with T.Kernel(16, threads=128) as bx:
            bits = T.view(A, (2048,), "int32")
            for i in T.Parallel(128):
                B[bx * 128 + i] = bits[bx * 128 + i] + 1

    a = torch.randn(64, 32)
    check(place, main, a, torch.zeros(2048, dtype=torch.int32), want={1: a.view(torch.int32).reshape(-1) + 1})


def test_tensors_of_a_size_known_at_the_call(place):
    m = T.dynamic("m")

    @T.prim_func
    def main(A: T.Tensor((m, 32), "float32"), B: T.Tensor((m, 32), "float32")):
        flat, narrow = T.reshape(A, (m * 32,)), T.reshape(B, (m * 2, 16))
        with T.Kernel(T.ceildiv(m * 2, 8), threads=64) as bx:
            tile = T.alloc_shared((8, 16), "float32")
            for i, j in T.Parallel(8, 16):
                tile[i, j] = flat[(bx * 8 + i) * 16 + j] * 2
            T.copy(tile, narrow[bx * 8, 0])

    a = torch.randn(50, 32)
    check(place, main, a, torch.zeros(50, 32), want={1: a * 2})


def test_what_is_written_through_one_view_is_read_through_others(place):
    @T.prim_func
    def main(A: T.Tensor((64, 32), "float16"), B: T.Tensor((32, 64), "float16"), C: T.Tensor((64, 16), "int32")):
        with T.Kernel(1, threads=128):
            tile = T.alloc_shared((64, 32), "float16")
            wide, words = T.reshape(tile, (32, 64)), T.view(tile, dtype="int32")
            T.copy(A, tile)
            T.copy(wide, B)
            T.copy(words, C)
            for i, j in T.Parallel(32, 64):
                wide[i, j] = wide[i, j] + 1
            T.copy(tile, A)

    a = torch.randn(64, 32).half()
    outputs = torch.zeros(32, 64).half(), torch.zeros(64, 16, dtype=torch.int32)
    check(place, main, a, *outputs, want={0: a + 1, 1: a.reshape(32, 64), 2: a.view(torch.int32)})


def test_groups_of_a_row_in_registers(place):
    @T.prim_func
    def main(A: T.Tensor((64, 32), "float32"), B: T.Tensor((64, 32), "float32"), C: T.Tensor((64, 4), "float32")):
        with T.Kernel(1, threads=128):
            tile = T.alloc_fragment((64, 32), "float32")
            groups = T.reshape(tile, (64, 4, 8))
            top = T.alloc_fragment((64, 4), "float32")
            T.copy(A, tile)
            T.reduce_max(groups, top, dim=2)
            for i, j, k in T.Parallel(64, 4, 8):
                groups[i, j, k] = groups[i, j, k] - top[i, j]
            T.copy(tile, B)
            T.copy(top, C)

    a = torch.randn(64, 32)
    top = a.reshape(64, 4, 8).amax(2)
    less = (a.reshape(64, 4, 8) - top[:, :, None]).reshape(64, 32)
    check(place, main, a, torch.zeros(64, 32), torch.zeros(64, 4), want={1: less, 2: top})


def test_tiles_of_a_pipeline_filled_and_changed_through_views(place):
    @T.prim_func
    def main(A: T.Tensor((64, 256), "float16"), B: T.Tensor((256, 64), "float16"), C: T.Tensor((64, 64), "float32")):
        with T.Kernel(1, threads=128):
            a_row, b = T.alloc_shared((1, 64 * 32), "float16"), T.alloc_shared((32, 64), "float16")
            a, b_bits = T.reshape(a_row, (64, 32)), T.view(b, dtype="int16")
            c = T.alloc_fragment((64, 64), "float32")
            c_flat = T.reshape(c, (4096,))
            T.clear(c_flat)
            for k in T.Pipelined(8, num_stages=3):
                T.copy(A[0, k * 32], a)
                T.copy(B[k * 32, 0], b)
                for i, j in T.Parallel(32, 64):
                    b_bits[i, j] = b_bits[i, j] & T.cast(0x7FFF, "int16")
                T.gemm(a, b, c)
            for i in T.Parallel(4096):
                c_flat[i] = c_flat[i] * 2
            T.copy(c, C)

    a, b = torch.randn(64, 256).half(), torch.randn(256, 64).half()
    check(place, main, a, b, torch.zeros(64, 64), want={2: 2 * (a.float() @ b.float().abs())}, reduction=512)


def test_a_tile_with_a_layout_of_its_own(place):
    @T.prim_func
    def main(
        A: T.Tensor((64, 64), "float16"),
        B: T.Tensor((64, 64), "float16"),
        C: T.Tensor((64, 64), "float32"),
        D: T.Tensor((4096,), "float16"),
    ):
        with T.Kernel(1, threads=128):
            a, b = T.alloc_shared((64, 64), "float16"), T.alloc_shared((64, 64), "float16")
            c = T.alloc_fragment((64, 64), "float32")
            a_flat = T.reshape(a, (4096,))
            T.annotate_layout({a: T.Layout((64, 64), lambda i, j: (i, j ^ (i % 8 * 8)))})
            T.clear(c)
            T.copy(A, a)
            T.copy(B, b)
            T.gemm(a, b, c)
            for i in T.Parallel(4096):
                D[i] = a_flat[i]
            T.copy(c, C)

    a, b = torch.randn(64, 64).half(), torch.randn(64, 64).half()
    outputs = torch.zeros(64, 64), torch.zeros(4096).half()
    check(place, main, a, b, *outputs, want={2: a.float() @ b.float(), 3: a.reshape(-1)}, reduction=64)


def test_every_other_row_through_strides(place):
    @T.prim_func
    def main(A: T.Tensor((64, 32), "float32"), B: T.Tensor((32, 32), "float32")):
        rows = T.view(A, (32, 32), strides=(64, 1))
        with T.Kernel(4, threads=64) as bx:
            tile = T.alloc_shared((8, 32), "float32")
            T.copy(rows[bx * 8, 0], tile)
            T.copy(tile, B[bx * 8, 0])

    a = torch.randn(64, 32)
    check(place, main, a, torch.zeros(32, 32), want={1: a[::2]})
