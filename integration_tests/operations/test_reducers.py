"""Reducers: contributions of parallel iterations, in the interpreter, on the CPU and as CUDA."""

from __future__ import annotations

import numpy as np
import pytest

import tile_core.language as T
from integration_tests.operations.harness import everywhere, machine_code
from tile_core.errors import CompileError

pytestmark = [pytest.mark.layer("emulation"), pytest.mark.slow]

NUMPY = {"sum": np.sum, "max": np.max, "min": np.min}


def rows(op, dtype):
    """A reduction of each row over two steps, begun with a value."""

    @T.prim_func
    def main(A: T.Tensor((16, 128), dtype), B: T.Tensor((16,), dtype)):
        with T.Kernel(1, threads=64):
            acc = T.alloc_reducer((16,), dtype, op=op, replication="all")
            out = T.alloc_fragment((16,), dtype)
            T.reducer_init(acc, 3)
            for k in T.serial(2):
                for i, j in T.Parallel(16, 64):
                    if A[i, k * 64 + j] > 1:
                        T.reducer_update(acc[i], A[i, k * 64 + j])
            T.finalize_reducer(acc, out)
            T.copy(out, B)

    return main


@pytest.mark.parametrize("op", ["sum", pytest.param("max", marks=pytest.mark.slow), "min"])
@pytest.mark.parametrize("dtype", ["float32", pytest.param("int32", marks=pytest.mark.slow)])
def test_rows(op, dtype):
    a = np.random.default_rng(5).integers(-6, 9, (16, 128)).astype(dtype)
    wanted = [NUMPY[op]([3, *row[row > 1]]) for row in a]
    for way, (_, b) in everywhere(rows(op, dtype), a, np.zeros(16, dtype)).items():
        assert np.array_equal(b, wanted), way
    assert "atomic" not in machine_code(rows(op, dtype))


def test_any_element_at_any_place():
    @T.prim_func
    def main(A: T.Tensor((200,), "int32"), B: T.Tensor((8,), "int32"), C: T.Tensor((1,), "float32")):
        with T.Kernel(1, threads=64):
            counts = T.alloc_reducer((8,), "int32")
            total = T.alloc_reducer((1,), "float32")
            T.reducer_init(counts)
            T.reducer_init(total, 0.5)
            for i in T.Parallel(200):
                T.reducer_update(counts[A[i] % 8], 1)
            for i in T.Parallel(200):
                T.reducer_update(total[0], T.cast(A[i], "float32"))
            T.finalize_reducer(counts, B)
            T.copy(T.finalize_reducer(total), C)

    a = np.random.default_rng(6).integers(0, 99, 200).astype(np.int32)
    for way, (_, b, c) in everywhere(main, a, np.zeros(8, np.int32), np.zeros(1, np.float32)).items():
        assert np.array_equal(b, np.bincount(a % 8, minlength=8)), way
        assert c[0] == a.sum() + 0.5, way
    assert machine_code(main).count("atomic_add") == 1


def test_three_axes_and_every_element_once():
    @T.prim_func
    def main(A: T.Tensor((4, 8, 16), "float32"), B: T.Tensor((8,), "float32"), C: T.Tensor((8, 16), "float32")):
        with T.Kernel(1, threads=32):
            acc = T.alloc_reducer((8,), "float32")
            largest = T.alloc_reducer((8, 16), "float32", op="max")
            T.reducer_init(acc)
            T.reducer_init(largest)
            for i, j, k in T.Parallel(4, 8, 16):
                T.reducer_update(acc[j], A[i, j, k])
            for i in T.serial(4):
                for j, k in T.Parallel(8, 16):
                    T.reducer_update(largest[j, k], A[i, j, k])
            T.finalize_reducer(acc, B)
            T.finalize_reducer(largest, C)

    a = np.random.default_rng(7).integers(-9, 9, (4, 8, 16)).astype(np.float32)
    for way, (_, b, c) in everywhere(main, a, np.zeros(8, np.float32), np.zeros((8, 16), np.float32)).items():
        assert np.array_equal(b, a.sum(axis=(0, 2))) and np.array_equal(c, a.max(axis=0)), way
    machine_code(main)


def kernel(body):
    def build():
        @T.prim_func
        def main(A: T.Tensor((16,), "float32")):
            with T.Kernel(1, threads=32):
                acc = T.alloc_reducer((16,), "float32")
                body(acc, A)

        return main

    return build


@T.macro
def updated(acc, A):
    for i in T.Parallel(16):
        T.reducer_update(acc[i], A[i])


@T.macro
def begun_twice(acc, A):
    T.reducer_init(acc)
    T.reducer_init(acc)


@T.macro
def updated_in_order(acc, A):
    T.reducer_init(acc)
    for i in T.serial(16):
        T.reducer_update(acc[i], A[i])


@T.macro
def ended_in_a_loop(acc, A):
    T.reducer_init(acc)
    for _ in T.serial(2):
        T.finalize_reducer(acc, A)


@T.macro
def read(acc, A):
    T.reducer_init(acc)
    for i in T.Parallel(16):
        A[i] = acc[i] + 1.0


@T.macro
def assigned(acc, A):
    T.reducer_init(acc)
    for i in T.Parallel(16):
        acc[i] = A[i]


@T.macro
def copied(acc, A):
    T.reducer_init(acc)
    T.copy(acc, A)


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (updated, "E-REDUCER-EPOCH"),
        (begun_twice, "E-REDUCER-EPOCH"),
        (updated_in_order, "E-REDUCER-EPOCH"),
        (ended_in_a_loop, "E-REDUCER-EPOCH"),
        (read, "E-REDUCER-ACCESS"),
        (assigned, "E-REDUCER-ACCESS"),
        (copied, "E-OPERAND"),
    ],
)
def test_any_other_use_is_an_error(body, code):
    with pytest.raises(CompileError, match=code) as caught:
        kernel(body)()
    assert caught.value.span is not None


def test_bools_are_not_summed():
    with pytest.raises(CompileError, match="E-REDUCER-TYPE"):

        @T.prim_func
        def main(A: T.Tensor((16,), "float32")):
            with T.Kernel(1, threads=32):
                T.alloc_reducer((16,), "bool")


def test_whether_elements_hold():
    @T.prim_func
    def main(A: T.Tensor((4, 32), "int32"), B: T.Tensor((4,), "int32")):
        with T.Kernel(4, threads=32) as bx:
            held = T.alloc_shared((32,), "int32")
            T.copy(A[bx, 0], held)
            if T.any_of(held):
                B[bx] = 1
            if T.all_of(A[bx, :]):
                B[bx] = 2

    a = np.zeros((4, 32), np.int32)
    a[1, 31], a[2], a[3] = 5, 7, 1
    a[3, 0] = 0
    for way, (_, b) in everywhere(main, a, np.zeros(4, np.int32)).items():
        assert b.tolist() == [0, 1, 2, 1], way
    machine_code(main)
