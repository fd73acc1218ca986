"""``tile show memory``: the arena of a kernel's shared memory: tiles, live ranges, offsets, budget."""

from __future__ import annotations

import sys
from typing import Any

from .. import api
from ..errors import CompileError, UserError, declare_codes
from ..source import Span
from ..transform.plan_shared_memory import Placement, SharedMemoryReport
from .diagram import Svg, colour
from .kernels import add_arguments, kernels_of
from .show_timeline import add_outputs, deliver

__all__ = ["add_memory", "memory_svg", "memory_text"]

declare_codes({"E-SHOW-MEMORY": "tile show memory was given a kernel without shared memory to plan"})


def add_memory(what: Any) -> None:
    """Adds the subcommand."""
    parser = what.add_parser(
        "memory",
        help="shared memory: tiles, live ranges, offsets, budget",
        description="Shows where each tile lies in a kernel's shared memory.",
    )
    add_arguments(parser)
    add_outputs(parser)
    parser.set_defaults(show=_show)


class _Remember:
    """Keeps what the pass that fails has reported."""

    def __init__(self) -> None:
        self.pass_: Any = None

    def before_pass(self, pass_: Any, module: Any) -> None:
        self.pass_ = pass_

    @property
    def reports(self) -> list[SharedMemoryReport]:
        context = getattr(self.pass_, "context", None)
        return list(context.reports.get("shared_memory", ())) if context is not None else []


def _show(given: Any) -> int:
    reports: list[tuple[str, SharedMemoryReport]] = []
    names: list[str] = []
    failure: CompileError | None = None
    target = ""
    for kernel, function in kernels_of(given):
        remember = _Remember()
        names.append(kernel.name)
        try:
            artifact = api.lower(function, given.target or kernel.options.get("target"), instruments=(remember,))
            target = str(artifact.target)
            found = artifact.notes["reports"].get("shared_memory", [])
        except CompileError as error:
            if error.code != "E-SHARED-MEMORY":
                raise
            failure, found = error, remember.reports
        reports += [(kernel.name, report) for report in found]
    if not reports:
        raise UserError(
            "E-SHOW-MEMORY",
            f"{', '.join(names)} has no shared memory for {target}",
            facts=["shared memory is what T.alloc_shared makes, on a target that has some"],
            help="choose a target such as --target cuda; cpu keeps tiles in plain memory",
        )
    texts = [memory_text(name, report) for name, report in reports]
    title = f"Shared memory of {', '.join(dict.fromkeys(name for name, _ in reports))}"
    deliver(given, title, texts, [memory_svg(name, report) for name, report in reports])
    if failure is not None:
        print(failure, file=sys.stderr)
        return 1
    return 0


def memory_text(name: str, report: SharedMemoryReport) -> str:
    """The arena as text: one line a tile, with a bar for the time in which it is in use."""
    used = f"{report.total} bytes"
    if report.limit is not None:
        share = 100 * report.total / report.limit
        used += f" of {report.limit} ({share:.0f} %)" + (", too much" if report.total > report.limit else "")
    shared = f"; {report.alone} bytes if no two tiles shared any" if report.alone != report.total else ""
    lines = [f"{name}: shared memory {used}{shared}", ""]
    versions = {tile.buffer: count for tile, count in zip(report.placed, report.versions)}
    times = sorted({t for p in report.placed for t in (p.first, p.last)})
    rows = [["offset", "bytes", "tile", "versions", "in use", "from", "to"]]
    for tile in sorted(report.placed, key=lambda p: (p.offset, p.first)):
        rows.append(
            [
                str(tile.offset),
                str(tile.size),
                f"{tile.buffer.name}: {tile.buffer.dtype}",
                str(versions.get(tile.buffer, 1)),
                _bar(tile, times),
                _place(tile.spans[0]),
                _place(tile.spans[1]),
            ]
        )
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        cells = [c.rjust(w) if i < 2 else c.ljust(w) for i, (c, w) in enumerate(zip(row, widths))]
        lines.append("  " + "  ".join(cells).rstrip())
    return "\n".join(lines) + "\n"


def _bar(tile: Placement, times: list[int]) -> str:
    """A mark for each moment at which some tile's life begins or ends."""
    return "".join("█" if tile.first <= t <= tile.last else "·" for t in times)


def _place(span: Span | None) -> str:
    return f"{span.line}" if span is not None else "?"


_WIDTH, _HEIGHT, _LEFT, _TOP = 640, 360, 90, 40


def memory_svg(name: str, report: SharedMemoryReport) -> Svg:
    """The arena: time from left to right, bytes from bottom to top, a box for each tile's life."""
    end = max((p.last for p in report.placed), default=0) + 1
    start = min((p.first for p in report.placed), default=0)
    # The budget may be far above what is used; the scale goes a little beyond the larger of used and needed.
    scale = report.limit if report.limit is not None and report.limit < 2 * report.total else report.total
    scale = max(scale, report.total, 1)
    svg = Svg(_LEFT + _WIDTH + 20, _TOP + _HEIGHT + 40)
    budget = f" of {report.limit}" if report.limit is not None else ""
    svg.write(8, 18, f"{name}: {report.total} bytes{budget}", bold=True)

    def x(time: int) -> float:
        return _LEFT + _WIDTH * (time - start) / max(1, end - start)

    def y(offset: int) -> float:
        return _TOP + _HEIGHT * (1 - offset / scale)

    for number, tile in enumerate(sorted(report.placed, key=lambda p: (p.offset, p.first))):
        left, right = x(tile.first), x(tile.last + 1)
        bottom, ceiling = y(tile.offset), y(tile.offset + tile.size)
        lines = f"{_place(tile.spans[0])} to {_place(tile.spans[1])}"
        title = f"{tile.buffer.name}: {tile.size} bytes at {tile.offset}, lines {lines}"
        svg.box(left, ceiling, right - left, bottom - ceiling, colour(number), title)
        svg.write(left + 4, (bottom + ceiling) / 2 + 4, f"{tile.buffer.name} {tile.size}")
        svg.write(8, bottom, str(tile.offset), dim=True)
    svg.line(_LEFT, y(report.total), _LEFT + _WIDTH, y(report.total), dashed=True)
    svg.write(8, y(report.total), str(report.total), dim=True)
    if report.limit is not None and report.limit <= scale:
        svg.line(_LEFT, y(report.limit), _LEFT + _WIDTH, y(report.limit), heavy=True)
        svg.write(_LEFT + _WIDTH - 60, y(report.limit) - 4, f"limit {report.limit}", dim=True)
    svg.write(_LEFT, _TOP + _HEIGHT + 22, "statements, in program order →", dim=True)
    return svg
