"""What a kernel author may write, run: each construct of the language in the interpreter and on the CPU, beside plain
numpy."""

import numpy as np
import pytest
import torch

import tile_core as tile
import tile_core.language as T
from tile_core.interpreter import interpret
from tile_core.testing.compare import assert_close, to_numpy


def check(function, *arguments, expected, dtype=None, reduction=1):
    """Runs a prim_func on copies of numpy arguments; the last one is the output and must become `expected`."""
    interpreted = [np.array(a) if isinstance(a, np.ndarray) else a for a in arguments]
    interpret(function, *interpreted, check_written=True)
    assert_close(interpreted[-1], expected, dtype, reduction=reduction, scale=4, label="interpreter")
    tensors = [torch.from_numpy(np.array(a)) if isinstance(a, np.ndarray) else a for a in arguments]
    tile.compile(function, target="cpu")(*tensors)
    assert_close(to_numpy(tensors[-1]), expected, dtype, reduction=reduction, scale=4, label="CPU")


def values(*shape):
    return np.random.default_rng(0).standard_normal(shape, dtype=np.float32)


def test_serial_loops_with_steps_and_starts():
    @T.prim_func
    def f(A: T.Tensor((64,), "float32"), B: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=1) as bx:
            for i in T.serial(64):
                B[i] = 0.0
            for i in T.serial(3, 60, 7):
                B[i] = A[i] * 2.0
            for i in range(60, 64):
                B[i] = A[i]

    a = values(64)
    expected = np.zeros(64, "float32")
    expected[3:60:7] = a[3:60:7] * 2
    expected[60:] = a[60:]
    check(f, a, np.zeros(64, "float32"), expected=expected)


def test_unrolled_and_vectorized_loops():
    @T.prim_func
    def f(A: T.Tensor((16, 8), "float32"), B: T.Tensor((16, 8), "float32")):
        with T.Kernel(4, threads=32) as bx:
            for i in T.unroll(4):
                for j in T.vectorized(8):
                    B[bx * 4 + i, j] = A[bx * 4 + i, j] + 1.0

    a = values(16, 8)
    check(f, a, np.zeros_like(a), expected=a + 1)


