"""Dependence: whether two accesses can touch the same element.

`boxes_apart` compares the boxes that accesses cover over all iterations: it proves that two never meet, cheaply.
Unknown overlap is a dependence.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..arith import Interval, Prover
from ..ir import Expr
from .access import AccessSite, root_buffer

__all__ = ["Box", "boxes_apart", "covered_box"]


@dataclass(frozen=True, slots=True)
class Box:
    """What an access covers at most, over all iterations: an interval for each axis, or None for "anything" (seen
    through a view)."""

    axes: tuple[Interval, ...] | None

    def apart_from(self, other: Box) -> bool:
        """Whether the two have no element in common."""
        if self.axes is None or other.axes is None or len(self.axes) != len(other.axes):
            return False
        return any(a.hi < b.lo or b.hi < a.lo for a, b in zip(self.axes, other.axes))


def covered_box(site: AccessSite, prover: Prover) -> Box:
    """The box of an access under what the prover knows where it stands."""
    if root_buffer(site.buffer) is not site.buffer:
        return Box(None)
    axes = []
    for low, extent in zip(site.region.mins, site.region.extents):
        axes.append(Interval(_low(low, prover), _high(low, extent, prover)))
    return Box(tuple(axes))


def boxes_apart(first: AccessSite, second: AccessSite, prover: Prover) -> bool:
    """Whether two accesses, at any two points of their loops, never touch one element."""
    if root_buffer(first.buffer) is not root_buffer(second.buffer):
        return True
    return covered_box(first, prover).apart_from(covered_box(second, prover))


def _low(low: Expr, prover: Prover) -> int | float:
    return prover.bounds(low).lo


def _high(low: Expr, extent: Expr, prover: Prover) -> int | float:
    return prover.bounds(low + extent - 1).hi
