"""PlanSharedMemory: all shared tiles of a kernel lie in one arena; tiles that never live at the same time share bytes.

Needs FLAT, leaves FLAT. Live ranges are intervals of a linear order of the statements; a tile that is declared outside
a loop and touched inside lives through the whole loop. Offsets are chosen best fit among the holes that dead tiles
leave (linear scan, longest first at equal starts). Sharing bytes makes new dependences, so ThreadSync runs after this
pass and works on byte ranges.

What was placed where is a report (`context.reports["shared_memory"]`); a kernel that needs more than the target has is
an error with the table of tiles and what would fit.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..dtypes import DType
from ..errors import CompileError, declare_codes
from ..ir import (
    AccessPtr,
    Block,
    Buffer,
    BufferLoad,
    BufferStore,
    For,
    KernelLaunch,
    PrimFunc,
    Rewriter,
    Stmt,
    While,
    as_shape,
    const,
)
from ..target import Target
from .base import Pass, PassContext, register_pass

__all__ = ["Placement", "PlanSharedMemory", "place"]

declare_codes({"E-SHARED-MEMORY": "a kernel needs more shared memory than the target has"})

_ALIGNMENT = 16  # bytes: ldmatrix rows, cp.async and vector accesses of 16 bytes


@dataclass(frozen=True)
class Placement:
    """Where a tile lies: bytes [offset, offset + size) of the arena, in use from statement `first` to `last`."""

    buffer: Buffer
    size: int
    alignment: int
    first: int
    last: int
    offset: int = 0


@register_pass("PlanSharedMemory", needs="FLAT", leaves="same", options=("tl.disable_shared_memory_reuse",))
class PlanSharedMemory(Pass):
    """Args: capacity: (target) → bytes of shared memory that a block can have."""

    def __init__(self, capacity: Callable[[Target], int] | None = None) -> None:
        self.capacity = capacity

    def function(self, function: PrimFunc, context: PassContext) -> PrimFunc:
        reuse = not context.options["tl.disable_shared_memory_reuse"]
        limit = self.capacity(context.target) if self.capacity else None
        return _Plan(function, context, reuse, limit).rewrite(function)


class _Plan(Rewriter):
    def __init__(self, function: PrimFunc, context: PassContext, reuse: bool, limit: int | None) -> None:
        super().__init__()
        self.function = function
        self.context = context
        self.reuse = reuse
        self.limit = limit

    def rewrite_KernelLaunch(self, node: KernelLaunch) -> Stmt:
        tiles = live_ranges(node.body)
        if not tiles:
            return node
        placed, total = place(tiles, self.reuse)
        self.context.reports.setdefault("shared_memory", []).append((self.function.name, placed, total))
        if self.limit is not None and total > self.limit:
            raise _too_large(node, placed, total, self.limit)
        arena = Buffer("arena", as_shape((total,)), DType("uint8"), "shared", align=128, span=node.span)
        for tile in placed:
            view = tile.buffer.with_(data=arena, offset=const(tile.offset, "int32"))
            self.buffers[tile.buffer] = view
        body = self.rewrite(node.body)
        return node.with_(body=Block((arena,), body, span=node.span))

    def rewrite_Block(self, node: Block) -> Stmt | None:
        kept = tuple(b for b in node.allocations if b not in self.buffers)
        body = self.rewrite(node.body)
        if not kept and not node.annotations:
            return body
        return node.with_(allocations=kept, body=body)


def live_ranges(body: Stmt) -> list[Placement]:
    """The shared tiles declared in a kernel, with sizes and lives."""
    sizes: dict[Buffer, int] = {}
    declared_in: dict[Buffer, int] = {}
    ranges: dict[Buffer, list[int]] = {}
    clock = 0

    def touch(buffer: Buffer, loops: list[list[int]]) -> None:
        while buffer.data is not None:
            buffer = buffer.data
        if buffer not in sizes:
            return
        span = ranges.setdefault(buffer, [clock, clock])
        span[1] = clock
        # Loops between the declaration and the access: the value may be needed in the next iteration.
        for loop in loops[declared_in[buffer] :]:
            span[0] = min(span[0], loop[0])
            loop.append(id(buffer))

    def visit(node: Any, loops: list[list[int]]) -> None:
        nonlocal clock
        if isinstance(node, Block):
            for buffer in node.allocations:
                if buffer.scope == "shared" and buffer.data is None:
                    sizes[buffer] = _bytes(buffer)
                    declared_in[buffer] = len(loops)
        if isinstance(node, Stmt):
            clock += 1
        if isinstance(node, (BufferLoad, BufferStore, AccessPtr)):
            touch(node.buffer, loops)
        inner = loops
        if isinstance(node, (For, While)):
            inner = [*loops, [clock]]
        for item in node.child_nodes():
            visit(item, inner)
        if inner is not loops:
            clock += 1
            touched = set(inner[-1][1:])
            for buffer, span in ranges.items():
                if id(buffer) in touched:
                    span[1] = max(span[1], clock)

    visit(body, [])
    return [Placement(b, sizes[b], max(_ALIGNMENT, b.align), span[0], span[1]) for b, span in ranges.items()]


def place(tiles: list[Placement], reuse: bool = True) -> tuple[list[Placement], int]:
    """(tiles with offsets, bytes of the arena): linear scan with best fit, so that no two live tiles overlap."""
    placed: list[Placement] = []
    total = 0
    for tile in sorted(tiles, key=lambda t: (t.first, -t.size, t.buffer.name)):
        rivals = [p for p in placed if not reuse or (p.first <= tile.last and tile.first <= p.last)]
        offset = _best_fit(tile, rivals, total)
        total = max(total, offset + tile.size)
        placed.append(Placement(tile.buffer, tile.size, tile.alignment, tile.first, tile.last, offset))
    return placed, _up(total, _ALIGNMENT)


def _best_fit(tile: Placement, rivals: list[Placement], total: int) -> int:
    """The start of the smallest hole between rivals that holds the tile, else the end of the last one."""
    best: tuple[int, int] | None = None
    cursor = 0
    for rival in sorted(rivals, key=lambda p: p.offset):
        start = _up(cursor, tile.alignment)
        if start + tile.size <= rival.offset:
            waste = rival.offset - cursor
            if best is None or waste < best[0]:
                best = (waste, start)
        cursor = max(cursor, rival.offset + rival.size)
    if total - cursor > 0 and _up(cursor, tile.alignment) + tile.size <= total:
        waste = total - cursor
        if best is None or waste < best[0]:
            best = (waste, _up(cursor, tile.alignment))
    return best[1] if best is not None else _up(cursor, tile.alignment)


def _too_large(node: KernelLaunch, placed: list[Placement], total: int, limit: int) -> CompileError:
    rows = [
        f"{t.buffer.name}: {t.buffer.dtype}{list(t.buffer.static_shape() or ())}, {t.size} bytes at {t.offset}"
        for t in sorted(placed, key=lambda t: -t.size)
    ]
    largest = max(placed, key=lambda t: t.size)
    return CompileError(
        "E-SHARED-MEMORY",
        f"the kernel needs {total} bytes of shared memory, the target has {limit} for a block",
        span=node.span,
        spans=[("the largest tile", largest.buffer.span)],
        facts=rows,
        help=f"take {total - limit} bytes away: fewer stages of the pipelined loop, or smaller tiles",
    )


def _bytes(buffer: Buffer) -> int:
    count = 1
    for extent in buffer.static_shape() or ():
        count *= extent
    return count * buffer.dtype.bytes


def _up(value: int, alignment: int) -> int:
    return -(-value // alignment) * alignment
