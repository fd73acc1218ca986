"""Executors: which threads of a block run each statement.

KernelLaunch starts with all of them; a condition on the thread index narrows the interval, any other condition that
differs between threads becomes the predicate. Statements inside tile ops are run by all executors of the op together.
"""

from __future__ import annotations

from math import inf, prod
from typing import Any

from ..arith import Interval, Prover
from ..ir import Binary, Executors, Expr, If, IntImm, KernelLaunch, PrimFunc, Stmt, Var, Visitor, binary, unary, walk

__all__ = ["ExecutorMap", "executors_of"]


class ExecutorMap:
    """The executors of each statement of a function."""

    def __init__(self) -> None:
        self._found: dict[int, tuple[Stmt, Executors]] = {}

    def record(self, stmt: Stmt, executors: Executors) -> None:
        """Notes who runs a statement."""
        self._found[id(stmt)] = (stmt, executors)

    def __getitem__(self, stmt: Stmt) -> Executors:
        """Who runs `stmt`; statements outside a kernel are run by the host, given as no executors."""
        found = self._found.get(id(stmt))
        return found[1] if found is not None else Executors("host", 0, 1)

    def uniform(self, stmt: Stmt) -> bool:
        """Whether every thread of the block reaches `stmt` together, so that a block-wide barrier may stand there."""
        found = self[stmt]
        return found.first == 0 and found.count is None and found.predicate is None


def executors_of(function: PrimFunc) -> ExecutorMap:
    """The executor set of every statement of a function."""
    walker = _Walk()
    walker.visit(function.body)
    return walker.map


class _Walk(Visitor):
    def __init__(self) -> None:
        super().__init__()
        self.map = ExecutorMap()
        self.current: Executors | None = None
        self.threads: dict[Var, int | None] = {}
        # Variables that differ between threads: thread indices and what is computed from them.
        self.varying: set[Var] = set()
        self.prover = Prover(solver=False)

    def visit_Stmt(self, node: Stmt) -> None:
        if self.current is not None:
            self.map.record(node, self.current)
        var = getattr(node, "var", None)
        if isinstance(var, Var) and any(self._varies(e) for e in node.child_nodes() if isinstance(e, Expr)):
            self.varying.add(var)
        for child in node.child_nodes():
            if isinstance(child, Stmt):
                self.visit(child)

    def visit_KernelLaunch(self, node: KernelLaunch) -> None:
        self.map.record(node, Executors("host", 0, 1))
        extents = [e.value if isinstance(e, IntImm) else None for e in node.threads]
        self.threads = dict(zip(node.thread_vars, extents))
        self.varying = set(node.thread_vars)
        for var, extent in zip(node.thread_vars, node.threads):
            self.prover.bind(var, 0, extent)
        self.current = Executors("thread", 0, None)
        self.visit(node.body)
        self.current = None

    def visit_If(self, node: If) -> None:
        if self.current is not None:
            self.map.record(node, self.current)
        outer = self.current
        for condition, body in ((node.condition, node.then_body), (unary("not", node.condition), node.else_body)):
            if body is None:
                continue
            self.current = self._narrowed(outer, condition)
            self.visit(body)
        self.current = outer

    def _narrowed(self, outer: Executors | None, condition: Expr) -> Executors | None:
        if outer is None or not self._varies(condition):
            return outer
        total = prod(e for e in self.threads.values() if e is not None) if None not in self.threads.values() else None
        rest: Expr | None = None
        low, high = outer.first, inf if outer.count is None else outer.first + outer.count - 1
        for part in _conjuncts(self.prover.simplify(condition)):
            bounds = self._interval_of(part)
            if bounds is None:
                rest = part if rest is None else binary("and", rest, part)
            else:
                low, high = max(low, bounds.lo), min(high, bounds.hi)
        predicate = outer.predicate
        if rest is not None:
            predicate = rest if predicate is None else binary("and", predicate, rest)
        if high == inf or (total is not None and high >= total - 1):
            count = None if low == 0 else (None if total is None else max(0, total - low))
            if count is None and low > 0:
                return Executors(outer.kind, 0, None, condition)
            return Executors(outer.kind, low, count, predicate)
        return Executors(outer.kind, low, max(0, int(high) - low + 1), predicate)

    def _interval_of(self, condition: Expr) -> Interval | None:
        """The interval of a one-dimensional block's threads for which a condition holds, when it is one."""
        wide = [v for v, e in self.threads.items() if e != 1]
        if len(wide) != 1:
            return None
        known = self.prover.simplifier.comparisons.get(id(condition))
        if known is None or len(known[1].terms) != 1:
            return None
        kind, sum_ = known
        index, k = next(iter(sum_.terms.items()))
        if self.prover.simplifier.atoms[index] is not wide[0] or k not in (1, -1):
            return None
        if kind == "eq":
            return Interval(-sum_.const * k, -sum_.const * k)
        if kind == "le":
            return Interval(0, -sum_.const) if k == 1 else Interval(sum_.const, inf)
        return None

    def _varies(self, expr: Expr) -> bool:
        from ..ir import BufferLoad

        for item in walk(expr):
            if isinstance(item, Var) and item in self.varying:
                return True
            if isinstance(item, BufferLoad) and item.buffer.memory.level == "thread":
                return True
        return False


def _conjuncts(condition: Any) -> list[Expr]:
    found: list[Expr] = []
    stack = [condition]
    while stack:
        item = stack.pop()
        if isinstance(item, Binary) and item.op == "and":
            stack += [item.b, item.a]
        else:
            found.append(item)
    return found
