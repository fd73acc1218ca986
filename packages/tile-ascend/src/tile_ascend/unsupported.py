"""The one sentence about what this version of tile-ascend cannot do, for every place that must say it."""

from __future__ import annotations

from tile_core.errors import PluginError, declare_codes
from tile_core.target import Target

from .__about__ import __version__

__all__ = ["ADVICE", "WHAT", "unsupported"]

declare_codes({"E-ASCEND-CODEGEN": "this version of tile-ascend generates no Ascend code"})

WHAT = f"tile-ascend {__version__} generates no Ascend code yet; code generation comes with the next release"
ADVICE = 'use target="cpu" meanwhile, which runs the same kernels'


def unsupported(target: Target) -> PluginError:
    """The error for a compile for `target`."""
    return PluginError("E-ASCEND-CODEGEN", WHAT, facts=[f"target: {target}"], help=ADVICE)
