"""Writes the headers that share their text with other backends; a test fails when one differs."""

from __future__ import annotations

from pathlib import Path

from tile_core.codegen.numbers import SHARED_TEXTS, shared_text

_NOTICE = "// Written by `python -m tile_cpu.device` from tile_core.codegen and its table of formats: edit those.\n"
FOLDER = Path(__file__).parent / "tile"


def render(name: str) -> str:
    """The text of ``<name>.h``."""
    return f"{_NOTICE}#pragma once\n\nnamespace tile {{\n\n{shared_text(name)}\n}}  // namespace tile\n"


if __name__ == "__main__":
    for each in SHARED_TEXTS:
        (FOLDER / f"{each}.h").write_text(render(each), encoding="utf-8")
