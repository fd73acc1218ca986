"""What differs between the threads of a block: symbols whose value each thread has for itself."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..ir import (
    AccessPtr,
    Bind,
    BufferLoad,
    BufferStore,
    Call,
    Evaluate,
    Expr,
    For,
    If,
    KernelLaunch,
    Stmt,
    Var,
    While,
    is_thread_call,
    walk,
)

__all__ = ["gives_each", "is_block_sync", "symbols", "variant_symbols"]


def variant_symbols(launch: KernelLaunch, by_thread: bool) -> set[Any]:
    """Thread indices, the variables bound to values that depend on them or that each thread gets for itself, and
    thread-level buffers whose contents do."""
    variant: set[Any] = set(launch.thread_vars)
    if by_thread:
        variant |= {n.var for n in walk(launch.body) if isinstance(n, Bind) and gives_each(n.value)}
    while True:
        before = len(variant)
        _Spread(variant).visit(launch.body, False)
        if len(variant) == before:
            return variant


class _Spread:
    """One sweep over the statements: adds the symbols that a variant value or a variant condition makes variant."""

    def __init__(self, variant: set[Any]) -> None:
        self.variant = variant

    def visit(self, stmt: Any, under: bool) -> None:
        if isinstance(stmt, Bind):
            # What a meeting of the whole block gives is the same for all, whatever each brought.
            if self._depends(stmt.value) and not is_block_sync(stmt):
                self.variant.add(stmt.var)
        elif isinstance(stmt, BufferStore):
            # Memory that threads share holds one value, whoever wrote it.
            if stmt.buffer.memory.level == "thread" and (under or any(map(self._depends, stmt.child_nodes()))):
                self.variant.add(stmt.buffer)
        elif isinstance(stmt, Evaluate):
            if under or self._depends(stmt.value):
                pointers = (p.buffer for p in walk(stmt.value) if isinstance(p, AccessPtr) and p.mode != "r")
                self.variant.update(b for b in pointers if b.memory.level == "thread")
        elif isinstance(stmt, (If, While)):
            inside = under or self._depends(stmt.condition)
            for child in stmt.child_nodes():
                if isinstance(child, Stmt):
                    self.visit(child, inside)
        elif isinstance(stmt, For):
            differs = self._depends(stmt.min) or self._depends(stmt.extent)
            if differs:
                self.variant.add(stmt.var)
            self.visit(stmt.body, under or differs)
        else:
            for child in stmt.child_nodes():
                if isinstance(child, Stmt):
                    self.visit(child, under)

    def _depends(self, expr: Expr) -> bool:
        return any(symbol in self.variant for symbol in symbols(expr))


def symbols(node: Any) -> Iterator[Any]:
    """Variables and buffers that a tree mentions."""
    for item in walk(node):
        if isinstance(item, Var):
            yield item
        elif isinstance(item, (BufferLoad, BufferStore, AccessPtr)):
            yield item.buffer


def gives_each(value: Expr) -> bool:
    """Whether a call gives each thread a value of its own."""
    return any(
        isinstance(n, Call)
        and (
            n.op.startswith(("atomic_fetch_", "atomic_load"))
            or (is_thread_call(n) and not n.op.startswith("sync_threads_"))
        )
        for n in walk(value)
    )


def is_block_sync(node: Any) -> bool:
    call = node.value if isinstance(node, (Evaluate, Bind)) else None
    return isinstance(call, Call) and call.op.startswith(("sync_threads", "sync_grid"))
