"""ThreadPlacement: what LayoutInference asks a backend with threads about register tiles and parallel loops."""

from __future__ import annotations

from collections.abc import Iterable
from math import gcd, prod
from typing import Any

from tile_core.ir import Buffer, For, Stmt, TileOpStmt
from tile_core.layout import Fragment, Layout
from tile_core.tileop import Candidate, Constraint, Facts

from ..layouts import in_rows, replicated
from .nests import Nest, is_register_tile, place_nest, tile_places
from .shared_tiles import Touch, choose_layout, rows, touches

__all__ = ["ThreadPlacement", "nest_constraints"]


class ThreadPlacement:
    """Fragments for register tiles: those that ops ask for spread along parallel loops; what nobody asks for is spread
    over the threads in order."""

    def takes(self, buffer: Buffer) -> bool:
        """Whether a buffer is laid out as a Fragment."""
        return is_register_tile(buffer)

    def loop(self, loop: For, facts: Facts) -> Iterable[Constraint]:
        """What a nest of parallel loops wants for the register tiles that it touches."""
        return nest_constraints(loop, facts)

    def outside(self, buffer: Buffer, facts: Facts) -> Fragment:
        """For a tile of which single elements are used outside of parallel loops: every thread needs them."""
        return replicated(_shape(buffer), _threads(facts))

    def default(self, buffer: Buffer, facts: Facts) -> Fragment:
        """For a tile that nobody asked about."""
        shape = _shape(buffer)
        vector = gcd(shape[-1], max(1, 128 // buffer.dtype.storage_bits))
        while vector > 1 and prod(shape) < vector * _threads(facts):
            vector //= 2
        return in_rows(shape, _threads(facts), vector & -vector)

    def memory(self, buffer: Buffer, uses: list[tuple[Candidate | None, Stmt]], facts: Facts) -> Layout | None:
        """The layout of a shared tile with which its loops and copies cost least; None for row-major."""
        from ..candidates.nests import outer_nests  # which import this package

        if buffer.scope != "shared" or facts.threads is None:
            return None
        found: list[Touch] = []
        for candidate, stmt in uses:
            if candidate is None:
                assert isinstance(stmt, For)
                nests = [stmt]
            elif candidate.name == "threads":
                assert isinstance(stmt, TileOpStmt)
                nests = outer_nests(candidate, stmt.op, facts)
            elif candidate.name == "cp_async":
                found.append(rows(buffer, facts.threads))
                continue
            else:
                return None
            for nest in nests:
                found += touches(nest, buffer, facts.layouts, facts.threads)
        return choose_layout(buffer, found)

    def size(self, buffers: Iterable[Buffer]) -> int:
        """The order in which uses without a wish of their own are asked: the largest tile decides."""
        return max((prod(_shape(b)) for b in buffers if is_register_tile(b)), default=0)


def nest_constraints(loop: For, facts: Facts) -> Iterable[Constraint]:
    """The fragments that follow from those known; from none only as a free wish."""
    nest = Nest(loop)
    if nest.extents is None or not nest.accesses or facts.threads is None:
        return
    known: dict[Buffer, Any] = {a.buffer: facts.layouts[a.buffer] for a in nest.accesses if a.buffer in facts.layouts}
    asked = [a for a in nest.accesses if a.buffer not in known]
    if not asked:
        return
    place = place_nest(nest, known, facts.threads)
    leads = [a for a in nest.accesses if a.buffer in known and a.axes is not None and not nest.missing(a)]
    wanted: dict[Buffer, Fragment] = {}
    for access in sorted(asked, key=lambda a: a.axes is None or len(nest.missing(a)) > 0):
        fragment = tile_places(nest, place, access, facts.threads)
        if fragment is not None:
            wanted.setdefault(access.buffer, fragment)
    for buffer, fragment in wanted.items():
        if leads:
            yield Constraint(buffer, fragment, "common")
        yield Constraint(buffer, fragment, "free")


def _threads(facts: Facts) -> int:
    assert facts.threads is not None, "BindThreads runs first"
    return facts.threads


def _shape(buffer: Buffer) -> tuple[int, ...]:
    shape = buffer.static_shape()
    if shape is None:
        from tile_core.transform.layout_inference import plain_layout

        # Says that tiles need constant extents.
        return tuple(plain_layout(buffer).domain)
    return shape
