"""Tensors with strides, sizes and strides known at the call, sizes of 64 bits, negative indices: in every op that
reaches device memory."""

from __future__ import annotations

import pytest
import torch

import tile_core.language as T

from .places import PLACES, check

places = pytest.mark.parametrize("place", PLACES)


def strided(dtype="float32"):
    """A copy by tiles, with sizes and strides known at the call."""
    m, n, sm, sn, tm, tn = T.dynamic("m, n, sm, sn, tm, tn")

    @T.prim_func
    def main(A: T.StridedTensor((m, n), (sm, sn), dtype), B: T.StridedTensor((m, n), (tm, tn), dtype)):
        with T.Kernel(T.ceildiv(n, 16), T.ceildiv(m, 8), threads=64) as (bx, by):
            tile = T.alloc_shared((8, 16), dtype)
            held = T.alloc_fragment((8, 16), dtype)
            T.copy(A[by * 8, bx * 16], tile)
            T.copy(tile, held)
            for i, j in T.Parallel(8, 16):
                held[i, j] = held[i, j] + 1
            T.copy(held, B[by * 8, bx * 16])

    return main


@places
@pytest.mark.parametrize(
    "views",
    [
        lambda a, b: (a, b),
        lambda a, b: (a.t(), b),
        lambda a, b: (a.t(), b.t()),
        lambda a, b: (a[::2, 1::3], b[::2, 1::3]),
        lambda a, b: (a[:1].expand(40, 40), b),
        lambda a, b: (a[3:20, 5:9], b[4:21, :4]),
    ],
    ids=["contiguous", "transposed", "both", "steps", "broadcast", "windows"],
)
def test_a_copy_of_tiles_between_tensors_of_any_strides(place, views):
    torch.manual_seed(0)
    a, b = views(torch.randn(40, 40), torch.zeros(40, 40))
    values = run_in_place(place, strided(), a, b)
    torch.testing.assert_close(values, a + 1)


def run_in_place(place, function, a, b):
    """Runs on the given tensors themselves, as their strides are what is tried."""
    import tile_core as tile

    if place == "interpreter":
        from tile_core.interpreter import interpret

        interpret(function, a.numpy(), b.numpy())
        return b
    options = {"cpu": {"target": "cpu"}, "device": {"target": "cuda"}}.get(
        place, {"target": "cuda -arch=sm_80", "execution_backend": "emulate"}
    )
    if place == "device":
        a, b = a.cuda(), b.cuda()
    tile.compile(function, **options)(a, b)
    return b.cpu()


@places
def test_atomic_updates_reductions_and_products_of_transposed_tensors(place):
    m, n, s = T.dynamic("m, n, s")

    @T.prim_func
    def main(
        A: T.StridedTensor((m, n), (1, s), "float16"),
        B: T.Tensor((32, 32), "float16"),
        C: T.StridedTensor((m, 32), (1, m), "float32"),
        D: T.Tensor((32,), "float32"),
    ):
        with T.Kernel(T.ceildiv(m, 32), threads=128) as bx:
            a, b = T.alloc_shared((32, 32), "float16"), T.alloc_shared((32, 32), "float16")
            c, total = T.alloc_fragment((32, 32), "float32"), T.alloc_fragment((32,), "float32")
            T.copy(B, b)
            T.clear(c)
            for k in T.Pipelined(T.ceildiv(n, 32), num_stages=2):
                T.copy(A[bx * 32, k * 32], a)
                T.gemm(a, b, c)
            T.copy(c, C[bx * 32, 0])
            T.reduce_sum(c, total, dim=0)
            T.atomic_add(D, total)

    a = torch.randn(70, 48).half()
    b = torch.randn(32, 32).half()
    padded = torch.zeros(70, 64)
    padded[:, :48] = a.float()
    product = padded[:, :32] @ b.float() + padded[:, 32:] @ b.float()
    c, d = torch.zeros(32, 70).t(), torch.zeros(32)
    column = a.t().contiguous().t()
    import tile_core as tile

    if place == "interpreter":
        from tile_core.interpreter import interpret

        interpret(main, column.numpy(), b.numpy(), c.numpy(), d.numpy())
    elif place == "device":
        c, d = c.cuda(), d.cuda()
        tile.compile(main, target="cuda")(column.cuda(), b.cuda(), c, d)
    else:
        options = (
            {"target": "cpu"} if place == "cpu" else {"target": "cuda -arch=sm_80", "execution_backend": "emulate"}
        )
        tile.compile(main, **options)(column, b, c, d)
    torch.testing.assert_close(c.cpu(), product, rtol=1e-2, atol=5e-2)
    torch.testing.assert_close(d.cpu(), product.sum(0), rtol=1e-2, atol=0.3)


