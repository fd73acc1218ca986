"""Edges between the statements of a loop: kinds, distances, rings of versions, owners; and which edges others imply."""

from __future__ import annotations

import textwrap

import pytest

from tile_core import tileop  # noqa: F401  (the parser needs the core ops)
from tile_core.analysis import UNRESOLVED, Dependence, accesses_of, dependences, owner_exclusions, reduced
from tile_core.arith import Prover
from tile_core.ir import For, parse, walk
from tile_core.ir.stmt import Stmt
from tile_core.transform.pipeline_schedule import split_body, written_buffers

HEAD = """
@T.prim_func
def main(A: T.Buffer((256, 64), T.float32), B: T.Buffer((256, 64), T.float32), I: T.Buffer((64,), T.int32)):
    with T.Kernel(4, threads=(128,)) as (bx, tx):
        s = T.alloc_buffer((64, 64), T.float32, scope="shared")
        r = T.alloc_buffer((64, 64), T.float32, scope="shared")
        acc = T.alloc_buffer((64, 64), T.float32, scope="fragment")
"""


def found(body):
    function = parse(HEAD + textwrap.indent(textwrap.dedent(body).strip("\n"), " " * 8) + "\n")
    (loop,) = [n for n in walk(function.body) if isinstance(n, For) and n.var.name == "k"]
    _, binds, statements = split_body(loop.body, written_buffers(loop.body))
    buffers = {n.buffer for n in walk(loop) if getattr(n, "buffer", None) is not None}
    shared = [b for b in buffers if b.scope == "shared"]
    return dependences(loop, statements, binds, Prover(), shared)


def edges(body):
    return {(e.source, e.target, e.kind, e.distance, e.buffer.name) for e in found(body).edges if e.source != e.target}


def test_a_tile_that_every_iteration_fills_is_a_ring():
    result = edges(
        """
        for k in T.serial(8):
            T.copy(A[k * 8:k * 8 + 8, 0:64], s[0:8, 0:64])
            T.gemm(s[0:8, 0:8], s[0:8, 0:8], acc[0:8, 0:8])
        """
    )
    assert result == {(0, 1, "flow", 0, "s"), (1, 0, "anti", UNRESOLVED, "s")}


def test_a_tile_that_is_read_before_it_is_filled_is_none():
    result = found(
        """
        for k in T.serial(8):
            T.copy(s, B[k * 8:k * 8 + 64, 0:64])
            T.copy(A[k * 8:k * 8 + 64, 0:64], s)
        """
    )
    assert not result.rings
    assert {(e.source, e.target, e.kind, e.distance) for e in result.edges if e.buffer.name == "s"} >= {
        (1, 0, "flow", 1),
        (0, 1, "anti", 0),
        (0, 1, "anti", 1),
    }


def test_a_tile_that_is_filled_only_sometimes_is_none():
    body = """
        for k in T.serial(8):
            if k % 2 == 0:
                T.copy(A[k * 8:k * 8 + 64, 0:64], s)
            T.copy(s, B[0:64, 0:64])
        """
    result = found(body)
    assert not result.rings and [a.root.name for a in result.accesses.accesses if a.reads and a.root.name == "s"]
    assert any(e.kind == "flow" and e.distance == 1 and e.buffer.name == "s" for e in result.edges)


def test_both_branches_fill_it():
    body = """
        for k in T.serial(8):
            if k % 2 == 0:
                T.copy(A[k * 8:k * 8 + 64, 0:64], s)
            else:
                T.fill(s, value=0.0)
            T.copy(s, B[0:64, 0:64])
        """
    assert {b.name for b in found(body).rings} == {"s"}


@pytest.mark.parametrize(
    ("write", "ring"),
    [
        ("for i, j in T.Parallel(64, 64):\n                s[i, j] = A[i, j]", True),
        ("for i, j in T.Parallel(64, 63):\n                s[i, j] = A[i, j]", False),
        ("for i in T.Parallel(64):\n                s[i, i] = A[i, i]", False),
        ("for i, j in T.Parallel(32, 64):\n                s[i * 2, j] = A[i, j]", False),
        ("for i in T.serial(8):\n                T.copy(A[i * 8:i * 8 + 8, 0:64], s[i * 8:i * 8 + 8, 0:64])", True),
        ("for i in T.Parallel(64):\n                s[I[i], 0] = A[i, 0]", False),
    ],
)
def test_loops_inside_a_statement_are_taken_together(write, ring):
    body = f"""
        for k in T.serial(8):
            {write}
            T.copy(s, B[0:64, 0:64])
        """
    assert bool(found(body).rings) == ring


