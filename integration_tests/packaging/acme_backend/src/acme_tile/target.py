"""The target ``acme``: it has no options."""

from __future__ import annotations

from tile_core.errors import TargetError
from tile_core.plugin import Ok
from tile_core.target import Target

__all__ = ["detect", "resolve_target"]


def resolve_target(target: Target) -> Target:
    """The target as it is.

    Raises:
        TargetError: it has options.
    """
    if target.attrs:
        raise TargetError(
            "E-TARGET-OPTION",
            f"target {target} has options",
            facts=[f"found: {', '.join(target.attrs)}"],
            help="write acme alone",
        )
    return target


def detect() -> Ok:
    """The simulator is always there."""
    return Ok("host simulator")
