"""ScopedRewriter: a rewriter that knows what holds where it stands.

It keeps a prover in step with the walk: ranges of loop and grid variables, values of binds, conditions of branches and
assumptions. Expressions are rewritten anew in each scope, because what is true of a shared node differs between scopes.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from ..arith import Prover
from ..ir import (
    Attr,
    Binary,
    Bind,
    Expr,
    For,
    If,
    IntImm,
    KernelLaunch,
    Let,
    Rewriter,
    Select,
    Seq,
    Stmt,
    Unary,
    While,
    binary,
    const,
)

__all__ = ["ScopedRewriter", "conjuncts", "negated"]

_OPPOSITE = {"lt": "ge", "ge": "lt", "le": "gt", "gt": "le", "eq": "ne", "ne": "eq"}


class ScopedRewriter(Rewriter):
    """Rewrites with `self.prover` in step. Subclasses that override a statement method which opens a scope call
    `super()`'s or open it themselves with `self.scope`."""

    def __init__(self, prover: Prover) -> None:
        super().__init__()
        self.prover = prover

    @contextmanager
    def scope(self, *opened: Any) -> Iterator[None]:
        """Holds facts (results of the prover's bind, bind_value and assume) and a fresh memory of rewritten nodes."""
        kept, self._memo = self._memo, {}
        try:
            with ExitStack() as stack:
                for item in opened:
                    stack.enter_context(item)
                yield
        finally:
            self._memo = kept

    def rewrite_KernelLaunch(self, node: KernelLaunch) -> Stmt:
        grid = tuple(self.rewrite(e) for e in node.grid)
        pairs = [*zip(node.grid_vars, grid), *zip(node.thread_vars, node.threads)]
        with self.scope(*(self.prover.bind(var, 0, extent) for var, extent in pairs)):
            body = self.body(node.body)
        return _changed(node, grid=grid, body=body)

    def rewrite_For(self, node: For) -> Stmt | None:
        low, extent = self.rewrite(node.min), self.rewrite(node.extent)
        step = None if node.step is None else self.rewrite(node.step)
        with self.scope(self.loop_range(node)):
            body = self.body(node.body)
        return _changed(node, min=low, extent=extent, step=step, body=body)

    def loop_range(self, node: For) -> Any:
        """The fact that the loop's variable is in its range."""
        if node.step is None:
            return self.prover.bind(node.var, node.min, node.extent)
        reach = binary("mul", binary("sub", node.extent, 1), node.step)
        if isinstance(node.step, IntImm) and node.step.value < 0:
            low = binary("add", node.min, reach)
            return self.prover.bind(node.var, low, binary("sub", const(1, reach.dtype), reach))
        return self.prover.bind(node.var, node.min, binary("add", reach, 1))

    def rewrite_While(self, node: While) -> Stmt:
        # The condition may read what the body writes, so it is no fact inside the body.
        condition = self.rewrite(node.condition)
        with self.scope():
            body = self.body(node.body)
        return _changed(node, condition=condition, body=body)

    def rewrite_If(self, node: If) -> Stmt | None:
        condition = self.rewrite(node.condition)
        with self.scope(*self.facts(node.condition)):
            then_body = self.body(node.then_body)
        else_body = None
        if node.else_body is not None:
            with self.scope(*self.facts(negated(node.condition))):
                else_body = self.body(node.else_body)
        return _changed(node, condition=condition, then_body=then_body, else_body=else_body)

    def rewrite_Select(self, node: Select) -> Expr:
        condition = self.rewrite(node.condition)
        if not node.lazy:
            # Both values are evaluated whatever the condition says, so neither may rely on it.
            true_value, false_value = self.rewrite(node.true_value), self.rewrite(node.false_value)
            return _changed(node, condition=condition, true_value=true_value, false_value=false_value)
        with self.scope(*self.facts(node.condition)):
            true_value = self.rewrite(node.true_value)
        with self.scope(*self.facts(negated(node.condition))):
            false_value = self.rewrite(node.false_value)
        return _changed(node, condition=condition, true_value=true_value, false_value=false_value)

    def rewrite_Let(self, node: Let) -> Expr:
        value = self.rewrite(node.value)
        with self.scope(*self.value_fact(node.var, node.value)):
            body = self.rewrite(node.body)
        return _changed(node, value=value, body=body)

    def rewrite_Attr(self, node: Attr) -> Stmt | None:
        value = None if node.value is None else self.rewrite(node.value)
        facts = self.facts(node.value) if node.key == "assume" and node.value is not None else ()
        with self.scope(*facts):
            body = self.body(node.body)
        return _changed(node, value=value, body=body)

    def rewrite_Seq(self, node: Seq) -> Stmt | None:
        new: list[Stmt] = []
        with ExitStack() as stack:
            for stmt in node.stmts:
                result = self.rewrite(stmt)
                if result is not None:
                    new.extend(result.stmts if type(result) is Seq else (result,))
                if isinstance(stmt, Bind):
                    for fact in self.value_fact(stmt.var, stmt.value):
                        stack.enter_context(fact)
        if len(new) == len(node.stmts) and all(a is b for a, b in zip(new, node.stmts)):
            return node
        return new[0] if len(new) == 1 else Seq(tuple(new), span=node.span)

    def body(self, stmt: Stmt) -> Stmt:
        """A rewritten statement that must stay one."""
        new = self.rewrite(stmt)
        return Seq((), span=stmt.span) if new is None else new

    def facts(self, condition: Expr) -> list[Any]:
        """The prover's assumptions that a condition justifies: comparisons of integers that read no memory."""
        return [self.prover.assume(c) for c in conjuncts(condition) if c.dtype.lanes == 1 and _is_index_fact(c)]

    def value_fact(self, var: Any, value: Expr) -> list[Any]:
        """The fact that a bound variable equals its value, where the prover can use it."""
        return (
            [self.prover.bind_value(var, value)]
            if var.dtype.is_int and var.dtype.lanes == 1 and is_index(value)
            else []
        )


