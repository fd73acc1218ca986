"""BindThreads: a kernel that leaves its threads to the target gets them; kernels with code for single threads are
marked.

Needs TILE, leaves TILE. The mark (launch annotation ``thread_code``) is taken before passes bring thread indices in
themselves: without it, a store outside of parallel loops is one of the block, made by its first thread.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tile_core.analysis import root_buffer
from tile_core.ir import (
    AccessPtr,
    Attr,
    Bind,
    Buffer,
    BufferLoad,
    BufferRegion,
    BufferStore,
    Expr,
    IntImm,
    KernelLaunch,
    PrimFunc,
    Rewriter,
    Stmt,
    TileOpStmt,
    Var,
    as_expr,
    binary,
    const,
    seq,
    walk,
)
from tile_core.tileop import Fill
from tile_core.transform import Pass, PassContext, register_pass

__all__ = ["BindThreads", "eviction", "independent", "thread_index"]

_DEFAULT_THREADS = 128


@register_pass("BindThreads", needs="TILE", leaves="TILE")
class BindThreads(Pass):
    def function(self, function: PrimFunc, context: PassContext) -> PrimFunc:
        return _Bind().rewrite(function)


class _Bind(Rewriter):
    def rewrite_KernelLaunch(self, node: KernelLaunch) -> Stmt:
        own = set(node.thread_vars)
        by_thread = any(isinstance(n, Var) and n in own for n in walk(node.body))
        if not node.threads:
            var = Var("tx")
            node = node.with_(thread_vars=(var,), threads=(const(_DEFAULT_THREADS, var.dtype),))
        node = node.with_(annotations=(*node.annotations, ("thread_code", by_thread)))
        return _Parts(node).rewrite(_FillsOfParts(node).rewrite(node))


class _FillsOfParts(Rewriter):
    """Gives the fill of a register tile that only a part of the block uses to that part."""

    def __init__(self, launch: KernelLaunch) -> None:
        super().__init__()
        self.parts: dict[Buffer, set[Any]] = {}
        self._collect(launch.body, None)

    def _collect(self, node: Any, part: Any) -> None:
        if isinstance(node, Attr) and node.key == "executors":
            part = node.subject[:2]
        if isinstance(node, TileOpStmt) and isinstance(node.op, Fill):
            return
        if isinstance(node, (BufferLoad, BufferStore, BufferRegion, AccessPtr)):
            self.parts.setdefault(root_buffer(node.buffer), set()).add(part)
        for item in node.child_nodes():
            self._collect(item, part)

    def rewrite_Attr(self, node: Attr) -> Stmt | None:
        return node if node.key == "executors" else self.rewrite_children(node)

    def rewrite_TileOpStmt(self, node: TileOpStmt) -> Stmt:
        if isinstance(node.op, Fill) and node.op.dst.buffer.scope == "fragment":
            parts = self.parts.get(root_buffer(node.op.dst.buffer), set())
            if len(parts) == 1 and None not in parts:
                return Attr("executors", next(iter(parts)), None, node, span=node.span)
        return node


class _Parts(Rewriter):
    """Gives the threads of a part of the block (``executors``) an index of their own, from 0."""

    def __init__(self, launch: KernelLaunch) -> None:
        super().__init__()
        self.launch = launch

    def rewrite_Attr(self, node: Attr) -> Stmt:
        new = self.rewrite_children(node)
        if new.key != "executors":
            return new
        first, count = new.subject[:2]
        number = thread_index(self.launch)
        if first == 0 and isinstance(number, Var):
            return new.with_(subject=(first, count, number))
        index = Var("group_thread")
        bound = Bind(index, binary("sub", number, first), span=new.span)
        return new.with_(subject=(first, count, index), body=seq(bound, new.body))


def independent(stmt: Stmt) -> Stmt:
    """A statement in which no two threads touch the same byte of shared memory, one of them writing."""
    return Attr("independent", None, const(True, "bool"), stmt, span=stmt.span)


def thread_index(launch: KernelLaunch) -> Expr:
    """The number of the thread in its block, x fastest."""
    number: Expr | None = None
    scale = 1
    for var, extent in zip(launch.thread_vars, launch.threads):
        assert isinstance(extent, IntImm)
        if extent.value == 1:
            continue
        term = var if scale == 1 else binary("mul", var, scale)
        number = term if number is None else binary("add", number, term)
        scale *= extent.value
    return as_expr(0) if number is None else number


def eviction(annotations: Sequence[tuple[str, Any]]) -> str | None:
    """What the second-level cache should do with what a copy or nest touches in device memory; None: as always."""
    wanted = dict(annotations).get("eviction_policy")
    return None if wanted == "evict_normal" else wanted
