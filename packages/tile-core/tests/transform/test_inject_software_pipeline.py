"""Pipelined loops: stages, versions, short trip counts, waits; shown by interpretation and by what is printed."""

from __future__ import annotations

import numpy as np
import pytest

import tile_core.language as T
from tile_core.errors import CompileError, TileWarning
from tile_core.interpreter import interpret
from tile_core.ir import Completion, Evaluate, Execution, IRModule, StringImm, TileOpStmt, walk
from tile_core.ir.expr import Call
from tile_core.target import Target
from tile_core.tileop import Copy
from tile_core.tileop.default_candidates import default_candidates
from tile_core.transform import LayoutInference, PassContext, Pipeline, PipelinePlanning, SelectInstructions
from tile_core.transform import inject_software_pipeline as module
from tile_core.transform.inject_software_pipeline import AsyncQueue, InjectSoftwarePipeline

TRIPS = (0, 1, 2, 3, 4, 5, 9)


def gemm(num_stages, **schedule):
    K = T.dynamic("K")

    @T.prim_func
    def main(
        A: T.Tensor((16, K), "float32"),
        B: T.Tensor((K, 16), "float32"),
        C: T.Tensor((16, 16), "float32"),
    ):
        with T.Kernel(1, threads=32) as bx:
            A_shared = T.alloc_shared((16, 8), "float32")
            B_shared = T.alloc_shared((8, 16), "float32")
            acc = T.alloc_fragment((16, 16), "float32")
            T.clear(acc)
            for k in T.Pipelined(T.ceildiv(K, 8), num_stages=num_stages, **schedule):
                T.copy(A[0, k * 8], A_shared)
                T.copy(B[k * 8, 0], B_shared)
                T.gemm(A_shared, B_shared, acc)
            T.copy(acc, C)

    return main


def lowered(function, queues=None):
    context = PassContext(Target("none"))
    passes = [SelectInstructions, LayoutInference, PipelinePlanning, InjectSoftwarePipeline(queues)]
    result = Pipeline("test", passes).run(IRModule((function,)), context)
    return result[function.name], context


def check(function, trips=TRIPS):
    after, context = lowered(function)
    for trip in trips:
        k = trip * 8
        a, b = np.random.rand(16, k).astype(np.float32), np.random.rand(k, 16).astype(np.float32)
        c = np.full((16, 16), 7, np.float32)
        interpret(after, a, b, c)
        np.testing.assert_allclose(c, a @ b, rtol=1e-5, atol=1e-5, err_msg=f"{trip} iterations")
    return after, context


@pytest.mark.parametrize("num_stages", [1, 2, 3, 4])
def test_every_trip_count_computes_the_same(num_stages):
    _, context = check(gemm(num_stages))
    found = {v.buffer.name: v.count for v in context.reports.get("versions", ())}
    assert found == ({} if num_stages == 1 else {"A_shared": num_stages, "B_shared": num_stages})


def test_the_users_stages_and_order_compute_the_same():
    check(gemm(0, stage=[0, 0, 1], order=[0, 1, 2]))
    check(gemm(0, stage=[0, 1, 2], order=[0, 1, 2]))


def test_a_consumer_that_runs_first_in_its_slot_needs_one_version_less():
    _, context = check(gemm(0, stage=[0, 0, 1], order=[1, 2, 0]))
    assert not context.reports.get("versions")


def test_lists_that_leave_statements_open_are_planned():
    _, context = check(gemm(3, stage=[-1, 0, 1], order=[-1, 0, 1]))
    assert {v.count for v in context.reports["versions"]} == {3}


def test_a_bind_takes_no_place_in_the_lists():
    K = T.dynamic("K")

    @T.prim_func
    def main(A: T.Tensor((K, 8), "float32"), C: T.Tensor((8,), "float32")):
        with T.Kernel(1, threads=32) as bx:
            tile = T.alloc_shared((8,), "float32")
            total = T.alloc_fragment((8,), "float32")
            T.clear(total)
            for k in T.Pipelined(K, stage=[0, 1], order=[0, 1]):
                row = k * 1
                T.copy(A[row, :], tile)
                for i in T.Parallel(8):
                    total[i] = total[i] + tile[i]
            T.copy(total, C)

    after, context = lowered(main)
    assert [v.count for v in context.reports["versions"]] == [2]
    for k in TRIPS:
        a, c = np.random.rand(k, 8).astype(np.float32), np.zeros(8, np.float32)
        interpret(after, a, c)
        np.testing.assert_allclose(c, a.sum(0), rtol=1e-5)


