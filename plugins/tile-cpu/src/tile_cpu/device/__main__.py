"""Writes ``tile/numbers.h`` from the table of formats; a test fails when it differs."""

from __future__ import annotations

from pathlib import Path

from tile_core.codegen.numbers import numbers_text

_NOTICE = (
    "// Written by `python -m tile_cpu.device` from the table of formats and numbers.h of tile_core: edit those.\n"
)
PATH = Path(__file__).parent / "tile" / "numbers.h"


def render() -> str:
    """The header's text."""
    return f"{_NOTICE}#pragma once\n\nnamespace tile {{\n\n{numbers_text()}\n}}  // namespace tile\n"


if __name__ == "__main__":
    PATH.write_text(render(), encoding="utf-8")