def test_two_halves_make_a_whole_and_do_not_meet():
    result = edges(
        """
        for k in T.serial(8):
            T.copy(A[0:32, 0:64], s[0:32, 0:64])
            T.copy(A[32:64, 0:64], s[32:64, 0:64])
            T.copy(s, B[0:64, 0:64])
        """
    )
    assert not any({e[0], e[1]} == {0, 1} for e in result)
    assert {(0, 2, "flow", 0, "s"), (2, 0, "anti", UNRESOLVED, "s"), (2, 1, "anti", UNRESOLVED, "s")} <= result


@pytest.mark.parametrize(("back", "distance"), [(0, 0), (1, 1), (3, 3), (20, 17)])
def test_the_distance_is_that_of_the_indices(back, distance):
    result = edges(
        f"""
        for k in T.serial(200, min=20):
            T.copy(B[k:k + 1, 0:64], s[0:1, 0:64])
            T.copy(s[0:1, 0:64], A[k:k + 1, 0:64])
            T.copy(A[k - {back}:k - {back} + 1, 0:64], r[0:1, 0:64])
        """
    )
    flows = {(e[0], e[1], e[3]) for e in result if e[2] == "flow" and e[4] == "A"}
    assert flows == {(1, 2, distance)}


def test_what_lies_ahead_is_never_met():
    result = edges(
        """
        for k in T.serial(100):
            T.copy(A[k + 1, 0:64], s[0:1, 0:64])
            T.copy(s[0:1, 0:64], A[k:k + 1, 0:64])
        """
    )
    assert {e[:4] for e in result if e[4] == "A"} == {(0, 1, "anti", 1)}


def test_an_unknown_index_is_a_dependence():
    result = edges(
        """
        for k in T.serial(100):
            T.copy(A[I[k], 0:64], s[0:1, 0:64])
            T.copy(s[0:1, 0:64], A[k:k + 1, 0:64])
        """
    )
    assert {(1, 0, "flow", 1, "A"), (0, 1, "anti", 0, "A")} <= result


def test_a_modulus_keeps_slots_apart():
    result = found(
        """
        for k in T.serial(100):
            T.copy(A[k:k + 1, 0:64], s[k % 4, 0:64])
            T.copy(s[k % 4, 0:64], B[k:k + 1, 0:64])
        """
    )
    (anti,) = [e for e in result.edges if e.kind == "anti" and e.buffer.name == "s"]
    assert anti.distance == UNRESOLVED and anti.least == 4
    assert anti.resolved(2) == 4 and anti.resolved(5) == 5


def test_a_value_that_the_loops_data_decide_is_an_edge():
    result = found(
        """
        for k in T.serial(8):
            T.copy(A[k, 0:64], r[0, 0:64])
            row: T.float32 = r[0, 0]
            T.copy(A[0:64, 0:64], s)
            T.copy(s[0:1, 0:64], B[T.cast(row, T.int32), 0:64])
        """
    )
    assert [(e.source, e.target) for e in result.edges if e.kind == "value"] == [(1, 3)]


def test_loops_that_take_turns_at_a_tile_exclude_each_other():
    function = parse(
        HEAD
        + """
        for k in T.serial(8):
            T.copy(A[0:64, 0:64], s)
            T.copy(s, B[0:64, 0:64])
        for m in T.serial(8):
            T.copy(A[0:64, 0:64], s)
            T.copy(s, B[0:64, 0:64])
        for n in T.serial(8):
            T.copy(A[0:64, 0:64], r)
"""
    )
    loops = [n for n in walk(function.body) if isinstance(n, For)]
    sites = [
        [site for stmt in walk(loop) if isinstance(stmt, Stmt) for site in accesses_of(stmt) if site.buffer.is_on_chip]
        for loop in loops
    ]
    (edge,) = owner_exclusions(sites)
    assert (edge.source, edge.target, edge.kind, edge.buffer.name) == (0, 1, "exclusion", "s")
    assert edge.first.reads and edge.second.writes


def test_edges_that_others_imply_are_left_out():
    def edge(source, target, distance):
        return Dependence(source, target, "flow", distance)

    straight = [edge(0, 1, 0), edge(1, 2, 0), edge(0, 2, 0), edge(0, 2, 1), edge(2, 0, 3), edge(1, 0, 3), edge(0, 0, 3)]
    kept = {(e.source, e.target, e.distance) for e in reduced(straight, 3, {})}
    assert kept == {(0, 1, 0), (1, 2, 0), (2, 0, 3)}
