"""Memory of a run: what buffers are stored in, and how lanes of a batch access it.

A `Storage` is the flat memory of one allocation (or parameter). Memory that each lane of a batch has for itself
repeats it once a lane; `lanes` then holds each lane's start. A `Tracker` watches one batch of loop iterations: it
notices when two iterations touch one element and at least one writes it, so that running them side by side would
differ from running them in order, and takes all stores back.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from ..dtypes import DType
from ..ir import Buffer
from .faults import ExecutionFault
from .values import numpy_type, poison

__all__ = ["LaneConflict", "Nibbles", "Storage", "Tracker", "memory_at"]

# Lanes count from 1, so that fresh zeroed memory (which costs nothing until it is touched) means nobody.
_NOBODY = 0
_SEVERAL = -1


class Nibbles:
    """Four-bit elements over the bytes that hold them, two each, the first in the low half; indexed like an array."""

    __slots__ = ("bytes", "dtype", "element", "size")

    def __init__(self, data: np.ndarray, element: DType) -> None:
        self.bytes = data
        self.element = element
        self.dtype = numpy_type(element)
        self.size = data.size * 2

    def __getitem__(self, addresses: Any) -> Any:
        found = self.bytes[np.asarray(addresses) >> 1] >> (np.asarray(addresses) & 1).astype(np.uint8) * np.uint8(4)
        found = found & np.uint8(15)
        if self.element.name == "int4":
            return ((found ^ np.uint8(8)).astype(np.int8) - np.int8(8)).astype(self.dtype)
        return found.view(self.dtype)

    def __setitem__(self, addresses: Any, values: Any) -> None:
        at, new = np.broadcast_arrays(np.asarray(addresses), np.asarray(values))
        bits = new.astype(self.dtype, copy=False).view(np.uint8) & np.uint8(15)
        # Halves apart: two elements of one byte may be written at once.
        for half in (0, 1):
            mine = (at & 1) == half
            where, value = at[mine] >> 1, bits[mine]
            kept = self.bytes[where] & np.uint8(0xF0 if half == 0 else 0x0F)
            self.bytes[where] = kept | (value << np.uint8(4 * half))

    def view(self, held: Any) -> np.ndarray:
        """The bytes as another type."""
        return self.bytes.view(held)


class Storage:
    """Flat memory of `size` elements, for each lane that has its own.

    Args:
        buffer: the allocation; views of it share the storage. data: one-dimensional array. written: which elements
            were written, or None where that is not of interest. lanes: each lane's start in elements, in an array that
            broadcasts against the batch; None for one memory shared by all lanes.
    """

    __slots__ = ("buffer", "data", "lanes", "size", "typed", "written")

    def __init__(
        self, buffer: Buffer, data: Any, written: np.ndarray | None = None, lanes: Any = None, size: int = 0
    ) -> None:
        self.buffer = buffer
        self.data = data
        self.written = written
        self.lanes = lanes
        self.size = size or data.size
        self.typed: dict[DType, Any] = {}

    @classmethod
    def allocate(cls, buffer: Buffer, size: int, lanes: Any, track: bool) -> Storage:
        """Poisoned memory for `size` elements (of a scalar type) a lane."""
        count = 1 if lanes is None else int(np.size(lanes))
        scalar = buffer.dtype.scalar
        data: Any = poison(size * count, scalar)
        if scalar.is_packed:
            # Each lane's memory begins with a whole byte.
            size += size % 2
            data = Nibbles(np.full(size * count // 2, 0xA5, dtype=np.uint8), scalar)
        written = np.zeros(size * count, dtype=np.bool_) if track else None
        return cls(buffer, data, written, None if lanes is None else lanes * size, size)

    def view(self, dtype: DType) -> Any:
        """The flat memory as elements of `dtype`."""
        held = numpy_type(dtype)
        packed = isinstance(self.data, Nibbles)
        if self.data.element is dtype.scalar if packed else held == self.data.dtype and not dtype.scalar.is_packed:
            return self.data
        found = self.typed.get(dtype)
        if found is None:
            found = Nibbles(self.data.view(np.uint8), dtype.scalar) if dtype.scalar.is_packed else self.data.view(held)
            self.typed[dtype] = found
        return found

    def mark_written(self, address: Any, data: Any) -> None:
        """Notes that elements of `data`, the memory or a view of it, were written."""
        if self.written is None:
            return
        own, theirs = _bits(self.data), _bits(data)
        if theirs <= own:
            self.written[address if theirs == own else np.asarray(address) * theirs // own] = True
            return
        for part in range(theirs // own):
            self.written[np.asarray(address) * (theirs // own) + part] = True


def _bits(data: Any) -> int:
    return 4 if isinstance(data, Nibbles) else data.dtype.itemsize * 8


def memory_at(address: int, count: int, dtype: DType) -> np.ndarray:
    """The `count` elements that begin at an address of this process, as a flat array.

    Raises:
        ExecutionFault: the address is 0 though there are elements.
    """
    held = numpy_type(dtype)
    if count == 0:
        return np.zeros(0, dtype=held)
    if address == 0:
        raise ExecutionFault(
            "E-RUN-ADDRESS",
            "a tensor is made over a null pointer",
            facts=[f"{count} elements of {dtype}"],
            help="pass data_ptr() of a tensor that lives as long as the call",
        )
    raw = (ctypes.c_ubyte * (count * held.itemsize)).from_address(address)
    return np.ctypeslib.as_array(raw).view(held)


class LaneConflict(Exception):
    """Two lanes of a batch depend on each other."""


class Tracker:
    """Watches the accesses of a batch to the storages that it writes, and keeps what is needed to undo it.

    Args:
        lanes: number of each lane, from 1, in an array that broadcasts against the batch.
    """

    __slots__ = ("_readers", "_undo", "_writers", "lanes")

    def __init__(self, lanes: np.ndarray) -> None:
        self.lanes = lanes
        self._writers: dict[Storage, np.ndarray] = {}
        self._readers: dict[Storage, np.ndarray] = {}
        self._undo: list[tuple[Storage, np.ndarray, np.ndarray, np.ndarray | None]] = []

    def watches(self, storage: Storage) -> bool:
        """Whether the batch may write the storage."""
        return storage in self._writers

    def watch(self, storage: Storage) -> None:
        """Starts watching a storage that the batch may write."""
        if storage not in self._writers:
            self._writers[storage] = np.zeros(storage.data.size, dtype=np.int32)
            self._readers[storage] = np.zeros(storage.data.size, dtype=np.int32)

    def read(self, storage: Storage, addresses: np.ndarray, lanes: np.ndarray) -> None:
        """Notes reads; `lanes` names the lane of each address.

        Raises:
            LaneConflict: another lane has written there.
        """
        writers = self._writers.get(storage)
        if writers is None:
            return
        by = writers[addresses]
        if np.any((by != _NOBODY) & (by != lanes)):
            raise LaneConflict
        readers = self._readers[storage]
        before = readers[addresses]
        readers[addresses] = lanes
        shared = (readers[addresses] != lanes) | ((before != _NOBODY) & (before != lanes))
        if shared.any():
            readers[addresses[shared]] = _SEVERAL

    def write(self, storage: Storage, addresses: np.ndarray, lanes: np.ndarray) -> None:
        """Notes writes and keeps what was there.

        Raises:
            LaneConflict: another lane has read or written there.
        """
        writers = self._writers.get(storage)
        if writers is None:
            return
        by, seen = writers[addresses], self._readers[storage][addresses]
        if np.any(((by != _NOBODY) & (by != lanes)) | ((seen != _NOBODY) & (seen != lanes))):
            raise LaneConflict
        writers[addresses] = lanes
        if np.any(writers[addresses] != lanes):
            raise LaneConflict
        written = storage.written
        self._undo.append(
            (storage, addresses, storage.data[addresses], None if written is None else written[addresses])
        )

    def undo(self) -> None:
        """Puts back what the batch has overwritten."""
        for storage, addresses, values, written in reversed(self._undo):
            storage.data[addresses] = values
            if written is not None and storage.written is not None:
                storage.written[addresses] = written
        self._undo.clear()
