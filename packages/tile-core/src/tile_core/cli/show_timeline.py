"""``tile show timeline``: pipelined loops as stages × slots, with versions, waits and an estimate of the time."""

from __future__ import annotations

import argparse
import html
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .. import api
from ..analysis.latency import PROTOCOLS, Costs, Rates, estimate
from ..errors import UserError, declare_codes
from ..source import Span
from ..transform.pipeline_report import PipelineReport, StatementRow
from ..transform.thread_sync import MeetingRow
from .diagram import Svg, colour, page
from .kernels import add_arguments, kernels_of

__all__ = ["add_outputs", "add_timeline", "deliver", "timeline_svg", "timeline_text"]

declare_codes({"E-SHOW-PIPELINE": "tile show timeline was given a kernel without a loop that is pipelined"})

_TRIPS = 16  # of a loop whose trip count is not known, in the estimate
_STEADY = 3  # slots of the steady loop that are drawn


def add_timeline(what: Any) -> None:
    """Adds the subcommand."""
    parser = what.add_parser(
        "timeline",
        help="pipelined loops: stages and slots, versions, waits",
        description="Shows what became of each T.Pipelined loop.",
    )
    add_arguments(parser)
    add_outputs(parser)
    for name, meaning in (
        ("issue", "to issue the copies of an iteration"),
        ("latency", "until a copy's data are there"),
        ("compute", "of an iteration's computation"),
        ("barrier", "of a meeting of the block"),
    ):
        parser.add_argument(f"--{name}", metavar="N", type=_cycles, help=f"cycles {meaning}, for the estimate")
    parser.set_defaults(show=_show)


def add_outputs(parser: argparse.ArgumentParser) -> None:
    """Adds --html and --svg."""
    parser.add_argument("--html", metavar="OUT", type=Path, help="write one self-contained page to OUT")
    parser.add_argument("--svg", metavar="OUT", type=Path, help="write the drawing to OUT")


def _cycles(text: str) -> int:
    if not text.isdigit():
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of cycles")
    return int(text)


def _show(given: Any) -> int:
    reports: list[tuple[str, PipelineReport]] = []
    meetings: dict[str, list[MeetingRow]] = {}
    names: list[str] = []
    target = ""
    for kernel, function in kernels_of(given):
        artifact = api.lower(function, given.target or kernel.options.get("target"))
        names.append(kernel.name)
        target = str(artifact.target)
        found = artifact.notes["reports"]
        reports += [(kernel.name, report) for report in found.get("pipelines", ())]
        if found.get("pipelines") and found.get("meetings"):
            meetings[kernel.name] = found["meetings"]
    if not reports:
        raise UserError(
            "E-SHOW-PIPELINE",
            f"no loop of {', '.join(names)} is pipelined for {target}",
            facts=["a pipelined loop is a T.Pipelined loop on a target that copies ahead"],
            help="write T.Pipelined(…, num_stages=3), or choose a target such as --target cuda; cpu does not overlap",
        )
    texts = [timeline_text(name, report, _costs(given, report)) for name, report in reports]
    for name, rows in meetings.items():
        last = max(i for i, (owner, _) in enumerate(reports) if owner == name)
        texts[last] += meetings_text(name, rows)
    drawings = [timeline_svg(name, report) for name, report in reports]
    title = f"Timeline of {', '.join(dict.fromkeys(name for name, _ in reports))}"
    return deliver(given, title, texts, drawings)


def deliver(given: Any, title: str, texts: Sequence[str], drawings: Sequence[Svg]) -> int:
    """Texts to the terminal, drawings to the files that were asked for."""
    if given.svg is not None:
        given.svg.write_text(Svg.stacked(drawings).text(), encoding="utf-8")
        print(f"wrote {given.svg}")
    if given.html is not None:
        parts = [f"{d.text()}\n<pre>{html.escape(t)}</pre>" for t, d in zip(texts, drawings)]
        given.html.write_text(page(title, parts), encoding="utf-8")
        print(f"wrote {given.html}")
    if given.svg is None and given.html is None:
        print("\n".join(texts), end="")
    return 0


