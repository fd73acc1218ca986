from __future__ import annotations

from types import SimpleNamespace

from tile_core.instrument import IRDump, PassTimes, PassTrace
from tile_core.ir import IRModule, PrimFunc, parse


def module(value: str) -> IRModule:
    function = parse(f"@T.prim_func\ndef f(A: T.Buffer((4,), T.float32)):\n    A[0] = {value}\n    A[1] = 0.0\n")
    assert isinstance(function, PrimFunc)
    return IRModule((function,))


FIRST, SECOND = SimpleNamespace(name="First", leaves="same"), SimpleNamespace(name="Second", leaves="THREAD")


def test_times_are_reported_slowest_first():
    times = PassTimes()
    times.after_pass(FIRST, module("1.0"), 0.001)
    times.after_pass(SECOND, module("1.0"), 0.003)
    assert times.total == 0.004
    times.after_pass(FIRST, module("1.0"), 0.0)
    assert times.by_pass() == {"First": 0.001, "Second": 0.003}
    times.seconds.pop()
    assert times.report() == ("Second      3.000 ms  75.0%\nFirst       1.000 ms  25.0%\ntotal       4.000 ms")


def test_an_empty_report_has_its_sum():
    assert PassTimes().report() == "total      0.000 ms"


def test_a_trace_knows_forms_and_what_changed():
    trace = PassTrace(module("1.0"))
    trace.after_pass(FIRST, module("1.0"), 0.1)
    trace.after_pass(SECOND, module("2.0"), 0.2)
    assert [(s.number, s.name, s.form, s.changed) for s in trace.steps] == [
        (0, "traced", "TILE", True),
        (1, "First", "TILE", False),
        (2, "Second", "THREAD", True),
    ]
    assert trace.difference(1) == []
    assert [line for line in trace.difference(2) if line[0] in "+-"] == [
        "-        A[0] = 1.0",
        "+        A[0] = 2.0",
    ]


def test_a_dump_replaces_that_of_an_earlier_compile(tmp_path):
    (tmp_path / "09-Stale.txt").write_text("old")
    (tmp_path / "notes.txt").write_text("mine")
    dump = IRDump(tmp_path, module("1.0").functions[0])
    dump.after_pass(FIRST, module("2.0"), 0.0)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["00-traced.txt", "01-First.txt", "notes.txt"]
    assert (tmp_path / "01-First.txt").read_text() == "# after First\n" + module("2.0").script(spans=True)
