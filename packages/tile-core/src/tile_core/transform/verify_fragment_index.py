"""VerifyFragmentIndex: a fragment is indexed by what picks a register at compile time.

Needs TILE, leaves TILE unchanged, and stands after PlaceCountedFragments, which moves what can be moved. A fragment is
spread over the registers of the block's threads, and registers have
no addresses: an index may come from T.Parallel with constant extents (the layout maps it), from an unrolled loop or
from a constant, but not from a loop that counts at run time.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..errors import CompileError, declare_codes
from ..ir import (
    Bind,
    Buffer,
    BufferLoad,
    BufferRegion,
    BufferStore,
    Expr,
    For,
    IntImm,
    Let,
    PrimFunc,
    Stmt,
    Var,
    Visitor,
    walk,
)
from ..source import Span
from .base import Pass, PassContext, register_pass

__all__ = ["CountedIndex", "VerifyFragmentIndex", "counted_indices"]

declare_codes({"E-FRAGMENT-INDEX": "a fragment indexed by a value that is known only at run time"})

_RUN_TIME_LOOPS = {"serial": "T.serial", "pipelined": "T.Pipelined", "persistent": "T.Persistent"}


@register_pass("VerifyFragmentIndex", needs="TILE", leaves="TILE", options=("tl.disable_prelower_semantic_check",))
class VerifyFragmentIndex(Pass):
    def function(self, function: PrimFunc, context: PassContext) -> PrimFunc:
        if not context.options["tl.disable_prelower_semantic_check"]:
            for found in counted_indices(function.body):
                raise _run_time_index(found)
        return function


@dataclass(frozen=True)
class CountedIndex:
    """An index of a fragment that a loop's variable, or a name computed from it, makes one of the run."""

    buffer: Buffer
    axis: int
    index: Expr
    var: Var
    loop: For
    span: Span | None

    @property
    def by_count(self) -> bool:
        """Whether the loop counts when the kernel runs; else it is one over threads without a constant extent."""
        return self.loop.kind in _RUN_TIME_LOOPS


def counted_indices(body: Stmt) -> list[CountedIndex]:
    """The indices of fragments that are known only when the kernel runs, in the order of the text."""
    visitor = _Indices()
    visitor.visit(body)
    return visitor.found


class _Indices(Visitor):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[CountedIndex] = []
        # Variable → the loop that counts it at run time; binds inherit from what they are computed from.
        self.counted: dict[Var, For] = {}

    def visit_For(self, node: For) -> None:
        constant = isinstance(node.extent, IntImm)
        if node.kind in _RUN_TIME_LOOPS or (node.kind in ("parallel", "unroll", "vectorized") and not constant):
            self.counted[node.var] = node
        self.visit_children(node)
        self.counted.pop(node.var, None)

    def visit_Bind(self, node: Bind) -> None:
        self._inherit(node.var, node.value)
        self.visit_children(node)

    def visit_Let(self, node: Let) -> None:
        self._inherit(node.var, node.value)
        self.visit_children(node)

    def _inherit(self, var: Var, value: Expr) -> None:
        for item in walk(value):
            if isinstance(item, Var) and item in self.counted:
                self.counted[var] = self.counted[item]
                return

    def visit_BufferLoad(self, node: BufferLoad) -> None:
        self._check(node.buffer, node.indices, node.span)
        self.visit_children(node)

    def visit_BufferStore(self, node: BufferStore) -> None:
        self._check(node.buffer, node.indices, node.span)
        self.visit_children(node)

    def visit_BufferRegion(self, node: BufferRegion) -> None:
        self._check(node.buffer, node.mins, node.span)
        self.visit_children(node)

    def _check(self, buffer: Buffer, indices: tuple[Expr, ...], span: Span | None) -> None:
        if buffer.scope != "fragment" or not self.counted:
            return
        for axis, index in enumerate(indices):
            for item in walk(index):
                if isinstance(item, Var) and item in self.counted:
                    self.found.append(CountedIndex(buffer, axis, index, item, self.counted[item], span))


def _run_time_index(found: CountedIndex) -> CompileError:
    buffer, axis, index, var, loop = found.buffer, found.axis, found.index, found.var, found.loop
    if loop.kind in _RUN_TIME_LOOPS:
        kind = f"{_RUN_TIME_LOOPS[loop.kind]} loop"
        summary = f"the fragment {buffer.name} is indexed by {var.name}, the variable of a {kind}"
        fix = "count with T.Parallel"
    else:
        summary = f"the fragment {buffer.name} is indexed by {var.name}, whose loop has no constant extent"
        fix = f"give the loop over {loop.var.name} a constant extent"
    named = "" if var is loop.var else f", which comes from {loop.var.name}"
    return CompileError(
        "E-FRAGMENT-INDEX",
        summary,
        span=found.span or loop.span,
        spans=[("the loop", loop.span)],
        facts=[
            f"index {axis} of {buffer.name} is {index!r}{named}",
            "a fragment lies in registers of the block's threads, and registers cannot be chosen at run time",
        ],
        help=f"{fix}, use T.unroll for a short loop, or keep the tile in shared memory (T.alloc_shared)",
    )
