"""The execution backend ``nvrtc``: declared, and honest about what this version cannot do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tile_core.plugin import Artifact, Reason

from ..unsupported import ADVICE, WHAT, unsupported

__all__ = ["available", "build"]


def available() -> Reason:
    """Never, in this version."""
    return Reason(WHAT, ADVICE)


def build(artifact: Artifact) -> Callable[..., Any]:
    """Raises PluginError: no artifact for CUDA can exist yet."""
    raise unsupported(artifact.target)
