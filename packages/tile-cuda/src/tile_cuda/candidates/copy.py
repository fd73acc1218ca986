"""Copy: a nest of loops, or cp.async from global to shared memory in pipelined loops."""

from __future__ import annotations

from collections.abc import Iterable
from math import prod
from typing import Any

from tile_core.analysis import root_buffer
from tile_core.dtypes import DType
from tile_core.ir import (
    AccessPtr,
    Buffer,
    BufferLoad,
    BufferRegion,
    Completion,
    Execution,
    Expr,
    For,
    If,
    IntImm,
    Stmt,
    TileOpStmt,
    Var,
    binary,
    const,
    is_one,
    walk,
)
from tile_core.layout import Layout
from tile_core.layout.maps import unflatten
from tile_core.tileop import Candidate, Constraint, Copy, Declined, Facts, LowerContext, Ok
from tile_core.tileop.default_candidates import CopyLoops
from tile_core.transform.layout_inference import reshapes

from ..device import intrinsics
from ..device.table import CP_ASYNC_BYTES, CP_ASYNC_QUEUE
from ..target import architecture
from ..transform.bind_threads import independent, thread_index
from ..transform.thread_placement import nest_constraints
from .nests import as_nest, outer_nests, spread

__all__ = ["AsyncCopy", "ThreadCopy", "aligned_rows"]

INT32 = DType("int32")


class ThreadCopy(Candidate):
    """Each thread moves its elements through registers, as many bytes at once as are aligned."""

    op = Copy
    name = "threads"

    def legal(self, op: Copy, facts: Facts) -> Ok:
        extents = op.dst.static_extents() or op.src.static_extents() or ()
        return Ok(prod(extents) / 128)

    def constraints(self, op: Copy, facts: Facts) -> Iterable[Constraint]:
        for loop in outer_nests(self, op, facts):
            yield from nest_constraints(loop, facts)

    def lower(self, op: Copy, context: LowerContext) -> Stmt:
        return as_nest(CopyLoops().lower(op, context))