def _costs(given: Any, report: PipelineReport) -> tuple[Costs, bool]:
    """(cycles of the loop's parts, whether they were all said)."""
    rows = report.statements
    derived = Rates().costs(
        sum(row.copied_bytes for row in rows),
        sum(row.multiply_adds for row in rows),
        sum(row.elements for row in rows),
        report.threads,
    )
    said = {n: getattr(given, n) for n in ("issue", "latency", "compute", "barrier") if getattr(given, n) is not None}
    values = {name: said.get(name, getattr(derived, name)) for name in ("issue", "latency", "compute", "barrier")}
    return Costs(**values), len(said) == len(values)


def timeline_text(name: str, report: PipelineReport, costs: tuple[Costs, bool] | None = None) -> str:
    """The timeline of one loop as text."""
    at = f" at {report.span!r}" if report.span is not None else ""
    stages = "1 stage" if report.last_stage == 0 else f"{report.last_stage + 1} stages"
    lines = [f"{name}: T.Pipelined over {report.variable}{at}, E = {report.trips} trips, {stages}"]
    lines += ["", *_table(report), ""]
    lines += [f"  {text}" for text in _waits(report)]
    lines += [f"  {report.version_text(row)}" for row in report.versions]
    lines += [f"  {text}" for text in report.exclusions]
    needed = ", ".join(
        f"{row.source}→{row.target} {row.kind} {row.buffer} +{row.distance}" for row in report.needed_edges
    )
    lines.append(f"  dependences in shared memory that no others imply: {needed or 'none'}")
    if costs is not None:
        lines += ["", *(f"  {text}" for text in _estimates(report, *costs))]
    return "\n".join(lines) + "\n"


def meetings_text(name: str, rows: Sequence[MeetingRow]) -> str:
    """Where a kernel's synchronisations come from, beside the waits of its pipelines."""
    lines = [f"{name}: synchronisations put in, and the two accesses that each orders"]
    for row in rows:
        (first, before), (second, here) = row.first, row.second
        accesses = f"{row.buffer} has a {first} at {_at(before)} and a {second} at {_at(here)}"
        lines.append(f"  {row.unit}, before {_at(row.span)}: {accesses}")
    return "\n".join(dict.fromkeys(lines)) + "\n"


def _at(span: Span | None) -> str:
    return repr(span) if span is not None else "an unknown line"