def test_a_depth_that_the_stages_contradict_is_said():
    with pytest.warns(TileWarning, match=r"num_stages=4 and stages up to 1"):
        lowered(gemm(4, stage=[0, 0, 1], order=[0, 1, 2]))


def test_a_stage_before_what_it_uses_is_named_with_both_statements():
    with pytest.raises(CompileError, match=r"E-PIPELINED-DEPENDENCE") as caught:
        lowered(gemm(0, stage=[1, 0, 0], order=[0, 1, 2]))
    assert "statement 2" in str(caught.value) and "statement 0" in str(caught.value)
    assert "T.copy(A[0, k * 8], A_shared)" in str(caught.value)


def test_a_value_that_a_later_statement_makes_keeps_its_reader_with_it():
    K = T.dynamic("K")

    @T.prim_func
    def main(A: T.Tensor((K, 8), "float32"), C: T.Tensor((8,), "float32")):
        with T.Kernel(1, threads=32) as bx:
            tile = T.alloc_shared((8,), "float32")
            total = T.alloc_fragment((8,), "float32")
            T.clear(total)
            for k in T.Pipelined(K, num_stages=3):
                row = k * 1
                T.copy(A[row, :], tile)
                for i in T.Parallel(8):
                    tile[i] = tile[i] * 2.0
                for i in T.Parallel(8):
                    total[i] = total[i] + tile[i]
            T.copy(total, C)

    after, _ = lowered(main)
    for k in TRIPS:
        a, c = np.random.rand(k, 8).astype(np.float32), np.zeros(8, np.float32)
        interpret(after, a, c)
        np.testing.assert_allclose(c, 2 * a.sum(0), rtol=1e-5)


def sums(body, num_stages=3, **schedule):
    """A kernel that adds up rows of A through shared memory; `body` is called in the loop with k and the buffers."""
    K = T.dynamic("K")

    @T.prim_func
    def main(A: T.Tensor((K, 8), "float32"), I: T.Tensor((K, 8), "int32"), C: T.Tensor((8,), "float32")):
        with T.Kernel(1, threads=32) as bx:
            tile = T.alloc_shared((8,), "float32")
            index = T.alloc_shared((8,), "int32")
            total = T.alloc_fragment((8,), "float32")
            T.clear(total)
            for k in T.Pipelined(K, num_stages=num_stages, **schedule):
                body(k, A, I, tile, index, total)
            T.copy(total, C)

    return main


def check_sums(function, meaning):
    after, context = lowered(function)
    for trips in TRIPS:
        a = np.random.rand(trips, 8).astype(np.float32)
        i = np.random.randint(0, max(trips, 1), (trips, 8)).astype(np.int32)
        c = np.zeros(8, np.float32)
        interpret(after, a, i, c)
        np.testing.assert_allclose(c, meaning(a, i), rtol=1e-5, atol=1e-6, err_msg=f"{trips} iterations")
    (report,) = context.reports["pipelines"]
    return report


@T.macro
def gather(k, A, I, tile, index, total):
    T.copy(I[k, :], index)
    row = index[0]
    T.copy(A[row, :], tile)
    for i in T.Parallel(8):
        total[i] = total[i] + tile[i]


def test_a_value_that_the_loop_itself_loads_reaches_its_users_in_the_same_slot():
    report = check_sums(sums(gather), lambda a, i: a[i[:, 0]].sum(0))
    assert [(row.name, row.stage) for row in report.statements] == [
        ("T.copy index", 0),
        ("row =", 2),
        ("T.copy tile", 2),
        ("T.Parallel total", 2),
    ]
    assert {row.buffer: row.count for row in report.versions} == {"index": 3, "tile": 1}
    with pytest.raises(CompileError, match=r"E-PIPELINED-DEPENDENCE.*uses row in another stage") as caught:
        lowered(sums(gather, 0, stage=[0, 0, 1, 1], order=[0, 1, 2, 3]))
    assert "row depends on what the loop writes" in str(caught.value)


@T.macro
def in_place(k, A, I, tile, index, total):
    T.copy(A[k, :], tile)
    for i in T.Parallel(8):
        tile[i] = tile[i] * 2.0
    for i in T.Parallel(8):
        total[i] = total[i] + tile[i]


def test_a_tile_that_is_changed_in_place_runs_ahead_too():
    report = check_sums(sums(in_place), lambda a, i: 2 * a.sum(0))
    assert [row.stage for row in report.statements] == [0, 2, 2]
    assert [(row.buffer, row.count) for row in report.versions] == [("tile", 3)]


@T.macro
def every_other(k, A, I, tile, index, total):
    if k % 2 == 0:
        T.copy(A[k, :], tile)
    for i in T.Parallel(8):
        total[i] = total[i] + tile[i]


