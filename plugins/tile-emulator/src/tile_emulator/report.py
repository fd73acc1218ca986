"""Findings with names: from the engine's addresses to buffers, threads and lines of the kernel."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from tile_core.source import Span, render_snippet

from .linemap import BufferView, LineMap

__all__ = ["KINDS", "Access", "Finding", "Report", "report_from_engine"]

KINDS = {
    "race": "two accesses that nothing orders",
    "missing-wait": "an asynchronous copy's bytes are used before a wait completes its group",
    "never-written": "reads bytes that nothing has written",
    "out-of-bounds": "an access outside the buffer",
    "aliased": "reads bytes that were last written as another buffer",
    "misaligned": "an address that is not a multiple of the access's size",
    "barrier-count": "a barrier's thread count does not fit",
    "double-arrive": "a thread arrives twice in one phase of a barrier",
    "divergent-barrier": "threads of one block meet at different barrier calls",
    "divergent-collective": "lanes of one warp don't come to the same collective",
    "deadlock": "threads wait for what can't happen",
    "livelock": "threads poll for what can't happen",
    "launch": "the launch itself is wrong",
    "trap": "the kernel stopped itself",
}


@dataclass(frozen=True)
class Access:
    """One side of a finding.

    Args:
        verb: such as ``writes`` or ``cp.async writes``.
        block, thread: linear indices; -1 where no single thread is meant.
        generated_line: in the generated source; 0 if unknown.
        file, line: in the kernel's own source; "" and 0 if unknown.
        code: offset of the instruction's return address in the emulated library.
    """

    verb: str
    block: int
    thread: int
    generated_line: int = 0
    file: str = ""
    line: int = 0
    code: int = 0

    @property
    def span(self) -> Span | None:
        """The place in the kernel's source."""
        return Span(self.file, self.line) if self.file and self.line else None

    @property
    def place(self) -> str:
        """``file:line``, or the generated line where the kernel's is unknown."""
        if self.file and self.line:
            return f"{self.file}:{self.line}"
        return f"generated line {self.generated_line}" if self.generated_line else "an unknown line"


@dataclass(frozen=True)
class Finding:
    """Something wrong in a run.

    Args:
        kind: a key of `KINDS`.
        buffer: name of the buffer, "" where none is concerned.
        offset: of the first byte in the buffer, in bytes; may lie outside it.
        size: bytes that are concerned.
        text: details in words.
        accesses: one or two.
        waiting: for deadlocks, what each group of threads does.
        count: how often it was seen in the run.
    """

    kind: str
    buffer: str
    offset: int
    size: int
    text: str
    accesses: tuple[Access, ...]
    waiting: tuple[Access, ...] = ()
    count: int = 1

    @property
    def lines(self) -> tuple[int, ...]:
        """The kernel's lines (else the generated ones) of the accesses, in their order."""
        return tuple(a.line or a.generated_line for a in self.accesses)

    @property
    def summary(self) -> str:
        """One line."""
        subject = f" {self.buffer}" if self.buffer else ""
        where = f", byte {self.offset}" if self.buffer and self.size else ""
        return f"{self.kind}:{subject}{where}: {self.text or KINDS[self.kind]}"

    def render(self) -> str:
        """The finding as text, with the lines it is about."""
        out = [self.summary]
        for access in self.accesses:
            out.append(_access_text(access))
            if access.span is not None:
                out += render_snippet(access.span)
        for group in self.waiting:
            out.append(f"   {group.verb} ({group.place})" if group.line or group.generated_line else f"   {group.verb}")
        if self.count > 1:
            out.append(f"   seen {self.count} times in this run")
        return "\n".join(out)


@dataclass
class Report:
    """What one call of a kernel came to in the emulator.

    Args:
        findings: empty when nothing is wrong.
        unchecked: source that could not be run; the run then says nothing about the kernel.
        sites: how often each synchronisation call (by ordinal) was reached.
        accesses, switches, atomics, launches: amounts of work.
        agents: warps (each with its groups of copies) whose orders could differ.
        runs: executions of a launch; above 1 where orders were explored.
        cut: executions that were ended because they would have gone on as others did.
        exhausted: whether all orders of agents that can differ were run (true where there was no exploring to do).
    """

    findings: list[Finding] = field(default_factory=list)
    unchecked: list[str] = field(default_factory=list)
    sites: list[int] = field(default_factory=list)
    accesses: int = 0
    switches: int = 0
    atomics: int = 0
    launches: int = 0
    agents: int = 0
    runs: int = 0
    cut: int = 0
    exhausted: bool = True

    @property
    def clean(self) -> bool:
        """Whether everything ran and nothing was found."""
        return not self.findings and not self.unchecked

    def render(self) -> str:
        """All findings as text."""
        lines = [finding.render() for finding in self.findings]
        lines += [f"unchecked: {what}" for what in self.unchecked]
        return "\n".join(lines) or "nothing found"

    def as_json(self) -> dict[str, Any]:
        """Plain data for `json.dumps`."""
        return asdict(self)


