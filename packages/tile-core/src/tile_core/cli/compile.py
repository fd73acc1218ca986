"""``tile compile``: compiles the kernels of a file and shows what came out."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from .. import api
from ..errors import UserError, declare_codes
from ..ir import PrimFunc, structural_key
from ..plugin import PLUGIN_API, Command
from .kernels import FileKernel, add_arguments, kernels_of

__all__ = ["COMMAND", "run"]

declare_codes({"E-CLI-SHOW": "a part of a compiled kernel that tile compile cannot show"})

COMMAND = Command(
    "compile", PLUGIN_API, "compile the kernels of a file; show IR, sources, attributes or key", f"{__name__}:run"
)
PARTS = ("ir", "device", "host", "attrs", "key")


def run(words: Sequence[str]) -> int:
    """Runs the command; gives the exit code."""
    parser = argparse.ArgumentParser("tile compile", description="Compiles the kernels of a Python file.")
    add_arguments(parser)
    parser.add_argument(
        "--show",
        metavar="PARTS",
        type=_parts,
        default=(),
        help=f"print these instead of compiling to a binary: {', '.join(PARTS)} (separated by commas)",
    )
    given = parser.parse_args(list(words))
    kernels = kernels_of(given)
    for position, (kernel, function) in enumerate(kernels):
        if given.show:
            if len(kernels) > 1:
                print(f"{chr(10) if position else ''}# ===== kernel {kernel.name}")
            _show(given.show, kernel, function, given.target)
        else:
            print(_compiled(kernel, function, given.target))
    return 0


def _parts(text: str) -> tuple[str, ...]:
    parts = tuple(part.strip() for part in text.split(",") if part.strip())
    for part in parts:
        if part not in PARTS:
            raise argparse.ArgumentTypeError(f"{part!r} is not one of {', '.join(PARTS)}")
    return parts


def _show(parts: Sequence[str], kernel: FileKernel, function: PrimFunc, target: str | None) -> None:
    target = target or kernel.options.get("target")
    artifact: Any = None
    if {"device", "host", "attrs"} & set(parts):
        artifact = api.lower(function, target)
    for part in parts:
        if len(parts) > 1:
            print(f"# --- {part}")
        if part == "ir":
            print(function.script(spans=True), end="")
        elif part == "attrs":
            print(f"target = {artifact.target}")
            print("\n".join(f"{key} = {value!r}" for key, value in function.attrs))
        elif part == "key":
            print(f"ir {structural_key(function)}")
            print(f"cache {_cache_key(function, target) or 'none: this compile is not kept on disk'}")
        else:
            print(_source(artifact, part), end="")


def _cache_key(function: PrimFunc, target: str | None) -> str:
    return getattr(api.compile(function, target=target), "key", "")


def _source(artifact: Any, part: str) -> str:
    """The generated sources whose names speak of the host, or all others."""
    chosen = {name: text for name, text in artifact.sources.items() if ("host" in name) == (part == "host")}
    if not chosen:
        raise UserError(
            "E-CLI-SHOW",
            f"the backend of {artifact.target.kind} makes no source for the {part} side",
            facts=[f"sources: {', '.join(artifact.sources) or 'none'}"],
        )
    if len(chosen) == 1:
        return next(iter(chosen.values())).rstrip("\n") + "\n"
    return "".join(f"// {name}\n{text.rstrip()}\n" for name, text in chosen.items())


def _compiled(kernel: FileKernel, function: PrimFunc, target: str | None) -> str:
    made: Any = api.compile(function, target=target or kernel.options.get("target"))
    notes = made.artifact.notes.get("seconds", {}) if hasattr(made, "artifact") else {}
    times = ", ".join(f"{phase} {seconds * 1e3:.0f} ms" for phase, seconds in notes.items())
    origin = {"compiled": "compiled", "disk": "found on disk"}.get(getattr(made, "origin", ""), "ready")
    key = getattr(made, "key", "")
    return (
        f"{kernel.name}: {origin} for {made.target}"
        + (f"; {times}" if times else "")
        + (f"; key {key[:16]}…" if key else "")
    )
