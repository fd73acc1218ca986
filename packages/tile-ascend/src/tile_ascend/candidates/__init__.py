"""How Ascend carries out tile ops. This version brings no candidate of its own."""

from __future__ import annotations

from tile_core.tileop import Candidate

__all__ = ["candidates"]


def candidates() -> tuple[Candidate, ...]:
    """The candidates in order of preference."""
    return ()
