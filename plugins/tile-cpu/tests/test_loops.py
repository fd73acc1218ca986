"""Parallel loops on the CPU: which are fused, which axis becomes vectors, and that every step computes the same."""

import pytest

from tile_core.ir import BufferStore, Call, For, If, Ramp, walk

SOFTMAX = """
    @T.prim_func
    def main(X: T.Buffer((M, 40), T.float32), Y: T.Buffer((M, 40), T.float32)):
        M = T.size_var(T.int32)
        with T.Kernel((M + 3) // 4) as bx:
            x = T.alloc_buffer((4, 40), T.float32, scope="fragment")
            largest = T.alloc_buffer((4,), T.float32, scope="fragment")
            total = T.alloc_buffer((4,), T.float32, scope="fragment")
            T.copy(X[bx * 4:bx * 4 + 4, 0:40], x)
            T.reduce(x, largest, kind="max", axis=1)
            for i, j in T.Parallel(4, 40):
                x[i, j] = T.exp(x[i, j] - largest[i])
            T.reduce(x, total, kind="sum", axis=1)
            for i, j in T.Parallel(4, 40):
                x[i, j] = x[i, j] / total[i]
            T.copy(x, Y[bx * 4:bx * 4 + 4, 0:40])
"""


def parallel_roots(function):
    """The parallel nests of a function, by the names of their loops."""
    found, inside = [], set()
    for node in walk(function.body):
        if isinstance(node, For) and node.kind == "parallel" and node not in inside:
            chain = [node]
            while isinstance(chain[-1].body, For):
                chain.append(chain[-1].body)
            inside.update(n for n in walk(node.body) if isinstance(n, For))
            found.append("".join(loop.var.name for loop in chain))
    return found


@pytest.mark.parametrize("rows", [1, 4, 7])
def test_softmax_computes_the_same_after_each_step(lowered, rows):
    lowered(SOFTMAX).check({"M": rows})


def test_a_row_goes_through_all_steps_before_the_next(lowered):
    assert len(parallel_roots(lowered(SOFTMAX).after["FuseParallelLoops"])) == 1


def test_the_version_for_whole_tiles_asks_nothing(lowered):
    [switch] = [n for n in walk(lowered(SOFTMAX).after["LoopUnswitching"].body) if isinstance(n, If) and n.else_body]
    assert not any(isinstance(n, If) for n in walk(switch.then_body))


def kernel(body, params="A: T.Buffer((16, 24), T.float32), B: T.Buffer((16, 24), T.float32)"):
    import textwrap

    inside = textwrap.indent(textwrap.dedent(body).strip(), "        ")
    return f"@T.prim_func\ndef main({params}):\n    with T.Kernel(1) as bx:\n{inside}\n"


@pytest.mark.parametrize(
    ("second", "nests"),
    [
        ("B[i, j] = A[i, j] + 1.0", 1),
        ("B[i, j] = A[15 - i, j]", 2),
        ("B[i, j] = A[i, 23 - j]", 1),
        ("B[i, j] = A[i, 0] + A[i, 3]", 1),
        ("B[i, j] = A[0, j]", 2),
    ],
    ids=["same element", "other row", "same row", "elements of a row", "one row for all"],
)
def test_nests_fuse_as_deep_as_their_elements_allow(lowered, second, nests):
    text = kernel(
        f"for i, j in T.Parallel(16, 24):\n    A[i, j] = A[i, j] * 2.0\nfor i, j in T.Parallel(16, 24):\n    {second}"
    )
    result = lowered(text)
    assert len(parallel_roots(result.after["FuseParallelLoops"])) == nests
    result.check()


def test_different_extents_do_not_fuse(lowered):
    text = kernel(
        "for i, j in T.Parallel(16, 24):\n    A[i, j] = 1.0\nfor i, j in T.Parallel(15, 24):\n    B[i, j] = A[i, j]"
    )
    result = lowered(text)
    assert len(parallel_roots(result.after["FuseParallelLoops"])) == 2
    result.check()


def vector_axis(function):
    return {n.var.name for n in walk(function.body) if isinstance(n, For) and n.kind == "vectorized"}


@pytest.mark.parametrize(
    ("statement", "axis"),
    [
        ("A[i, j] = B[i, j] + 1.0", {"j"}),
        ("A[j % 16, i] = B[j % 16, i]", {"i"}),
        ("A[i, j] = B[j % 16, i]", {"j"}),
        ("A[i, 23 - j] = 1.0", set()),
    ],
    ids=["last axis", "first axis", "stores before loads", "backwards"],
)
def test_the_contiguous_axis_becomes_the_vector(lowered, statement, axis):
    result = lowered(kernel(f"for i, j in T.Parallel(16, 16):\n    {statement}"))
    assert vector_axis(result.after["LowerParallelLoops"]) == axis
    result.check()