def test_a_tile_that_is_kept_for_the_next_iteration_has_one_version_and_says_why():
    report = check_sums(sums(every_other), lambda a, i: sum((a[k - k % 2] for k in range(len(a))), np.zeros(8)))
    (row,) = report.versions
    assert row.count == 1 and row.reason == "an iteration may read what an earlier one wrote"
    text = "\n".join(report.lines())
    assert "1 version" in text and row.reason in text


def test_stages_that_take_a_kept_tile_apart_are_refused():
    with pytest.raises(CompileError, match=r"E-PIPELINED-(VERSIONS|DEPENDENCE)"):
        lowered(sums(every_other, 0, stage=[0, 1], order=[0, 1]))


def test_the_report_names_the_two_lines_of_each_buffer():
    _, context = lowered(gemm(3))
    (report,) = context.reports["pipelines"]
    assert (report.last_stage, report.threads, report.trip_count) == (2, 32, None)
    lines = {row.buffer: report.version_text(row) for row in report.versions}
    for name, statement in (("A_shared", 0), ("B_shared", 1)):
        copied, used = report.statements[statement].span.line, report.statements[2].span.line
        assert f":{copied}:" in lines[name] and f":{used}:" in lines[name]
        assert lines[name].startswith(f"{name}: 3 versions, 512 bytes each; filled by T.copy {name}")
    needed = {(e.source, e.target, e.kind, e.distance) for e in report.needed_edges}
    assert needed == {(0, 2, "flow", 0), (1, 2, "flow", 0), (2, 0, "anti", 3), (2, 1, "anti", 3)}


def test_a_second_loop_over_the_same_tiles_waits_for_the_first():
    K = T.dynamic("K")

    @T.prim_func
    def main(A: T.Tensor((K, 8), "float32"), C: T.Tensor((8,), "float32")):
        with T.Kernel(1, threads=32) as bx:
            tile = T.alloc_shared((8,), "float32")
            total = T.alloc_fragment((8,), "float32")
            T.clear(total)
            for k in T.Pipelined(K, num_stages=2):
                T.copy(A[k, :], tile)
                for i in T.Parallel(8):
                    total[i] = total[i] + tile[i]
            for k in T.Pipelined(K, num_stages=2):
                T.copy(A[k, :], tile)
                for i in T.Parallel(8):
                    total[i] = total[i] + tile[i]
            T.copy(total, C)

    _, context = lowered(main)
    first, second = context.reports["pipelines"]
    assert first.exclusions == ()
    assert second.exclusions[0].startswith(f"tile belongs to the loop at {first.span!r}")


class _Async:
    """The default copy, said to complete by groups."""

    def __init__(self, inner):
        self.inner = inner

    def __getattr__(self, name):
        return getattr(self.inner, name)

    def effects(self, op):
        return [Execution(a, "async", completion=Completion("group", "q")) for a in op.effects() if a.writes]


def _mark(name, *args):
    return Evaluate(Call("call_extern", (StringImm(name), *args)))


def groups(function, monkeypatch):
    """The order of copies, commits, waits and gemms in the steady loop."""
    found = [_Async(c) if c.op is Copy else c for c in default_candidates()]
    monkeypatch.setattr(module, "known_candidates", lambda context: found)
    queue = AsyncQueue(lambda: _mark("commit"), lambda pending: _mark(f"wait {pending}"))
    after, _ = lowered(function, {"q": queue})
    words = []
    for node in walk(after.body):
        if isinstance(node, TileOpStmt):
            words.append(node.op.name)
        elif isinstance(node, Call) and node.op == "call_extern":
            words.append(node.args[0].value)
    return words


@pytest.mark.parametrize(("num_stages", "pending"), [(2, 0), (3, 1), (4, 2)])
def test_a_wait_leaves_as_many_groups_unfinished_as_run_ahead(num_stages, pending, monkeypatch):
    words = groups(gemm(num_stages), monkeypatch)
    steady = [f"wait {pending}", "copy", "copy", "commit", "gemm"]
    text = " ".join(words)
    assert " ".join(steady) in text
    # A commit in every slot, guarded or not, so that the count stays right; a wait where there is a consumer.
    assert text.count("commit") == 2 * (num_stages - 1) + 1
    assert text.count(f"wait {pending}") == text.count("gemm") == num_stages


def test_one_stage_waits_for_all_after_its_copies(monkeypatch):
    words = groups(gemm(1), monkeypatch)
    assert " ".join(["copy", "copy", "commit", "wait 0", "gemm"]) in " ".join(words)