def report_from_engine(text: str, places: dict[int, int], lines: LineMap) -> Report:
    """The report for the engine's JSON.

    Args:
        text: what the engine gave.
        places: offset of a return address in the library → line of the generated source.
        lines: from generated lines to kernel lines, and the names of arena views.
    """
    raw = json.loads(text)
    report = Report(
        unchecked=raw["unchecked"],
        sites=raw["sites"],
        **{key: raw[key] for key in ("accesses", "switches", "atomics", "launches")},
        **{key: raw[key] for key in ("agents", "runs", "cut", "exhausted")},
    )
    seen: dict[tuple[Any, ...], int] = {}
    for item in raw["findings"]:
        finding = _finding(item, places, lines)
        if item["same_line_is_fine"] and len(set(finding.lines)) == 1:
            continue  # one call of the source, which the host's compiler has copied
        key = (finding.kind, finding.buffer, finding.lines, finding.text if not finding.accesses else "")
        if key in seen:  # one line can be several instructions
            old = report.findings[seen[key]]
            report.findings[seen[key]] = _again(old, finding.count)
            continue
        seen[key] = len(report.findings)
        report.findings.append(finding)
    report.findings = _causes_first(report.findings)
    report.findings += _aliased(raw["flows"], places, lines)
    return report


def _aliased(flows: list[dict[str, Any]], places: dict[int, int], lines: LineMap) -> list[Finding]:
    """Tiles of the arena that lost their bytes to others before they were read."""
    found: dict[tuple[int, ...], Finding] = {}
    for flow in sorted(flows, key=lambda f: (f["first"]["pc"], f["second"]["pc"])):
        sides = [_access(flow[side], "race", places, lines) for side in ("first", "second")]
        views = lines.strangers(flow["offset"], sides[0].generated_line, sides[1].generated_line)
        if views is None:
            continue
        written, read = views
        text = f"reads bytes that were last written as {written.name}, which shares them"
        finding = Finding("aliased", read.name, flow["offset"] - read.offset, flow["bytes"], text, tuple(sides))
        found.setdefault((sides[0].generated_line, sides[1].generated_line), finding)
    return list(found.values())


def _causes_first(findings: list[Finding]) -> list[Finding]:
    """Conflicts ahead of the rest; a read that came before the write with which it conflicts is not told twice."""
    conflicts = [f for f in findings if f.kind in ("race", "missing-wait")]
    known = {(f.buffer, a.generated_line) for f in conflicts for a in f.accesses}
    others = [f for f in findings if f not in conflicts]
    return conflicts + [
        f
        for f in others
        if f.kind != "never-written" or not any((f.buffer, a.generated_line) in known for a in f.accesses)
    ]


def addresses(text: str, lines: LineMap) -> list[int]:
    """The code offsets in the engine's JSON whose lines matter."""
    found: set[int] = set()
    raw = json.loads(text)
    for item in raw["findings"]:
        found.update(item[side]["pc"] for side in ("first", "second") if side in item)
        found.update(group["pc"] for group in item["waiting"])
    for flow in raw["flows"]:
        if lines.taken_in_turns(flow["offset"]):
            found.update(flow[side]["pc"] for side in ("first", "second"))
    return sorted(found - {0})


def _finding(item: dict[str, Any], places: dict[int, int], lines: LineMap) -> Finding:
    kind, region, offset = item["kind"], item["region"], item["offset"]
    sides = [_access(item[side], kind, places, lines) for side in ("first", "second") if side in item]
    if region == "@shared":
        view = lines.view(offset, [side.generated_line for side in sides])
        region, offset = (view.name, offset - view.offset) if view else ("shared memory", offset)
    waiting = tuple(Access(g["text"], item["block"], -1, *lines.place(places.get(g["pc"], 0))) for g in item["waiting"])
    return Finding(kind, region, offset, item["bytes"], item["text"], tuple(sides), waiting, item["count"])


def _access(side: dict[str, Any], kind: str, places: dict[int, int], lines: LineMap) -> Access:
    verb = "writes" if side["write"] else "reads"
    if side["async"]:
        verb = f"cp.async {verb}"
    if side["atomic"]:
        verb = f"atomically {verb}"
    if kind not in ("race", "missing-wait"):
        verb = {"never-written": "reads"}.get(kind, "is")
    return Access(verb, side["block"], side["thread"], *lines.place(places.get(side["pc"], 0)), side["pc"])


def _access_text(access: Access) -> str:
    return f"   block {access.block}, thread {access.thread} {access.verb} at {access.place}"


def _again(finding: Finding, count: int) -> Finding:
    values = {**finding.__dict__, "count": finding.count + count}
    return Finding(**values)


def names_of(findings: Iterable[Finding]) -> Sequence[str]:
    """The buffers that findings are about, each once."""
    return list(dict.fromkeys(f.buffer for f in findings if f.buffer))


__all__ += ["BufferView", "addresses", "names_of"]
