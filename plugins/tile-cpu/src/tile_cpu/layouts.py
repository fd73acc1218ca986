"""Layouts of tiles in a CPU's memory: rows with a pitch, and rows of the transposed matrix.

Rows start on cache lines, so that a vector lies in one. Rows that lie a multiple of 4096 bytes apart fall into one
cache set, and a load after a store to the same low twelve bits of an address waits for it; such rows get one line
more.
"""

from __future__ import annotations

from tile_core.ir import Buffer
from tile_core.layout import Layout

__all__ = ["padded_pitch", "pitch_of", "rows", "stored_rows", "stored_transposed", "transposed"]

_LINE = 64
_ALIASING = 4096


def rows(buffer: Buffer) -> Layout:
    """Row-major, rows padded to whole cache lines."""
    shape = _shape(buffer)
    pitch = padded_pitch(shape[-1], shape[-2] if len(shape) > 1 else 1, buffer.dtype.bytes)
    return Layout(shape, (*shape[:-1], pitch), lambda *indices: indices)


def transposed(buffer: Buffer) -> Layout:
    """The last two axes swapped in memory, padded like `rows`."""
    shape = _shape(buffer)
    pitch = padded_pitch(shape[-2], shape[-1], buffer.dtype.bytes)
    return Layout(shape, (*shape[:-2], shape[-1], pitch), lambda *i: (*i[:-2], i[-1], i[-2]))


def stored_rows(layout: Layout, buffer: Buffer) -> bool:
    """Whether the last axis is contiguous and the others lie at constant distances in order."""
    return layout == rows(buffer) or layout == Layout(_shape(buffer), _shape(buffer), lambda *indices: indices)


def stored_transposed(layout: Layout, buffer: Buffer) -> bool:
    """Whether a layout is `transposed`."""
    return buffer.ndim >= 2 and layout == transposed(buffer)


def pitch_of(layout: Layout) -> int:
    """Elements from one stored row to the next."""
    return int(layout.image[-1])


def padded_pitch(columns: int, count: int, size: int) -> int:
    """Elements from one row to the next, for `count` rows of elements of `size` bytes; a padded row's are its own."""
    if count == 1 or columns * size < _LINE:
        return columns
    pitch = -(-columns * size // _LINE) * _LINE // size
    return pitch + _LINE // size if pitch * size % _ALIASING == 0 else pitch


def _shape(buffer: Buffer) -> tuple[int, ...]:
    shape = buffer.static_shape()
    if shape is None:
        raise ValueError(f"{buffer.name} has symbolic extents")
    return shape
