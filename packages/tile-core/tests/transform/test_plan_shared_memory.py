"""One arena for all shared tiles: who may lie on whose bytes, and what is said when it does not fit."""

from __future__ import annotations

import itertools
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tile_core.dtypes import DType
from tile_core.errors import CompileError
from tile_core.ir import (
    Attr,
    Block,
    Buffer,
    BufferLoad,
    BufferStore,
    For,
    IRModule,
    KernelLaunch,
    PrimFunc,
    Var,
    as_shape,
    const,
    seq,
    walk,
)
from tile_core.target import Target
from tile_core.transform import PassContext
from tile_core.transform.options import Options
from tile_core.transform.plan_shared_memory import ORDERS, Placement, PlanSharedMemory, place

KIB = 1024


def tile(name, kib):
    return Buffer(name, as_shape((kib * KIB // 2,)), DType("float16"), "shared")


def touch(buffer):
    return BufferStore(buffer, const(0.0, "float16"), (const(0, "int32"),))


def plan(body, tiles, capacity=None, **options):
    g = Buffer("g", as_shape((1,)), DType("float16"))
    launch = KernelLaunch(
        (Var("bx"),), (const(1, "int32"),), (Var("tx"),), (const(32, "int32"),), Block(tuple(tiles), body)
    )
    context = PassContext(Target("none"), Options(options))
    module = PlanSharedMemory(capacity).apply(IRModule((PrimFunc("main", (g,), launch),)), context)
    (report,) = context.reports["shared_memory"]
    placed, total = report.placed, report.total
    return module["main"], {p.buffer.name: p.offset // KIB for p in placed}, total / KIB


def test_a_tile_of_the_epilogue_lies_where_the_loops_tiles_were():
    # 128×128×64 halves at depth 2: A and B 32 KiB each in the loop, C 32 KiB after it.
    a, b, c = tile("A_shared", 32), tile("B_shared", 32), tile("C_shared", 32)
    loop = For(Var("k"), const(0, "int32"), const(8, "int32"), "serial", seq(touch(a), touch(b)))
    _, offsets, total = plan(seq(loop, touch(c)), [a, b, c])
    assert (offsets, total) == ({"A_shared": 0, "B_shared": 32, "C_shared": 0}, 64)
    _, _, apart = plan(seq(loop, touch(c)), [a, b, c], **{"tl.disable_shared_memory_reuse": True})
    assert apart == 96


@pytest.mark.parametrize(("depth", "fits"), [(4, True), (5, False)])
def test_a_tile_that_is_carried_through_the_loop_shares_nothing(depth, fits):
    tiles = [tile(name, 16 * depth) for name in ("A_shared", "B_shared", "S_shared")]
    loop = For(Var("k"), const(0, "int32"), const(8, "int32"), "serial", seq(*(touch(t) for t in tiles)))
    if fits:
        assert plan(loop, tiles, lambda target: 228 * KIB)[2] == 192
        return
    with pytest.raises(CompileError, match=r"E-SHARED-MEMORY.*245760 bytes.*233472") as caught:
        plan(loop, tiles, lambda target: 228 * KIB)
    assert "A_shared: float16[40960], 81920 bytes at 0" in str(caught.value)
    assert "take 12288 bytes away; make tiles smaller: A_shared with 1/2" in str(caught.value)


def test_a_value_kept_for_the_next_iteration_keeps_its_bytes():
    a, b = tile("a", 16), tile("b", 16)
    index = (const(0, "int32"),)
    loop = For(
        Var("k"),
        const(0, "int32"),
        const(8, "int32"),
        "serial",
        seq(BufferStore(b, BufferLoad(a, index), index), touch(a)),
    )
    assert plan(seq(touch(a), loop), [a, b])[2] == 32


def test_tiles_become_views_of_the_arena():
    a, b = tile("a", 2), tile("b", 1)
    function, _, _ = plan(seq(touch(a), touch(b)), [a, b])
    stores = [n.buffer for n in walk(function.body) if isinstance(n, BufferStore)]
    assert [s.name for s in stores] == ["a", "b"]
    assert all(s.data is not None and s.data.name == "arena" and s.data.dtype is DType("uint8") for s in stores)
    (block,) = [n for n in walk(function.body) if isinstance(n, Block)]
    assert [x.name for x in block.allocations] == ["arena"]


@given(st.lists(st.tuples(st.integers(1, 2000), st.integers(0, 20), st.integers(0, 20)), min_size=1, max_size=12))
def test_live_tiles_never_overlap(sizes):
    tiles = [
        Placement(Buffer(f"t{i}", as_shape((size,)), DType("uint8"), "shared"), size, 16, min(a, b), max(a, b))
        for i, (size, a, b) in enumerate(sizes)
    ]
    placed, total = place(tiles)
    for p, q in itertools.combinations(placed, 2):
        together = p.first <= q.last and q.first <= p.last
        apart = p.offset + p.size <= q.offset or q.offset + q.size <= p.offset
        assert apart or not together
    assert all(p.offset % 16 == 0 and p.offset + p.size <= total for p in placed)


def over(tiles, budget, versions=()):
    """What the error advises for tiles that all live at once."""
    loop = For(Var("k"), const(0, "int32"), const(8, "int32"), "serial", seq(*(touch(t) for t in tiles)))
    launch = KernelLaunch(
        (Var("bx"),), (const(1, "int32"),), (Var("tx"),), (const(32, "int32"),), Block(tuple(tiles), loop)
    )
    context = PassContext(Target("none"))
    context.reports["versions"] = [SimpleNamespace(buffer=t, count=n) for t, n in zip(tiles, versions)]
    g = Buffer("g", as_shape((1,)), DType("float16"))
    with pytest.raises(CompileError, match=r"E-SHARED-MEMORY") as caught:
        PlanSharedMemory(lambda target: budget * KIB).apply(IRModule((PrimFunc("main", (g,), launch),)), context)
    return caught.value.help


def test_the_number_of_stages_that_fits_is_said():
    tiles = [tile("A_shared", 80), tile("B_shared", 80), tile("scale", 16)]
    help = over(tiles, 150, (5, 5))
    fix = "1 less in num_stages fits: 147456 bytes with 4 instead of 5 versions of A_shared, B_shared"
    assert help == f"take 26624 bytes away; {fix}"


def test_where_no_number_of_stages_fits_a_smaller_tile_is_named():
    tiles = [tile("A_shared", 80), tile("scale", 200)]
    assert over(tiles, 150, (5,)).endswith("make tiles smaller: scale with 1/4 of its bytes fits, 133120 in all")
    assert over([tile("a", 100), tile("b", 100)], 40).endswith("all with 1/8 of their bytes fit, 25600 in all")
    assert over([tile("a", 4000)], 40).endswith("all of them with a 32nd of their bytes still do not fit")


def test_aggressive_merging_finds_the_smaller_arena():
    # In the order of the statements, a takes the bottom, b comes on top of it, and c, larger than a, on top of both.
    sizes = {"a": (5, 1, 3), "b": (2, 2, 5), "c": (7, 5, 5)}
    tiles = [
        Placement(Buffer(n, as_shape((size * KIB,)), DType("uint8"), "shared"), size * KIB, 16, first, last)
        for n, (size, first, last) in sizes.items()
    ]
    usual, tight = place(tiles)[1], place(tiles, True, ORDERS)[1]
    assert (tight, usual) == (9 * KIB, 14 * KIB)


@given(st.lists(st.tuples(st.integers(1, 2000), st.integers(0, 20), st.integers(0, 20)), min_size=1, max_size=12))
def test_aggressive_merging_is_never_larger_and_never_overlaps(sizes):
    tiles = [
        Placement(Buffer(f"t{i}", as_shape((size,)), DType("uint8"), "shared"), size, 16, min(a, b), max(a, b))
        for i, (size, a, b) in enumerate(sizes)
    ]
    placed, total = place(tiles, True, ORDERS)
    assert total <= place(tiles)[1]
    for p, q in itertools.combinations(placed, 2):
        apart = p.offset + p.size <= q.offset or q.offset + q.size <= p.offset
        assert apart or not p.meets(q)


def test_the_option_reaches_the_planner():
    a, b = tile("a", 2), tile("b", 1)
    key = "tl.enable_aggressive_shared_memory_merge"
    assert key in PlanSharedMemory.option_keys
    assert plan(seq(touch(a), touch(b)), [a, b], **{key: True})[2] == 2


def test_tiles_of_one_statement_without_barriers_lie_apart():
    """A copy in two loops: nothing between them keeps a thread's writing from another's reading."""
    a, b = tile("a", 16), tile("b", 16)
    copy = Attr("independent", None, const(True, "bool"), seq(touch(a), touch(b)))
    assert plan(copy, [a, b])[2] == 32
    assert plan(seq(touch(a), touch(b)), [a, b])[2] == 16