@places
def test_indices_that_count_from_the_end(place):
    n = T.dynamic("n")

    @T.prim_func
    def main(A: T.Tensor((n, 8), "float32"), B: T.Tensor((8, 8), "float32"), C: T.Tensor((n, 8), "float32")):
        with T.Kernel(1, threads=32):
            tile = T.alloc_shared((4, 8), "float32")
            row = T.alloc_fragment((1, 8), "float32")
            own = T.alloc_local((4,), "float32")
            T.copy(A[-4:, :], tile)
            T.copy(tile[-1:, :], row)
            own[-1] = tile[-2, -1]
            T.copy(tile[-4:-1, -8:], B[-3:, :])
            for j in T.Parallel(8):
                B[-8, j] = tile[-3, j] + row[-1, j]
            T.copy(A[-2, 0:8], B[-7, 0:8])
            for j in T.Parallel(8):
                B[2, j] = own[-1]
            T.atomic_add(C[-1, -1], own[-1])
            T.atomic_add(C[-3:-1, 0:8], tile[-2:, :])
            T.fill(tile[-1:, -4:], 7.0)
            T.copy(tile[-1, -8:], B[-5, -8:])

    a = torch.randn(9, 8)
    b, c = torch.zeros(8, 8), torch.zeros(9, 8)
    want_b, want_c = b.clone(), c.clone()
    tile = a[-4:].clone()
    want_b[-3:] = tile[:-1]
    want_b[0] = tile[1] + tile[-1]
    want_b[1] = a[-2]
    want_b[2] = tile[-2, -1]
    want_c[-3:-1] += tile[-2:]
    want_c[-1, -1] += tile[-2, -1]
    tile[-1, -4:] = 7
    want_b[3] = tile[-1]
    check(place, main, a, b, c, want={1: want_b, 2: want_c})


@places
def test_sizes_of_64_bits(place):
    n, m = T.dynamic("n", "int64"), T.dynamic("m", "int64")

    @T.prim_func
    def main(A: T.Tensor((m, n), "float32"), B: T.Tensor((m,), "float32"), start: T.int64):
        with T.Kernel(m, threads=64) as bx:
            total, part = T.alloc_fragment((1,), "float32"), T.alloc_fragment((1, 32), "float32")
            rest = T.alloc_var("int64", init=start)
            T.clear(total)
            while rest < n:
                T.copy(A[bx, rest], part)
                T.reduce_sum(part, total, dim=1, clear=False)
                rest += 32
            for k in T.serial(start, n, 100):
                total[0] = total[0] + A[bx, k]
            T.copy(total, B[bx])

    a = torch.randn(3, 300)
    want = a[:, 10:].sum(1) + a[:, 10::100].sum(1)
    check(place, main, a, torch.zeros(3), 10, want={1: want}, reduction=300)


def test_elements_further_apart_than_32_bits_count():
    """Only a few pages of the tensor are touched."""
    import tile_core as tile

    rows, stride = 3, 2**31 + 64

    @T.prim_func
    def main(A: T.StridedTensor((rows, 64), (stride, 1), "int8"), B: T.Tensor((rows, 64), "int8")):
        with T.Kernel(rows, threads=32) as bx:
            tile = T.alloc_shared((1, 64), "int8")
            T.copy(A[bx, 0], tile)
            for j in T.Parallel(64):
                A[bx, j] = tile[0, j] + T.cast(1, "int8")
            T.copy(tile, B[bx, 0])

    memory = torch.empty(stride * (rows - 1) + 64, dtype=torch.int8)
    a = memory.as_strided((rows, 64), (stride, 1))
    a.copy_(torch.arange(rows * 64).reshape(rows, 64).to(torch.int8))
    before, b = a.clone(), torch.zeros(rows, 64, dtype=torch.int8)
    tile.compile(main, target="cpu")(a, b)
    assert torch.equal(b, before)
    assert torch.equal(a, before + 1)
