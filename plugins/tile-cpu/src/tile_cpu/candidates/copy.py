"""Copy: loops, except into a tile that is stored transposed, which moves register blocks."""

from __future__ import annotations

from collections.abc import Iterable

from tile_core.dtypes import DType
from tile_core.ir import AccessPtr, BufferRegion, Expr, If, IntImm, Stmt, binary, cast, const, seq
from tile_core.tileop import Candidate, Constraint, Copy, Declined, Facts, LowerContext, Ok
from tile_core.tileop.default_candidates import CopyLoops, parallel_nest, store_to

from .. import intrinsics
from ..layouts import pitch_of, rows, stored_transposed

__all__ = ["TileCopy"]

INT32 = DType("int32")


class TileCopy(Candidate):
    """Loops over the contiguous axis; later passes turn their guards into bounds and their rows into vectors.

    Where the destination lies transposed, the part inside the source's tensor is transposed by blocks and the rest is
    zeroed.
    """

    op = Copy
    name = "tile_copy"

    def legal(self, op: Copy, facts: Facts) -> Ok | Declined:
        loops = CopyLoops().legal(op, facts)
        return Ok(loops.cost / 4) if isinstance(loops, Ok) else loops

    def constraints(self, op: Copy, facts: Facts) -> Iterable[Constraint]:
        for region in (op.src, op.dst):
            buffer = region.buffer
            if buffer.memory.level == "block" and buffer.data is None and buffer.static_shape():
                yield Constraint(buffer, rows(buffer), "free")

    def lower(self, op: Copy, context: LowerContext) -> Stmt:
        layout = context.layouts.get(op.dst.buffer)
        if layout is not None and stored_transposed(layout, op.dst.buffer):
            block = _transposing(op, context)
            if block is not None:
                return block
        return CopyLoops().lower(op, context)


def _transposing(op: Copy, context: LowerContext) -> Stmt | None:
    """The transposing copy, or None where the regions do not have its shape."""
    src, dst = op.src, op.dst
    source_axes, axes = src.tile_axes(), dst.tile_axes()
    extents = [e.value for e in dst.tile_extents() if isinstance(e, IntImm)]
    if len(axes) != 2 or len(source_axes) != 2 or len(extents) != 2 or 1 in extents:
        return None
    if axes != (dst.buffer.ndim - 2, dst.buffer.ndim - 1) or source_axes != (src.buffer.ndim - 2, src.buffer.ndim - 1):
        return None
    layout = context.layouts.get(src.buffer)
    if src.buffer.is_on_chip and (layout is None or stored_transposed(layout, src.buffer)):
        return None
    strides = src.buffer.element_strides()
    if not (isinstance(strides[-1], IntImm) and strides[-1].value == 1):
        return None
    counts = _valid(src, context.facts)
    if counts is None:
        return None
    pitch = const(pitch_of(layout), INT32) if layout is not None else strides[-2]
    # Without layouts on the source, its address is that of the region's first element.
    first = AccessPtr(src.buffer, src.mins, const(extents[0] * extents[1], INT32), "r", span=src.span)
    target = AccessPtr(dst.buffer, dst.mins, const(extents[0] * extents[1], INT32), "w", span=dst.span)
    move = intrinsics.copy_transposed(
        target, pitch_of(context.layouts[dst.buffer]), first, pitch, *counts, span=op.span
    )
    partial = [
        binary("lt", n, extent)
        for n, extent in zip(counts, extents)
        if not (isinstance(n, IntImm) and n.value >= extent)
    ]
    if not partial:
        return move
    zero = const(0, dst.dtype)
    clear = parallel_nest(dst.tile_extents(), lambda indices: store_to(dst, indices, zero, op))
    condition = partial[0] if len(partial) == 1 else binary("or", *partial)
    return seq(If(condition, clear), If(_all_positive(counts), move))


def _valid(region: BufferRegion, facts: Facts) -> tuple[Expr, Expr] | None:
    """Rows and columns of the region that lie inside its tensor, or None where it may start before it or outside in
    another axis."""
    inside: list[Expr] = []
    buffer = region.buffer
    for low, extent, bound in zip(region.mins, region.extents, buffer.shape):
        if not facts.proves(binary("ge", low, const(0, low.dtype))):
            return None
        if buffer.is_on_chip or facts.proves(binary("le", binary("add", low, extent), bound)):
            inside.append(extent)
            continue
        left = binary("max", binary("sub", bound, low), 0)
        inside.append(cast(binary("min", left, cast(extent, left.dtype)), INT32))
    if any(not isinstance(n, IntImm) for n in inside[:-2]):
        return None
    return inside[-2], inside[-1]


def _all_positive(counts: tuple[Expr, Expr]) -> Expr:
    rows, columns = (binary("gt", n, 0) for n in counts)
    return binary("and", rows, columns)
