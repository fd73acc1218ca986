"""Simplify: expressions in canonical form, statements that do nothing removed.

Needs any form up to FLAT, leaves it. Ranges of loops and grids, assumptions, conditions of branches and named values
are used where they hold. Loops that never run, branches never taken, dead names of pure values and empty statements
go; a serial loop of one iteration is its body. A statement that stays as it was is the same object, and its span is
kept.
"""

from __future__ import annotations

from typing import Any

from ..arith import Prover
from ..ir import (
    Assert,
    Attr,
    Bind,
    Block,
    Break,
    Broadcast,
    Buffer,
    BufferLoad,
    BufferStore,
    Call,
    Continue,
    Evaluate,
    Expr,
    For,
    If,
    IntImm,
    PrimFunc,
    Rewriter,
    Seq,
    Stmt,
    Var,
    While,
    binary,
    const,
    substitute,
    unary,
    walk,
)
from ..ir.intrinsics import intrinsics
from ..ir.node import Node
from .base import Pass, PassContext, register_pass
from .scoped import ScopedRewriter

__all__ = ["Simplify"]


@register_pass("Simplify", needs="TILE..FLAT", leaves="same", options=("tl.Simplify",))
class Simplify(Pass):
    def function(self, function: PrimFunc, context: PassContext) -> PrimFunc:
        new = _Simplify(Prover(solver=False)).rewrite(function)
        return _without_dead_names(new)


class _Simplify(ScopedRewriter):
    def rewrite_Expr(self, node: Expr) -> Expr:
        new = self.prover.simplify(node)
        # The author's own node says where it stands; an equal one from elsewhere would not.
        return node if new is node or _same(new, node) else new

    rewrite_Select = rewrite_Expr  # type: ignore[assignment]
    rewrite_Let = rewrite_Expr  # type: ignore[assignment]

    def rewrite_BufferLoad(self, node: BufferLoad) -> Expr:
        new = self.rewrite_Expr(node)
        if isinstance(new, BufferLoad) and new.predicate is not None and _truth(new.predicate) is True:
            return new.with_(predicate=None)
        return new

    def facts(self, condition: Expr) -> list[Any]:
        return [self.prover.assume(condition)]

    def value_fact(self, var: Any, value: Expr) -> list[Any]:
        return [self.prover.bind_value(var, value)]

    def loop_range(self, node: For) -> Any:
        if isinstance(node.step, IntImm) and node.step.value > 0:
            return self.prover.bind(node.var, node.min, node.extent, node.step.value)
        if isinstance(node.step, IntImm) and node.step.value < 0:
            last = binary("add", node.min, binary("mul", binary("sub", node.extent, 1), node.step))
            return self.prover.bind(node.var, last, node.extent, -node.step.value)
        if node.step is not None:
            return self.prover.assume(binary("gt", node.extent, const(0, node.extent.dtype)))
        return self.prover.bind(node.var, node.min, node.extent)

    def rewrite_BufferStore(self, node: BufferStore) -> Stmt | None:
        new = self.rewrite_children(node)
        truth = None if new.predicate is None else _truth(new.predicate)
        if truth is None:
            return new
        return new.with_(predicate=None) if truth else None

    def rewrite_For(self, node: For) -> Stmt | None:
        extent = self.rewrite(node.extent)
        if self.prover.bounds(extent).hi <= 0:
            return None
        if _runs_once(node, extent):
            low = self.rewrite(node.min)
            return self.rewrite(substitute(node.body, {node.var: low}))
        new = super().rewrite_For(node)
        return None if new is None or (_empty(new.body) and node.kind != "pipelined") else new  # type: ignore[attr-defined]

    def rewrite_While(self, node: While) -> Stmt | None:
        condition = self.rewrite(node.condition)
        if _truth(condition) is False:
            return None
        return super().rewrite_While(node)

    def rewrite_If(self, node: If) -> Stmt | None:
        truth = _truth(self.rewrite(node.condition))
        if truth is not None:
            taken = node.then_body if truth else node.else_body
            return None if taken is None else self.rewrite(taken)
        new = super().rewrite_If(node)
        if not isinstance(new, If):
            return new
        else_body = None if new.else_body is None or _empty(new.else_body) else new.else_body
        if _empty(new.then_body):
            if else_body is None:
                return None if _pure(new.condition) else Evaluate(new.condition, span=node.span)
            return If(self.prover.simplify(unary("not", new.condition)), else_body, None, span=node.span)
        return new if else_body is new.else_body else new.with_(else_body=None)

    def rewrite_Evaluate(self, node: Evaluate) -> Stmt | None:
        new = self.rewrite_children(node)
        return None if _pure(new.value) else new

    def rewrite_Assert(self, node: Assert) -> Stmt | None:
        new = self.rewrite_children(node)
        return None if _truth(new.condition) is True else new

    def rewrite_Attr(self, node: Attr) -> Stmt | None:
        if node.key != "assume" or node.value is None:
            return super().rewrite_Attr(node)
        # The stated fact itself is not simplified by what was known before in ways that lose it: only a true one goes.
        value = self.rewrite(node.value)
        if _truth(value) is True:
            return self.rewrite(node.body)
        new = super().rewrite_Attr(node)
        return None if new is not None and _empty(new.body) else new  # type: ignore[attr-defined]

    def rewrite_Block(self, node: Block) -> Stmt | None:
        new = self.rewrite_children(node)
        return None if _empty(new.body) and not new.annotations else new

    def buffer(self, buffer: Buffer) -> Buffer:
        # Shapes are contracts between passes and with the caller: they stay as declared.
        return buffer


