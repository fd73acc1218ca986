"""Atomic updates, loads and stores: each kind and type in the interpreter, on the CPU and as CUDA."""

from __future__ import annotations

import numpy as np
import pytest

import tile_core.language as T
from integration_tests.operations.harness import everywhere, machine_code

pytestmark = [pytest.mark.layer("emulation"), pytest.mark.slow]

N = 64
NUMPY = {"add": np.add, "max": np.maximum, "min": np.minimum, "or": np.bitwise_or, "and": np.bitwise_and}
NUMPY["xor"] = np.bitwise_xor


def updates(dtype, kinds):
    """Every kind on elements of its own, in global and in shared memory, with and without the value before."""
    count = len(kinds)

    @T.prim_func
    def main(A: T.Tensor((N,), dtype), C: T.Tensor((count * 4,), dtype), S: T.Tensor((count * 4,), dtype)):
        with T.Kernel(2, threads=N // 2) as bx:
            tx = T.get_thread_binding()
            held = T.alloc_shared((count * 4,), dtype)
            if tx < count * 4:
                held[tx] = 5
            T.sync_threads()
            for k, kind in enumerate(kinds):
                update = getattr(T, f"atomic_{kind}")
                update(C[k * 4 + tx % 4], A[bx * 32 + tx])
                previous = update(held[k * 4 + tx % 4], A[tx], return_prev=True)
                update(held[k * 4 + tx % 4], previous & A[tx] if kind == "or" else T.cast(0, dtype))
            T.sync_threads()
            if bx == 0:
                if tx < count * 4:
                    S[tx] = held[tx]

    return main


INTEGERS = ["int8", "int16", "int32", "int64", "uint8", "uint32", "uint64"]


@pytest.mark.parametrize(
    "dtype", ["int32", *[pytest.param(d, marks=pytest.mark.slow) for d in INTEGERS if d != "int32"]]
)
def test_integers(dtype):
    kinds = ("add", "or", "xor")
    rng = np.random.default_rng(1)
    a = rng.integers(0, 100, N).astype(dtype)
    c = rng.integers(0, 100, 12).astype(dtype)

    def total(start, values):
        columns = np.concatenate(
            [start.reshape(3, 1, 4), np.broadcast_to(values.reshape(1, -1, 4), (3, values.size // 4, 4))], axis=1
        )
        with np.errstate(over="ignore"):
            return np.stack([NUMPY[k].reduce(columns[i]) for i, k in enumerate(kinds)]).reshape(-1).astype(dtype)

    function = updates(dtype, kinds)
    for way, (_, found, held) in everywhere(function, a, c, np.zeros(12, dtype)).items():
        assert np.array_equal(found, total(c, a)), way
        assert np.array_equal(held, total(np.full(12, 5, dtype), a[:32])), way
    machine_code(function)


def histogram(dtype, kind):
    @T.prim_func
    def main(A: T.Tensor((N,), dtype), C: T.Tensor((4,), dtype), P: T.Tensor((N,), dtype)):
        with T.Kernel(1, threads=N):
            tx = T.get_thread_binding()
            held = T.alloc_shared((4,), dtype)
            if tx < 4:
                held[tx] = C[tx]
            T.sync_threads()
            P[tx] = getattr(T, f"atomic_{kind}")(held[tx % 4], A[tx], return_prev=True)
            T.sync_threads()
            if tx < 4:
                C[tx] = held[tx]

    return main


@pytest.mark.parametrize("dtype", ["float32", pytest.param("float16", marks=pytest.mark.slow), "float64"])
@pytest.mark.parametrize("kind", ["add", "max", "min"])
def test_floats_in_shared_memory(dtype, kind):
    rng = np.random.default_rng(2)
    a, c = rng.integers(-8, 8, N).astype(dtype), rng.integers(-8, 8, 4).astype(dtype)
    wanted = NUMPY[kind].reduce(np.concatenate([c[None], a.reshape(-1, 4)]))
    function = histogram(dtype, kind)
    for way, (_, found, before) in everywhere(function, a, c, np.zeros(N, dtype)).items():
        assert np.array_equal(found, wanted), way
        if kind == "add":
            # Some order of the updates gives these values: the last of them and its value make the total.
            for column in range(4):
                own = before.reshape(-1, 4)[:, column].astype(np.float64)
                after = own + a.reshape(-1, 4)[:, column]
                assert sorted([*own.tolist(), float(wanted[column])]) == sorted([float(c[column]), *after.tolist()]), (
                    way
                )
    machine_code(function)


def test_a_queue_of_work():
    @T.prim_func
    def main(A: T.Tensor((8,), "int32"), Q: T.Tensor((1,), "int32"), Out: T.Tensor((8,), "int32")):
        with T.Kernel(3, threads=64):
            going = T.alloc_var("int32", init=1)
            while going != 0:
                turn = T.atomic_add(Q[0], 1, return_prev=True)
                if turn >= 8:
                    going = 0
                else:
                    Out[turn] = A[turn] * 2

    a = np.arange(8, dtype=np.int32)
    ways = everywhere(main, a, np.zeros(1, np.int32), np.zeros(8, np.int32), schedules=("in_order", "latest", "random"))
    for way, (_, queue, out) in ways.items():
        assert queue[0] == 8 + 3 and np.array_equal(out, a * 2), way
    assert "sync_threads" in machine_code(main)


def test_a_flag_between_blocks():
    @T.prim_func
    def main(
        A: T.Tensor((64,), "float32"),
        F: T.Tensor((1,), "int32"),
        B: T.Tensor((64,), "float32"),
        C: T.Tensor((64,), "float32"),
    ):
        with T.Kernel(2, threads=32) as bx:
            if bx == 0:
                T.copy(A, B)
                T.atomic_store(F[0], 1, "release")
            else:
                while T.atomic_load(F[0], "acquire") == 0:
                    pass
                T.copy(B, C)

    a = np.arange(64, dtype=np.float32)
    zeros = [np.zeros(64, np.float32), np.zeros(64, np.float32)]
    # The interpreter runs one block after the other, as the CPU does with one thread.
    ways = everywhere(main, a, np.zeros(1, np.int32), *zeros, schedules=("in_order", "latest", "random"))
    for way, (_, _, b, c) in ways.items():
        assert np.array_equal(b, a) and np.array_equal(c, a), way
    machine_code(main)


def neighbours(dtype):
    @T.prim_func
    def main(A: T.Tensor((2 * N,), dtype), C: T.Tensor((2 * N,), dtype), D: T.Tensor((4 * N,), dtype)):
        with T.Kernel(2, threads=N):
            for i in T.Parallel(N):
                T.atomic_addx2(C[2 * i], A[2 * i])
                T.atomic_addx4(D[4 * i : 4 * i + 4], T.Broadcast(T.cast(3, dtype), 4))

    return main


@pytest.mark.parametrize("dtype", ["float16", pytest.param("float32", marks=pytest.mark.slow)])
def test_neighbours(dtype):
    rng = np.random.default_rng(3)
    a = rng.integers(0, 9, 2 * N).astype(dtype)
    for way, (_, c, d) in everywhere(neighbours(dtype), a, np.ones(2 * N, dtype), np.zeros(4 * N, dtype)).items():
        assert np.array_equal(c, 1 + 2 * a) and (d == 6).all(), way


def test_neighbours_are_one_instruction_where_there_is_one():
    assert machine_code(neighbours("float16")).count("tile::atomic_add_vec") == 3
    assert "atomic_add_vec" not in machine_code(neighbours("float32"))
    assert machine_code(neighbours("float32"), "sm_90").count("tile::atomic_add_vec") == 2


def test_the_values_before_of_neighbours():
    @T.prim_func
    def main(A: T.Tensor((N,), "float32"), C: T.Tensor((N,), "float32"), P: T.Tensor((N,), "float32")):
        with T.Kernel(1, threads=N // 2):
            tx = T.get_thread_binding()
            P[T.Ramp(2 * tx, 1, 2)] = T.atomic_addx2(C[2 * tx], A[2 * tx], return_prev=True)

    a, c = np.arange(N, dtype=np.float32), np.arange(N, dtype=np.float32) * 3
    for way, (_, total, before) in everywhere(main, a, c, np.zeros(N, np.float32)).items():
        assert np.array_equal(total, a + c) and np.array_equal(before, c), way
    machine_code(main)


def test_a_tile_is_added_by_pairs():
    @T.prim_func
    def main(A: T.Tensor((30, 64), "float16"), C: T.Tensor((30, 64), "float16")):
        with T.Kernel(4, threads=64):
            c = T.alloc_fragment((16, 64), "float16")
            for k in T.serial(2):
                T.copy(A[k * 16, 0], c)
                T.atomic_add(C[k * 16, 0], c)

    a = np.random.default_rng(4).integers(0, 9, (30, 64)).astype(np.float16)
    for way, (_, c) in everywhere(main, a, np.zeros((30, 64), np.float16)).items():
        assert np.array_equal(c, 4 * a), way
    assert "atomic_add_vec" in machine_code(main)


def test_in_code_for_threads_each_thread_updates():
    @T.prim_func
    def main(A: T.Tensor((N,), "int32"), C: T.Tensor((2,), "int32")):
        with T.Kernel(1, threads=N):
            tx = T.get_thread_binding()
            T.atomic_add(C[0], 1)
            if A[tx] > 3:
                T.atomic_add(C[1], A[tx])

    a = np.arange(N, dtype=np.int32) % 7
    for way, (_, c) in everywhere(main, a, np.zeros(2, np.int32)).items():
        assert c.tolist() == [N, int(a[a > 3].sum())], way


def test_what_lies_outside_a_tensor_is_left_alone():
    @T.prim_func
    def main(C: T.Tensor((5,), "int32"), P: T.Tensor((N,), "int32")):
        with T.Kernel(1, threads=N):
            for i in T.Parallel(N):
                P[i] = T.atomic_add(C[i], i, return_prev=True)

    for way, (c, before) in everywhere(main, np.full(5, 9, np.int32), np.ones(N, np.int32)).items():
        assert c.tolist() == [9, 10, 11, 12, 13], way
        assert before.tolist() == [9] * 5 + [0] * (N - 5), way
