"""BindThreads: a kernel that leaves its threads to the target gets them; kernels with code for single threads are
marked.

Needs TILE, leaves TILE. The mark (launch annotation ``thread_code``) is taken before passes bring thread indices in
themselves: without it, a store outside of parallel loops is one of the block, made by its first thread.
"""

from __future__ import annotations

from tile_core.ir import (
    Attr,
    Bind,
    Expr,
    IntImm,
    KernelLaunch,
    PrimFunc,
    Rewriter,
    Stmt,
    Var,
    as_expr,
    binary,
    const,
    seq,
    walk,
)
from tile_core.transform import Pass, PassContext, register_pass

__all__ = ["BindThreads", "independent", "thread_index"]

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
        return _Parts(node).rewrite(node)


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
