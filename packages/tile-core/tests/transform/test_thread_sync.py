"""Where threads must meet: conflicts found, none invented, back edges, branches, asynchronous copies, shared bytes."""

from __future__ import annotations

import pytest

from tile_core.dtypes import DType
from tile_core.errors import CompileError
from tile_core.ir import (
    AccessPtr,
    Attr,
    Block,
    Buffer,
    BufferLoad,
    BufferStore,
    Call,
    Completion,
    Evaluate,
    For,
    If,
    Intrinsic,
    IRModule,
    KernelLaunch,
    PrimFunc,
    StringImm,
    Var,
    as_shape,
    binary,
    const,
    intrinsics,
    register_intrinsic,
    seq,
    walk,
)
from tile_core.ir.effects import CommitGroup, OperandEffect, Rendezvous, WaitGroup
from tile_core.source import Span
from tile_core.target import Target
from tile_core.transform import PassContext
from tile_core.transform.plan_shared_memory import PlanSharedMemory
from tile_core.transform.thread_sync import Meetings, ThreadSync

VOID, F32 = DType("void"), DType("float32")


def mark(name, *args):
    return Evaluate(Call("call_extern", (StringImm(name), *args), VOID))


MEETINGS = Meetings(
    lambda: Evaluate(Call("test.meet", (), VOID)),
    lambda first, count, number: mark(f"meet {first}+{count}"),
    lambda queue: wait(0),
    lambda queue: commit(),
)

if "test.copy" not in intrinsics():
    group = Completion("group", "q")
    effects = (OperandEffect(0, "write", "async", group),)
    register_intrinsic(Intrinsic("test.copy", 1, "void", False, "opaque", "an asynchronous write", effects))
    register_intrinsic(Intrinsic("test.meet", 0, "void", False, "sync", "", (Rendezvous("block"),)))
    register_intrinsic(Intrinsic("test.commit", 0, "void", False, "opaque", "", (CommitGroup("q"),)))
    register_intrinsic(Intrinsic("test.wait", 1, "void", False, "opaque", "", (WaitGroup("q", 0),)))


def async_write(buffer, index):
    return Evaluate(Call("test.copy", (AccessPtr(buffer, (index,), const(1, "int32"), "w"),), VOID))


def commit():
    return Evaluate(Call("test.commit", (), VOID))


def wait(pending):
    return Evaluate(Call("test.wait", (const(pending, "int32"),), VOID))


class Kernel:
    """Parts of a kernel of 128 threads over shared `s`, `r` and global `g`, `h`."""

    def __init__(self, threads=128, size=256):
        self.tx = Var("tx")
        self.threads = threads
        self.s = Buffer("s", as_shape((size,)), F32, "shared")
        self.r = Buffer("r", as_shape((size,)), F32, "shared")
        self.g = Buffer("g", as_shape((4096,)), F32)
        self.h = Buffer("h", as_shape((4096,)), F32)

    def put(self, index, buffer=None):
        return BufferStore(buffer or self.s, BufferLoad(self.g, (self.tx,)), (index,))

    def get(self, index, buffer=None):
        return BufferStore(self.h, BufferLoad(buffer or self.s, (index,)), (self.tx,))

    def words(self, *stmts, plan=False, meetings=None):
        """What runs, in order: put, get, meet, wait …"""
        body = Block((self.s, self.r), seq(*stmts))
        launch = KernelLaunch((Var("bx"),), (const(1, "int32"),), (self.tx,), (const(self.threads, "int32"),), body)
        module = IRModule((PrimFunc("main", (self.g, self.h), launch),))
        context = PassContext(Target("none"))
        if plan:
            module = PlanSharedMemory().apply(module, context)
        module = ThreadSync(meetings or MEETINGS).apply(module, context)
        self.queries, self.meetings = context.solver_queries, context.reports.get("meetings", [])
        self.body = module["main"].body
        words = []
        for node in walk(module["main"].body):
            if isinstance(node, For):
                words.append("for")
            elif isinstance(node, If):
                words.append("if")
            elif isinstance(node, BufferStore):
                words.append("put" if node.buffer.scope == "shared" else "get")
            elif isinstance(node, Call) and node.op == "call_extern":
                words.append(node.args[0].value)
            elif isinstance(node, Call) and node.op.startswith("test."):
                words.append(node.op[5:])
        return " ".join(words)