def _table(report: PipelineReport) -> list[str]:
    heads = ["", "statement", "line", "stage", *(head for head, _ in _slots(report))]
    rows = [heads]
    for number, row in enumerate(report.statements):
        line = str(row.span.line) if row.span is not None else "?"
        cells = [_iteration(row, kind) for _, kind in _slots(report)]
        rows.append([str(number), row.name, line, str(row.stage), *cells])
    widths = [max(len(row[column]) for row in rows) for column in range(len(heads))]
    return ["  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows]


def _slots(report: PipelineReport) -> list[tuple[str, tuple[str, int]]]:
    """(head, (prologue | loop | epilogue, number)) of the columns."""
    last = report.last_stage
    prologue = [(f"t={slot}", ("prologue", slot)) for slot in range(last)]
    epilogue = [(f"t=E{f'+{slot}' if slot else ''}", ("epilogue", slot)) for slot in range(last)]
    return [*prologue, (f"loop t={last}…E-1", ("loop", 0)), *epilogue]


def _iteration(row: StatementRow, slot: tuple[str, int]) -> str:
    """Which iteration a statement handles in a slot; a dot where it does not run."""
    kind, number = slot
    if kind == "prologue":
        return str(number - row.stage) if number >= row.stage else "·"
    if kind == "loop":
        return f"t-{row.stage}" if row.stage else "t"
    return f"E-{row.stage - number}" if number < row.stage else "·"


def _waits(report: PipelineReport) -> list[str]:
    lines = []
    for wait in report.waits:
        where = "at the start of a slot"
        if wait.place >= 0:
            where = f"before {next(row.name for row in report.statements if row.place == wait.place)}"
        lines.append(f"wait {where}: of the groups of {wait.queue}, the newest {wait.pending} may be unfinished")
    if report.commits:
        names = {row.place: row.name for row in report.statements}
        lines.append(f"commit after {', '.join(names[place] for place in report.commits)}, in every slot")
    return lines


def _estimates(report: PipelineReport, costs: Costs, said: bool) -> list[str]:
    depth = max((row.count for row in report.versions), default=1)
    trips = report.trip_count if report.trip_count is not None else _TRIPS
    source = "" if said else " (guessed from the work; options say others)"
    lines = [
        f"estimate for {trips} trips on {depth} versions: issue {costs.issue}, latency {costs.latency}, compute "
        f"{costs.compute}, barrier {costs.barrier} cycles{source}"
    ]
    for protocol in PROTOCOLS:
        found = estimate(costs, depth, trips, protocol)
        lines.append(f"  {protocol:<17} {found.cycles:>9} cycles, {found.step:.1f} a trip in the steady state")
    return lines


_ROW, _SLOT, _LABEL, _HEAD = 30, 74, 220, 54


def timeline_svg(name: str, report: PipelineReport) -> Svg:
    """The timeline of one loop: a row for each statement, a column for each slot, a colour for each iteration."""
    last = report.last_stage
    steady = [last + i for i in range(_STEADY)]
    columns: list[tuple[str, str, int | None]] = [(f"t={t}", "prologue", t) for t in range(last)]
    columns += [(f"t={t}", "loop", t) for t in steady]
    columns += [(f"t=E{f'+{j}' if j else ''}", "epilogue", j) for j in range(last)]
    svg = Svg(_LABEL + _SLOT * len(columns) + 20, _HEAD + _ROW * len(report.statements) + 40)
    svg.write(8, 18, f"{name}: {report.variable}, {last + 1} stages, E = {report.trips}", bold=True)
    for column, (head, part, _) in enumerate(columns):
        x = _LABEL + column * _SLOT
        svg.write(x + 4, _HEAD - 8, head)
        first = column == 0 or columns[column - 1][1] != part
        if first:
            svg.write(x + 4, _HEAD - 22, {"loop": "steady loop"}.get(part, part), dim=True)
            svg.line(x, _HEAD - 32, x, _HEAD + _ROW * len(report.statements), dashed=True)
    for row in report.statements:
        y = _HEAD + _ROW * row.place
        place = f":{row.span.line}" if row.span is not None else ""
        svg.write(8, y + 19, f"{row.name} {place}")
        for column, (_, part, number) in enumerate(columns):
            shown = _drawn(row, part, number)
            if shown is None:
                continue
            label, tone = shown
            x = _LABEL + column * _SLOT
            svg.box(
                x + 2, y + 3, _SLOT - 4, _ROW - 6, colour(tone), f"{row.name}, iteration {label}, stage {row.stage}"
            )
            svg.write(x + 8, y + 19, label)
    for wait in report.waits:
        y = _HEAD + _ROW * max(0, wait.place)
        for column, (_, part, number) in enumerate(columns):
            stages = [r.stage for r in report.statements if part != "epilogue" and r.stage <= (number or 0)]
            if part == "loop" or (part == "epilogue") or any(s == last for s in stages):
                x = _LABEL + column * _SLOT
                svg.line(x + 2, y + 1, x + _SLOT - 2, y + 1, heavy=True)
    y = _HEAD + _ROW * len(report.statements) + 18
    counts = ", ".join(f"{row.buffer} × {row.count}" for row in report.versions)
    svg.write(8, y, f"versions: {counts or 'none'}; a heavy line is a wait for copies", dim=True)
    return svg


def _drawn(row: StatementRow, part: str, number: int | None) -> tuple[str, int] | None:
    """(what is written, number of the colour) of a statement in a slot, or None where it does not run."""
    assert number is not None
    if part == "epilogue":
        return (f"E-{row.stage - number}", -(row.stage - number)) if number < row.stage else None
    iteration = number - row.stage
    return (str(iteration), iteration) if iteration >= 0 else None
