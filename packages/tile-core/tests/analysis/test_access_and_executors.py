"""Accesses, executors and dependence: read from declared effects."""

from __future__ import annotations

import textwrap

import pytest

from tile_core import tileop  # noqa: F401  (the parser needs the core ops)
from tile_core.analysis import accesses_of, boxes_apart, covered_box, executors_of
from tile_core.arith import Interval, Prover
from tile_core.ir import BufferStore, Evaluate, For, TileOpStmt, parse, walk

HEAD = """
@T.prim_func
def main(A: T.Buffer((64, 64), T.float32), I: T.Buffer((64,), T.int32), n: T.int32):
    with T.Kernel(4, threads=(128,)) as (bx, tx):
        s = T.alloc_buffer((64, 64), T.float32, scope="shared")
        acc = T.alloc_buffer((64, 64), T.float32, scope="fragment")
"""


def function_of(body):
    return parse(HEAD + textwrap.indent(textwrap.dedent(body).strip("\n"), " " * 8) + "\n")


def statements(function, kind):
    return [n for n in walk(function.body) if isinstance(n, kind)]


def described(stmt):
    return [(site.kind, repr(site.region), site.atomic) for site in accesses_of(stmt)]


def test_a_store_reads_before_it_writes():
    store = statements(function_of("s[tx, I[bx]] = s[0, tx] + A[0, 1]"), BufferStore)[0]
    kinds = [(site.kind, site.buffer.name) for site in accesses_of(store)]
    assert kinds[-1] == ("write", "s") and sorted(kinds[:-1]) == [("read", "A"), ("read", "I"), ("read", "s")]


def test_tile_ops_tell_their_effects():
    ops = statements(
        function_of(
            """
            T.copy(A, s)
            T.gemm(s, s, acc)
            T.gemm(s, s, acc, clear_accum=True)
            T.atomic_update(A[0:1, 0:1], 1.0)
            """
        ),
        TileOpStmt,
    )
    assert [(s.kind, s.buffer.name) for s in accesses_of(ops[0])] == [("read", "A"), ("write", "s")]
    gemm = [(s.kind, s.buffer.name) for s in accesses_of(ops[1])]
    assert ("read", "acc") in gemm and gemm[-1] == ("write", "acc")
    assert ("read", "acc") not in [(s.kind, s.buffer.name) for s in accesses_of(ops[2])]
    assert [(s.kind, s.atomic) for s in accesses_of(ops[3])] == [("accumulate", True)]


def test_pointers_tell_their_mode():
    calls = statements(
        function_of(
            """
            T.call_extern("f", T.access_ptr(s[0, 0], "r", 64), dtype=T.void)
            T.call_extern("f", T.access_ptr(s[1, 2], "w", 1), dtype=T.void)
            T.call_extern("f", T.access_ptr(s[0, 0], "rw", 64), dtype=T.void)
            """
        ),
        Evaluate,
    )
    kinds = [[(s.kind, s.exact) for s in accesses_of(call)] for call in calls]
    assert kinds == [[("read", False)], [("write", True)], [("read", False), ("write", False)]]
    assert "s[1" in repr(accesses_of(calls[1])[0].region)


def test_a_vector_is_a_box_of_its_lanes():
    store = statements(function_of("s[bx, T.ramp(tx, 1, 4)] = T.broadcast(1.0, 4)"), BufferStore)[0]
    site = accesses_of(store)[0]
    assert site.exact and site.region.static_extents() == (1, 4)
    strided = statements(function_of("s[bx, T.ramp(tx, 3, 4)] = T.broadcast(1.0, 4)"), BufferStore)[0]
    site = accesses_of(strided)[0]
    assert not site.exact and site.region.static_extents() == (1, 10)


CONDITIONS = [
    ("tx < 32", (0, 32, False)),
    ("tx >= 96", (96, 32, False)),
    ("tx >= 32 and tx < 64", (32, 32, False)),
    ("tx == 5", (5, 1, False)),
    ("tx // 32 == 1", None),
    ("tx < n", None),
    ("bx < 2", (0, None, False)),
    ("n > 3", (0, None, False)),
    ("tx < 32 and I[tx] > 0", None),
]


@pytest.mark.parametrize(("condition", "expected"), CONDITIONS)
def test_conditions_narrow_the_executors(condition, expected):
    function = function_of(f"if {condition}:\n    s[0, tx] = 1.0\ns[1, tx] = 2.0")
    inside, after = statements(function, BufferStore)
    found = executors_of(function)
    assert found.uniform(after)
    who = found[inside]
    if expected is not None:
        assert (who.first, who.count, who.predicate is not None) == expected
    else:
        assert who.predicate is not None and not found.uniform(inside)


def test_the_other_branch_has_the_others():
    function = function_of("if tx < 32:\n    s[0, tx] = 1.0\nelse:\n    s[1, tx] = 2.0")
    first, second = statements(function, BufferStore)
    found = executors_of(function)
    assert (found[first].first, found[first].count) == (0, 32)
    assert (found[second].first, found[second].count) == (32, 96)


def test_a_name_computed_from_the_thread_differs_between_threads():
    function = function_of("w: T.int32 = tx // 32\nif w == 1:\n    s[0, tx] = 1.0")
    (store,) = statements(function, BufferStore)
    assert not executors_of(function).uniform(store)


def test_statements_outside_a_kernel_are_the_hosts():
    function = function_of("s[0, tx] = 1.0")
    assert executors_of(function)[function.body].kind == "host"


def test_boxes_over_all_iterations():
    function = function_of(
        """
        for i in T.serial(16):
            s[i, 0] = 1.0
            s[i + 16, 0] = s[i + 20, 0]
        """
    )
    (loop,) = statements(function, For)
    first, second = statements(function, BufferStore)
    prover = Prover(solver=False)
    with prover.bind(loop.var, loop.min, loop.extent):
        low, high, read = accesses_of(first)[0], accesses_of(second)[1], accesses_of(second)[0]
        assert covered_box(low, prover).axes == (Interval(0, 15), Interval(0, 0))
        assert boxes_apart(low, high, prover)
        assert not boxes_apart(high, read, prover)
