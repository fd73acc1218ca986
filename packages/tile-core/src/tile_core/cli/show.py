"""``tile show``: what Tile makes of a kernel.

Here is ``tile show ir``, the IR after each pass, as text or as one HTML page; `show_timeline` and `show_memory` show
what became of pipelined loops and of shared memory.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .. import api
from ..errors import OptionError, TileError, declare_codes
from ..instrument import PassTrace
from ..instrument.page import page
from ..ir import IRModule, PrimFunc
from ..plugin import PLUGIN_API, Command
from .kernels import FileKernel, add_arguments, kernels_of
from .show_memory import add_memory
from .show_timeline import add_timeline

__all__ = ["COMMAND", "run"]

declare_codes({"E-CLI-PASS": "a pass that the kernel's pipeline does not have"})

COMMAND = Command("show", PLUGIN_API, "show a kernel's IR, pipelines and shared memory", f"{__name__}:run")


def run(words: Sequence[str]) -> int:
    """Runs the command; gives the exit code."""
    parser = argparse.ArgumentParser("tile show", description="Shows what Tile makes of a kernel.")
    what = parser.add_subparsers(dest="what", metavar="WHAT", required=True)
    ir = what.add_parser("ir", help="the IR after each pass", description="Shows the IR after each pass.")
    add_arguments(ir)
    ir.add_argument("--pass", dest="pass_", metavar="NAME", help="only what this pass leaves")
    ir.add_argument("--diff", action="store_true", help="what each pass changes, instead of all its lines")
    ir.add_argument("--all", action="store_true", help="print unchanged modules too")
    ir.add_argument("--spans", action="store_true", help="add source lines as comments")
    ir.add_argument("--html", metavar="OUT", type=Path, help="write one self-contained page to OUT")
    ir.set_defaults(show=_show_ir)
    add_timeline(what)
    add_memory(what)
    given = parser.parse_args(list(words))
    return int(given.show(given))


def _show_ir(given: Any) -> int:
    traces: list[tuple[str, PassTrace]] = []
    failure: TileError | None = None
    for kernel, function in kernels_of(given):
        trace, failure = _trace(kernel, function, given)
        traces.append((kernel.name, trace))
        if failure is not None:
            break
    if given.html is not None:
        given.html.write_text(page(traces, failure), encoding="utf-8")
        print(f"wrote {given.html}")
    else:
        _print(traces, given)
    if failure is not None:
        print(failure, file=sys.stderr)
    return 1 if failure is not None else 0


def _trace(kernel: FileKernel, function: PrimFunc, given: Any) -> tuple[PassTrace, TileError | None]:
    """The steps up to the end, or up to the pass that finds something wrong, with what it finds."""
    trace = PassTrace(IRModule((function,)), spans=given.spans)
    try:
        api.lower(function, given.target or kernel.options.get("target"), instruments=(trace,))
    except TileError as error:
        return trace, error
    return trace, None


def _print(traces: list[tuple[str, PassTrace]], given: Any) -> None:
    for name, trace in traces:
        steps = trace.steps
        if given.pass_ is not None:
            steps = [step for step in steps if step.name == given.pass_]
            if not steps:
                raise OptionError(
                    "E-CLI-PASS",
                    f"kernel {name} did not go through a pass {given.pass_!r}",
                    facts=[f"passes: {', '.join(dict.fromkeys(step.name for step in trace.steps))}"],
                )
        for step in steps:
            title = f"{name}: {step.number:02d} {step.name} [{step.form}]"
            time = f" {step.seconds * 1e3:.2f} ms" if step.number else ""
            print(f"# ===== {title}{time}{'' if step.changed else ', unchanged'}")
            if not step.changed and not given.all and given.pass_ is None:
                continue
            if given.diff and step.number:
                print("\n".join(trace.difference(step.number)))
            else:
                print(step.text, end="")