@pytest.mark.parametrize(
    "dtype", ["bool", "int8", "uint8", "int16", "int32", "int64", "float16", "bfloat16", "float64"]
)
def test_copies_of_every_type(lowered, dtype):
    text = f"""
        @T.prim_func
        def main(A: T.Buffer((M, 37), T.{dtype}), B: T.Buffer((M, 37), T.{dtype})):
            M = T.size_var(T.int32)
            with T.Kernel((M + 7) // 8) as bx:
                S = T.alloc_buffer((8, 64), T.{dtype}, scope="shared")
                T.copy(A[bx * 8:bx * 8 + 8, 0:64], S)
                T.copy(S, B[bx * 8:bx * 8 + 8, 0:64])
    """
    result = lowered(text)
    result.check({"M": 13})
    stores = [n for n in walk(result.after["VectorizeLoop"].body) if isinstance(n, BufferStore)]
    assert all(isinstance(s.indices[0], Ramp) for s in stores)


@pytest.mark.parametrize("kind", ["sum", "max", "min", "abssum", "absmax"])
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("clear", [True, False])
@pytest.mark.parametrize("dtype", ["float32", "float16", "int32"])
def test_reductions(lowered, kind, axis, clear, dtype):
    size = (6, 21)[1 - axis]
    text = f"""
        @T.prim_func
        def main(A: T.Buffer((6, 21), T.{dtype}), B: T.Buffer(({size},), T.{dtype})):
            with T.Kernel(1) as bx:
                S = T.alloc_buffer((6, 21), T.{dtype}, scope="shared")
                R = T.alloc_buffer(({size},), T.{dtype}, scope="fragment")
                T.copy(A, S)
                T.copy(B, R)
                T.reduce(S, R, kind="{kind}", axis={axis}, clear={clear})
                T.copy(R, B)
    """
    result = lowered(text)
    result.check(atol=2e-2 if dtype == "float16" else 1e-5)
    row = axis == 1 and dtype != "float16"
    assert ("reduce", "row_reduce" if row else "loops") in result.taken


@pytest.mark.parametrize("kind", ["sum", "max"])
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("reverse", [False, True])
def test_scans(lowered, kind, axis, reverse):
    text = f"""
        @T.prim_func
        def main(A: T.Buffer((6, 21), T.float32)):
            with T.Kernel(1) as bx:
                S = T.alloc_buffer((6, 21), T.float32, scope="shared")
                T.copy(A, S)
                T.scan(S, S, kind="{kind}", axis={axis}, reverse={reverse})
                T.copy(S, A)
    """
    lowered(text).check()


def test_atomic_updates(lowered):
    text = """
        @T.prim_func
        def main(A: T.Buffer((M,), T.float32), B: T.Buffer((8,), T.float32)):
            M = T.size_var(T.int32)
            with T.Kernel((M + 7) // 8) as bx:
                S = T.alloc_buffer((8,), T.float32, scope="shared")
                T.copy(A[bx * 8:bx * 8 + 8], S)
                T.atomic_update(B, S, kind="add")
    """
    lowered(text).check({"M": 29})


def test_user_thread_code(lowered):
    text = """
        @T.prim_func
        def main(A: T.Buffer((M,), T.float32)):
            M = T.size_var(T.int32)
            with T.Kernel((M + 63) // 64, threads=(64,)) as (bx, tx):
                S = T.alloc_buffer((64,), T.float32, scope="shared")
                S[tx] = T.if_then_else(bx * 64 + tx < M, A[bx * 64 + tx], 0.0)
                T.sync_threads()
                x: T.float32 = S[63 - tx] + S[0]
                if bx * 64 + tx < M:
                    A[bx * 64 + tx] = x
    """
    lowered(text).check({"M": 150})


def test_the_next_row_is_asked_for_while_this_one_is_computed(lowered):
    text = SOFTMAX.replace("40", "64")
    result = lowered(text)
    calls = [n for n in walk(result.after["PrefetchNextRows"].body) if isinstance(n, Call) and n.op == "cpu.prefetch"]
    versions = 2  # for whole tiles and for the edge
    assert [(c.args[0].buffer.name, c.args[1].value) for c in calls] == [("X", 0), ("Y", 1)] * versions
    assert "T.cast(i + 1, T.int64) * 64" in repr(calls[0].args[0].indices[0])
    result.check({"M": 6})


def test_a_loop_that_only_multiplies_asks_for_rows_too(lowered):
    text = SOFTMAX.replace("40", "64").replace("T.exp(x[i, j] - largest[i])", "x[i, j] * largest[i]")
    assert "T.exp" not in text
    calls = [n for n in walk(lowered(text).after["PrefetchNextRows"].body) if isinstance(n, Call)]
    assert {c.args[0].buffer.name for c in calls if c.op == "cpu.prefetch"} == {"X", "Y"}


def test_short_rows_are_not_prefetched(lowered):
    calls = [n for n in walk(lowered(SOFTMAX).after["PrefetchNextRows"].body) if isinstance(n, Call)]
    assert not any(c.op == "cpu.prefetch" for c in calls)