def loop(var, extent, *stmts):
    return For(var, const(0, "int32"), const(extent, "int32"), "serial", seq(*stmts))


def test_another_threads_element_needs_a_meeting():
    k = Kernel()
    assert k.words(k.put(k.tx), k.get(binary("sub", const(127, "int32"), k.tx))) == "put meet get"


def test_the_own_element_needs_none():
    k = Kernel()
    assert k.words(k.put(k.tx), k.get(k.tx)) == "put get"


def test_two_reads_need_none():
    k = Kernel()
    k.words(k.get(k.tx), k.get(binary("add", k.tx, 1)))
    assert k.words(k.get(k.tx), k.get(binary("add", k.tx, 1))) == "get get"


def test_disjoint_halves_need_none():
    k = Kernel()
    assert k.words(k.put(k.tx), k.get(binary("add", k.tx, 128))) == "put get"


def test_one_meeting_serves_all_that_came_before():
    k = Kernel()
    other = binary("sub", const(127, "int32"), k.tx)
    found = k.words(k.put(k.tx), k.put(k.tx, k.r), k.get(other), k.get(other, k.r))
    assert found == "put put meet get get"


def test_an_unknown_index_is_a_conflict():
    k = Kernel()
    index = BufferLoad(Buffer("where", as_shape((128,)), DType("int32")), (k.tx,))
    assert k.words(k.put(k.tx), k.get(index)) == "put meet get"


def test_a_nest_of_parallel_loops_needs_none_inside_and_one_after():
    k, i = Kernel(), Var("i")
    index = BufferLoad(Buffer("where", as_shape((128,)), DType("int32")), (k.tx,))
    nest = loop(i, 4, k.put(index), k.get(k.tx))
    assert k.words(nest).count("meet") > 0
    independent = Attr("independent", None, const(True, "bool"), nest)
    assert k.words(independent, k.get(k.tx)) == "for put get meet get"


def test_a_back_edge_needs_a_meeting_too():
    k, i = Kernel(), Var("i")
    other = binary("sub", const(127, "int32"), k.tx)
    assert k.words(loop(i, 4, k.put(k.tx), k.get(other))) == "for meet put meet get"


def test_two_versions_need_one_meeting_an_iteration():
    k, i = Kernel(), Var("i")
    version = binary("mul", binary("floormod", i, 2), 128)
    mine = binary("add", version, k.tx)
    other = binary("add", version, binary("sub", const(127, "int32"), k.tx))
    assert k.words(loop(i, 4, k.put(mine), k.get(other))) == "for put meet get"


def test_a_copy_that_runs_ahead_needs_one_meeting_after_its_wait():
    k, i = Kernel(), Var("i")
    now = binary("mul", binary("floormod", i, 2), 128)
    ahead = binary("mul", binary("floormod", binary("add", i, 1), 2), 128)
    other = binary("add", now, binary("sub", const(127, "int32"), k.tx))
    first = [async_write(k.s, k.tx), commit()]
    steady = loop(i, 4, wait(0), async_write(k.s, binary("add", ahead, k.tx)), commit(), k.get(other))
    assert k.words(*first, steady) == "copy commit for wait meet copy commit get"
    assert k.queries <= 5


def test_a_missing_wait_is_put_in():
    k = Kernel()
    other = binary("sub", const(127, "int32"), k.tx)
    assert k.words(async_write(k.s, k.tx), commit(), k.get(other)) == "copy commit wait meet get"


def test_a_meeting_does_not_complete_what_was_not_waited_for():
    k = Kernel()
    other = binary("sub", const(127, "int32"), k.tx)
    found = k.words(async_write(k.s, k.tx), commit(), k.put(k.tx, k.r), k.get(other, k.r), k.get(other))
    assert found == "copy commit put meet get wait meet get"


