"""Tile ops in the interpreter: read the operands' tiles, ask the op's reference, write the results."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..dtypes import DType
from ..ir import BufferRegion
from ..tileop import Copy, TileOp
from .faults import ExecutionFault
from .memory import Nibbles
from .values import convert, numpy_type, wide

if TYPE_CHECKING:
    from .machine import Machine

__all__ = ["run_tile_op"]


def run_tile_op(machine: Machine, op: TileOp) -> None:
    """Performs `op` once for the block."""
    boxes = {name: _Box(machine, region) for name, _, region in op.operands()}
    arrays: dict[str, Any] = {}
    # A copy within one type moves bits: a NaN stays the one it is.
    moves = type(op) is Copy and op.src.dtype is op.dst.dtype
    for name, role, region in op.operands():
        box = boxes[name]
        if role == "out":
            held = numpy_type(region.dtype) if moves else wide(0, region.dtype).dtype
            arrays[name] = np.zeros(box.tile_shape, dtype=held)
            continue
        values, written = box.read()
        if written is not None:
            if type(op) is Copy:
                _require_copied(machine, op, boxes["dst"], written)
            elif not written.all():
                raise _unwritten(op, region)
        arrays[name] = values if moves else wide(values, region.dtype)
    results = op.reference(arrays, machine.number)
    for name, role, region in op.operands():
        if role != "in":
            boxes[name].write(_as_element_type(results[name], region.dtype))
    if type(op) is Copy:
        boxes["dst"].copy_written(boxes["src"])


class _Box:
    """A region while the op runs: its memory as an array, clipped to the buffer."""

    def __init__(self, machine: Machine, region: BufferRegion) -> None:
        self.machine = machine
        self.region = region
        place = machine.placement(region.buffer)
        self.place = place
        self.mins = [machine.integer(e, "region") for e in region.mins]
        self.extents = [machine.integer(e, "region") for e in region.extents]
        squeezed = region.squeezed or (False,) * len(self.mins)
        self.tile_shape = tuple(e for e, s in zip(self.extents, squeezed) if not s)
        self.low = [max(0, low) for low in self.mins]
        self.high = [min(low + e, size) for low, e, size in zip(self.mins, self.extents, place.shape)]
        self.empty = any(high <= low for low, high in zip(self.low, self.high))
        clipped = any(low < 0 or low + e > size for low, e, size in zip(self.mins, self.extents, place.shape))
        if clipped and 0 not in self.extents and not machine.tolerates(region.buffer):
            raise ExecutionFault(
                "E-RUN-BOUNDS",
                f"the region {self.mins} + {self.extents} of {region.buffer.name} leaves its shape {list(place.shape)}",
                span=region.span,
                facts=[f"{region.buffer.name}: {region.buffer.dtype} in {region.buffer.scope}"],
                help="keep the region inside the buffer",
            )
        self.clipped = clipped
        lanes = region.dtype.lanes
        self.strides = [s * lanes for s in place.strides]
        self.offset = place.offset * lanes
        if lanes > 1:
            # The lanes of a vector type are one dimension more.
            self.mins.append(0)
            self.extents.append(lanes)
            self.low.append(0)
            self.high.append(lanes)
            self.strides.append(1)
            self.tile_shape = (*self.tile_shape, lanes)

    def read(self) -> tuple[np.ndarray, np.ndarray | None]:
        """(elements, which of them were written or None where that is not known); outside the buffer the safe value."""
        storage = self.place.storage
        data = storage.view(self.region.dtype)
        values = self._tile(data, self.machine._safe_value(self.region.buffer))
        if storage.written is None or data is not storage.data:
            return values, None
        return values, self._tile(storage.written, True)

    def write(self, values: np.ndarray) -> None:
        """Sets the elements; those outside the buffer are dropped."""
        if self.empty:
            return
        data = self.place.storage.view(self.region.dtype)
        inner = values.reshape(self.extents)[self._inner()]
        if isinstance(data, Nibbles):
            data[self._slice(_Addresses(data.size))] = inner
        else:
            self._slice(data)[...] = inner
        written = self.place.storage.written
        if written is not None:
            self._slice(written)[...] = True

    def copy_written(self, source: _Box) -> None:
        """After a copy: an element is as unwritten as the one it came from."""
        written = self.place.storage.written
        marks = source.read()[1]
        if written is None or marks is None or self.empty:
            return
        self._slice(written)[...] = marks.reshape(self.extents)[self._inner()]

    def lands(self, values: np.ndarray) -> np.ndarray:
        """The part of a tile that lies inside the buffer."""
        return values.reshape(self.extents)[self._inner()]

    def _inner(self) -> tuple[slice, ...]:
        return tuple(slice(a - low, max(a, b) - low) for a, b, low in zip(self.low, self.high, self.mins))

    def _tile(self, data: Any, outside: Any) -> np.ndarray:
        if not self.clipped:
            return np.array(self._slice(data)).reshape(self.tile_shape)
        tile = np.full(self.extents, outside, dtype=data.dtype)
        if not self.empty:
            tile[self._inner()] = self._slice(data)
        return tile.reshape(self.tile_shape)

    def _slice(self, data: Any) -> np.ndarray:
        start = self.offset + sum(low * s for low, s in zip(self.low, self.strides))
        shape = [high - low for low, high in zip(self.low, self.high)]
        lanes = self.place.storage.lanes
        if np.ndim(lanes) == 0 and lanes is not None:
            start += int(lanes)
        elif lanes is not None:
            raise ExecutionFault(
                "E-RUN-DIVERGENCE",
                f"{self.region.buffer.name} is each thread's own, so a tile op of the block cannot work on it",
                span=self.region.span,
                help="use a buffer of the block: T.alloc_fragment or T.alloc_shared",
            )
        if isinstance(data, Nibbles):
            return data[self._slice(_Addresses(data.size))]
        if isinstance(data, _Addresses):
            steps = [np.arange(n) * s for n, s in zip(shape, self.strides)]
            return start + sum(np.ix_(*steps), start=np.zeros((1,) * len(shape), dtype=np.int64))
        strides = [s * data.itemsize for s in self.strides]
        if data.dtype.itemsize == 1:
            # numpy knows no typestring for the 8-bit floats: their bytes are sliced.
            return np.lib.stride_tricks.as_strided(data[start:].view(np.uint8), shape, strides).view(data.dtype)
        return np.lib.stride_tricks.as_strided(data[start:], shape, strides)


class _Addresses:
    """Stands for memory whose elements are their own addresses."""

    def __init__(self, size: int) -> None:
        self.size = size


def _as_element_type(values: np.ndarray, dtype: DType) -> np.ndarray:
    values = np.asarray(values)
    if values.dtype == numpy_type(dtype):
        return values
    return np.asarray(convert(values, _dtype_of(values), dtype))


def _dtype_of(values: np.ndarray) -> DType:
    return DType("bool" if values.dtype == np.bool_ else values.dtype.name)


def _require_copied(machine: Machine, op: Copy, target: _Box, written: np.ndarray) -> None:
    """A copy may carry unwritten elements about on chip; what reaches a global tensor must have been written."""
    if op.dst.buffer.is_on_chip or target.empty:
        return
    if not target.lands(written).all():
        raise _unwritten(op, op.src)


def _unwritten(op: TileOp, region: BufferRegion) -> ExecutionFault:
    return ExecutionFault(
        "E-RUN-UNWRITTEN",
        f"T.{op.name} reads {region.buffer.name}, parts of which nobody wrote",
        span=op.span,
        facts=[f"{region.buffer.name}: {region.buffer.dtype} in {region.buffer.scope}"],
        help=f"write it first: T.clear({region.buffer.name}) or T.fill({region.buffer.name}, …)",
    )
