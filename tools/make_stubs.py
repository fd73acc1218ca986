"""Writes the type stub of ``tile_core.language``: the names that its modules define, the element types, the dialects.

    python tools/make_stubs.py            write it
    python tools/make_stubs.py --check    say whether the committed one is current (exit code 1 when not)

Vector types and dialects come from the module's `__getattr__`, which no type checker can follow; hence the stub.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "packages" / "tile-core" / "src" / "tile_core" / "language"
STUB = PACKAGE / "__init__.pyi"
_LANES = (2, 4, 8, 16, 32, 64)


def main(arguments: list[str] | None = None) -> int:
    """Runs the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--check", action="store_true", help="compare only")
    options = parser.parse_args(arguments)
    text = stub_text()
    current = STUB.read_text(encoding="utf-8") if STUB.exists() else ""
    if options.check:
        if current == text:
            return 0
        print(f"{STUB.relative_to(ROOT)} is not current: run python tools/make_stubs.py", file=sys.stderr)
        return 1
    STUB.write_text(text, encoding="utf-8")
    return 0


def stub_text() -> str:
    """The stub as it should be."""
    sys.path.insert(0, str(PACKAGE.parent.parent))
    import tile_core.language as language
    from tile_core.dtypes import SCALAR_NAMES

    lines = [
        "# Written by tools/make_stubs.py; change the modules, not this file.",
        "# ruff: noqa: I001",
        "from typing import Any",
        "",
        "from ..dtypes import DType",
    ]
    origins: dict[str, str] = language._ORIGINS
    lines += [f"from {origins[name]} import {name} as {name}" for name in language.__all__ if name in origins]
    lines.append("")
    lines += [f"{name}: DType" for name in language.__all__ if name not in origins]
    for scalar in SCALAR_NAMES:
        if scalar not in ("bool", "int4", "handle", "void"):
            lines += [f"{scalar}x{lanes}: DType" for lanes in _LANES]
    lines += [f"{name}: Any" for name in _dialects()]
    lines += ["", "__all__ = ["]
    lines += [f'    "{name}",' for name in language.__all__]
    lines += ["]"]
    return "\n".join(lines) + "\n"


def _dialects() -> list[str]:
    """The dialects that the workspace's distributions bring."""
    found: set[str] = set()
    for project in sorted(ROOT.glob("p*/*/pyproject.toml")):
        section = re.search(r'\[project\.entry-points\."tile\.dialects"\]\n((?:\w.*\n)+)', project.read_text("utf-8"))
        if section is not None:
            found.update(line.split("=")[0].strip() for line in section[1].splitlines())
    return sorted(found)


if __name__ == "__main__":
    sys.exit(main())
