"""Accesses: which elements of which buffers a statement touches, from declared effects and nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ..errors import InternalError
from ..ir import (
    AccessPtr,
    Buffer,
    BufferLoad,
    BufferRegion,
    BufferStore,
    Call,
    Expr,
    IntImm,
    Node,
    Ramp,
    Stmt,
    TileOpStmt,
    binary,
    const,
    walk,
)
from ..source import Span

__all__ = ["AccessSite", "accesses_of", "element_region", "own_nodes", "root_buffer"]

_ATOMIC_PREFIX = "atomic"


@dataclass(frozen=True, slots=True)
class AccessSite:
    """One access.

    Args:
        kind: read, write or accumulate.
        region: the elements, as a box (the whole buffer where a pointer is handed out for more than one element).
        node: the load, store, pointer or tile op.
        span: where it stands in the source.
        atomic: whether it is one indivisible step for each element.
        exact: whether all elements of the box are touched (a strided vector touches fewer).
    """

    kind: str
    region: BufferRegion
    node: Any
    span: Span | None
    atomic: bool = False
    exact: bool = True

    @property
    def buffer(self) -> Buffer:
        return self.region.buffer

    @property
    def reads(self) -> bool:
        return self.kind != "write"

    @property
    def writes(self) -> bool:
        return self.kind != "read"

    def describe(self) -> str:
        """What a person calls it: ``A[i, j]`` or ``T.copy of A[0:16]``."""
        if isinstance(self.node, (BufferLoad, BufferStore)):
            indices = ", ".join(repr(i) for i in self.node.indices)
            return f"{self.buffer.name}[{indices}]"
        name = getattr(type(self.node), "name", "")
        return f"{self.region!r} in T.{name}" if name else repr(self.region)


def accesses_of(stmt: Stmt) -> list[AccessSite]:
    """What a statement itself touches, in the order of evaluation: not what statements inside it touch."""
    if isinstance(stmt, TileOpStmt):
        return list(_tile_op(stmt))
    found: list[AccessSite] = []
    for expr in own_nodes(stmt):
        found += _expression(expr, stmt.span)
    if isinstance(stmt, BufferStore):
        region, exact = element_region(stmt.buffer, stmt.indices, stmt.span)
        found.append(AccessSite("write", region, stmt, stmt.span, exact=exact))
    return found


def own_nodes(stmt: Stmt) -> list[Expr]:
    """The expressions of a statement: its children that are no statements."""
    return [child for child in stmt.child_nodes() if isinstance(child, Expr)]


def element_region(buffer: Buffer, indices: tuple[Expr, ...], span: Span | None = None) -> tuple[BufferRegion, bool]:
    """(the box that an element access touches, whether it touches all of it); vectors give a box of their lanes."""
    mins: list[Expr] = []
    extents: list[Expr] = []
    exact = True
    for index in indices:
        if isinstance(index, Ramp) and isinstance(index.stride, IntImm) and index.base.dtype.lanes == 1:
            reach = index.stride.value * (index.lanes - 1)
            mins.append(index.base if reach >= 0 else binary("add", index.base, const(reach, index.base.dtype)))
            extents.append(const(abs(reach) + 1, "int32"))
            exact &= abs(index.stride.value) <= 1
        elif index.dtype.lanes > 1:
            # Scattered lanes: anywhere along the axis.
            axis = len(mins)
            mins.append(const(0, "int32"))
            extents.append(buffer.shape[axis])
            exact = False
        else:
            mins.append(index)
            extents.append(const(1, "int32"))
    return BufferRegion(buffer, tuple(mins), tuple(extents), (True,) * len(mins), span=span), exact


def root_buffer(buffer: Buffer) -> Buffer:
    """The buffer whose storage a view shows."""
    while buffer.data is not None:
        buffer = buffer.data
    return buffer


def _tile_op(stmt: TileOpStmt) -> Iterator[AccessSite]:
    op = stmt.op
    effects = getattr(op, "effects", None)
    if effects is None:
        raise InternalError("E-INTERNAL", f"tile op {type(op).__name__} declares no effects", span=stmt.span)
    # Indices and scalars are evaluated before the op.
    for child in op.child_nodes():
        for expr in child.child_nodes() if isinstance(child, BufferRegion) else [child]:
            if isinstance(expr, Node):
                yield from _expression(expr, stmt.span)
    atomic = getattr(type(op), "name", "").startswith(_ATOMIC_PREFIX)
    # Reads come first: an op that works in place reads what was there.
    for access in sorted(op.effects(), key=lambda a: a.kind != "read"):
        indivisible = atomic and access.kind == "accumulate"
        yield AccessSite(access.kind, access.region, op, op.span or stmt.span, atomic=indivisible)


def _expression(expr: Any, span: Span | None) -> Iterator[AccessSite]:
    atomic_pointers: set[int] = set()
    for node in walk(expr):
        if isinstance(node, Call) and node.op.startswith(_ATOMIC_PREFIX):
            atomic_pointers.update(id(a) for a in node.args if isinstance(a, AccessPtr))
        elif isinstance(node, BufferLoad):
            region, exact = element_region(node.buffer, node.indices, node.span or span)
            yield AccessSite("read", region, node, node.span or span, exact=exact)
        elif isinstance(node, AccessPtr):
            yield from _pointer(node, node.span or span, id(node) in atomic_pointers)


def _pointer(node: AccessPtr, span: Span | None, atomic: bool) -> Iterator[AccessSite]:
    single = isinstance(node.extent, IntImm) and node.extent.value == 1
    if single:
        region, exact = element_region(node.buffer, node.indices, span)
    else:
        zero = const(0, "int32")
        region = BufferRegion(node.buffer, (zero,) * node.buffer.ndim, node.buffer.shape, span=span)
        exact = False
    if atomic:
        yield AccessSite("accumulate", region, node, span, atomic=True, exact=exact)
        return
    for mode, kind in (("r", "read"), ("w", "write")):
        if mode in node.mode:
            yield AccessSite(kind, region, node, span, exact=exact)