def test_the_meeting_stands_outside_a_branch_that_parts_threads():
    k = Kernel()
    other = binary("sub", const(127, "int32"), k.tx)
    branch = If(binary("lt", k.tx, const(5, "int32")), k.get(other))
    assert k.words(k.put(k.tx), branch) == "put meet if get"


def test_whole_warps_meet_among_themselves_inside_their_branch():
    k = Kernel()
    branch = If(
        binary("lt", k.tx, const(64, "int32")), seq(k.put(k.tx), k.get(binary("sub", const(63, "int32"), k.tx)))
    )
    assert k.words(branch) == "if put meet 0+64 get"


def test_threads_outside_of_the_branch_still_have_to_meet_it():
    k = Kernel()
    branch = If(
        binary("lt", k.tx, const(64, "int32")), seq(k.put(k.tx), k.get(binary("sub", const(63, "int32"), k.tx)))
    )
    assert k.words(branch, k.get(const(0, "int32"))) == "if put meet 0+64 get meet get"


def test_part_of_a_warp_cannot_meet():
    k = Kernel()
    branch = If(binary("lt", k.tx, const(5, "int32")), seq(k.put(k.tx), k.get(binary("sub", const(4, "int32"), k.tx))))
    with pytest.raises(CompileError, match=r"E-SYNC-DIVERGENT"):
        k.words(branch)


def test_tiles_that_share_bytes_need_a_meeting():
    k = Kernel()
    found = k.words(k.put(k.tx), k.get(k.tx), k.put(binary("sub", const(127, "int32"), k.tx), k.r), plan=True)
    assert found == "put get meet put"


def test_one_thread_needs_no_meeting():
    k = Kernel(threads=1)
    assert k.words(k.put(k.tx), k.get(const(0, "int32"))) == "put get"


def test_broadcast_reads_by_all_conflict_with_a_write_by_one():
    k = Kernel()
    one = If(binary("eq", k.tx, const(0, "int32")), k.put(const(7, "int32")))
    assert k.words(one, k.get(const(7, "int32"))) == "if put meet get"


@pytest.mark.parametrize("depth", [2, 3, 5, 7])
def test_no_depth_makes_a_wait_for_all_behind_the_loop(depth):
    k, i = Kernel(size=128 * depth), Var("i")
    version = lambda at: binary("mul", binary("floormod", at, depth), 128)  # noqa: E731
    mirrored = lambda at: binary("add", version(at), binary("sub", const(127, "int32"), k.tx))  # noqa: E731
    ahead = [[async_write(k.s, binary("add", k.tx, 128 * n)), commit()] for n in range(depth - 1)]
    steady = loop(
        i,
        20,
        wait(depth - 2),
        async_write(k.s, binary("add", version(binary("add", i, depth - 1)), k.tx)),
        commit(),
        k.get(mirrored(i)),
    )
    found = k.words(*(s for pair in ahead for s in pair), steady, wait(depth - 2), k.get(mirrored(const(20, "int32"))))
    assert found == "copy commit " * (depth - 1) + "for wait meet copy commit get wait meet get"


def test_a_thread_waits_for_its_own_copy_and_meets_nobody():
    k = Kernel()
    assert k.words(async_write(k.s, k.tx), commit(), k.get(k.tx)) == "copy commit wait get"
    assert k.words(async_write(k.s, k.tx), commit(), wait(0), k.get(k.tx)) == "copy commit wait get"
    # A wait that leaves the group unfinished is none.
    assert k.words(async_write(k.s, k.tx), commit(), wait(1), k.get(k.tx)) == "copy commit wait wait get"


def test_a_copy_that_was_never_committed_is_committed_first():
    k = Kernel()
    other = binary("sub", const(127, "int32"), k.tx)
    assert k.words(async_write(k.s, k.tx), k.get(k.tx)) == "copy commit wait get"
    assert k.words(async_write(k.s, k.tx), k.get(other)) == "copy commit wait meet get"


def test_overwriting_a_copy_that_is_under_way_needs_a_wait():
    k = Kernel()
    assert k.words(async_write(k.s, k.tx), commit(), k.put(k.tx)) == "copy commit wait put"
    assert k.words(async_write(k.s, k.tx), commit(), k.put(binary("add", k.tx, 128))) == "copy commit put"


