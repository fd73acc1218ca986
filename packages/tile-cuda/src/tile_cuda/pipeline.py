"""The CUDA pipeline, from TILE to PACKED: not in this version, which says so."""

from __future__ import annotations

from typing import Any, NoReturn

from tile_core.target import Target

from .unsupported import unsupported

__all__ = ["pipeline"]


def pipeline(target: Target, options: Any) -> NoReturn:
    """Raises PluginError E-CUDA-CODEGEN."""
    raise unsupported(target)
