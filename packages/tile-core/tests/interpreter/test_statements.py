"""Statements: loops, conditions, threads, memory."""

import numpy as np
import pytest

import tile_core.language as T
from tile_core.dtypes import DType
from tile_core.frontend import from_source
from tile_core.interpreter import ExecutionFault, interpret
from tile_core.ir.parser import parse
from tile_core.testing.carriers import unpack_nibbles


def run(body, *args, params="A: T.Buffer((64,), T.float32)", **options):
    lines = "\n".join("    " + line for line in body.strip("\n").splitlines())
    indent = min(len(line) - len(line.lstrip()) for line in lines.splitlines() if line.strip())
    text = "\n".join("    " + line[indent:] for line in lines.splitlines())
    interpret(parse(f"@T.prim_func\ndef f({params}):\n{text}\n"), *args, **options)


def zeros(*shape, dtype="float32"):
    return np.zeros(shape, dtype)


@pytest.fixture(params=[True, False], ids=["batch", "in-order"])
def batch(request):
    return request.param


def test_a_loop_that_carries_a_value_runs_in_order(batch):
    a = np.arange(64, dtype="float32")
    run("for i in T.serial(63):\n    A[i + 1] = A[i] + A[i + 1]", a, batch=batch)
    assert np.array_equal(a, np.cumsum(np.arange(64)))


def test_writes_to_one_element_keep_the_last(batch):
    a = zeros(64)
    run("for i in T.serial(64):\n    A[i % 7] = i * 1.0", a, batch=batch)
    assert a[:8].tolist() == [63, 57, 58, 59, 60, 61, 62, 0]


def test_a_scatter_without_collisions_equals_its_batch(batch):
    a, where = zeros(64), np.random.default_rng(0).permutation(64).astype("int32")
    run(
        "for i in T.Parallel(64):\n    A[P[i]] = i * 2.0",
        a,
        where,
        params="A: T.Buffer((64,), T.float32), P: T.Buffer((64,), T.int32)",
        batch=batch,
    )
    assert np.array_equal(a[where], np.arange(64) * 2)


def test_a_reduction_over_an_inner_loop(batch):
    a, b = np.random.default_rng(0).standard_normal((8, 16)).astype("float32"), zeros(8)
    run(
        "for i in T.serial(8):\n    for k in T.serial(16):\n        B[i] = B[i] + A[i, k]",
        a,
        b,
        params="A: T.Buffer((8, 16), T.float32), B: T.Buffer((8,), T.float32)",
        batch=batch,
    )
    expected = np.zeros(8, "float32")
    for k in range(16):
        expected = expected + a[:, k]
    assert np.array_equal(b, expected)


def test_conditions_that_differ_between_iterations(batch):
    a = zeros(64)
    run(
        """
        for i in T.Parallel(64):
            if i % 3 == 0:
                A[i] = 1.0
            else:
                if i > 50:
                    A[i] = 2.0
        """,
        a,
        batch=batch,
    )
    i = np.arange(64)
    assert np.array_equal(a, np.where(i % 3 == 0, 1, np.where(i > 50, 2, 0)))


