"""PlanSharedMemory: all shared tiles of a kernel lie in one arena; tiles that never live at the same time share bytes.

Needs FLAT, leaves FLAT. Live ranges are intervals of a linear order of the statements; a tile that is declared outside
a loop and touched inside lives through the whole loop. Offsets are chosen best fit among the holes that dead tiles
leave (linear scan, longest first at equal starts). Sharing bytes makes new dependences, so ThreadSync runs after this
pass and works on byte ranges.

What was placed where is a report (`context.reports["shared_memory"]`, a `SharedMemoryReport` for each kernel); a kernel
that needs more than the target has is an error with the table of tiles, and the number of stages or the smaller tile
with which it would fit.

``tl.enable_aggressive_shared_memory_merge`` tries the tiles in several orders and keeps the smallest arena; compiling
takes longer, and which tiles share bytes (and so where threads must meet) may be another.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..dtypes import DType
from ..errors import CompileError, declare_codes
from ..ir import (
    AccessPtr,
    Attr,
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
from ..source import Span
from ..target import Target
from .base import Pass, PassContext, register_pass
from .pipeline_schedule import Versioned

__all__ = ["ORDERS", "Placement", "PlanSharedMemory", "SharedMemoryReport", "place"]

declare_codes({"E-SHARED-MEMORY": "a kernel needs more shared memory than the target has"})

_ALIGNMENT = 16  # bytes: ldmatrix rows, cp.async and vector accesses of 16 bytes


@dataclass(frozen=True)
class Placement:
    """Where a tile lies: bytes [offset, offset + size) of the arena, in use from statement `first` to `last`, which
    stand at `spans`."""

    buffer: Buffer
    size: int
    alignment: int
    first: int
    last: int
    offset: int = 0
    spans: tuple[Span | None, Span | None] = (None, None)

    def meets(self, other: Placement) -> bool:
        """Whether both are in use at some time."""
        return self.first <= other.last and other.first <= self.last


@dataclass(frozen=True)
class SharedMemoryReport:
    """The arena of one kernel.

    Args:
        function: the kernel's.
        placed: its tiles.
        total: bytes of the arena.
        alone: bytes that the tiles would take without sharing.
        limit: bytes that a block can have on the target; None where nobody says.
        versions: of what each tile holds, in the order of `placed`.
    """

    function: str
    placed: tuple[Placement, ...]
    total: int
    alone: int
    limit: int | None = None
    versions: tuple[int, ...] = ()


@register_pass(
    "PlanSharedMemory",
    needs="FLAT",
    leaves="same",
    options=("tl.disable_shared_memory_reuse", "tl.enable_aggressive_shared_memory_merge"),
)
class PlanSharedMemory(Pass):
    """Args: capacity: (target) → bytes of shared memory that a block can have."""

    def __init__(self, capacity: Callable[[Target], int] | None = None) -> None:
        self.capacity = capacity

    def function(self, function: PrimFunc, context: PassContext) -> PrimFunc:
        reuse = not context.options["tl.disable_shared_memory_reuse"]
        limit = self.capacity(context.target) if self.capacity else None
        orders = ORDERS if context.options["tl.enable_aggressive_shared_memory_merge"] else ORDERS[:1]
        return _Plan(function, context, reuse, limit, orders).rewrite(function)


class _Plan(Rewriter):
    def __init__(
        self, function: PrimFunc, context: PassContext, reuse: bool, limit: int | None, orders: Sequence[_Order]
    ) -> None:
        super().__init__()
        self.orders = orders
        self.function = function
        self.context = context
        self.reuse = reuse
        self.limit = limit

    def rewrite_KernelLaunch(self, node: KernelLaunch) -> Stmt:
        tiles = live_ranges(node.body)
        if not tiles:
            return node
        placed, total = place(tiles, self.reuse, self.orders)
        alone = place(tiles, reuse=False)[1]
        self.context.reports.setdefault("shared_memory", []).append(
            SharedMemoryReport(
                self.function.name, tuple(placed), total, alone, self.limit, tuple(self._versions(placed))
            )
        )
        if self.limit is not None and total > self.limit:
            fix = self._what_fits(tiles, self._versions(tiles), self.limit)
            raise _too_large(node, placed, total, self.limit, fix)
        arena = Buffer("arena", as_shape((total,)), DType("uint8"), "shared", align=128, span=node.span)
        for tile in placed:
            view = tile.buffer.with_(data=arena, offset=const(tile.offset, "int32"))
            self.buffers[tile.buffer] = view
        body = self.rewrite(node.body)
        return node.with_(body=Block((arena,), body, span=node.span))

    def _versions(self, tiles: list[Placement]) -> list[int]:
        """How many versions a pipelined loop gave to each tile."""
        # By names and lines: passes since have made new buffers of them.
        made: list[Versioned] = self.context.reports.get("versions", [])
        counts = {(v.buffer.name, v.buffer.span): v.count for v in made}
        return [counts.get((t.buffer.name, t.buffer.span), 1) for t in tiles]

    def _what_fits(self, tiles: list[Placement], versions: list[int], limit: int) -> str:
        """A change that brings the arena under the limit."""

        def total(sizes: Iterable[int]) -> int:
            return place([replace(t, size=n) for t, n in zip(tiles, sizes)], self.reuse, self.orders)[1]

        most = max(versions)
        names = ", ".join(t.buffer.name for t, count in zip(tiles, versions) if count > 1)
        for depth in range(most - 1, 0, -1):
            needed = total(t.size // count * min(count, depth) for t, count in zip(tiles, versions))
            if needed <= limit:
                less = f"{most - depth} less in num_stages fits"
                return f"{less}: {needed} bytes with {depth} instead of {most} versions of {names}"
        for share in (2, 4, 8):
            for tile in sorted(tiles, key=lambda t: -t.size):
                needed = total(t.size // share if t is tile else t.size for t in tiles)
                if needed <= limit:
                    return f"make tiles smaller: {tile.buffer.name} with 1/{share} of its bytes fits, {needed} in all"
        for share in (2, 4, 8, 16, 32):
            needed = total(-(-t.size // share) for t in tiles)
            if needed <= limit:
                return f"make tiles smaller: all with 1/{share} of their bytes fit, {needed} in all"
        return "make tiles smaller: all of them with a 32nd of their bytes still do not fit"

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
    spans: dict[Buffer, list[Span | None]] = {}
    clock = 0
    here: Span | None = None

    def touch(buffer: Buffer, loops: list[list[int]]) -> None:
        while buffer.data is not None:
            buffer = buffer.data
        if buffer not in sizes:
            return
        span = ranges.setdefault(buffer, [clock, clock])
        span[1] = clock
        spans.setdefault(buffer, [here, here])[1] = here
        # Loops between the declaration and the access: the value may be needed in the next iteration.
        for loop in loops[declared_in[buffer] :]:
            span[0] = min(span[0], loop[0])
            loop.append(id(buffer))

    def visit(node: Any, loops: list[list[int]]) -> None:
        nonlocal clock, here
        if isinstance(node, Block):
            for buffer in node.allocations:
                if buffer.scope == "shared" and buffer.data is None:
                    sizes[buffer] = _bytes(buffer)
                    declared_in[buffer] = len(loops)
        if isinstance(node, Stmt):
            clock += 1
            here = node.span or here
        if isinstance(node, (BufferLoad, BufferStore, AccessPtr)):
            touch(node.buffer, loops)
        inner = loops
        # In a statement whose threads need not meet, everything is in use at once.
        if isinstance(node, (For, While)) or (isinstance(node, Attr) and node.key == "independent"):
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
    return [
        Placement(b, sizes[b], max(_ALIGNMENT, b.align), span[0], span[1], spans=(spans[b][0], spans[b][1]))
        for b, span in ranges.items()
    ]


_Order = Callable[[Placement], tuple[object, ...]]

# The first is the usual one: as they come, the larger first.
ORDERS: tuple[_Order, ...] = (
    lambda t: (t.first, -t.size, t.buffer.name),
    lambda t: (-t.size, t.first, t.buffer.name),
    lambda t: (-t.size * (t.last - t.first + 1), t.buffer.name),
    lambda t: (t.first - t.last, -t.size, t.buffer.name),
    lambda t: (-t.last, -t.size, t.buffer.name),
)


def place(
    tiles: list[Placement], reuse: bool = True, orders: Sequence[_Order] = ORDERS[:1]
) -> tuple[list[Placement], int]:
    """(tiles with offsets, bytes of the arena): linear scan with best fit, so that no two live tiles overlap; of
    several orders the one with the smallest arena."""
    attempts = [_place(sorted(tiles, key=order), reuse) for order in orders]
    return min(attempts, key=lambda attempt: attempt[1])


def _place(tiles: list[Placement], reuse: bool) -> tuple[list[Placement], int]:
    placed: list[Placement] = []
    total = 0
    for tile in tiles:
        rivals = [p for p in placed if not reuse or p.meets(tile)]
        offset = _best_fit(tile, rivals, total)
        total = max(total, offset + tile.size)
        placed.append(replace(tile, offset=offset))
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


def _too_large(node: KernelLaunch, placed: list[Placement], total: int, limit: int, fix: str) -> CompileError:
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
        help=f"take {total - limit} bytes away; {fix}",
    )


def _bytes(buffer: Buffer) -> int:
    count = 1
    for extent in buffer.static_shape() or ():
        count *= extent
    return buffer.dtype.storage_bytes(count)


def _up(value: int, alignment: int) -> int:
    return -(-value // alignment) * alignment
