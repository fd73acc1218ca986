"""ScopedVisitor: a walk that knows what holds where it stands.

It keeps a prover in step: ranges of grid, thread and loop variables, values of binds, conditions of branches and
assumptions. Conditions that teach the prover nothing (they read memory) are counted in `hidden`: under one, a witness
may be unreachable, so a refuted check is not a proven fault there.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from ..arith import Prover
from ..arith.terms import reads_memory
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
    Select,
    Seq,
    Unary,
    Visitor,
    While,
    binary,
    unary,
)

__all__ = ["ScopedVisitor", "conjuncts"]


class ScopedVisitor(Visitor):
    """Visits with `self.prover` in step; a subclass that overrides a scope-opening method calls `super()`'s."""

    def __init__(self, prover: Prover) -> None:
        super().__init__()
        self.prover = prover
        self.hidden = 0

    @contextmanager
    def under(self, condition: Expr | None, holds: bool = True) -> Iterator[None]:
        """Inside, `condition` holds (or does not)."""
        if condition is None:
            yield
            return
        fact = condition if holds else unary("not", condition)
        hides = any(reads_memory(part) for part in conjuncts(condition))
        self.hidden += hides
        with self.prover.assume(fact):
            yield
        self.hidden -= hides

    def visit_KernelLaunch(self, node: KernelLaunch) -> None:
        for extent in (*node.grid, *node.threads):
            self.visit(extent)
        with ExitStack() as stack:
            for var, extent in (*zip(node.grid_vars, node.grid), *zip(node.thread_vars, node.threads)):
                stack.enter_context(self.prover.bind(var, 0, extent))
            self.visit(node.body)

    def visit_For(self, node: For) -> None:
        self.visit(node.min)
        self.visit(node.extent)
        with self.loop(node):
            self.visit(node.body)

    def loop(self, node: For) -> Any:
        """The fact that the loop's variable is in its range."""
        if isinstance(node.step, IntImm) and node.step.value > 0:
            return self.prover.bind(node.var, node.min, node.extent, node.step.value)
        if isinstance(node.step, IntImm) and node.step.value < 0:
            last = binary("add", node.min, binary("mul", binary("sub", node.extent, 1), node.step))
            return self.prover.bind(node.var, last, node.extent, -node.step.value)
        if node.step is not None:
            # A step that is not a positive constant: the range is not an interval from min.
            return self.prover.assume(IntImm(1, node.extent.dtype) <= node.extent)
        return self.prover.bind(node.var, node.min, node.extent)

    def visit_While(self, node: While) -> None:
        self.visit(node.condition)
        self.hidden += 1
        self.visit(node.body)
        self.hidden -= 1

    def visit_If(self, node: If) -> None:
        self.visit(node.condition)
        with self.under(node.condition):
            self.visit(node.then_body)
        if node.else_body is not None:
            with self.under(node.condition, holds=False):
                self.visit(node.else_body)

    def visit_Select(self, node: Select) -> None:
        self.visit(node.condition)
        with self.under(node.condition):
            self.visit(node.true_value)
        with self.under(node.condition, holds=False):
            self.visit(node.false_value)

    def visit_Let(self, node: Let) -> None:
        self.visit(node.value)
        with self.prover.bind_value(node.var, node.value):
            self.visit(node.body)

    def visit_Attr(self, node: Attr) -> None:
        if node.value is not None:
            self.visit(node.value)
        with self.under(node.value if node.key == "assume" else None):
            self.visit(node.body)

    def visit_Seq(self, node: Seq) -> None:
        with ExitStack() as stack:
            for stmt in node.stmts:
                self.visit(stmt)
                if isinstance(stmt, Bind):
                    stack.enter_context(self.prover.bind_value(stmt.var, stmt.value))

    def visit_Binary(self, node: Binary) -> None:
        if node.op not in ("and", "or") or node.dtype.lanes > 1:
            spine = [node]
            while type(spine[-1].a) is Binary and spine[-1].a.op not in ("and", "or"):
                spine.append(spine[-1].a)  # type: ignore[arg-type]
            self.visit(spine[-1].a)
            for item in reversed(spine):
                self.visit(item.b)
            return
        # The right side is evaluated only where the left one leaves it open.
        self.visit(node.a)
        with self.under(node.a, holds=node.op == "and"):
            self.visit(node.b)


def conjuncts(condition: Expr) -> list[Expr]:
    """The conditions whose conjunction `condition` is, in order."""
    found: list[Expr] = []
    stack = [condition]
    while stack:
        item = stack.pop()
        if isinstance(item, Binary) and item.op == "and":
            stack += [item.b, item.a]
        elif isinstance(item, Unary) and item.op == "not" and isinstance(item.a, Binary) and item.a.op == "or":
            stack += [unary("not", item.a.b), unary("not", item.a.a)]
        else:
            found.append(item)
    return found
