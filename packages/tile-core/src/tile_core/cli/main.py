"""The ``tile`` program: finds the subcommand, runs it, turns errors into a text and an exit code.

Exit codes: 0 done, 1 the work failed (the text says why), 2 the command line is wrong.
"""

from __future__ import annotations

import difflib
import os
import sys
from collections.abc import Sequence

from ..__about__ import __version__
from ..errors import PluginError, TileError
from ..plugin import registry
from ..plugin.api import resolve

__all__ = ["main"]


def main(words: Sequence[str] | None = None) -> int:
    """Runs the program with the words of the command line; gives the exit code."""
    words = list(sys.argv[1:] if words is None else words)
    if not words or words[0] in ("-h", "--help", "help"):
        print(_usage())
        return 0 if words else 2
    if words[0] in ("-V", "--version"):
        print(f"tile {__version__}")
        return 0
    try:
        return _run(words[0], words[1:])
    except TileError as error:
        print(error, file=sys.stderr)
        return 1
    except BrokenPipeError:
        # The reader has seen enough (`tile show ir … | head`); nothing more may be written at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


def _run(name: str, words: list[str]) -> int:
    known = registry.current().names("tile.commands")
    if name not in known:
        near = difflib.get_close_matches(name, known, n=1)
        advice = f"did you mean `tile {near[0]}`?" if near else "`tile --help` lists the commands"
        print(f"tile: there is no command {name!r}; {advice}", file=sys.stderr)
        return 2
    command = registry.current().get("tile.commands", name)
    try:
        return int(resolve(command.run)(words) or 0)
    except SystemExit as end:
        # argparse ends so: 0 after --help, 2 after a wrong option.
        return end.code if isinstance(end.code, int) else 2


def _usage() -> str:
    lines = [
        "usage: tile COMMAND [OPTIONS]",
        "",
        "commands:",
    ]
    plugins = registry.current()
    for name in plugins.names("tile.commands"):
        try:
            summary = plugins.get("tile.commands", name).summary
        except PluginError as error:
            summary = f"cannot be used: {error.summary}"
        lines.append(f"  {name:<10} {summary}")
    lines += [
        "",
        "options:",
        "  --version  print the version",
        "  --help     print this; `tile COMMAND --help` for more",
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    raise SystemExit(main())