def test_while_break_and_continue():
    @T.prim_func
    def f(A: T.Tensor((32,), "int32"), B: T.Tensor((32,), "int32")):
        with T.Kernel(32, threads=1) as bx:
            steps = T.alloc_var("int32", init=0)
            value = T.alloc_var("int32", init=0)
            value = A[bx]
            while value != 1:
                if steps >= 50:
                    break
                if value % 2 == 0:
                    value = value // 2
                    steps = steps + 1
                    continue
                value = 3 * value + 1
                steps = steps + 1
            B[bx] = steps

    def collatz(n):
        steps = 0
        while n != 1 and steps < 50:
            n, steps = (n // 2 if n % 2 == 0 else 3 * n + 1), steps + 1
        return steps

    a = np.arange(1, 33, dtype="int32")
    check(f, a, np.zeros(32, "int32"), expected=np.array([collatz(int(n)) for n in a], "int32"))


def test_if_elif_else():
    @T.prim_func
    def f(A: T.Tensor((100,), "float32"), B: T.Tensor((100,), "float32")):
        with T.Kernel(T.ceildiv(100, 32), threads=32) as bx:
            for i in T.Parallel(32):
                if A[bx * 32 + i] > 0.5:
                    B[bx * 32 + i] = 1.0
                elif A[bx * 32 + i] < -0.5:
                    B[bx * 32 + i] = -1.0
                else:
                    B[bx * 32 + i] = 0.0

    a = values(100)
    check(f, a, np.full(100, 9, "float32"), expected=np.where(a > 0.5, 1, np.where(a < -0.5, -1, 0)).astype("float32"))


def test_conditions_combine():
    @T.prim_func
    def f(A: T.Tensor((64,), "float32"), B: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=32) as bx:
            for i in T.Parallel(64):
                B[i] = T.if_then_else(0.0 < A[i] and (i % 2 == 0 or i > 40) and not (i < 3 and i > 1), A[i], -1.0)

    a, i = values(64), np.arange(64)
    check(f, a, np.zeros_like(a), expected=np.where((a > 0) & ((i % 2 == 0) | (i > 40)) & (i != 2), a, -1))


def test_macros_and_closures():
    scale, shift = 3.0, [1.0, 2.0]

    @T.macro
    def scaled(x, extra):
        return x * scale + extra

    @T.prim_func
    def f(A: T.Tensor((64,), "float32"), B: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=32) as bx:
            for i in T.Parallel(64):
                total = scaled(A[i], 0.0)
                for s in shift:
                    total = total + s
                B[i] = total

    a = values(64)
    check(f, a, np.zeros_like(a), expected=a * 3 + 3)


def test_local_arrays_and_variables():
    @T.prim_func
    def f(A: T.Tensor((16, 8), "float32"), B: T.Tensor((16,), "float32")):
        with T.Kernel(16, threads=1) as bx:
            row = T.alloc_local((8,), "float32")
            best = T.alloc_var("float32", init=-1.0)
            for j in T.serial(8):
                row[j] = T.abs(A[bx, j])
            for j in T.serial(8):
                best = T.max(best, row[j])
            B[bx] = best

    a = values(16, 8)
    check(f, a, np.zeros(16, "float32"), expected=np.abs(a).max(1))


def test_thread_code_with_barriers():
    @T.prim_func
    def f(A: T.Tensor((4, 64), "float32"), B: T.Tensor((4,), "float32")):
        with T.Kernel(4, threads=64) as bx:
            tx = T.get_thread_binding()
            shared = T.alloc_shared((64,), "float32")
            shared[tx] = A[bx, tx]
            T.sync_threads()
            for level in range(6):
                if tx < (32 >> level):
                    shared[tx] = shared[tx] + shared[tx + (32 >> level)]
                T.sync_threads()
            if tx == 0:
                B[bx] = shared[0]

    a = values(4, 64)
    check(f, a, np.zeros(4, "float32"), expected=a.sum(1), reduction=64)


def test_thread_code_with_private_values_across_barriers():
    @T.prim_func
    def f(A: T.Tensor((64,), "float32"), B: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=64) as bx:
            tx = T.get_thread_binding()
            shared = T.alloc_shared((64,), "float32")
            mine = T.alloc_local((2,), "float32")
            mine[0] = A[tx]
            shared[tx] = mine[0] * 2.0
            T.sync_threads()
            mine[1] = shared[63 - tx]
            T.sync_threads()
            B[tx] = mine[0] + mine[1]

    a = values(64)
    check(f, a, np.zeros_like(a), expected=a + 2 * a[::-1])


def test_atomic_updates_from_many_blocks():
    @T.prim_func
    def f(A: T.Tensor((1000,), "int32"), B: T.Tensor((8,), "int32")):
        with T.Kernel(T.ceildiv(1000, 64), threads=64) as bx:
            for i in T.Parallel(64):
                if bx * 64 + i < 1000:
                    T.atomic_add(B[A[bx * 64 + i]], 1)

    a = np.random.default_rng(0).integers(0, 8, 1000).astype("int32")
    check(f, a, np.zeros(8, "int32"), expected=np.bincount(a, minlength=8).astype("int32"))


def test_tile_atomic_updates_add_up():
    @T.prim_func
    def f(A: T.Tensor((8, 32), "float32"), B: T.Tensor((32,), "float32")):
        with T.Kernel(8, threads=32) as bx:
            part = T.alloc_fragment((32,), "float32")
            T.copy(A[bx, 0:32], part)
            T.atomic_add(B[0], part)

    a = values(8, 32)
    check(f, a, np.zeros(32, "float32"), expected=a.sum(0), reduction=8)


def test_two_products_into_one_accumulator():
    @T.prim_func
    def f(A: T.Tensor((32, 16), "float32"), B: T.Tensor((16, 32), "float32"), C: T.Tensor((32, 32), "float32")):
        with T.Kernel(1, threads=128) as bx:
            a = T.alloc_shared((32, 16), "float32")
            b = T.alloc_shared((16, 32), "float32")
            acc = T.alloc_fragment((32, 32), "float32")
            T.copy(A, a)
            T.copy(B, b)
            T.gemm(a, b, acc, clear_accum=True)
            T.gemm(a, b, acc)
            T.copy(acc, C)

    a, b = values(32, 16), values(16, 32)
    check(f, a, b, np.zeros((32, 32), "float32"), expected=2 * (a @ b), reduction=32)


def test_branches_around_a_pipeline():
    @T.prim_func
    def f(A: T.Tensor((4, 96), "float32"), B: T.Tensor((4, 32), "float32")):
        with T.Kernel(4, threads=32) as bx:
            part = T.alloc_shared((32,), "float32")
            acc = T.alloc_fragment((32,), "float32")
            T.clear(acc)
            if bx % 2 == 0:
                for k in T.Pipelined(3, num_stages=2):
                    T.copy(A[bx, k * 32], part)
                    for i in T.Parallel(32):
                        acc[i] = acc[i] + part[i]
            else:
                T.fill(acc, 5.0)
            T.copy(acc, B[bx, 0:32])

    a = values(4, 96)
    expected = a.reshape(4, 3, 32).sum(1)
    expected[1::2] = 5
    check(f, a, np.zeros((4, 32), "float32"), expected=expected)


@pytest.mark.parametrize("trips", [0, 1, 2, 3, 4, 7])
@pytest.mark.parametrize("stages", [1, 2, 3])
def test_pipelines_of_any_length(trips, stages):
    @T.prim_func
    def f(A: T.Tensor((8, 32), "float32"), B: T.Tensor((32,), "float32")):
        with T.Kernel(1, threads=32) as bx:
            part = T.alloc_shared((32,), "float32")
            acc = T.alloc_fragment((32,), "float32")
            T.clear(acc)
            for k in T.Pipelined(trips, num_stages=stages):
                T.copy(A[k, 0:32], part)
                for i in T.Parallel(32):
                    acc[i] = acc[i] * 2.0 + part[i]
            T.copy(acc, B)

    a, expected = values(8, 32), np.zeros(32, "float32")
    for k in range(trips):
        expected = expected * 2 + a[k]
    check(f, a, np.zeros(32, "float32"), expected=expected)


def test_scans():
    @T.prim_func
    def f(A: T.Tensor((9, 33), "float32"), B: T.Tensor((9, 33), "float32")):
        with T.Kernel(1, threads=32) as bx:
            x = T.alloc_fragment((9, 33), "float32")
            T.copy(A, x)
            T.cumsum(x, dim=1)
            T.cummax(x, dim=0, reverse=True)
            T.copy(x, B)

    a = values(9, 33)
    expected = np.maximum.accumulate(np.cumsum(a, 1)[::-1], 0)[::-1]
    check(f, a, np.zeros_like(a), expected=expected, reduction=33)


def test_scalar_parameters():
    @T.prim_func
    def f(A: T.Tensor((50,), "float32"), s: T.float32, n: T.int32, B: T.Tensor((50,), "float32")):
        with T.Kernel(1, threads=32) as bx:
            for i in T.Parallel(50):
                B[i] = T.if_then_else(i < n, A[i] * s, 0.0)

    a = values(50)
    expected = np.where(np.arange(50) < 20, a * np.float32(1.5), 0)
    check(f, a, 1.5, 20, np.zeros_like(a), expected=expected)


def test_strided_tensors():
    @T.prim_func
    def f(A: T.StridedTensor((8, 10), (20, 2), "float32"), B: T.Tensor((8, 10), "float32")):
        with T.Kernel(1, threads=32) as bx:
            for i, j in T.Parallel(8, 10):
                B[i, j] = A[i, j]

    whole = values(8, 20)
    interpreted = np.zeros((8, 10), "float32")
    interpret(f, whole[:, ::2], interpreted)
    assert np.array_equal(interpreted, whole[:, ::2])
    out = torch.zeros(8, 10)
    tile.compile(f, target="cpu")(torch.from_numpy(whole)[:, ::2], out)
    assert np.array_equal(out.numpy(), whole[:, ::2])


def test_grids_of_three_dimensions_and_four_dimensional_tensors():
    @T.prim_func
    def f(A: T.Tensor((2, 3, 5, 7), "float32"), B: T.Tensor((3, 2, 7, 5), "float32")):
        with T.Kernel(3, 2, 5, threads=32) as (bx, by, bz):
            for j in T.Parallel(7):
                B[bx, by, j, bz] = A[by, bx, bz, j]

    a = values(2, 3, 5, 7)
    check(f, a, np.zeros((3, 2, 7, 5), "float32"), expected=a.transpose(1, 0, 3, 2))


def test_eager_functions_allocate_and_return():
    @tile.jit(target="cpu")
    def add_and_multiply(A, B):
        M, N = T.const("M, N")
        A: T.Tensor[[M, N], T.float32]
        B: T.Tensor[[M, N], T.float32]
        C = T.empty((M, N), T.float32)
        D = T.empty((M, N), T.float32)
        with T.Kernel(M, threads=64) as bx:
            for j in T.Parallel(N):
                C[bx, j] = A[bx, j] + B[bx, j]
                D[bx, j] = A[bx, j] * B[bx, j]
        return C, D

    for shape in ((3, 5), (7, 100), (3, 5)):
        a, b = torch.randn(shape), torch.randn(shape)
        c, d = add_and_multiply(a, b)
        assert torch.equal(c, a + b)
        assert torch.equal(d, a * b)


def test_index_arithmetic_with_divisions_by_numbers_that_do_not_divide():
    @T.prim_func
    def f(A: T.Tensor((7, 11), "float32"), B: T.Tensor((77,), "float32")):
        with T.Kernel(T.ceildiv(77, 32), threads=32) as bx:
            for i in T.Parallel(32):
                if bx * 32 + i < 77:
                    B[bx * 32 + i] = A[(bx * 32 + i) // 11, (bx * 32 + i) % 11]

    a = values(7, 11)
    check(f, a, np.zeros(77, "float32"), expected=a.reshape(-1))


def test_negative_operands_of_divisions():
    @T.prim_func
    def f(A: T.Tensor((64,), "int32"), B: T.Tensor((4, 64), "int32")):
        with T.Kernel(1, threads=32) as bx:
            for i in T.Parallel(64):
                B[0, i] = A[i] // 7
                B[1, i] = A[i] % 7
                B[2, i] = T.truncdiv(A[i], 7)
                B[3, i] = T.truncmod(A[i], 7)

    a = np.arange(-32, 32, dtype="int32")
    expected = np.stack([a // 7, a % 7, np.trunc(a / 7), np.fmod(a, 7)]).astype("int32")
    check(f, a, np.zeros((4, 64), "int32"), expected=expected)


def test_nan_and_infinity():
    @T.prim_func
    def f(A: T.Tensor((4, 33), "float32"), B: T.Tensor((4, 3), "float32")):
        with T.Kernel(4, threads=32) as bx:
            x = T.alloc_fragment((33,), "float32")
            r = T.alloc_fragment((1,), "float32")
            T.copy(A[bx, 0:33], x)
            T.reduce_max(x, r)
            B[bx, 0] = r[0]
            T.reduce_min(x, r)
            B[bx, 1] = r[0]
            T.reduce_absmax(x, r)
            B[bx, 2] = r[0]

    a = values(4, 33)
    a[0, 5], a[1, 6], a[2, :], a[3, 32] = np.nan, np.inf, np.nan, -np.inf
    with np.errstate(all="ignore"):
        clean = np.where(np.isnan(a), -np.inf, a), np.where(np.isnan(a), np.inf, a), np.where(np.isnan(a), 0, a)
    expected = np.stack([clean[0].max(1), clean[1].min(1), np.abs(clean[2]).max(1)], 1)
    check(f, a, np.zeros((4, 3), "float32"), expected=expected)


@pytest.mark.parametrize("threads", [32, 64, 96, 128, 160, 256, 384])
def test_any_number_of_threads(threads):
    @T.prim_func
    def f(A: T.Tensor((31, 33), "float32"), B: T.Tensor((31,), "float32")):
        with T.Kernel(1, threads=threads) as bx:
            x = T.alloc_fragment((31, 33), "float32")
            r = T.alloc_fragment((31,), "float32")
            T.copy(A, x)
            T.reduce_sum(x, r, dim=1)
            T.copy(r, B)

    a = values(31, 33)
    check(f, a, np.zeros(31, "float32"), expected=a.sum(1), reduction=33)
