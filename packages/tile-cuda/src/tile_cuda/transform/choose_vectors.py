"""ChooseVectors: a loop over neighbours becomes as wide vectors as every access is aligned for, or is written out.

Needs FLAT, leaves FLAT; VectorizeLoop follows. GPUs access 4, 8 or 16 bytes at once only at addresses that are
multiples of the size. The starts of tensors and tiles are aligned to 16 bytes; an index must be proved to be a
multiple of the lanes.

Where a loop only stores, what it reads and what it writes are each as wide as they can be: the values wait in registers
between the two (a row of global memory is read at once and put down in pieces where a swizzle wants them).
"""

from __future__ import annotations

from typing import Any

from tile_core.arith import Prover
from tile_core.ir import (
    Binary,
    Block,
    Buffer,
    BufferLoad,
    BufferStore,
    Expr,
    For,
    If,
    IntImm,
    PrimFunc,
    Rewriter,
    Select,
    Stmt,
    Var,
    binary,
    const,
    is_zero,
    seq,
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
        if not is_zero(node.min):
            # Lanes count from 0.
            lane = Var(node.var.name, node.var.dtype)
            shifted = substitute(node.body, {node.var: binary("add", lane, node.min)})
            node = node.with_(var=lane, min=const(0, node.min.dtype), body=shifted)
        extent = node.extent.value
        strip, lane = Var(f"{node.var.name}_strip"), Var(node.var.name, node.var.dtype)
        lanes, body = self.widest(node, strip, lane)
        parts = self.apart(node, lanes)
        if parts is not None:
            return parts
        if body is None:
            return node.with_(kind="unroll")
        # What is computed between wide accesses may be wider than a register: there are many.
        inner = For(
            lane,
            const(0, lane.dtype),
            const(lanes, "int32"),
            "vectorized",
            body,
            annotations=(("lanes", lanes),),
            span=node.span,
        )
        if lanes == extent:
            return inner
        return For(strip, const(0, strip.dtype), const(extent // lanes, "int32"), "unroll", inner, span=node.span)

    def widest(self, node: For, strip: Var, lane: Var) -> tuple[int, Stmt | None]:
        """(the most lanes for which every access fits, the body for them), or (1, None)."""
        assert isinstance(node.extent, IntImm)
        lanes = extent = node.extent.value
        while lanes > 1:
            if lanes * _widest_bits(node.body) <= _REGISTER_BITS and extent % lanes == 0:
                body = self.strip(node, strip, lane, lanes)
                if body is not None:
                    return lanes, body
            lanes //= 2
        return 1, None

    def apart(self, node: For, lanes: int) -> Stmt | None:
        """Reading and writing as two loops, where that makes one of them wider than `lanes`; else None."""
        store = node.body
        if not isinstance(store, BufferStore) or not any(_in_memory(a.buffer) for a in _accesses(store.value)):
            return None
        if not _in_memory(store.buffer) or store.value.dtype.lanes > 1:
            return None
        value = store.value
        held = Buffer(f"{store.buffer.name}_held", (node.extent,), value.dtype, "local", span=node.span)
        again = Var(node.var.name, node.var.dtype)
        reading = node.with_(body=BufferStore(held, value, (node.var,), span=store.span))
        written = substitute(store.with_(value=const(0, value.dtype)), {node.var: again})
        writing = node.with_(var=again, body=written.with_(value=BufferLoad(held, (again,))))
        widths = [self.widest(part, Var("strip"), Var("lane"))[0] for part in (reading, writing)]
        if max(widths) <= lanes:
            return None
        return Block((held,), seq(self.rewrite(reading), self.rewrite(writing)), span=node.span)

    def strip(self, node: For, strip: Var, lane: Var, lanes: int) -> Stmt | None:
        """The body for the lanes of one strip, or None where an access does not fit."""
        assert isinstance(node.extent, IntImm)
        count = node.extent.value // lanes
        first = binary("mul", strip, lanes) if count > 1 else const(0, "int32")
        body = substitute(node.body, {node.var: binary("add", first, lane)})
        with self.scope(self.prover.bind(strip, 0, count), self.prover.bind(lane, 0, lanes)):
            body = _Indices(self.prover, lane, lanes).rewrite(body)
            return body if all(self.fits(a, lane, lanes) for a in _accesses(body)) else None

    def fits(self, access: Any, var: Var, lanes: int) -> bool:
        """Whether an access along `var` is one address, or whole aligned vectors."""
        if not _in_memory(access.buffer):
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
    """Indices simplified, so that what they are in a lane shows; a bound that all lanes of a vector are on one side of
    becomes one condition."""

    def __init__(self, prover: Prover, lane: Var, lanes: int) -> None:
        super().__init__()
        self.prover = prover
        self.lane = lane
        self.lanes = lanes

    def rewrite_BufferLoad(self, node: BufferLoad) -> Expr:
        return self.access(self.rewrite_children(node))

    def rewrite_BufferStore(self, node: BufferStore) -> Stmt:
        return self.access(self.rewrite_children(node))

    def rewrite_If(self, node: If) -> Stmt | None:
        new = self.rewrite_children(node)
        return new.with_(condition=self.of_vector(new.condition)) if isinstance(new, If) else new

    def rewrite_Select(self, node: Select) -> Expr:
        new = self.rewrite_children(node)
        return new.with_(condition=self.of_vector(new.condition)) if isinstance(new, Select) else new

    def access(self, node: Any) -> Any:
        predicate = None if node.predicate is None else self.of_vector(node.predicate)
        return node.with_(indices=tuple(self.prover.simplify(i) for i in node.indices), predicate=predicate)

    def of_vector(self, condition: Expr) -> Expr:
        """``x + lane < n`` is ``x < n`` for all lanes when x and n are multiples of their number."""
        if isinstance(condition, Binary) and condition.op == "and":
            return binary("and", self.of_vector(condition.a), self.of_vector(condition.b))
        if not isinstance(condition, Binary) or condition.op != "lt":
            return condition
        left = linear_in(self.prover.simplify(condition.a), self.lane)
        right = linear_in(condition.b, self.lane)
        if left is None or right is None or not is_zero(right[0]):
            return condition
        step, first = left[0], self.prover.simplify(left[1])
        if not (isinstance(step, IntImm) and step.value == 1):
            return condition
        if self.prover.divides(self.lanes, first) and self.prover.divides(self.lanes, condition.b):
            return binary("lt", first, condition.b)
        return condition


def _in_memory(buffer: Buffer) -> bool:
    return buffer.memory.level != "thread"


def _widest_bits(body: Stmt) -> int:
    """Bits of the widest element that goes to or comes from memory."""
    return max((a.buffer.dtype.storage_bits for a in _accesses(body) if _in_memory(a.buffer)), default=_REGISTER_BITS)


def _accesses(body: Any) -> list[Any]:
    return [n for n in walk(body) if isinstance(n, (BufferLoad, BufferStore))]
