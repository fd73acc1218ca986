"""LoopUnswitching: a nest whose loads are guarded gets a second version without guards, for when all of it is inside.

Needs PIPED, leaves the form as it is. ``for i: for j: S[i, j] = select(base_i + i < M and base_j + j < N, A[…], 0)``
becomes ``if base_i + 127 < M and base_j + 31 < N: <the nest without conditions> else: <the nest>``. All blocks but
those at an edge take the first version, whose loops have constant bounds and whole vectors; what is left for an edge
keeps its conditions, which become masks.

Runs after LegalizeSafeMemoryAccess, which puts the guards there. Guards round stores are TightenLoopBounds' business:
they become bounds.
"""

from __future__ import annotations

from typing import Any

from ..ir import (
    Binary,
    Bind,
    Buffer,
    BufferLoad,
    Expr,
    For,
    If,
    IntImm,
    PrimFunc,
    Rewriter,
    Select,
    Stmt,
    Var,
    binary,
    is_zero,
    substitute,
    walk,
)
from ..ir.structural import structural_equal
from .base import Pass, PassContext, register_pass
from .linear import linear_in, mentioned_vars
from .options import declare_option
from .scoped import conjuncts, is_index

__all__ = ["LoopUnswitching"]

# A second version doubles the body; larger ones keep one version with masks.
_LARGEST_BODY = 600


declare_option("tl.disable_loop_unswitching", False, bool, "no hoisting of conditions out of loops")


@register_pass("LoopUnswitching", needs="PIPED..THREAD", leaves="same", options=("tl.disable_loop_unswitching",))
class LoopUnswitching(Pass):
    def function(self, function: PrimFunc, context: PassContext) -> PrimFunc:
        if context.options["tl.disable_loop_unswitching"]:
            return function
        return _Unswitch().rewrite(function)


class _Unswitch(Rewriter):
    def rewrite_For(self, node: For) -> Stmt | None:
        loops, body = _nest(node)
        if node.kind != "parallel" and any(loop.kind == "parallel" for loop in loops):
            # A serial loop round parallel ones goes over tiles: most of them are whole, and only the last has an edge.
            return self.rewrite_children(node)
        conditions = _guards(body)
        inside = None if not conditions else _whole_nest(_spelt_out(conditions, body), loops, bound_symbols(body))
        if inside is None:
            return self.rewrite_children(node)
        fast = _Decide(conditions).rewrite(node)
        return If(inside, fast, fresh_binders(node), span=node.span)


def _nest(loop: For) -> tuple[list[For], Stmt]:
    """Perfectly nested loops from `loop` on, and the body inside them."""
    loops = [loop]
    while isinstance(loops[-1].body, For):
        loops.append(loops[-1].body)
    return loops, loops[-1].body


def _guards(body: Stmt) -> list[Expr]:
    """The conditions of lazy selects round loads from global tensors, each once; none where the body is large."""
    found: list[Expr] = []
    for size, item in enumerate(walk(body), 1):
        if size > _LARGEST_BODY:
            return []
        if isinstance(item, Select) and item.lazy and _reads_tensor(item.true_value):
            for condition in conjuncts(item.condition):
                if is_index(condition) and not any(structural_equal(condition, known) for known in found):
                    found.append(condition)
    return found


def _spelt_out(conditions: list[Expr], body: Stmt) -> list[Expr]:
    """Conditions with the arithmetic that their names stand for in place of names that the body gives."""
    values: dict[Var, Expr] = {}
    for item in walk(body):
        if isinstance(item, Bind) and is_index(item.value):
            values[item.var] = substitute(item.value, values)
    return [substitute(c, values) for c in conditions] if values else conditions


def _whole_nest(conditions: list[Expr], loops: list[For], inner: set[Any]) -> Expr | None:
    """The condition, outside the nest, under which all of `conditions` hold in every iteration; None where there is
    none.
    """
    result: Expr | None = None
    for condition in conditions:
        if mentioned_vars(condition) & inner:
            return None
        worst: Expr | None = condition
        for loop in reversed(loops):
            worst = None if worst is None or loop.step is not None else _worst(worst, loop)
        if worst is None:
            return None
        result = worst if result is None else binary("and", result, worst)
    return result


def _worst(condition: Expr, loop: For) -> Expr | None:
    """A comparison at the iteration of `loop` at which it is hardest to meet."""
    if not isinstance(condition, Binary) or condition.op not in ("lt", "le", "gt", "ge"):
        return None
    a, b = linear_in(condition.a, loop.var), linear_in(condition.b, loop.var)
    if a is None or b is None:
        return None
    slope = binary("sub", a[0], b[0])
    if is_zero(slope):
        return condition
    if not isinstance(slope, IntImm):
        return None
    rising = slope.value > 0
    last = (condition.op in ("lt", "le")) == rising
    end = binary("sub", binary("add", loop.min, loop.extent), 1) if last else loop.min
    if is_zero(loop.min) and last:
        end = binary("sub", loop.extent, 1)
    return substitute(condition, {loop.var: end})


class _Decide(Rewriter):
    """Takes conditions for true."""

    def __init__(self, known: list[Expr]) -> None:
        super().__init__()
        self.known = known

    def rewrite_Select(self, node: Select) -> Expr:
        condition = self.remaining(node.condition)
        if condition is None:
            return self.rewrite(node.true_value)
        new = self.rewrite_children(node)
        return new if condition is node.condition else new.with_(condition=condition)

    def rewrite_If(self, node: If) -> Stmt | None:
        condition = self.remaining(node.condition)
        if condition is None:
            return self.rewrite(node.then_body)
        new = self.rewrite_children(node)
        return new if condition is node.condition else new.with_(condition=condition)

    def remaining(self, condition: Expr) -> Expr | None:
        """What a condition still asks, None where nothing is left."""
        parts = conjuncts(condition)
        left = [p for p in parts if not any(structural_equal(p, k) for k in self.known)]
        if len(left) == len(parts):
            return condition
        result: Expr | None = None
        for part in left:
            result = part if result is None else binary("and", result, part)
        return result


def bound_symbols(body: Stmt) -> set[Any]:
    """Variables and buffers that a statement itself introduces."""
    found: dict[Any, None] = {}
    for item in walk(body):
        for field in item.FIELDS:
            if field.kind == "binder":
                value = getattr(item, field.name)
                found.update(dict.fromkeys(value if isinstance(value, tuple) else (value,)))
    return set(found)


def fresh_binders(body: Stmt) -> Stmt:
    """A copy of a statement whose own variables and buffers are new ones, so that nothing is declared twice."""
    own = bound_symbols(body)
    variables = {v: v.with_() for v in own if isinstance(v, Var)}
    buffers = {b: b.with_() for b in own if isinstance(b, Buffer)}
    return substitute(body, variables, buffers) if own else body


def _reads_tensor(expr: Expr) -> bool:
    return any(isinstance(item, BufferLoad) and item.buffer.memory.level == "device" for item in walk(expr))
