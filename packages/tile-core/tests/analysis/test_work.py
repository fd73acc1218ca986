"""Work counted from a traced function, against what one counts by hand."""

import pytest

import tile_core as tile
import tile_core.language as T
from tile_core.analysis.work import count_work

M, N, K = 256, 192, 96


def gemm(causal=False):
    @T.prim_func
    def function(A: T.Tensor((M, K), "float16"), B: T.Tensor((K, N), "float16"), C: T.Tensor((M, N), "float16")):
        with T.Kernel(T.ceildiv(N, 64), T.ceildiv(M, 64), threads=128) as (bx, by):
            a = T.alloc_shared((64, 32), "float16")
            b = T.alloc_shared((32, 64), "float16")
            acc = T.alloc_fragment((64, 64), "float32")
            T.clear(acc)
            steps = T.ceildiv(K, 32)
            if causal:
                steps = T.min(steps, by)
            for k in T.Pipelined(steps, num_stages=2):
                T.copy(A[by * 64, k * 32], a)
                T.copy(B[k * 32, bx * 64], b)
                T.gemm(a, b, acc)
            T.copy(acc, C[by * 64, bx * 64])

    return function


def test_a_gemm():
    work = count_work(gemm())
    assert work.gemm == {"float16": 2 * M * N * K} and not work.other
    assert work.read == 2 * (M * K + K * N) and work.written == 2 * M * N and work.blocks == 12
    assert work.asked == 12 * 3 * (64 * 32 + 32 * 64) * 2 + M * N * 2
    assert work.shared == (64 * 32 + 32 * 64) * 2 and not work.inexact
    assert work.intensity == pytest.approx(work.operations / work.bytes)


def test_a_gemm_of_a_sparse_operand_does_what_is_kept():
    @T.prim_func
    def function(
        A: T.Tensor((64, 32), "float16"),
        E: T.Tensor((64, 4), "int16"),
        B: T.Tensor((64, 32), "float16"),
        C: T.Tensor((64, 32), "float32"),
    ):
        with T.Kernel(1, threads=64):
            a, e = T.alloc_shared((64, 32), "float16"), T.alloc_shared((64, 4), "int16")
            b, acc = T.alloc_shared((64, 32), "float16"), T.alloc_fragment((64, 32), "float32")
            T.copy(A, a)
            T.copy(E, e)
            T.copy(B, b)
            T.gemm_sp(a, e, b, acc, clear_accum=True)
            T.copy(acc, C)

    work = count_work(function)
    assert work.gemm == {"float16": 2 * 64 * 32 * 32} and not work.other
    assert work.read == 64 * (32 + 4 + 32) * 2 and work.written == 64 * 32 * 4


def test_loops_that_depend_on_the_block_are_averaged():
    # rows of blocks go 0, 1, 2 and 3 steps
    assert count_work(gemm(causal=True)).gemm == {"float16": 2 * 64 * 64 * 32 * 3 * (0 + 1 + 2 + 3)}


def test_element_wise_work_with_a_dynamic_size():
    @T.prim_func
    def function(A: T.Tensor((T.dynamic("n"),), "float32"), B: T.Tensor((T.dynamic("n"),), "float32")):
        with T.Kernel(T.ceildiv(A.shape[0], 128), threads=128) as bx:
            for i in T.Parallel(128):
                B[bx * 128 + i] = T.exp(A[bx * 128 + i] * 2.0) + 1.0

    n = 1280
    work = count_work(function, {"n": n})
    assert work.other == {"float32": 3 * n} and work.read == work.written == 4 * n and work.blocks == 10
    unknown = count_work(function)
    assert unknown.inexact and all("not known beforehand" in note for note in unknown.inexact)


def test_what_depends_on_data_is_said():
    @T.prim_func
    def function(A: T.Tensor((4,), "int32"), B: T.Tensor((4,), "float32")):
        with T.Kernel(1, threads=32):
            for i in T.serial(A[0]):
                B[i] = B[i] + 1.0

    work = count_work(function)
    assert work.other == {"float32": 1} and len(work.inexact) == 1
    assert tile.lower(function, "cpu").sources
