"""The text of both ``tile_cuda.h``: fixed parts (types, vectors, mathematics) followed by a function for each row.

``python -m tile_cuda.device`` writes them; a test fails when the files differ from the table.
"""

from __future__ import annotations

import re
import textwrap
from functools import cache
from pathlib import Path

from tile_core.codegen.numbers import shared_text

from . import table, table_atomic, table_decode, table_warp  # noqa: F401  (the rows)
from .row import DeviceFunction, device_functions

__all__ = ["HEADER_NAME", "device_header", "emulation_include_dir", "include_dir", "render", "write_headers"]

HEADER_NAME = "tile_cuda.h"
_FOLDER = Path(__file__).parent
_PARTS = ("types.h", "vec.h", "cache.h", "math.h", "functions.h", "rounded.h", "debug.h")
_NOTICE = "// Written from the device function table by `python -m tile_cuda.device`: edit the table or the parts.\n"


def include_dir() -> Path:
    """The folder of the header for device compilers."""
    return _FOLDER / "include"


def emulation_include_dir() -> Path:
    """The folder of the header for the emulator."""
    return _FOLDER / "emulation"


@cache
def device_header() -> str:
    """The header for device compilers, as packaged."""
    return (include_dir() / HEADER_NAME).read_text(encoding="utf-8")


def render(emulate: bool) -> str:
    """The header's text, from parts and table."""
    parts = ["emulation.h" if emulate else "cuda.h", *_PARTS]
    text = [_NOTICE + "#pragma once\n"]
    text += [_part(name) for name in parts]
    text.append("namespace tile {\n\n")
    text += [_function(row, emulate) for row in device_functions()]
    text.append("}  // namespace tile\n")
    text.append((_FOLDER / "parts" / "fast.h").read_text(encoding="utf-8"))
    return "".join(text)


def _part(name: str) -> str:
    text = (_FOLDER / "parts" / name).read_text(encoding="utf-8")
    return re.sub(r"//@(\w+)\n", lambda mark: shared_text(mark[1]), text)


def write_headers() -> None:
    """Writes both files."""
    for folder, emulate in ((include_dir(), False), (emulation_include_dir(), True)):
        folder.mkdir(exist_ok=True)
        (folder / HEADER_NAME).write_text(render(emulate), encoding="utf-8")


def _prototype(row: DeviceFunction) -> str:
    head, mark, rest = (
        row.signature.partition("> ") if row.signature.startswith("template") else ("", "", row.signature)
    )
    return f"{head}>\nTILE_FN {rest}" if mark else f"TILE_FN {rest}"


def _function(row: DeviceFunction, emulate: bool) -> str:
    body = textwrap.indent(textwrap.dedent(row.emulation if emulate else row.ptx).strip(), "  ")
    # Preprocessor lines stand at the margin.
    body = "\n".join(line.lstrip() if line.lstrip().startswith("#") else line for line in body.splitlines())
    text = f"// {row.doc}\n{_prototype(row)} {{\n{body}\n}}\n"
    if not emulate and row.minimum > 75:
        text = f"#if TILE_ARCH >= {row.minimum}\n{text}#endif\n"
    return text + "\n"
