"""What the environment asks of every compile: dumps, differences and times of passes.

``TILE_DUMP_IR_DIR`` writes the IR after each pass, ``TILE_PASS_DIFF`` shows what each pass changed (on standard error,
as a page, or both), ``TILE_PASS_PROFILE`` prints how long each took. All of it also when a pass finds something wrong.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ..errors import TileError
from ..ir import IRModule, PrimFunc
from ..settings import settings
from .dump import ir_dump
from .page import page
from .timing import PassTimes
from .trace import PassTrace

__all__ = ["asked_for"]


@contextmanager
def asked_for(function: PrimFunc, times: PassTimes) -> Iterator[tuple[Any, ...]]:
    """Instruments for the passes of one compile; says what they saw when the passes are done.

    Args:
        function: as traced.
        times: another instrument of the same compile.
    """
    dump = ir_dump(function)
    wanted = settings.pass_diff
    trace = PassTrace(IRModule((function,))) if wanted is not None else None
    failure: TileError | None = None
    try:
        yield tuple(instrument for instrument in (dump, trace) if instrument is not None)
    except TileError as error:
        failure = error
        raise
    finally:
        if trace is not None:
            _show(function.name, trace, failure, str(wanted))
        if settings.pass_profile:
            print(f"tile: passes of {function.name}\n{_table(times)}", file=sys.stderr, flush=True)


def _show(name: str, trace: PassTrace, failure: TileError | None, wanted: str) -> None:
    if wanted in ("terminal", "both"):
        for step in trace.steps[1:]:
            if step.changed:
                print(f"# ===== {name}: {step.number:02d} {step.name}", file=sys.stderr)
                print("\n".join(trace.difference(step.number)), file=sys.stderr)
    if wanted in ("html", "both"):
        folder = settings.dump_ir_dir or Path.cwd()
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / (re.sub(r"[^\w.-]", "_", name) + ".passes.html")
        path.write_text(page([(name, trace)], failure), encoding="utf-8")
        print(f"tile: wrote {path}", file=sys.stderr)


def _table(times: PassTimes) -> str:
    """The report without passes below ``TILE_PASS_PROFILE_THRESHOLD_MS``; the last line sums all."""
    threshold = settings.pass_profile_threshold_ms
    shown = PassTimes()
    shown.seconds = [row for row in times.seconds if row[1] * 1e3 >= threshold]
    if len(shown.seconds) == len(times.seconds):
        return times.report()
    rest = len(times.seconds) - len(shown.seconds)
    return f"{shown.report()}\n{rest} passes below {threshold:g} ms; all take {times.total * 1e3:.3f} ms"
