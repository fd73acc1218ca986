"""The C text that launches kernels through the driver, part of every host stub."""

from __future__ import annotations

from functools import cache
from pathlib import Path

__all__ = ["launcher_prelude"]


@cache
def launcher_prelude() -> str:
    """The text of ``launcher.h``; it follows `tile_core.codegen.abi_prelude`."""
    return (Path(__file__).parent / "launcher.h").read_text(encoding="utf-8")
