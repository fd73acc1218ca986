"""Layouts of shared tiles that only loops and copies use: the one that costs the fewest trips to the banks.

Every access of a nest of parallel loops is looked at as the threads make it: the table of the nest's place says which
iteration a thread runs at a turn, the indices which element that touches, a candidate layout where it lies. What
counts is instructions plus trips (`layouts.wavefronts`); of equal ones the plainest wins, so that nothing changes
without need.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import gcd, prod
from typing import Any

import numpy as np

from tile_core.ir import Buffer, BufferLoad, BufferStore, For, Var, const, substitute, walk
from tile_core.layout import Layout
from tile_core.layout.tables import tabulate

from ..layouts import Places
from ..layouts.partition import WARP
from ..layouts.shared import candidates, wavefronts
from .nests import Nest, place_nest

__all__ = ["Touch", "choose_layout", "cost", "rows", "touches"]

_MOST_ELEMENTS = 1 << 16  # larger tiles stay row-major: the tables would cost more than they find


@dataclass(frozen=True)
class Touch:
    """One access of a nest to a tile.

    Args:
        elements: (threads, turns) row-major elements of the tile, -1 where a thread does nothing; neighbouring turns
            may become one access.
        width: how many neighbours a thread takes at a turn of the loop, at most one access.
    """

    elements: np.ndarray
    width: int


def choose_layout(buffer: Buffer, used: Iterable[Touch], most_bytes: int = 16) -> Layout | None:
    """The cheapest layout for what is done with a tile, or None where row-major is as good.

    `most_bytes`: of one access.
    """
    shape, own = buffer.static_shape(), list(used)
    if shape is None or len(shape) < 2 or not own or prod(shape) > _MOST_ELEMENTS:
        return None
    plain, *others = candidates(shape, buffer.dtype)
    bits = buffer.dtype.storage_bits
    least, chosen = cost(plain, own, bits, most_bytes), None
    ideal = sum(_ideal(touch, bits, most_bytes) for touch in own)
    for layout in others:
        if least <= ideal:
            break
        price = cost(layout, own, bits, most_bytes)
        if price < least:
            least, chosen = price, layout
    return chosen


def cost(layout: Layout, used: Iterable[Touch], bits: int, most_bytes: int = 16) -> int:
    """Instructions and trips of all accesses, warp by warp."""
    table, total = layout.table().reshape(-1), 0
    for touch in used:
        offsets = np.where(touch.elements < 0, -1, table[touch.elements])
        width = _width(offsets, min(touch.width, most_bytes * 8 // bits))
        starts = offsets[:, ::width].T  # (accesses, threads)
        pad = -starts.shape[1] % WARP
        starts = np.pad(starts, ((0, 0), (0, pad)), constant_values=-1)
        places = np.where(starts < 0, -1, starts * bits // 8)
        warps = places.reshape(-1, WARP)
        total += int((warps >= 0).any(axis=1).sum()) + wavefronts(places, max(1, width * bits // 8))
    return total


def _ideal(touch: Touch, bits: int, most_bytes: int) -> int:
    """The least that an access can cost: as wide as may be, each trip a whole line of the banks."""
    width = max(1, min(touch.width, most_bytes * 8 // bits))
    active = (touch.elements[:, ::width] >= 0).T
    pad = -active.shape[1] % WARP
    lanes = np.pad(active, ((0, 0), (0, pad))).reshape(-1, WARP).sum(axis=1)
    return int((lanes > 0).sum() + np.ceil(lanes * max(1, width * bits // 8) / 128).sum())


def touches(loop: For, buffer: Buffer, layouts: dict[Buffer, Any], threads: int) -> list[Touch]:
    """What a nest of parallel loops does with a tile; nothing where that is not known before it runs."""
    nest = Nest(loop)
    if nest.extents is None or prod(nest.extents) == 0:
        return []
    place = place_nest(nest, layouts, threads)
    table = Places(place).table
    found = []
    width = place.vector_width(-1)
    for node in walk(nest.body):
        if not isinstance(node, (BufferLoad, BufferStore)) or node.buffer is not buffer:
            continue
        elements = _elements(nest, node)
        if elements is not None:
            flat = elements.reshape(-1)
            found.append(Touch(np.where(table < 0, -1, flat[np.where(table < 0, 0, table)]), width))
    return found


def rows(buffer: Buffer, threads: int) -> Touch:
    """A tile written row after row in order, as asynchronous copies do."""
    count = prod(buffer.static_shape() or (1,))
    vector = max(1, gcd((buffer.static_shape() or (1,))[-1], 128 // buffer.dtype.storage_bits))
    turns = -(-count // (threads * vector))
    number = np.arange(threads)[:, None] * vector + np.arange(turns * vector) // vector * (threads * vector)
    number = number + np.arange(turns * vector) % vector
    return Touch(np.where(number < count, number, -1), vector)


def _elements(nest: Nest, node: Any) -> np.ndarray | None:
    """The element that each iteration touches, with what is the same for all iterations as 0."""
    shape = node.buffer.static_shape()
    own = set(nest.vars)
    others = {v: const(0, v.dtype) for i in node.indices for v in walk(i) if isinstance(v, Var) and v not in own}
    results = tuple(substitute(i, others) if others else i for i in node.indices)
    try:
        parts = tabulate(nest.vars, results, nest.extents or ())
    except (TypeError, KeyError):
        return None
    total: Any = np.zeros((), dtype=np.int64)
    for part, extent in zip(parts, shape):
        total = total * extent + np.clip(part, 0, extent - 1)
    return np.broadcast_to(total, nest.extents or ())


def _width(offsets: np.ndarray, most: int) -> int:
    """The widest access that neighbouring turns can be: consecutive, and beginning at a multiple of it."""
    turns = offsets.shape[1]
    width = most & -most
    while width > 1:
        if turns % width == 0:
            groups = offsets.reshape(len(offsets), -1, width)
            whole = (groups[:, :, 0] % width == 0) & (np.diff(groups, axis=2) == 1).all(axis=2)
            if (whole | (groups < 0).all(axis=2)).all():
                return width
        width //= 2
    return 1
