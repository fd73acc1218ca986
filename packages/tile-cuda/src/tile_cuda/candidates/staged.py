"""StagedStore: a tile in registers goes to global memory by way of shared memory, in whole rows of 16 bytes a thread.

The lanes of a warp hold a product of fp16 in pieces of 4 bytes, 16 bytes side by side: stored from there, every sector
of 32 bytes is written in two halves, with four times the instructions.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import prod

import numpy as np

from tile_core.ir import Block, BufferRegion, Stmt, full_region, is_one, seq, walk
from tile_core.layout import Fragment
from tile_core.tileop import Constraint, Copy, Declined, Facts, LowerContext, Ok
from tile_core.tileop.default_candidates import CopyLoops
from tile_core.transform.options import declare_option

from ..layouts import WARP, Places
from ..target import architecture
from .copy import ThreadCopy, aligned_rows
from .nests import as_nest

__all__ = ["StagedStore"]

_SECTOR = 32  # bytes that memory is written in
_VECTOR_BITS = 128
_PAD_BYTES = 16  # between rows, so that the eight rows that a warp writes at once lie in different banks
_RESERVED = 16 * 1024  # bytes left to what other ops exchange
_OPTION = "tl.disable_staged_stores"

declare_option(_OPTION, False, bool, "tiles in registers are stored to global memory from where they are")


class StagedStore(ThreadCopy):
    """Where the tile turns out to lie in whole sectors, threads store what they hold (`ThreadCopy`)."""

    op = Copy
    name = "staged"

    def legal(self, op: Copy, facts: Facts) -> Ok | Declined:
        src, dst = op.src, op.dst
        if facts.options is not None and facts.options[_OPTION]:
            return Declined(f"{_OPTION} is set")
        if src.buffer.scope != "fragment" or src.buffer.data is not None or dst.buffer.memory.level != "device":
            return Declined("only tiles in registers are staged on their way to global memory")
        if dict(op.annotations).get("loop_layout") is not None:
            return Declined("a loop_layout says which thread stores what")
        if not 8 <= dst.dtype.storage_bits <= 16:
            return Declined(f"lanes that hold {dst.dtype} fill sectors of memory by themselves, or share bytes")
        shape = _moving(src)
        if shape is None or len(shape) != 2 or src.static_extents() != src.buffer.static_shape():
            return Declined(f"{src.buffer.name} is no whole tile of rows")
        vector = _VECTOR_BITS // dst.dtype.storage_bits
        if shape[1] % vector or not aligned_rows(dst, vector, facts):
            return Declined(f"rows of {dst.buffer.name} are not known to begin and end at multiples of 16 bytes")
        if facts.launch is None or _shared_bytes(facts) + _bytes(op, shape) > _most(facts):
            return Declined("shared memory has no room for the tile beside the kernel's own")
        return Ok(prod(shape) / 256)

    def constraints(self, op: Copy, facts: Facts) -> Iterable[Constraint]:
        return ThreadCopy().constraints(op, facts)

    def lower(self, op: Copy, context: LowerContext) -> Stmt:
        fragment = context.layouts.get(op.src.buffer)
        shape = _moving(op.src)
        if not isinstance(fragment, Fragment) or shape is None or _whole_sectors(fragment, op):
            return super().lower(op, context)
        pad = _PAD_BYTES * 8 // op.dst.dtype.storage_bits
        rows = (shape[0], shape[1] + pad)
        held = context.allocate(f"{op.src.buffer.name}_staged", rows, op.dst.dtype, "shared")
        region = full_region(held, op.span)
        region = region.with_(extents=tuple(e for e in op.src.extents if not is_one(e)))
        write = as_nest(CopyLoops().lower(op.with_(dst=region), context))
        read = as_nest(CopyLoops().lower(op.with_(src=region), context))
        return seq(write, read, span=op.span)


def _moving(region: BufferRegion) -> tuple[int, ...] | None:
    """The constant extents that are not 1, or None where an extent is symbolic."""
    extents = region.static_extents()
    return None if extents is None else tuple(e for e in extents if e != 1)


def _whole_sectors(fragment: Fragment, op: Copy) -> bool:
    """Whether what the first warp stores at once fills the sectors that it touches."""
    item = op.dst.dtype.storage_bits // 8
    places = Places(fragment).table[:WARP, : fragment.vector_width(-1)]
    columns = fragment.domain[-1]
    held = np.unique(places[places >= 0])
    sectors = np.unique(held // columns * (columns * item // _SECTOR + 1) + held % columns * item // _SECTOR)
    return len(held) * item >= len(sectors) * min(_SECTOR, columns * item)


def _bytes(op: Copy, shape: tuple[int, ...]) -> int:
    return shape[0] * (shape[1] * op.dst.dtype.storage_bits // 8 + _PAD_BYTES)


def _most(facts: Facts) -> int:
    return architecture(facts.target).block_shared_bytes - _RESERVED


def _shared_bytes(facts: Facts) -> int:
    """Bytes of the kernel's own tiles in shared memory, in all versions that its pipelines may want of them."""
    assert facts.launch is not None
    stages = [n.annotation("num_stages") for n in walk(facts.launch.body) if getattr(n, "kind", "") == "pipelined"]
    versions = max([s for s in stages if isinstance(s, int)], default=1)
    tiles = [b for n in walk(facts.launch.body) if isinstance(n, Block) for b in n.allocations if b.scope == "shared"]
    sizes = [prod(b.static_shape() or (0,)) * b.dtype.storage_bits // 8 for b in tiles]
    return sum(sizes) * max(1, versions)
