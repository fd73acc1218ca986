"""Buffers and regions of them.

A `Buffer` is a named piece of memory with a logical shape; its identity is the memory's name in the program (two
buffers that share `data`
are views of one allocation). A `BufferRegion` is a box in it, given per dimension as (min, extent).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from ..dtypes import DType
from ..source import Span
from .expr import BufferLoad, Expr, IntImm, Ramp, as_expr, binary, const
from .node import Node, attr, child, children, derived, node
from .scopes import MemoryScope, find_scope

__all__ = ["Buffer", "BufferRegion", "full_region", "row_major_strides"]


@node
class Buffer(Node):
    """Memory with a shape.

    Args:
        name: for people; printing makes it unique.
        shape: extents, one an axis; on chip they are constants.
        dtype: element type.
        scope: name of a memory scope.
        strides: in elements, one an axis, or () for row-major contiguous.
        data: the buffer whose storage this one views, or None for storage of its own.
        offset: elements from the start of `data` (views and parameters with an offset).
        align: bytes that the start is known to be aligned to; 0 for what the scope promises.
    """

    name: str = attr()
    shape: tuple[Expr, ...] = children()
    dtype: DType = attr()
    scope: str = attr(default="global")
    strides: tuple[Expr, ...] = children(default=())
    data: Buffer | None = attr(default=None)
    offset: Expr | None = child(default=None)
    align: int = attr(default=0)
    memory: MemoryScope = derived()

    index: ClassVar[Callable[[Buffer, Any], Any] | None] = None
    """What ``buffer[…]`` means in a kernel; the front end installs it, as it knows the names that are bound there."""
    store: ClassVar[Callable[[Buffer, Any, Any], None] | None] = None
    """What ``buffer[…] = value`` means; installed likewise."""
    __iter__: ClassVar[None] = None

    def __post_init__(self) -> None:
        self.memory = find_scope(self.scope)  # pyright: ignore[reportAttributeAccessIssue]

    def __getitem__(self, index: Any) -> Any:
        """An element (all indices given) or a region (slices) of the buffer."""
        if Buffer.index is None:
            raise RuntimeError("import tile_core.language before indexing a buffer")
        return Buffer.index(self, index)

    def __setitem__(self, index: Any, value: Any) -> None:
        """Stores an element, in the kernel that is being traced."""
        if Buffer.store is None:
            raise RuntimeError("import tile_core.language before storing to a buffer")
        Buffer.store(self, index, value)

    def __repr__(self) -> str:
        shape = ", ".join(repr(s) for s in self.shape)
        return f"{self.name}: {self.dtype}[{shape}]" + ("" if self.scope == "global" else f" in {self.scope}")

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def is_on_chip(self) -> bool:
        return self.memory.level != "device"

    def static_shape(self) -> tuple[int, ...] | None:
        """The extents as integers, or None when one is symbolic."""
        extents = []
        for extent in self.shape:
            if not isinstance(extent, IntImm):
                return None
            extents.append(extent.value)
        return tuple(extents)

    def element_strides(self) -> tuple[Expr, ...]:
        """Strides in elements, derived from the shape when none were given."""
        return self.strides or row_major_strides(self.shape)


@node
class BufferRegion(Node):
    """The box `buffer[min : min + extent, …]`; an axis with `extent` 1 may be a plain index of the user's
    (`squeezed`)."""

    buffer: Buffer = attr()
    mins: tuple[Expr, ...] = children()
    extents: tuple[Expr, ...] = children()
    squeezed: tuple[bool, ...] = attr(default=())

    def __repr__(self) -> str:
        from .printer import region_text

        return region_text(self)

    @property
    def dtype(self) -> DType:
        return self.buffer.dtype

    def static_extents(self) -> tuple[int, ...] | None:
        """The extents as integers, or None when one is symbolic."""
        if all(isinstance(e, IntImm) for e in self.extents):
            return tuple(e.value for e in self.extents)  # type: ignore[attr-defined]
        return None

    def tile_extents(self) -> tuple[Expr, ...]:
        """Extents of the axes that are not squeezed: the shape of the tile that an op sees."""
        if not self.squeezed:
            return self.extents
        return tuple(e for e, s in zip(self.extents, self.squeezed) if not s)

    def tile_axes(self) -> tuple[int, ...]:
        """Positions of the axes that are not squeezed."""
        return tuple(i for i in range(len(self.mins)) if not (self.squeezed and self.squeezed[i]))

    def indices(self, tile_indices: tuple[Expr, ...] | list[Expr]) -> tuple[Expr, ...]:
        """Buffer indices of the element at `tile_indices` (one for each axis that is not squeezed)."""
        given = iter(tile_indices)
        squeezed = self.squeezed or (False,) * len(self.mins)
        return tuple(low if s else binary("add", low, next(given)) for low, s in zip(self.mins, squeezed))

    def load(self, tile_indices: tuple[Expr, ...] | list[Expr], predicate: Expr | None = None) -> BufferLoad:
        """The element at `tile_indices` of the region."""
        return BufferLoad(self.buffer, self.indices(tile_indices), predicate, span=self.span)


def full_region(buffer: Buffer, span: Span | None = None) -> BufferRegion:
    """The region that is the whole buffer."""
    zero = const(0, "int32")
    return BufferRegion(buffer, (zero,) * buffer.ndim, buffer.shape, (False,) * buffer.ndim, span=span)


def row_major_strides(shape: tuple[Expr, ...]) -> tuple[Expr, ...]:
    """Strides in elements of a contiguous buffer."""
    strides: list[Expr] = []
    running: Expr = const(1, "int32")
    for extent in reversed(shape):
        strides.append(running)
        running = binary("mul", running, extent)
    return tuple(reversed(strides))


def region_of(value: Any, span: Span | None = None) -> BufferRegion:
    """A region for a buffer, a region, or a single element given as a BufferLoad (extent 1 an axis; a Ramp gives its
    lanes)."""
    if isinstance(value, Buffer):
        return full_region(value, span)
    if isinstance(value, BufferRegion):
        return value
    if isinstance(value, BufferLoad):
        mins, extents = [], []
        for index in value.indices:
            if isinstance(index, Ramp):
                mins.append(index.base)
                extents.append(const(index.lanes, "int32"))
            else:
                mins.append(index)
                extents.append(const(1, "int32"))
        return BufferRegion(value.buffer, tuple(mins), tuple(extents), (True,) * len(mins), span=span or value.span)
    raise TypeError(f"{value!r} is not a buffer, a region or an element")


def as_shape(values: Any) -> tuple[Expr, ...]:
    """A shape from one extent or a sequence of extents."""
    if isinstance(values, (int, Expr)):
        values = (values,)
    return tuple(as_expr(v) for v in values)
