"""Predicates of vectors, taken apart: what all lanes share keeps an access whole, what differs makes it one a lane."""

from __future__ import annotations

from tile_core.ir import Binary, Broadcast, Expr

__all__ = ["split_predicate"]


def split_predicate(predicate: Expr | None) -> tuple[Expr | None, Expr | None]:
    """What decides about all lanes, and what decides lane by lane."""
    if predicate is None:
        return None, None
    if predicate.dtype.lanes == 1:
        return predicate, None
    if isinstance(predicate, Broadcast):
        return predicate.value, None
    if isinstance(predicate, Binary) and predicate.op == "and":
        if isinstance(predicate.a, Broadcast) and isinstance(predicate.b, Broadcast):
            return Binary("and", predicate.a.value, predicate.b.value), None
    return None, predicate