class AsyncCopy(Candidate):
    """cp.async: 4, 8 or 16 bytes a thread and instruction, past the registers; rows outside the tensor are zeroed.

    Only in pipelined loops, which commit the copies of a slot as a group and wait for it.
    """

    op = Copy
    name = "cp_async"

    def legal(self, op: Copy, facts: Facts) -> Ok | Declined:
        src, dst = op.src, op.dst
        if not architecture(facts.target).async_copy:
            return Declined(f"cp.async needs sm_80, the target is {facts.target}")
        wishes = dict(op.annotations)
        if wishes.get("loop_layout") is not None:
            return Declined("a loop_layout says which thread copies what, through its registers")
        alone = bool(wishes.get("asynchronous"))
        if facts.pipelined is None and not alone:
            return Declined("the copy stands in no T.Pipelined loop, so nothing would run beside it")
        if src.buffer.is_on_chip or dst.buffer.scope != "shared":
            return Declined("cp.async copies from global memory to a shared tile")
        if not reshapes(dst.buffer):
            return Declined(f"{dst.buffer.name} shows a shared tile as another type")
        if not alone and not _reads(facts.pipelined, dst.buffer):
            return Declined(f"nothing in the pipelined loop reads {dst.buffer.name}, so nothing waits for the copy")
        if src.dtype is not dst.dtype:
            return Declined(f"cp.async does not convert {src.dtype} to {dst.dtype}")
        if dst.static_extents() is None:
            return Declined("the extents of the copy are not constants")
        if src.buffer.memory.level != "device" or (src.buffer.offset is not None):
            return Declined(f"{src.buffer.name} is a view, whose alignment is not known")
        if _width(op, facts) == 0:
            return Declined(
                f"rows of {src.buffer.name} are not known to begin and end at multiples of 4 bytes, contiguously"
            )
        return Ok(prod(dst.static_extents() or ()) / 256)

    def effects(self, op: Copy) -> Iterable[Execution]:
        done = Completion("group", CP_ASYNC_QUEUE)
        return [Execution(access, "async", completion=done) for access in op.effects()]

    def lower(self, op: Copy, context: LowerContext) -> Stmt:
        facts = context.facts
        assert facts.launch is not None and facts.threads is not None
        bits = op.dst.dtype.storage_bits
        layout = context.layouts.get(op.dst.buffer)
        held = layout.vector_width(-1) if isinstance(layout, Layout) else op.dst.static_extents()[-1]  # type: ignore[index]
        width = next((w for w in (16, 8, 4) if w <= _width(op, facts) and held * bits % (w * 8) == 0), 0)
        if width == 0:
            # A layout that someone asked for scatters the elements.
            return as_nest(CopyLoops().lower(op, context))
        vector = width * 8 // bits
        moving = [e.value for e in op.dst.tile_extents() if isinstance(e, IntImm) and not is_one(e)]
        moving[-1] //= vector
        total, threads = prod(moving), facts.threads
        turn = Var("chunk_turn")
        number = binary("add", binary("mul", turn, threads), thread_index(facts.launch))
        indices: list[Any] = [facts.prover.simplify(i) for i in _known(facts, unflatten(number, moving))]
        indices[-1] = binary("mul", indices[-1], vector)
        source, target = op.src.indices(spread(op.src, indices)), op.dst.indices(spread(op.dst, indices))
        stmt: Stmt = intrinsics.cp_async(
            AccessPtr(op.dst.buffer, target, const(vector, INT32), "w", span=op.span),
            AccessPtr(op.src.buffer, source, const(vector, INT32), "r", span=op.span),
            width,
            _inside(op.src, source, facts),
            span=op.span,
        )
        if total % threads:
            stmt = If(binary("lt", number, total), stmt, span=op.span)
        turns = -(-total // threads)
        return independent(For(turn, const(0, INT32), const(turns, INT32), "unroll", stmt, span=op.span))


def _reads(loop: For, buffer: Buffer) -> bool:
    """Whether a statement of a loop reads a tile."""
    buffer = root_buffer(buffer)
    for item in walk(loop.body):
        if isinstance(item, BufferLoad) and root_buffer(item.buffer) is buffer:
            return True
        if isinstance(item, TileOpStmt) and any(
            role != "out" and root_buffer(region.buffer) is buffer for _, role, region in item.op.operands()
        ):
            return True
    return False


def _known(facts: Facts, values: tuple[Any, ...]) -> list[Expr]:
    return [v if isinstance(v, Expr) else const(v, INT32) for v in values]


def _width(op: Copy, facts: Facts) -> int:
    """Bytes that every row can be copied in: aligned, contiguous, and wholly inside or outside the tensor; 0 for
    none."""
    src, dst = op.src, op.dst
    bits = dst.dtype.storage_bits
    targets = [a for a, e in zip(dst.tile_axes(), dst.tile_extents()) if not is_one(e)]
    if not targets or targets[-1] != dst.buffer.ndim - 1:
        return 0
    extent = (dst.static_extents() or (0,))[-1]
    wanted = dict(op.annotations).get("coalesced_width")
    widest = max(CP_ASYNC_BYTES) if wanted is None else wanted * bits // 8
    for width in sorted((w for w in CP_ASYNC_BYTES if w <= widest), reverse=True):
        vector = width * 8 // bits
        if vector == 0 or width * 8 % bits or extent % vector:
            continue
        if aligned_rows(src, vector, facts) and facts.divides(vector, dst.mins[-1]):
            return width
    return 0


def aligned_rows(region: BufferRegion, vector: int, facts: Facts) -> bool:
    """Whether the region's rows are contiguous, begin at multiples of `vector` elements, and no `vector` of them
    crosses the tensor's edge."""
    buffer = region.buffer
    axes = [a for a, e in zip(region.tile_axes(), region.tile_extents()) if not is_one(e)]
    strides = buffer.element_strides()
    if not axes or axes[-1] != buffer.ndim - 1 or not is_one(strides[-1]):
        return False
    starts = all(facts.divides(vector, s) for s in strides[:-1]) and facts.divides(vector, region.mins[-1])
    return starts and (_last_inside(region, facts) or facts.divides(vector, buffer.shape[-1]))


def _last_inside(src: BufferRegion, facts: Facts) -> bool:
    low, extent, bound = src.mins[-1], src.extents[-1], src.buffer.shape[-1]
    inside = binary("le", binary("add", low, extent), bound)
    return facts.proves(binary("ge", low, 0)) and facts.proves(inside)


def _inside(src: BufferRegion, indices: tuple[Expr, ...], facts: Facts) -> Expr | None:
    """The condition for a chunk to lie inside the tensor, or None where all do."""
    condition: Expr | None = None
    for low, extent, bound, index in zip(src.mins, src.extents, src.buffer.shape, indices):
        checks = []
        if not facts.proves(binary("ge", low, 0)):
            checks.append(binary("ge", index, 0))
        if not facts.proves(binary("le", binary("add", low, extent), bound)):
            checks.append(binary("lt", index, bound))
        for check in checks:
            condition = check if condition is None else binary("and", condition, check)
    return condition
