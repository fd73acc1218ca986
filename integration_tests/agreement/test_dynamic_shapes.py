"""One compiled kernel, many sizes: shapes that the kernel learns when it is called, with and without a promise about
them."""

import numpy as np
import pytest
import torch

import tile_core as tile
import tile_core.language as T
from tile_core.interpreter import interpret
from tile_core.testing.compare import assert_close

SIZES = (1, 2, 7, 8, 15, 16, 17, 31, 32, 33, 64, 100, 126, 200, 250)


def gemm_kernel(multiple):
    m, n, k = T.dynamic("m, n, k")

    @T.prim_func
    def gemm(A: T.Tensor((m, k), "float32"), B: T.Tensor((k, n), "float32"), C: T.Tensor((m, n), "float32")):
        if multiple > 1:
            T.assume(m % multiple == 0)
            T.assume(n % multiple == 0)
            T.assume(k % multiple == 0)
        with T.Kernel(T.ceildiv(n, 32), T.ceildiv(m, 32), threads=128) as (bx, by):
            A_shared = T.alloc_shared((32, 16), "float32")
            B_shared = T.alloc_shared((16, 32), "float32")
            acc = T.alloc_fragment((32, 32), "float32")
            T.clear(acc)
            for step in T.Pipelined(T.ceildiv(k, 16), num_stages=2):
                T.copy(A[by * 32, step * 16], A_shared)
                T.copy(B[step * 16, bx * 32], B_shared)
                T.gemm(A_shared, B_shared, acc)
            T.copy(acc, C[by * 32, bx * 32])

    return gemm


@pytest.mark.parametrize("multiple", [1, 8])
def test_gemm(multiple):
    function = gemm_kernel(multiple)
    kernel = tile.compile(function, target="cpu")
    rng = np.random.default_rng(0)
    sizes = [s for s in SIZES if s % multiple == 0]
    for _ in range(25):
        m, n, k = (int(rng.choice(sizes)) for _ in range(3))
        a, b = torch.randn(m, k), torch.randn(k, n)
        c = torch.full((m, n), float("nan"))
        kernel(a, b, c)
        assert_close(c, a @ b, reduction=k, scale=4, label=f"{m}×{n}×{k}")
        interpreted = np.full((m, n), np.nan, "float32")
        interpret(function, a.numpy(), b.numpy(), interpreted, check_written=True)
        assert_close(interpreted, a @ b, reduction=k, scale=4, label=f"{m}×{n}×{k}, interpreter")


def test_a_broken_promise_is_refused_at_the_call():
    kernel = tile.compile(gemm_kernel(8), target="cpu")
    with pytest.raises(tile.TileError):
        kernel(torch.randn(8, 12), torch.randn(12, 8), torch.empty(8, 8))


def row_sums(kind):
    m, n = T.dynamic("m, n")

    @T.prim_func
    def rows(X: T.Tensor((m, n), "float32"), Y: T.Tensor((m,), "float32")):
        with T.Kernel(T.ceildiv(m, 8), threads=64) as b:
            x = T.alloc_fragment((8, 32), "float32")
            part = T.alloc_fragment((8,), "float32")
            result = T.alloc_fragment((8,), "float32")
            T.fill(result, 0.0 if kind == "sum" else -T.infinity("float32"))
            for step in T.serial(T.ceildiv(n, 32)):
                T.copy(X[b * 8, step * 32], x)
                if kind == "max":
                    for i, j in T.Parallel(8, 32):
                        x[i, j] = T.if_then_else(step * 32 + j < n, x[i, j], -T.infinity("float32"))
                T.reduce(x, part, kind, 1, True)
                for i in T.Parallel(8):
                    result[i] = result[i] + part[i] if kind == "sum" else T.max(result[i], part[i])
            T.copy(result, Y[b * 8])

    return rows


@pytest.mark.parametrize("kind", ["sum", "max"])
def test_reductions_over_a_dynamic_axis(kind):
    function = row_sums(kind)
    kernel = tile.compile(function, target="cpu")
    for m in SIZES[:9]:
        for n in (1, 31, 32, 33, 100):
            x = torch.randn(m, n)
            y, expected = torch.empty(m), x.sum(1) if kind == "sum" else x.amax(1)
            kernel(x, y)
            assert_close(y, expected, reduction=n, scale=4, label=f"{kind} {m}×{n}")
            interpreted = np.empty(m, "float32")
            interpret(function, x.numpy(), interpreted, check_written=True)
            assert_close(interpreted, expected, reduction=n, scale=4, label=f"{kind} {m}×{n}, interpreter")


def test_an_empty_tensor_is_nothing_to_do():
    kernel = tile.compile(gemm_kernel(1), target="cpu")
    c = torch.full((4, 4), 7.0)
    kernel(torch.empty(0, 3), torch.empty(3, 0), torch.empty(0, 0))
    kernel(torch.empty(4, 0), torch.empty(0, 4), c)
    assert (c == 0).all()