def test_break_and_continue_of_inner_loops(batch):
    a = zeros(64)
    run(
        """
        for i in T.serial(64):
            for k in T.serial(10):
                if k > i:
                    break
                if k % 2 == 1:
                    continue
                A[i] = A[i] + 1.0
        """,
        a,
        batch=batch,
    )
    assert a.tolist() == [min(i, 9) // 2 + 1 for i in range(64)]


def test_while_loops_end_for_each_iteration_on_its_own(batch):
    a = np.arange(64, dtype="float32")
    run("for i in T.serial(64):\n    while A[i] > 5.0:\n        A[i] = A[i] - 5.0", a, batch=batch)
    assert a.tolist() == [i if i <= 5 else (i - 1) % 5 + 1 for i in range(64)]


def test_a_while_loop_without_end_is_a_fault():
    with pytest.raises(ExecutionFault, match="did not end within 100 iterations"):
        run("while A[0] == 0.0:\n    A[1] = 1.0", zeros(64), limit=100)


def test_memory_of_a_loop_body_is_each_iterations_own(batch):
    a = zeros(64)
    run(
        """
        for i in T.Parallel(64):
            t = T.alloc_buffer((2,), T.float32, scope="local")
            t[0] = i * 1.0
            t[1] = t[0] * 2.0
            A[i] = t[0] + t[1]
        """,
        a,
        batch=batch,
    )
    assert np.array_equal(a, np.arange(64) * 3)


def test_lengths_of_inner_loops_may_depend_on_outer_ones(batch):
    a = zeros(8, 8)
    run(
        "for i in T.serial(8):\n    for j in T.serial(i):\n        A[i, j] = 1.0",
        a,
        params="A: T.Buffer((8, 8), T.float32)",
        batch=batch,
    )
    assert np.array_equal(a, np.tril(np.ones((8, 8)), -1))


def test_integers_wrap(batch):
    a = np.full(8, 100, "int8")
    run("for i in T.serial(8):\n    A[i] = A[i] + A[i]", a, params="A: T.Buffer((8,), T.int8)", batch=batch)
    assert a.tolist() == [-56] * 8


def test_floats_round_after_each_operation(batch):
    a = np.full(8, 2048, "float16")
    run(
        "for i in T.serial(8):\n    A[i] = A[i] + T.float16(1.0) + T.float16(1.0)",
        a,
        params="A: T.Buffer((8,), T.float16)",
        batch=batch,
    )
    assert a.tolist() == [2048] * 8


def test_a_read_outside_a_global_tensor_gives_zero_and_a_write_is_dropped(batch):
    a, b = np.ones(64, "float32"), zeros(70)
    run(
        "for i in T.Parallel(70):\n    B[i] = A[i]\n    A[i + 3] = 5.0",
        a,
        b,
        params="A: T.Buffer((64,), T.float32), B: T.Buffer((70,), T.float32)",
        batch=batch,
    )
    assert b[64:].tolist() == [0] * 6
    assert a[3:].tolist() == [5.0] * 61


def test_a_dropped_store_does_not_evaluate_its_value(batch):
    a = np.ones(64, "int32")
    params = "A: T.Buffer((64,), T.int32)"
    run("for i in T.Parallel(70):\n    A[i] = 6 // A[i]", a, params=params, batch=batch)
    assert (a == 6).all()


def test_strict_runs_refuse_accesses_outside():
    with pytest.raises(ExecutionFault, match=r"write of A\[64\], outside its shape \[64\]"):
        run("for i in T.serial(65):\n    A[i] = 1.0", zeros(64), strict=True)


def test_a_read_outside_on_chip_memory_is_a_fault():
    with pytest.raises(ExecutionFault, match=r"read of t\[4\], outside its shape \[4\]") as fault:
        run('t = T.alloc_buffer((4,), T.float32, scope="shared")\nA[0] = t[4]', zeros(64))
    assert fault.value.code == "E-RUN-BOUNDS"


def test_a_read_of_unwritten_memory_is_found():
    body = 't = T.alloc_buffer((4,), T.float32, scope="shared")\nt[0] = 1.0\nA[0] = t[0]\nA[1] = t[1]'
    a = zeros(64)
    run(body, a)
    assert np.isnan(a[1])
    with pytest.raises(ExecutionFault, match="read of t, which nobody wrote there") as fault:
        run(body, a, check_written=True)
    assert fault.value.code == "E-RUN-UNWRITTEN"
    assert fault.value.span.line == 6


def test_a_fault_that_only_a_batch_would_show_is_none():
    # Iteration 1 divides by what iteration 0 has stored.
    a = np.zeros(65, "int32")
    a[0] = 1
    run(
        "for i in T.serial(64):\n    A[i + 1] = 8 // A[i]",
        a,
        params="A: T.Buffer((65,), T.int32)",
    )
    assert a.tolist() == [1, 8] * 32 + [1]


def test_division_by_zero_is_a_fault_only_where_it_happens():
    body = "for i in T.Parallel(8):\n    if i != 3:\n        A[i] = 12 // (i - 3)"
    a = np.zeros(8, "int32")
    run(body, a, params="A: T.Buffer((8,), T.int32)")
    assert a.tolist() == [-4, -6, -12, 0, 12, 6, 4, 3]
    with pytest.raises(ExecutionFault, match="integer division by zero"):
        run(body.replace("i != 3", "i != 4"), a, params="A: T.Buffer((8,), T.int32)")


def test_a_failed_assertion_says_its_message():
    with pytest.raises(ExecutionFault, match="assertion failed: too small"):
        run('assert A[0] > 1.0, "too small"', zeros(64))


# Threads


def kernel(body, threads=64):
    inner = "\n".join("        " + line for line in body.strip("\n").splitlines())
    return f"with T.Kernel(1, threads=({threads},)) as (bx, tx):\n" + inner.replace("        ", "    ", 1).replace(
        "\n        ", "\n    "
    )


def test_threads_meet_at_barriers():
    a = np.arange(64, dtype="float32")
    run(
        kernel(
            """
s = T.alloc_buffer((64,), T.float32, scope="shared")
s[tx] = A[tx]
T.sync_threads()
A[tx] = s[63 - tx]
"""
        ),
        a,
    )
    assert np.array_equal(a, np.arange(64)[::-1])


def test_local_memory_is_each_threads_own():
    a = zeros(64)
    run(
        kernel(
            """
x = T.alloc_buffer((1,), T.float32, scope="local")
x[0] = tx * 1.0
for i in T.serial(3):
    x[0] = x[0] + 1.0
A[tx] = x[0]
"""
        ),
        a,
    )
    assert np.array_equal(a, np.arange(64) + 3)


def test_a_tree_reduction_over_threads():
    a = np.arange(64, dtype="float32")
    run(
        kernel(
            """
s = T.alloc_buffer((64,), T.float32, scope="shared")
s[tx] = A[tx]
T.sync_threads()
for i in T.serial(6):
    if tx < T.truncdiv(32, 1 << i):
        s[tx] = s[tx] + s[tx + T.truncdiv(32, 1 << i)]
    T.sync_threads()
if tx == 0:
    A[0] = s[0]
"""
        ),
        a,
    )
    assert a[0] == 63 * 32


def test_a_barrier_that_some_threads_miss_is_a_fault():
    with pytest.raises(ExecutionFault, match="not all threads of the block reach this barrier") as fault:
        run(kernel("if tx < 32:\n    T.sync_threads()"), zeros(64))
    assert fault.value.facts == ("32 of 64 threads do, the first of them thread 0",)


def test_threads_may_return_early():
    a = zeros(64)
    run(kernel("if tx >= 10:\n    return\nA[tx] = 1.0"), a)
    assert a.sum() == 10


def test_tile_ops_run_once_for_all_threads():
    a = np.ones(64, "float32")
    run(
        kernel(
            """
s = T.alloc_buffer((64,), T.float32, scope="shared")
T.copy(A, s)
T.sync_threads()
s[tx] = s[tx] + tx
T.sync_threads()
T.atomic_update(A, s)
"""
        ),
        a,
    )
    assert np.array_equal(a, np.arange(64) + 2)


def test_an_update_at_each_threads_own_place_runs_once_a_thread():
    a = zeros(64)
    run(kernel("if tx < 40:\n    T.atomic_update(A[tx % 8 : tx % 8 + 1], tx * 1.0)"), a)
    assert a[:9].tolist() == [*(sum(range(i, 40, 8)) for i in range(8)), 0]


# Vectors


def test_vectors_load_compute_and_store():
    a = np.arange(64, dtype="float32")
    run("for i in T.serial(16):\n    A[T.ramp(i * 4, 1, 4)] = A[T.ramp(i * 4, 1, 4)] * T.broadcast(2.0, 4)", a)
    assert np.array_equal(a, np.arange(64) * 2)


def test_predicated_lanes_are_not_touched():
    a = np.arange(64, dtype="float32")
    b = zeros(64)
    run(
        """
        for i in T.serial(16):
            T.store(
                B[T.ramp(i * 4, 1, 4)],
                T.load(A[T.ramp(i * 4, 1, 4)], predicate=T.ramp(i * 4, 1, 4) < T.broadcast(61, 4)),
                predicate=T.ramp(i * 4, 1, 4) >= T.broadcast(2, 4),
            )
        """,
        a,
        b,
        params="A: T.Buffer((64,), T.float32), B: T.Buffer((64,), T.float32)",
        strict=True,
    )
    i = np.arange(64)
    assert np.array_equal(b, np.where((i < 61) & (i >= 2), i, 0))


def test_lanes_can_be_shuffled():
    a = np.arange(64, dtype="float32")
    run("A[T.ramp(0, 1, 4)] = T.shuffle((A[T.ramp(0, 1, 4)], A[T.ramp(4, 1, 4)]), (7, 0, 2, 5))", a)
    assert a[:4].tolist() == [7, 0, 2, 5]


# Arguments


def test_shape_variables_come_from_the_arguments():
    a, b = np.ones((3, 5), "float32"), zeros(3, 5)
    text = """
@T.prim_func
def f(A: T.Buffer((m, n), T.float32), B: T.Buffer((m, n), T.float32)):
    m = T.size_var(T.int32)
    n = T.size_var(T.int32)
    for i in T.serial(m):
        for j in T.serial(n):
            B[i, j] = A[i, j] * n
"""
    interpret(parse(text), a, b)
    assert (b == 5).all()
    with pytest.raises(ExecutionFault, match=r"B needs shape \[3, 5\], found \[3, 4\]"):
        interpret(parse(text), a, zeros(3, 4))


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ((), "f takes 1 arguments, found 0"),
        ((np.zeros(64),), "A needs a numpy array of float32, found float64 array"),
        ((None,), "A needs a numpy array of float32, found NoneType"),
        ((np.zeros(128, "float32")[::2],), r"A needs strides \[1\], found \[2\]"),
    ],
)
def test_arguments_that_do_not_fit(args, message):
    with pytest.raises(ExecutionFault, match=message):
        run("A[0] = 1.0", *args)


@pytest.mark.parametrize(
    ("held", "seen"), [("uint8", "int4"), ("int8", "int32"), ("int32", "int16"), ("int4", "uint8")]
)
def test_what_a_view_writes_counts_as_written(held, seen):
    count = 64 * DType(held).bits // DType(seen).bits
    main = from_source(
        f"""@T.prim_func
def main(Z: T.Tensor(({count},), "{seen}")):
    with T.Kernel(1, threads=32):
        tile = T.alloc_shared((64,), "{held}")
        other = T.view(tile, ({count},), "{seen}")
        for i in T.Parallel({count}):
            other[i] = T.cast(i % 5, "{seen}")
        for i in T.Parallel(64):
            tile[i] = tile[i] | T.cast(0, "{held}")
        T.copy(other, Z)
""",
        {"T": T},
    )
    result = np.zeros(count // 2 if seen == "int4" else count, "uint8" if seen == "int4" else seen)
    interpret(main, result, check_written=True)
    found = unpack_nibbles(result, DType("int4")) if seen == "int4" else result
    assert found.tolist() == [i % 5 for i in range(count)]