def conjuncts(condition: Expr) -> list[Expr]:
    """The conditions whose conjunction `condition` is, in order."""
    found: list[Expr] = []
    stack = [condition]
    while stack:
        item = stack.pop()
        if isinstance(item, Binary) and item.op == "and":
            stack += [item.b, item.a]
        elif not (isinstance(item, IntImm) and item.value):
            found.append(item)
    return found


def negated(condition: Expr) -> Expr:
    """The opposite of an integer condition, without a `not` where the comparison has an opposite."""
    if isinstance(condition, Binary) and condition.op in _OPPOSITE and not condition.a.dtype.is_float:
        return Binary(_OPPOSITE[condition.op], condition.a, condition.b)
    if isinstance(condition, Unary) and condition.op == "not":
        return condition.a
    if isinstance(condition, Binary) and condition.op == "or":
        return binary("and", negated(condition.a), negated(condition.b))
    if isinstance(condition, IntImm):
        return const(not condition.value, "bool")
    return Unary("not", condition)


def is_index(expr: Expr) -> bool:
    """Whether an expression is integer arithmetic on variables and constants: its value does not depend on memory."""
    stack = [expr]
    while stack:
        item = stack.pop()
        if type(item).__name__ not in _INDEX_NODES or item.dtype.is_float:
            return False
        stack.extend(item.child_nodes())
    return True


_INDEX_NODES = ("Var", "SizeVar", "IntImm", "Binary", "Unary", "Cast", "Select")


def _is_index_fact(condition: Expr) -> bool:
    return isinstance(condition, Binary) and condition.op in _OPPOSITE and is_index(condition)


def _changed(node: Any, **values: Any) -> Any:
    """The node with those fields that differ changed."""
    changes = {}
    for key, value in values.items():
        old = getattr(node, key)
        same = value is old or (
            isinstance(value, tuple) and len(value) == len(old) and all(a is b for a, b in zip(value, old))
        )
        if not same:
            changes[key] = value
    return node.with_(**changes) if changes else node
