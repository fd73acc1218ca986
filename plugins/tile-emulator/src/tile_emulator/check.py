"""``tile check``: runs the kernels of a file in the emulator and says what is wrong with their synchronisation.

Exit codes: 0 everything ran and nothing was found, 1 something was found or could not be run, 2 the command line is
wrong.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from tile_core import api
from tile_core.cli.kernels import add_arguments, kernels_of
from tile_core.errors import TileError
from tile_core.ir import Buffer, PrimFunc, SizeVar, Var, walk
from tile_core.plugin import Command

from .mutation import SyncSite, classify_synchronisations
from .report import Finding, Report
from .session import emulation

__all__ = ["COMMAND", "run"]

COMMAND = Command(
    "check", (1, 0), "run a file's kernels in the emulator and report races and deadlocks", f"{__name__}:run"
)

_BOUND = 2000  # runs over orders of agents with --exhaustive
_SIZE = 64  # of a dimension without --size


@dataclass
class _Outcome:
    """What one kernel came to."""

    kernel: str
    runs: list[str] = field(default_factory=list)
    findings: list[tuple[str, Finding]] = field(default_factory=list)
    unchecked: list[str] = field(default_factory=list)
    exhausted: bool | None = None
    agents: int = 0
    orders: int = 0
    synchronisations: list[SyncSite] | None = None

    @property
    def state(self) -> str:
        if self.findings:
            return "findings"
        return "unchecked" if self.unchecked else "clean"

    def add(self, how: str, report: Report) -> None:
        self.runs.append(how)
        known = {(f.kind, f.buffer, frozenset(f.lines)) for _, f in self.findings}
        self.findings += [(how, f) for f in report.findings if (f.kind, f.buffer, frozenset(f.lines)) not in known]
        self.unchecked += [what for what in report.unchecked if what not in self.unchecked]

    def as_json(self) -> dict[str, Any]:
        return {
            "kernel": self.kernel,
            "state": self.state,
            "runs": self.runs,
            "findings": [{"schedule": how, **_plain(finding)} for how, finding in self.findings],
            "unchecked": self.unchecked,
            "exhausted": self.exhausted,
            "agents": self.agents if self.exhausted is not None else None,
            "orders": self.orders if self.exhausted is not None else None,
            "synchronisations": None
            if self.synchronisations is None
            else [_sync_json(s) for s in self.synchronisations],
        }


def run(words: Sequence[str]) -> int:
    """Runs the command; gives the exit code."""
    given = _parser().parse_args(list(words))
    sizes = dict(_size(text) for text in given.size)
    outcomes = [_check(kernel.name, function, given, sizes) for kernel, function in kernels_of(given)]
    if given.json:
        print(json.dumps({"kernels": [outcome.as_json() for outcome in outcomes]}, indent=1))
    else:
        for outcome in outcomes:
            print(_text(outcome))
    return 0 if all(outcome.state == "clean" for outcome in outcomes) else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        "tile check",
        description="Runs kernels in the emulator, with random inputs, in several schedules.",
        epilog="Exit codes: 0 clean, 1 findings or unchecked source, 2 usage.",
    )
    add_arguments(parser)
    parser.add_argument("--seeds", metavar="N", type=_count, default=3, help="random schedules to run (default 3)")
    parser.add_argument("--exhaustive", action="store_true", help=f"also all orders of agents, at most {_BOUND} runs")
    parser.add_argument(
        "--redundant", action="store_true", help="switch off each synchronisation in turn; list those nobody needs"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument(
        "--size",
        metavar="NAME=N",
        action="append",
        default=[],
        help=f"the value of a dynamic dimension or an integer parameter (default {_SIZE})",
    )
    return parser


def _count(text: str) -> int:
    value = int(text)
    if value < 0:
        raise argparse.ArgumentTypeError(f"{text} is negative")
    return value


def _size(text: str) -> tuple[str, int]:
    name, _, value = text.partition("=")
    if not name.isidentifier() or not value.isdigit():
        print(f"tile check: --size {text!r} is not NAME=N", file=sys.stderr)
        raise SystemExit(2)
    return name, int(value)


def _schedules(given: argparse.Namespace) -> Iterator[tuple[str, dict[str, Any]]]:
    yield "in_order", {"schedule": "in_order"}
    yield "latest", {"schedule": "latest"}
    for seed in range(given.seeds):
        yield f"random, seed {seed}", {"schedule": "random", "seed": seed}
    if given.exhaustive:
        yield "exhaustive", {"schedule": "in_order", "explore": _BOUND}


def _check(name: str, function: PrimFunc, given: argparse.Namespace, sizes: dict[str, int]) -> _Outcome:
    outcome = _Outcome(name)
    try:
        kernel: Any = api.compile(function, target=given.target or "cuda", execution_backend="emulate")
        arguments = _arguments(function, sizes)
    except TileError as error:
        outcome.unchecked.append(str(error))
        return outcome
    for how, options in _schedules(given):
        with emulation(**options, raises=False) as session:
            kernel(*_copies(arguments))
        for report in session.reports:
            outcome.add(how, report)
            if how == "exhaustive":
                outcome.exhausted = report.exhausted
                outcome.agents, outcome.orders = report.agents, report.runs
    if given.redundant and outcome.state == "clean":
        outcome.synchronisations = classify_synchronisations(kernel.entry, [lambda: _copies(arguments)])
    return outcome


def _copies(arguments: Sequence[Any]) -> list[Any]:
    return [a.clone() if hasattr(a, "clone") else a for a in arguments]


def _arguments(function: PrimFunc, sizes: dict[str, int]) -> list[Any]:
    """Random inputs of the function's shapes; dynamic sizes from the command line."""
    import torch

    generator = torch.Generator().manual_seed(0)
    count = len(function.params)
    outputs = {place % count for place in function.attr("out_idx", ())}
    made: list[Any] = []
    for place, param in enumerate(function.params):
        if place in outputs:
            continue
        if isinstance(param, Buffer):
            shape = [_extent(extent, sizes) for extent in param.shape]
            made.append(_tensor(torch, param, shape, generator))
        else:
            made.append(sizes.get(param.name, _SIZE) if param.dtype.is_int else 1.0)
    return made


