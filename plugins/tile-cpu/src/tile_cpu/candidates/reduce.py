"""Reduce along rows that lie contiguously: whole vectors with several accumulators (`device/tile/reduce.h`)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tile_core.ir import AccessPtr, Expr, IntImm, Let, Stmt, Var, cast, const
from tile_core.tileop import Candidate, Constraint, Declined, Facts, LowerContext, Ok, Reduce
from tile_core.tileop.default_candidates import accumulator_dtype, combined, parallel_nest, store_to

from .. import intrinsics
from ..layouts import rows, stored_rows

__all__ = ["RowReduce"]


class RowReduce(Candidate):
    """One vectorised reduction a row."""

    op = Reduce
    name = "row_reduce"

    def legal(self, op: Reduce, facts: Facts) -> Ok | Declined:
        src, name = op.src, op.src.buffer.name
        if op.axis != len(src.tile_extents()) - 1 or src.tile_axes()[-1] != src.buffer.ndim - 1:
            return Declined(f"the reduced axis of {name} is not its last, so its elements do not lie in a row")
        if op.nan_propagate:
            return Declined("the row reduction skips NaN, and nan_propagate keeps it")
        if src.dtype.is_bool or src.dtype is not accumulator_dtype(op.dst.dtype):
            return Declined(f"{name} holds {src.dtype}, and sums are kept in {accumulator_dtype(op.dst.dtype)}")
        if src.buffer.data is not None or not src.buffer.is_on_chip:
            return Declined(f"{name} is not a tile of its own on chip")
        return Ok(_elements(op) / 16)

    def constraints(self, op: Reduce, facts: Facts) -> Iterable[Constraint]:
        buffer = op.src.buffer
        if buffer.memory.level == "block":
            held = facts.layouts.get(buffer)
            yield Constraint(buffer, held if held is not None and stored_rows(held, buffer) else rows(buffer))

    def lower(self, op: Reduce, context: LowerContext) -> Stmt:
        extents = op.src.tile_extents()
        count = extents[-1]
        assert isinstance(count, IntImm)
        zero = const(0, "int32")

        def body(indices: Sequence[Expr]) -> Stmt:
            start = op.src.indices((*indices, zero))
            row = AccessPtr(op.src.buffer, start, count, "r", span=op.span)
            value: Expr = intrinsics.row_reduce(op.kind, row, count.value, op.src.dtype)
            target = _target_indices(op, indices)
            if not op.clear:
                kind = {"abssum": "sum", "absmax": "max"}.get(op.kind, op.kind)
                total = Var("total", value.dtype)
                value = Let(total, value, combined(kind, total, cast(op.dst.load(target), value.dtype), False))
            return store_to(op.dst, target, cast(value, op.dst.dtype), op)

        return parallel_nest(extents[:-1], body)


def _target_indices(op: Reduce, indices: Sequence[Expr]) -> tuple[Expr, ...]:
    """Indices of the destination's tile: the source's, those of unit axes aside."""
    moving = iter([i for i, e in zip(indices, op.src.tile_extents()) if not (isinstance(e, IntImm) and e.value == 1)])
    return tuple(
        const(0, "int32") if isinstance(e, IntImm) and e.value == 1 else next(moving) for e in op.dst.tile_extents()
    )


def _elements(op: Reduce) -> int:
    count = 1
    for extent in op.src.static_extents() or ():
        count *= extent
    return count