def test_copies_wait_for_each_other_only_where_a_thread_makes_both_into_one_place():
    k, i = Kernel(size=1024), Var("i")
    turns = binary("add", k.tx, binary("mul", i, 128))
    assert k.words(loop(i, 4, async_write(k.s, turns)), commit()) == "for copy commit"
    assert k.words(async_write(k.s, k.tx), commit(), async_write(k.s, k.tx)) == "copy commit wait copy"


def test_a_meeting_inside_a_loop_does_not_hide_a_copy_from_before_it():
    k, i = Kernel(), Var("i")
    other = binary("sub", const(127, "int32"), k.tx)
    meet = Evaluate(Call("test.meet", (), VOID))
    found = k.words(async_write(k.s, k.tx), commit(), loop(i, 4, meet, k.get(other)))
    assert found == "copy commit wait for meet get"
    inside = k.words(async_write(k.s, k.tx), commit(), loop(i, 4, wait(0), meet, k.get(other)))
    assert inside == "copy commit for wait meet get"


def test_two_reasons_for_one_place_are_both_met():
    # A plain write and a copy under way: the meeting for the first does not end the second.
    k = Kernel(size=512)
    other = binary("sub", const(127, "int32"), k.tx)
    both = BufferStore(k.h, binary("add", BufferLoad(k.r, (other,)), BufferLoad(k.s, (other,))), (k.tx,))
    found = k.words(k.put(k.tx, k.r), async_write(k.s, k.tx), commit(), both)
    assert found == "put copy commit wait meet get"


def test_a_target_without_a_wait_says_so():
    k = Kernel()
    with pytest.raises(CompileError, match=r"E-SYNC-WAIT.*s is used before its asynchronous copy") as caught:
        k.words(async_write(k.s, k.tx), commit(), k.get(k.tx), meetings=Meetings(MEETINGS.block))
    assert "committed, and not waited for" in str(caught.value)
    with pytest.raises(CompileError, match=r"E-SYNC-WAIT") as caught:
        k.words(async_write(k.s, k.tx), k.get(k.tx), meetings=Meetings(MEETINGS.block, None, MEETINGS.wait_all))
    assert "not committed" in str(caught.value)


def test_what_is_put_in_stands_at_the_statement_that_needs_it_and_is_reported():
    k = Kernel()
    place = Span("<kernel>", 7, 4)
    reader = k.get(binary("sub", const(127, "int32"), k.tx)).with_(span=place)
    assert k.words(async_write(k.s, k.tx), commit(), reader) == "copy commit wait meet get"
    inserted = [n for n in walk(k.body) if isinstance(n, Evaluate) and n.value.op in ("test.wait", "test.meet")]
    assert [n.span for n in inserted] == [place, place]
    assert [(row.unit, row.buffer, row.first[0], row.second) for row in k.meetings] == [
        ("wait", "s", "write", ("read", place)),
        ("block", "s", "write", ("read", place)),
    ]


def test_loops_of_one_name_and_other_extents_are_not_taken_for_each_other():
    """Bytes that a short loop leaves alone and a longer one of the same name does not."""
    k = Kernel(size=1024)

    def written(extent):
        i = Var("i")
        return loop(i, extent, k.put(k.tx + i * 128, k.r))

    read = k.get(127 - k.tx + 512, k.r)
    assert k.words(written(2), read) == "for put get"
    assert k.words(written(7), read) == "for put meet get"
    assert k.words(written(2), read, written(7), read) == "for put get meet for put meet get"


@pytest.mark.parametrize(("stride", "meets"), [(1, False), (2, True), (4, True)])
def test_a_conflict_is_found_among_the_addresses_of_all_threads(stride, meets):
    """tx * stride and tx: distinct threads meet as soon as the stride is not 1; no solver is asked where they do."""
    k = Kernel(size=1024)
    words = k.words(k.put(k.tx * stride), k.get(k.tx))
    assert ("meet" in words) == meets
