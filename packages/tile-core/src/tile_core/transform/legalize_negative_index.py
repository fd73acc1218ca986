"""LegalizeNegativeIndex: `A[-1]` is the last element.

Needs TILE, leaves TILE. Stands first, while an index is still what the author wrote: a negative constant, or minus
something that is known to be positive, counts from the end. An index that is negative for another reason (`i - 1`)
means an element outside the tensor and stays.
"""

from __future__ import annotations

from ..arith import Prover
from ..ir import AccessPtr, Buffer, BufferLoad, BufferRegion, BufferStore, Expr, IntImm, PrimFunc, Stmt, Unary, binary
from .base import Pass, PassContext, register_pass
from .scoped import ScopedRewriter

__all__ = ["LegalizeNegativeIndex"]


@register_pass("LegalizeNegativeIndex", needs="TILE", leaves="TILE")
class LegalizeNegativeIndex(Pass):
    def function(self, function: PrimFunc, context: PassContext) -> PrimFunc:
        return _FromTheEnd(Prover(solver=False)).rewrite(function)


class _FromTheEnd(ScopedRewriter):
    def rewrite_BufferLoad(self, node: BufferLoad) -> Expr:
        new = self.rewrite_children(node)
        indices = self._from_start(node.buffer, new.indices)
        return new if indices is new.indices else new.with_(indices=indices)

    def rewrite_BufferStore(self, node: BufferStore) -> Stmt:
        new = self.rewrite_children(node)
        indices = self._from_start(node.buffer, new.indices)
        return new if indices is new.indices else new.with_(indices=indices)

    def rewrite_AccessPtr(self, node: AccessPtr) -> Expr:
        new = self.rewrite_children(node)
        indices = self._from_start(node.buffer, new.indices)
        return new if indices is new.indices else new.with_(indices=indices)

    def rewrite_BufferRegion(self, node: BufferRegion) -> BufferRegion:
        new = self.rewrite_children(node)
        mins = self._from_start(node.buffer, new.mins)
        return new if mins is new.mins else new.with_(mins=mins)

    def _from_start(self, buffer: Buffer, indices: tuple[Expr, ...]) -> tuple[Expr, ...]:
        new = tuple(
            binary("add", extent, index) if self._counts_from_end(index) else index
            for index, extent in zip(indices, buffer.shape)
        )
        return indices if all(a is b for a, b in zip(new, indices)) else new

    def _counts_from_end(self, index: Expr) -> bool:
        if isinstance(index, IntImm):
            return index.value < 0
        return isinstance(index, Unary) and index.op == "neg" and self.prover.bounds(index.a).lo > 0
