"""ChooseVectors: a loop over neighbours becomes as wide vectors as every access is aligned for, or is written out.

Needs FLAT, leaves FLAT; VectorizeLoop follows. GPUs access 4, 8 or 16 bytes at once only at addresses that are
multiples of the size. The starts of tensors and tiles are aligned to 16 bytes; an index must be proved to be a
multiple of the lanes.
"""

from __future__ import annotations

from typing import Any

from tile_core.arith import Prover
from tile_core.ir import (
    BufferLoad,
    BufferStore,
    Expr,
    For,
    IntImm,
    PrimFunc,
    Rewriter,
    Stmt,
    Var,
    binary,
    const,
    substitute,
    walk,
)
from tile_core.transform import Pass, PassContext, register_pass
from tile_core.transform.linear import linear_in
from tile_core.transform.scoped import ScopedRewriter

__all__ = ["ChooseVectors"]

_REGISTER_BITS = 128


@register_pass("ChooseVectors", needs="FLAT", leaves="same")
class ChooseVectors(Pass):
    def function(self, function: PrimFunc, context: PassContext) -> PrimFunc:
        return _Choose(Prover(solver=False)).rewrite(function)


class _Choose(ScopedRewriter):
    def rewrite_For(self, node: For) -> Stmt | None:
        if node.kind != "vectorized" or not isinstance(node.extent, IntImm):
            return super().rewrite_For(node)
        extent = node.extent.value
        widest = max((a.buffer.dtype.storage_bits for a in _accesses(node.body)), default=_REGISTER_BITS)
        strip, lane = Var(f"{node.var.name}_strip"), Var(node.var.name, node.var.dtype)
        lanes = extent
        while lanes > 1:
            if lanes * widest <= _REGISTER_BITS and extent % lanes == 0:
                body = self.strip(node, strip, lane, lanes)
                if body is not None:
                    break
            lanes //= 2
        else:
            return node.with_(kind="unroll")
        inner = For(lane, const(0, lane.dtype), const(lanes, "int32"), "vectorized", body, span=node.span)
        if lanes == extent:
            return inner
        return For(strip, const(0, strip.dtype), const(extent // lanes, "int32"), "unroll", inner, span=node.span)

    def strip(self, node: For, strip: Var, lane: Var, lanes: int) -> Stmt | None:
        """The body for the lanes of one strip, or None where an access does not fit."""
        assert isinstance(node.extent, IntImm)
        count = node.extent.value // lanes
        first = binary("mul", strip, lanes) if count > 1 else const(0, "int32")
        body = substitute(node.body, {node.var: binary("add", first, lane)})
        with self.scope(self.prover.bind(strip, 0, count), self.prover.bind(lane, 0, lanes)):
            body = _Indices(self.prover).rewrite(body)
            return body if all(self.fits(a, lane, lanes) for a in _accesses(body)) else None

    def fits(self, access: Any, var: Var, lanes: int) -> bool:
        """Whether an access along `var` is one address, or whole aligned vectors."""
        if access.buffer.memory.level == "thread":
            return True
        index = access.indices[0]
        linear = linear_in(index, var)
        if linear is None or not isinstance(linear[0], IntImm):
            return False
        stride = linear[0].value
        if stride == 0:
            return isinstance(access, BufferLoad)
        offset = access.buffer.offset
        aligned = offset is None or self.prover.divides(lanes, offset)
        return stride == 1 and aligned and self.prover.divides(lanes, self._at_zero(index, var))

    def _at_zero(self, index: Expr, var: Var) -> Expr:
        return self.prover.simplify(substitute(index, {var: const(0, var.dtype)}))


class _Indices(Rewriter):
    """Indices simplified, so that what they are in a lane shows."""

    def __init__(self, prover: Prover) -> None:
        super().__init__()
        self.prover = prover

    def rewrite_BufferLoad(self, node: BufferLoad) -> Expr:
        new = self.rewrite_children(node)
        return new.with_(indices=tuple(self.prover.simplify(i) for i in new.indices))

    def rewrite_BufferStore(self, node: BufferStore) -> Stmt:
        new = self.rewrite_children(node)
        return new.with_(indices=tuple(self.prover.simplify(i) for i in new.indices))


def _accesses(body: Stmt) -> list[Any]:
    return [n for n in walk(body) if isinstance(n, (BufferLoad, BufferStore))]
