"""Nests of T.Parallel loops as LayoutInference and LowerParallelNests see them: which tiles in registers an iteration
touches, and which thread runs it.

A nest's *place* is a fragment over its iterations. It is taken from a register tile that the nest indexes with its
plain loop variables, so that iterations run where their elements are; without one, iterations go to threads in order,
as many neighbours a thread as make 16 bytes.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd, prod
from typing import Any

import numpy as np

from tile_core.arith import simplify
from tile_core.ir import (
    AccessPtr,
    Buffer,
    BufferLoad,
    BufferStore,
    Expr,
    For,
    If,
    IntImm,
    Stmt,
    Var,
    binary,
    substitute,
    walk,
)
from tile_core.layout import Fragment
from tile_core.layout.tables import tabulate

from ..layouts import in_rows, reduced, replicated

__all__ = ["Access", "Nest", "held_by", "place_nest", "tile_places"]

_VECTOR_BITS = 128
# What passing a tile through shared memory costs, in iterations: two meetings of the block.
_EXCHANGE = 32


@dataclass(frozen=True)
class Access:
    """An access of a nest to a register tile.

    Args:
        axes: for each axis of the tile the loop whose variable is its index (None: the only index, 0), or None where
            an index is something else.
    """

    buffer: Buffer
    indices: tuple[Expr, ...]
    writes: bool
    axes: tuple[int | None, ...] | None


class Nest:
    """Perfectly nested parallel loops with constant bounds, or with `extents` None where a bound is symbolic."""

    def __init__(self, loop: For) -> None:
        self.loops = [loop]
        while isinstance(self.loops[-1].body, For) and self.loops[-1].body.kind == "parallel":
            self.loops.append(self.loops[-1].body)
        self.body: Stmt = self.loops[-1].body
        self.vars = tuple(item.var for item in self.loops)
        # Variables compare by identity in a dict; `==` on them would build an expression.
        self.axis_of = {var: axis for axis, var in enumerate(self.vars)}
        bounds = [(item.min, item.extent) for item in self.loops]
        constant = all(isinstance(low, IntImm) and isinstance(extent, IntImm) for low, extent in bounds)
        plain = all(item.step is None for item in self.loops)
        self.extents: tuple[int, ...] | None = (
            tuple(extent.value for _, extent in bounds) if constant and plain else None  # type: ignore[attr-defined]
        )
        self.starts = tuple(low.value if isinstance(low, IntImm) else 0 for low, _ in bounds)
        self.accesses = tuple(self._access(n) for n in walk(self.body) if _is_tile(n))

    def _access(self, node: Any) -> Access:
        axes: list[int | None] = []
        shape = node.buffer.static_shape() or ()
        # Regions leave sums with 0.
        indices = tuple(simplify(i) for i in node.indices)
        writes = isinstance(node, BufferStore) or (isinstance(node, AccessPtr) and "w" in node.mode)
        for index, extent in zip(indices, shape):
            if isinstance(index, Var) and index in self.axis_of and self.extents is not None:
                axis = self.axis_of[index]
                if self.extents[axis] == extent and self.starts[axis] == 0 and axis not in axes:
                    axes.append(axis)
                    continue
            if isinstance(index, IntImm) and index.value == 0 and extent == 1:
                axes.append(None)
                continue
            return Access(node.buffer, indices, writes, None)
        return Access(node.buffer, indices, writes, tuple(axes))

    def missing(self, access: Access) -> list[int]:
        """Loops with more than one iteration whose variable does not occur in a plain access."""
        extents = self.extents or ()
        return [a for a, e in enumerate(extents) if e > 1 and a not in (access.axes or ())]

    @property
    def updates_memory(self) -> bool:
        """Whether the body reads memory that it writes."""
        stored = {n.buffer for n in walk(self.body) if isinstance(n, BufferStore) and _seen_by_all(n.buffer)}
        return any(isinstance(n, (BufferLoad, AccessPtr)) and n.buffer in stored for n in walk(self.body))

    @property
    def writes_always(self) -> bool:
        """Whether the body stores without a condition."""
        return not any(isinstance(n, If) for n in walk(self.body))

    def vector(self, threads: int) -> int:
        """Neighbours along the last loop that one thread should take: 16 bytes of the narrowest element type."""
        assert self.extents is not None
        bits = [
            n.buffer.dtype.storage_bits
            for n in walk(self.body)
            if isinstance(n, (BufferLoad, BufferStore)) and n.buffer.scope in ("global", "shared")
        ]
        if not bits:
            bits = [a.buffer.dtype.storage_bits for a in self.accesses] or [_VECTOR_BITS]
        widest = self.loops[0].annotation("coalesced_width") or max(1, _VECTOR_BITS // min(bits))
        vector = gcd(self.extents[-1], widest)
        # Elements of four bits stay together in their byte.
        least = 2 if min(bits) < 8 and self.extents[-1] % 2 == 0 else 1
        while vector > least and prod(self.extents) < vector * threads:
            vector //= 2
        return vector & -vector


def place_nest(nest: Nest, known: dict[Buffer, Any], threads: int) -> Fragment:
    """The thread and turn of each iteration: with few accesses that need an exchange and few turns; tiles written come
    before tiles read, whole ones before those that lack an axis."""
    assert nest.extents is not None
    annotated = nest.loops[0].annotation("loop_layout")
    if isinstance(annotated, Fragment) and annotated.domain == nest.extents:
        return annotated
    plain = [a for a in nest.accesses if a.axes is not None and isinstance(known.get(a.buffer), Fragment)]
    if nest.updates_memory:
        # Of several threads that run one iteration, some would read what another has written already.
        plain = [a for a in plain if known[a.buffer].replicas == 1]
    plain.sort(key=lambda a: (len(nest.missing(a)) > 0, not a.writes))
    found: list[Fragment] = []
    for access in plain:
        place = _from_tile(nest, access, known[access.buffer])
        if place not in found:
            found.append(place)
    if not found:
        return in_rows(nest.extents, threads, nest.vector(threads))
    held = [a for a in nest.accesses if isinstance(known.get(a.buffer), Fragment)]
    if all(nest.missing(a) for a in plain) and not nest.updates_memory:
        found.append(in_rows(nest.extents, threads, nest.vector(threads)))

    def cost(place: Fragment) -> int:
        exchanges = sum(not held_by(nest, place, a, known[a.buffer]) for a in held)
        return _EXCHANGE * exchanges + place.regs

    return min(found, key=cost)


def _from_tile(nest: Nest, access: Access, fragment: Fragment) -> Fragment:
    assert nest.extents is not None and access.axes is not None
    axes, missing = access.axes, nest.missing(access)
    if not missing and axes == tuple(range(len(nest.extents))):
        return fragment
    copies = prod(nest.extents[a] for a in missing)
    # Threads that hold the same element share what the nest does with it, unless they all have to write it.
    shared, vector = 1, 1
    if missing and not any(a.writes and nest.missing(a) for a in nest.accesses):
        vector = nest.vector(fragment.threads) if missing[-1] == len(nest.extents) - 1 else 1
        vector = gcd(vector, copies)
        shared = gcd(fragment.replicas, copies // vector)
    turns = copies // shared

    def forward(*given: Any) -> tuple[Any, Any]:
        index, replica = [0 if a is None else given[a] for a in axes], given[-1]
        if not missing:
            return fragment.place(index, replica)
        number, inner = 0, copies
        for a in missing:
            inner //= nest.extents[a]  # type: ignore[index]
            number = number + given[a] * inner
        if shared > 1:
            replica = replica * shared + number // vector % shared
            number = number // (vector * shared) * vector + number % vector
        thread, register = fragment.place(index, replica)
        return thread, register * turns + number

    return Fragment(nest.extents, fragment.threads, fragment.regs * turns, fragment.replicas // shared, forward)


def tile_places(nest: Nest, place: Fragment, access: Access, threads: int) -> Fragment | None:
    """The fragment that a tile needs so that each iteration finds its element, or None where the index is no plain
    one."""
    if access.axes is None or nest.extents is None:
        return None
    shape = access.buffer.static_shape() or ()
    dropped = [a for a in range(len(nest.extents)) if a not in access.axes]
    kept = [a for a in range(len(nest.extents)) if a in access.axes]
    small = place
    if nest.missing(access):
        summed = reduced(place, dropped)
        if summed is None:
            return replicated(shape, threads)
        small = summed
    elif dropped:
        small = _without(place, dropped)
    order = [kept.index(a) if a is not None else None for a in access.axes]
    if order == list(range(small.ndim)):
        return small

    def forward(*given: Any) -> tuple[Any, Any]:
        index: list[Any] = [0] * small.ndim
        for own, axis in zip(given, order):
            if axis is not None:
                index[axis] = own
        return small.place(index, given[-1])

    return Fragment(shape, small.threads, small.regs, small.replicas, forward)


def _without(fragment: Fragment, axes: list[int]) -> Fragment:
    """A fragment without some axes of extent 1."""
    rest = [a for a in range(fragment.ndim) if a not in axes]

    def forward(*given: Any) -> tuple[Any, Any]:
        index: list[Any] = [0] * fragment.ndim
        for own, axis in zip(given, rest):
            index[axis] = own
        return fragment.place(index, given[-1])

    domain = tuple(fragment.domain[a] for a in rest) or (1,)
    return Fragment(domain, fragment.threads, fragment.regs, fragment.replicas, forward)


def elements(nest: Nest, access: Access) -> tuple[Any, list[int]] | None:
    """(row-major element of the tile for each iteration and each value of indices that are the same for all
    iterations, the tile's axes with such indices), or None where an index is computed from something else."""
    assert nest.extents is not None
    shape = access.buffer.static_shape() or ()
    uniform = [
        axis
        for axis, index in enumerate(access.indices)
        if not isinstance(index, IntImm) and not any(n in nest.axis_of for n in walk(index) if isinstance(n, Var))
    ]
    stand_ins = {axis: Var(f"u{axis}") for axis in uniform}
    results = tuple(stand_ins.get(axis, index) for axis, index in enumerate(access.indices))
    variables = (*nest.vars, *stand_ins.values())
    try:
        # Tables count from 0; a loop may start elsewhere.
        moved = {v: binary("add", v, low) for v, low in zip(nest.vars, nest.starts) if low}
        results = tuple(substitute(r, moved) for r in results) if moved else results
        parts = tabulate(variables, results, (*nest.extents, *(shape[a] for a in uniform)))
    except (TypeError, KeyError):
        return None
    found: Any = 0
    for part, extent in zip(parts, shape):
        # An index outside the tile is somebody else's error.
        found = found * extent + np.clip(part, 0, extent - 1)
    return found, uniform


def held_by(nest: Nest, place: Fragment, access: Access, fragment: Fragment) -> bool:
    """Whether every thread that runs an iteration holds the element that it touches, and, if it writes, whether every
    holder of an element writes it."""
    assert nest.extents is not None
    if access.axes is not None and not nest.missing(access) and place is fragment:
        return True
    found = elements(nest, access)
    if found is None:
        return False
    touched, _ = found
    owners, registers = fragment.tables()
    if not (registers == registers[..., :1]).all():
        return False
    size, count = prod(fragment.domain), max(place.threads, fragment.threads)
    held = np.zeros((size, count), dtype=bool)
    held[np.arange(size)[:, None], owners.reshape(size, -1)] = True
    touched = touched.reshape(*nest.extents, -1)
    runs = place.tables()[0]
    if not held[touched[..., :, None], runs[..., None, :]].all():
        return False
    if not access.writes:
        return True
    iterations = prod(nest.extents)
    running = np.zeros((iterations, count), dtype=bool)
    running[np.arange(iterations)[:, None], runs.reshape(iterations, -1)] = True
    return bool((held.sum(axis=1)[touched.reshape(iterations, -1)] == running.sum(axis=1)[:, None]).all())


def _is_tile(node: Any) -> bool:
    return isinstance(node, (BufferLoad, BufferStore, AccessPtr)) and is_register_tile(node.buffer)


def _seen_by_all(buffer: Buffer) -> bool:
    return buffer.memory.level != "thread" and not is_register_tile(buffer)


def is_register_tile(buffer: Buffer) -> bool:
    """Whether a buffer is a tile in the registers of the block's threads."""
    return buffer.scope == "fragment"
