"""What became of a pipelined loop, as plain data: for `kernel.explain()` and ``tile show timeline``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from ..analysis import Dependence, reduced
from ..analysis.dependence import UNRESOLVED
from ..ir import Bind, Buffer, BufferLoad, BufferStore, Call, For, If, IntImm, Stmt, TileOpStmt, walk
from ..source import Span
from ..tileop import MatrixProduct
from .pipeline_schedule import Schedule

__all__ = ["EdgeRow", "PipelineReport", "StatementRow", "VersionRow", "WaitRow", "report_of", "statement_name"]


@dataclass(frozen=True)
class StatementRow:
    """A statement of the loop's body.

    Args:
        name: such as ``T.copy A_shared``.
        stage, place: in which stage it runs, and as which in its slot.
        copied_bytes, multiply_adds, elements: the work of one iteration; 0 where it is not known.
    """

    name: str
    span: Span | None
    stage: int
    place: int
    copied_bytes: int = 0
    multiply_adds: int = 0
    elements: int = 0


@dataclass(frozen=True)
class VersionRow:
    """A buffer that the loop fills: its versions, and the two statements (by position) that cause the count."""

    buffer: str
    count: int
    bytes: int
    writer: int
    reader: int
    reason: str = ""


@dataclass(frozen=True)
class WaitRow:
    """A wait in front of a place of the slot (-1: at its start) that leaves `pending` groups of copies unfinished."""

    place: int
    queue: str
    pending: int


@dataclass(frozen=True)
class EdgeRow:
    """A dependence: positions of statements, kind, distance in iterations, name of the storage."""

    source: int
    target: int
    kind: str
    distance: int
    buffer: str


@dataclass(frozen=True)
class PipelineReport:
    """One loop.

    Args:
        function, span, variable: where it stands and what it counts with.
        trips: its trip count as text, and as a number where that is known.
        threads: of the block.
        last_stage: slots of the prologue and of the epilogue.
        edges: all dependences, and which of them no others imply (across threads, in shared memory).
        exclusions: sentences about loops that use the same buffers.
    """

    function: str
    span: Span | None
    variable: str
    trips: str
    trip_count: int | None
    threads: int
    last_stage: int
    statements: tuple[StatementRow, ...]
    versions: tuple[VersionRow, ...]
    waits: tuple[WaitRow, ...]
    commits: tuple[int, ...]
    edges: tuple[EdgeRow, ...]
    needed_edges: tuple[EdgeRow, ...]
    exclusions: tuple[str, ...] = ()

    def lines(self) -> list[str]:
        """The report as text for people who read what `explain()` says."""
        at = f" at {self.span!r}" if self.span is not None else ""
        stages = ", ".join(f"{row.name} {row.stage}" for row in self.statements)
        lines = [f"pipeline over {self.variable}{at}: {self.last_stage + 1} stages ({stages})"]
        lines += [f"    {self.version_text(row)}" for row in self.versions]
        waits = [f"{row.pending} {_where(row.place, self.statements)}" for row in self.waits]
        if waits:
            lines.append(f"    groups of copies that a wait leaves unfinished: {'; '.join(waits)}")
        return lines + [f"    {text}" for text in self.exclusions]

    def version_text(self, row: VersionRow) -> str:
        """Why a buffer has so many versions, with both lines."""
        writer, reader = self.statements[row.writer], self.statements[row.reader]
        count = "1 version" if row.count == 1 else f"{row.count} versions"
        text = (
            f"{row.buffer}: {count}, {row.bytes} bytes each; filled {_line(writer)} in stage {writer.stage}, "
            f"in use {_line(reader)} in stage {reader.stage}"
        )
        return f"{text}; {row.reason}" if row.reason else text


def report_of(
    schedule: Schedule,
    function: str,
    threads: int,
    waits: Mapping[int, Sequence[tuple[str, int]]],
    commits: Sequence[int],
    exclusions: Sequence[str] = (),
) -> PipelineReport:
    """The report of a schedule and of what was emitted for it."""
    place = {statement: p for p, statement in enumerate(schedule.order)}
    index = {id(stmt): i for i, stmt in enumerate(schedule.statements)}
    statements = tuple(
        StatementRow(statement_name(s), s.span, schedule.stages[i], place[i], *_work(s))
        for i, s in enumerate(schedule.statements)
    )
    versions = tuple(
        VersionRow(v.buffer.name, v.count, _bytes(v.buffer), index[id(v.writer)], index[id(v.reader)], v.reason)
        for v in schedule.versions
    )
    widths = {v.buffer: v.count for v in schedule.versions}
    shared = [e for e in schedule.edges if e.buffer is not None and _is_shared(e.buffer)]
    loop = schedule.loop
    return PipelineReport(
        function,
        loop.span,
        loop.var.name,
        repr(loop.extent),
        loop.extent.value if isinstance(loop.extent, IntImm) else None,
        threads,
        schedule.last_stage,
        statements,
        versions,
        tuple(WaitRow(at, queue, pending) for at in sorted(waits) for queue, pending in waits[at]),
        tuple(commits),
        tuple(_edge(e, widths) for e in schedule.edges),
        tuple(_edge(e, widths) for e in reduced(shared, len(statements), widths)),
        tuple(exclusions),
    )


def statement_name(stmt: Stmt) -> str:
    """A short name: the operation and what it fills."""
    if isinstance(stmt, TileOpStmt):
        written = [region.buffer.name for _, role, region in stmt.op.operands() if role != "in"]
        return f"T.{stmt.op.name} {', '.join(written)}".rstrip()
    if isinstance(stmt, Bind):
        return f"{stmt.var.name} ="
    if isinstance(stmt, BufferStore):
        return f"{stmt.buffer.name}[…] ="
    stored = list(dict.fromkeys(n.buffer.name for n in walk(stmt) if isinstance(n, BufferStore)))
    ops = list(dict.fromkeys(f"T.{n.op.name}" for n in walk(stmt) if isinstance(n, TileOpStmt)))
    if isinstance(stmt, For):
        head = {"parallel": "T.Parallel", "serial": "T.serial", "unroll": "T.unroll"}.get(stmt.kind, f"T.{stmt.kind}")
        return " ".join([head, ", ".join([*ops, *stored])]).rstrip()
    if isinstance(stmt, If):
        return f"if: {', '.join([*ops, *stored])}"
    calls = [n.op for n in walk(stmt) if isinstance(n, Call)]
    return calls[0] if calls else type(stmt).__name__


def _work(stmt: Stmt) -> tuple[int, int, int]:
    """(bytes copied from global memory, multiply-adds, other elements computed) of one execution, where constant."""
    copied = multiplied = computed = 0
    repeats = _repeats(stmt)
    for node in walk(stmt):
        if isinstance(node, TileOpStmt):
            regions = [(role, r, r.static_extents()) for _, role, r in node.op.operands()]
            sizes = [prod(extents) if extents is not None else 0 for _, _, extents in regions]
            from_global = any(role == "in" and not r.buffer.is_on_chip for role, r, _ in regions)
            if isinstance(node.op, MatrixProduct):
                multiplied += node.op.m * node.op.n * node.op.k // node.op.share
            elif from_global:
                copied += sum(s * r.buffer.dtype.bits // 8 for s, (role, r, _) in zip(sizes, regions) if role == "in")
            else:
                computed += max(sizes, default=0)
        elif isinstance(node, BufferStore):
            count = repeats.get(id(node), 0)
            read = [n for n in walk(node.value) if isinstance(n, BufferLoad) and not n.buffer.is_on_chip]
            if read and node.buffer.is_on_chip:
                copied += sum(count * n.buffer.dtype.bits // 8 for n in read)
            else:
                computed += count
    return copied, multiplied, computed


def _repeats(stmt: Stmt) -> dict[int, int]:
    """How often each store in a statement is run; 0 where a loop's extent is not constant."""
    found: dict[int, int] = {}

    def visit(node: Any, times: int) -> None:
        if isinstance(node, BufferStore):
            found[id(node)] = times
        if isinstance(node, For):
            times *= node.extent.value if isinstance(node.extent, IntImm) else 0
        for child in node.child_nodes():
            if isinstance(child, Stmt):
                visit(child, times)

    visit(stmt, 1)
    return found


def _edge(edge: Dependence, widths: Mapping[Any, int]) -> EdgeRow:
    width = widths.get(edge.buffer, 1) if edge.distance == UNRESOLVED else 1
    name = edge.buffer.name if edge.buffer is not None else ""
    return EdgeRow(edge.source, edge.target, edge.kind, edge.resolved(width), name)


def _is_shared(buffer: Buffer) -> bool:
    return buffer.memory.level == "block" and buffer.memory.addressable


def _bytes(buffer: Buffer) -> int:
    shape = buffer.static_shape()
    return 0 if shape is None else prod(shape) * buffer.dtype.bits * buffer.dtype.lanes // 8


def _line(row: StatementRow) -> str:
    return f"by {row.name} ({row.span!r})" if row.span is not None else f"by {row.name}"


def _where(place: int, statements: Sequence[StatementRow]) -> str:
    if place < 0:
        return "at the start of a slot"
    return f"before {next(row.name for row in statements if row.place == place)}"
