"""``tile profile``: where the time of a file's kernels goes."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from tile_core import api
from tile_core.cli.kernels import add_arguments, kernels_of
from tile_core.errors import OptionError, declare_codes
from tile_core.plugin.api import Command

__all__ = ["COMMAND", "run"]

declare_codes({"E-CLI-SIZE": "a size given to the tile program that cannot be read"})

COMMAND = Command("profile", (1, 0), "time the kernels of a file: compiling, launching, running", f"{__name__}:run")


def run(words: Sequence[str]) -> int:
    """Runs the command; gives the exit code."""
    parser = argparse.ArgumentParser(
        "tile profile",
        description="Compiles and times the kernels of a Python file on inputs that it makes, and compares them with "
        "what the device can do.",
    )
    add_arguments(parser)
    parser.add_argument(
        "--size",
        metavar="NAME=N",
        action="append",
        default=[],
        help="the value of a symbolic dimension or scalar parameter (default: 1024 and 1)",
    )
    parser.add_argument("--rep", metavar="MS", type=float, default=100, help="milliseconds to measure (default: 100)")
    parser.add_argument("--passes", action="store_true", help="add a table of passes; compiles without the cache")
    parser.add_argument("--json", action="store_true", help="print one JSON list instead of text")
    parser.add_argument("--html", metavar="OUT", type=Path, help="write a page with a roofline plot to OUT")
    given = parser.parse_args(list(words))
    sizes = dict(_size(text) for text in given.size)

    from tile_core.settings import settings

    from .render import page, pass_table, text
    from .report import profile_kernel

    reports = []
    for kernel, function in kernels_of(given):
        with settings.scope(disable_cache=True) if given.passes else settings.scope():
            made = api.compile(function, target=given.target or kernel.options.get("target"))
        named = {**{symbol.name: 1024 for symbol in function.size_vars()}, **sizes}
        report = profile_kernel(made, named, rep=given.rep)  # type: ignore[arg-type]
        reports.append(report)
        if not given.json:
            print(("\n" if len(reports) > 1 else "") + text(report), flush=True)
            if given.passes:
                print(pass_table(report))
    if given.json:
        print(json.dumps([report.as_dict() for report in reports], indent=2))
    if given.html is not None:
        given.html.write_text(page(reports), encoding="utf-8")
        print(f"wrote {given.html}", file=sys.stderr if given.json else sys.stdout)
    return 0


def _size(text: str) -> tuple[str, int]:
    name, equals, value = text.partition("=")
    if not equals or not name.isidentifier() or not value.lstrip("-").isdecimal():
        raise OptionError("E-CLI-SIZE", f"--size {text!r} is not NAME=N", help="write --size M=4096")
    return name, int(value)