def _extent(extent: Any, sizes: dict[str, int]) -> int:
    """The value of a dimension; what it is made of counts `_SIZE` where nothing else is said."""
    from tile_core.arith import Simplifier
    from tile_core.ir import IntImm, substitute

    variables = {n: IntImm(sizes.get(n.name, _SIZE), n.dtype) for n in walk(extent) if isinstance(n, (Var, SizeVar))}
    value = Simplifier().simplify(substitute(extent, variables)) if variables else extent
    assert isinstance(value, IntImm)
    return value.value


def _tensor(torch: Any, param: Buffer, shape: list[int], generator: Any) -> Any:
    dtype = getattr(torch, param.dtype.name)
    if param.dtype.is_bool:
        return torch.randint(0, 2, shape, generator=generator).to(dtype)
    if param.dtype.is_int:
        return torch.randint(0, 4, shape, generator=generator).to(dtype)
    return torch.randn(shape, generator=generator).to(dtype)


def _text(outcome: _Outcome) -> str:
    lines = [f"{outcome.kernel}: {outcome.state} in {len(outcome.runs)} runs"]
    if outcome.exhausted is not None:
        agents = "1 warp" if outcome.agents == 1 else f"{outcome.agents} warps"
        orders = "1 order" if outcome.orders == 1 else f"{outcome.orders} orders"
        if outcome.exhausted:
            lines[0] += f"; all orders of {agents} and their copies: {orders} can differ"
        else:
            lines[0] += f"; orders of {agents} and their copies not exhausted after {orders} (at most {_BOUND} runs)"
    for how, finding in outcome.findings:
        lines += [f"  [{how}]", *("  " + line for line in finding.render().splitlines())]
    for site in outcome.synchronisations or ():
        place = f"{site.file}:{site.line}" if site.line else f"generated line {site.generated_line}"
        state = "needed" if site.needed else f"redundant ({site.confirmed} random schedules passed without it)"
        lines.append(f"  synchronisation {site.ordinal} ({site.name} at {place}) is {state}")
    lines += ["  unchecked: " + line for text in outcome.unchecked for line in text.splitlines()]
    return "\n".join(lines)


def _sync_json(site: SyncSite) -> dict[str, Any]:
    return {
        "ordinal": site.ordinal,
        "name": site.name,
        "file": site.file,
        "line": site.line,
        "generated_line": site.generated_line,
        "needed": site.needed,
        "witness": site.witness,
    }


def _plain(finding: Finding) -> dict[str, Any]:
    return asdict(finding)
