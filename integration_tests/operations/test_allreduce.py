"""`tvm_thread_allreduce` as gemv kernels write it."""

from __future__ import annotations

import numpy as np
import pytest

import tile_core.language as T
from integration_tests.operations.harness import everywhere, machine_code
from tile_core.errors import CompileError

pytestmark = [pytest.mark.layer("emulation"), pytest.mark.slow]


def gemv(n, k, rows, lanes):
    """Each row of B times A: `lanes` threads share a row."""

    @T.prim_func
    def main(A: T.Tensor((k,), "float32"), B: T.Tensor((n, k), "float32"), C: T.Tensor((n,), "float32")):
        with T.Kernel(T.ceildiv(n, rows), threads=(lanes, rows)) as bn:
            tk, tn = T.get_thread_binding(0), T.get_thread_binding(1)
            own = T.alloc_local((1,), "float32")
            total = T.alloc_local((1,), "float32")
            T.clear(own)
            for step in T.serial(T.ceildiv(k, lanes)):
                own[0] += A[step * lanes + tk] * B[bn * rows + tn, step * lanes + tk]
            with T.attr(
                T.comm_reducer(lambda x, y: x + y, [T.float32(0)]),
                "reduce_scope",
                T.reinterpret(T.uint64(0), dtype="handle"),
            ):
                T.tvm_thread_allreduce(T.uint32(1), own[0], True, total[0], tk, dtype="handle")
            if tk == 0:
                C[bn * rows + tn] = total[0]

    return main


@pytest.mark.parametrize(("rows", "lanes"), [(4, 32), pytest.param(2, 64, marks=pytest.mark.slow), (3, 12)])
def test_gemv(rows, lanes):
    rng = np.random.default_rng(8)
    a = rng.integers(-4, 5, 100).astype(np.float32)
    b = rng.integers(-4, 5, (12, 100)).astype(np.float32)
    for way, (_, _, c) in everywhere(gemv(12, 100, rows, lanes), a, b, np.zeros(12, np.float32)).items():
        assert np.array_equal(c, b @ a), way
    machine_code(gemv(12, 100, rows, lanes))


def test_along_the_second_axis():
    @T.prim_func
    def main(A: T.Tensor((8, 16), "int32"), B: T.Tensor((8, 16), "int32")):
        with T.Kernel(1, threads=(16, 8)):
            tx, ty = T.get_thread_binding(0), T.get_thread_binding(1)
            most = T.alloc_var("int32", init=0)
            with T.attr(T.comm_reducer(lambda x, y: T.max(x, y), [T.int32(-100)]), "reduce_scope", 0):
                T.evaluate(T.tvm_thread_allreduce(1, A[ty, tx], ty < 6, most, ty, dtype="handle"))
            B[ty, tx] = most

    a = np.random.default_rng(9).integers(-50, 50, (8, 16)).astype(np.int32)
    for way, (_, b) in everywhere(main, a, np.zeros((8, 16), np.int32)).items():
        assert np.array_equal(b, np.broadcast_to(a[:6].max(axis=0), (8, 16))), way


def test_errors():
    def make(scope, *args):
        @T.prim_func
        def main(A: T.Tensor((32,), "float32")):
            with T.Kernel(1, threads=32):
                own = T.alloc_local((1,), "float32")
                own[0] = A[T.get_thread_binding()]
                if scope:
                    with T.attr(T.comm_reducer(lambda x, y: x + y, [T.float32(0)]), scope, 0):
                        T.tvm_thread_allreduce(1, own[0], True, own[0], *args)
                else:
                    T.tvm_thread_allreduce(1, own[0], True, own[0], *args)

        return main

    with pytest.raises(CompileError, match="E-ALLREDUCE"):
        make("", 1)
    with pytest.raises(CompileError, match="E-ALLREDUCE"):
        make("reduce_scope", 1)
    with pytest.raises(CompileError, match="E-ATTR"):
        make("storage_scope", 1)
    with pytest.raises(CompileError, match="E-ALLREDUCE"):
        T.comm_reducer(lambda x, y: x, [1, 2])
