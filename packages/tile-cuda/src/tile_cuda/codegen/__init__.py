"""CUDA source from device functions: not in this version, which says so."""

from __future__ import annotations

from typing import NoReturn

from tile_core.ir import IRModule
from tile_core.target import Target

from ..unsupported import unsupported

__all__ = ["generate"]


def generate(module: IRModule, target: Target) -> NoReturn:
    """Raises PluginError E-CUDA-CODEGEN."""
    raise unsupported(target)
