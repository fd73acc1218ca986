"""NarrowExecutors: what `T.ws` gives to some of a block's threads, for targets on which one thread runs a block.

Needs TILE, leaves TILE. Tile ops and parallel loops are the block's whatever part of its threads was to do them;
statements of single threads are put under the condition that the thread belongs to the part.
"""

from __future__ import annotations

from typing import Any

from ..ir import (
    Attr,
    Bind,
    Block,
    Buffer,
    BufferStore,
    Evaluate,
    Expr,
    For,
    If,
    IntImm,
    KernelLaunch,
    PrimFunc,
    Rewriter,
    Seq,
    Stmt,
    TileOpStmt,
    Var,
    While,
    binary,
    const,
    walk,
)
from .base import Pass, PassContext, register_pass

__all__ = ["NarrowExecutors", "executors_condition"]


@register_pass("NarrowExecutors", needs="TILE", leaves="TILE")
class NarrowExecutors(Pass):
    def function(self, function: PrimFunc, context: PassContext) -> PrimFunc:
        return _Narrow().rewrite(function)


def executors_condition(launch: KernelLaunch, first: int, count: int) -> list[Expr]:
    """The conditions for a thread to be among `count` of the launch's from `first` on, each a comparison with a
    constant; none where all are."""
    number: Expr | None = None
    total = 1
    for var, extent in zip(launch.thread_vars, launch.threads):
        assert isinstance(extent, IntImm)
        if extent.value != 1:
            term = var if total == 1 else binary("mul", var, total)
            number = term if number is None else binary("add", number, term)
        total *= extent.value
    found: list[Expr] = []
    if number is not None and first > 0:
        found.append(binary("ge", number, const(first, "int32")))
    if number is not None and first + count < total:
        found.append(binary("lt", number, const(first + count, "int32")))
    return found


class _Narrow(Rewriter):
    def __init__(self) -> None:
        super().__init__()
        self.launch: KernelLaunch | None = None

    def rewrite_KernelLaunch(self, node: KernelLaunch) -> Stmt | None:
        self.launch = node
        return self.rewrite_children(node)

    def rewrite_Attr(self, node: Attr) -> Stmt | None:
        if node.key != "executors" or self.launch is None:
            return self.rewrite_children(node)
        conditions = executors_condition(self.launch, *node.subject[:2])
        body = self.rewrite(node.body)
        own = {b for n in walk(node.body) if isinstance(n, Block) for b in n.allocations}
        return _Part(conditions, set(self.launch.thread_vars), own).rewrite(body)


class _Part(Rewriter):
    """Puts what single threads do under conditions."""

    def __init__(self, conditions: list[Expr], threads: set[Var], own: set[Buffer]) -> None:
        super().__init__()
        self.conditions = conditions
        self.threads = set(threads)
        self.own = own

    def rewrite_BufferStore(self, node: BufferStore) -> Stmt:
        # A thread's own memory from outside keeps what it held in the other threads.
        private = node.buffer.memory.level == "thread" and node.buffer not in self.own
        return self.under(node) if private or self.differs(node) else node

    def rewrite_Evaluate(self, node: Evaluate) -> Stmt:
        return self.under(node) if self.differs(node) else node

    def rewrite_Bind(self, node: Bind) -> Stmt:
        if self.differs(node.value):
            self.threads.add(node.var)
        return node

    def rewrite_If(self, node: If) -> Stmt | None:
        return self.under(node) if self.differs(node.condition) else self.rewrite_children(node)

    def rewrite_While(self, node: While) -> Stmt | None:
        return self.under(node) if self.differs(node.condition) else self.rewrite_children(node)

    def rewrite_For(self, node: For) -> Stmt | None:
        if node.kind == "parallel":
            return node
        return self.under(node) if self.differs((node.min, node.extent)) else self.rewrite_children(node)

    def rewrite_TileOpStmt(self, node: TileOpStmt) -> Stmt:
        return node

    def rewrite_Expr(self, node: Expr) -> Expr:
        return node

    def differs(self, item: Any) -> bool:
        """Whether something depends on the thread."""
        parts = item if isinstance(item, tuple) else (item,)
        return any(isinstance(n, Var) and n in self.threads for part in parts for n in walk(part))

    def under(self, stmt: Stmt) -> Stmt:
        """A statement for the threads of the part alone."""
        for condition in reversed(self.conditions):
            stmt = If(condition, stmt, span=stmt.span)
        return stmt

    def rewrite_Seq(self, node: Seq) -> Stmt | None:
        return self.rewrite_children(node)
