"""TightenLoopBounds: a guard that holds for a first or last part of a loop becomes the loop's bounds.

Needs PIPED, leaves the form as it is. ``for i < 128: if base + i < M: store`` becomes ``for i < min(128, max(M -
base, 0)): store``. What is left inside has no predicate for each element, so it becomes whole vectors. A condition
that does not depend on the loop leaves it. Clamping keeps the order of the iterations that remain, so serial loops
are treated like parallel ones.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..ir import (
    Binary,
    Block,
    Break,
    Continue,
    Expr,
    For,
    If,
    IntImm,
    PrimFunc,
    Rewriter,
    Seq,
    Stmt,
    binary,
    cast,
    const,
    is_zero,
    seq,
    walk,
)
from ..ir.structural import structural_equal
from .base import Pass, PassContext, register_pass
from .linear import linear_in, mentioned_vars
from .loop_unswitching import bound_symbols
from .scoped import conjuncts, is_index

__all__ = ["TightenLoopBounds"]


@register_pass("TightenLoopBounds", needs="PIPED..THREAD", leaves="same")
class TightenLoopBounds(Pass):
    def function(self, function: PrimFunc, context: PassContext) -> PrimFunc:
        return _Tighten().rewrite(function)


@dataclass(frozen=True)
class _Threshold:
    """`condition` holds for the iterations below `trip` (`rising` False) or from it on (`rising` True), counted from
    the loop's min."""

    condition: Expr
    trip: Expr
    rising: bool


class _Tighten(Rewriter):
    def rewrite_For(self, node: For) -> Stmt | None:
        body = self.rewrite(node.body)
        if body is None:
            return None
        loop = node if body is node.body else node.with_(body=body)
        if loop.step is not None or _leaves_early(body):
            return loop
        outer, loop = _clamp(loop)
        return loop if outer is None else If(outer, loop, span=node.span)


def _clamp(loop: For) -> tuple[Expr | None, For]:
    """The loop without the guard that its whole body stands under: (what is to be checked before the loop, the
    loop)."""
    guard, body = _common_guard(loop.body)
    if not guard:
        return None, loop
    outer: list[Expr] = []
    kept: list[Expr] = []
    low, high = const(0, loop.extent.dtype), loop.extent
    variant = bound_symbols(loop.body)
    for condition in guard:
        if not is_index(condition) or variant & mentioned_vars(condition):
            kept.append(condition)
            continue
        threshold = _threshold(condition, loop)
        if threshold is None:
            kept.append(condition)
        elif threshold.trip is loop.extent:
            outer.append(condition)
        elif threshold.rising:
            # The threshold of `0 <= base + i` is negative where the base is not: the loop begins at 0 then.
            low = binary("max", low, threshold.trip)
        else:
            high = binary("min", high, threshold.trip)
    if len(kept) == len(guard):
        return None, loop
    if kept:
        body = If(_conjunction(kept), body)
    extent = high
    if not is_zero(low):
        low = binary("min", low, loop.extent)
        extent = binary("max", binary("sub", high, low), const(0, high.dtype))
    elif high is not loop.extent:
        extent = binary("max", high, const(0, high.dtype))
    tight = loop.with_(min=_sum(loop.min, low), extent=extent, body=body)
    return (_conjunction(outer) if outer else None), tight


def _common_guard(body: Stmt) -> tuple[list[Expr], Stmt]:
    """The conditions under which all of `body` stands, and `body` without them."""
    if isinstance(body, If) and body.else_body is None:
        inner, rest = _common_guard(body.then_body)
        return [*conjuncts(body.condition), *inner], rest
    if isinstance(body, Block):
        guard, rest = _common_guard(body.body)
        return (guard, body.with_(body=rest)) if guard else ([], body)
    if isinstance(body, Seq) and body.stmts and all(isinstance(s, If) and s.else_body is None for s in body.stmts):
        parts = [_common_guard(s) for s in body.stmts]
        first = parts[0][0]
        same = all(len(g) == len(first) and all(structural_equal(a, b) for a, b in zip(g, first)) for g, _ in parts)
        # Statements of one sequence could change what a condition reads; index conditions read nothing.
        if same and all(is_index(c) for c in first):
            return first, seq(*(rest for _, rest in parts))
    return [], body


def _threshold(condition: Expr, loop: For) -> _Threshold | None:
    """Where `condition` changes over the loop; a trip that is the loop's own extent says that it does not change at
    all."""
    if not isinstance(condition, Binary) or condition.op not in ("lt", "le", "gt", "ge"):
        return None if loop.var in mentioned_vars(condition) else _Threshold(condition, loop.extent, False)
    a, b = linear_in(condition.a, loop.var), linear_in(condition.b, loop.var)
    if a is None or b is None:
        return None
    coefficient = binary("sub", a[0], b[0])
    if is_zero(coefficient):
        return _Threshold(condition, loop.extent, False)
    if not isinstance(coefficient, IntImm) or abs(coefficient.value) != 1:
        return None
    # c·var + left  op  right, brought to  var op' bound.
    op, bound = condition.op, binary("sub", b[1], a[1])
    if coefficient.value < 0:
        bound = binary("sub", a[1], b[1])
        op = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le"}[op]
    if op in ("le", "gt"):
        bound = binary("add", bound, 1)
    bound = binary("sub", bound, loop.min) if not is_zero(loop.min) else bound
    # A bound of 64 bits may exceed the loop's type only where it is clamped to the extent anyway.
    trip = bound if bound.dtype is loop.extent.dtype else cast(_clip(bound, loop.extent), loop.extent.dtype)
    return _Threshold(condition, trip, op in ("ge", "gt"))


def _clip(bound: Expr, extent: Expr) -> Expr:
    return binary("max", binary("min", bound, cast(extent, bound.dtype)), const(0, bound.dtype))


def _leaves_early(body: Stmt) -> bool:
    return any(isinstance(item, (Break, Continue)) for item in walk(body))


def _conjunction(conditions: list[Expr]) -> Expr:
    result = conditions[0]
    for condition in conditions[1:]:
        result = binary("and", result, condition)
    return result


def _sum(a: Expr, b: Expr) -> Expr:
    return b if is_zero(a) else a if is_zero(b) else binary("add", a, b)