def _runs_once(node: For, extent: Expr) -> bool:
    if not (isinstance(extent, IntImm) and extent.value == 1) or node.kind not in ("serial", "unroll"):
        return False
    return not node.annotations and not _jumps(node.body)


def _jumps(stmt: Stmt) -> bool:
    """Whether a break or continue of this very loop is in its body."""
    stack: list[Any] = [stmt]
    while stack:
        item = stack.pop()
        if isinstance(item, (Break, Continue)):
            return True
        if isinstance(item, Stmt) and not isinstance(item, (For, While)):
            stack += item.child_nodes()
    return False


def _truth(condition: Expr) -> bool | None:
    if isinstance(condition, Broadcast):
        condition = condition.value
    return bool(condition.value) if isinstance(condition, IntImm) else None


def _empty(stmt: Stmt) -> bool:
    return isinstance(stmt, Seq) and not stmt.stmts


def _pure(expr: Expr) -> bool:
    """Whether evaluating an expression changes nothing."""
    for item in walk(expr):
        if isinstance(item, Call):
            row = intrinsics().get(item.op)
            if row is None or not row.pure:
                return False
    return True


def _same(a: Any, b: Any) -> bool:
    """Whether two expressions are equal node for node, with the same variables and buffers."""
    stack = [(a, b)]
    while stack:
        x, y = stack.pop()
        if x is y:
            continue
        if type(x) is not type(y) or isinstance(x, Var):
            return False
        for field in x.FIELDS:
            if field.kind in ("span", "derived"):
                continue
            p, q = getattr(x, field.name), getattr(y, field.name)
            if p is q:
                continue
            if field.kind == "child":
                if p is None or q is None:
                    return False
                stack.append((p, q))
            elif field.kind == "children":
                if len(p) != len(q):
                    return False
                stack += zip(p, q)
            elif (
                isinstance(p, Node)
                or isinstance(q, Node)
                or type(p) is not type(q)
                or p != q
                or (isinstance(p, float) and str(p) != str(q))
            ):
                return False
    return True


def _without_dead_names(function: PrimFunc) -> PrimFunc:
    """The function without names of pure values that nothing uses."""
    while True:
        binds = [n for n in walk(function.body) if isinstance(n, Bind)]
        if not binds:
            return function
        used = _used_variables(function)
        dead = {id(b) for b in binds if b.var not in used and _pure(b.value)}
        if not dead:
            return function
        function = _DropBinds(dead).rewrite(function)


def _used_variables(function: PrimFunc) -> set[Var]:
    used: set[Var] = set()
    seen: set[int] = set()
    stack: list[Any] = [function.body, *function.params]
    while stack:
        item = stack.pop()
        if isinstance(item, Var):
            used.add(item)
            continue
        if isinstance(item, (tuple, list)):
            stack += item
            continue
        if isinstance(item, dict):
            stack += item.values()
            continue
        if not isinstance(item, Node) or id(item) in seen:
            continue
        if isinstance(item, Buffer):
            seen.add(id(item))
        for field in item.FIELDS:
            if field.kind in ("child", "children", "attr") or (field.kind == "binder" and not isinstance(item, Bind)):
                stack.append(getattr(item, field.name))
    return used


class _DropBinds(Rewriter):
    def __init__(self, dead: set[int]) -> None:
        super().__init__()
        self.dead = dead

    def rewrite_Bind(self, node: Bind) -> Stmt | None:
        return None if id(node) in self.dead else node

    def rewrite_Expr(self, node: Expr) -> Expr:
        return node

    def buffer(self, buffer: Buffer) -> Buffer:
        return buffer
