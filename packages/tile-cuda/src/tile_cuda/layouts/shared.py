"""Layouts of tiles in shared memory whose lanes meet in no bank, and what an access costs where they do."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from tile_core.dtypes import as_dtype
from tile_core.layout import Layout, row_major
from tile_core.layout.swizzle import swizzle_span, swizzled

from .partition import WARP

__all__ = ["candidates", "matrix_tile", "wavefronts"]

BANKS, BANK_BYTES = 32, 4


@lru_cache(maxsize=512)
def matrix_tile(shape: tuple[int, ...], dtype: Any) -> Layout:
    """The layout of an operand in shared memory.

    Up to 32 bits an element, eight rows of 16 bytes are read at once: the widest swizzle that the rows allow. Of 64-bit
    elements, half a warp reads four rows of 32 bytes, so that pairs of 16-byte chunks change places.
    """
    span = swizzle_span(shape, dtype)
    if as_dtype(dtype).bits != 64 or span < 64:
        return swizzled(shape, dtype)
    chunks = span // 16
    rows_a_step = 8 // chunks

    def place(row: Any, column: Any) -> Any:
        return (column // 2 ^ row // rows_a_step % (chunks // 2) * 2) * 2 + column % 2

    return Layout(shape, shape, lambda *i: (*i[:-1], place(i[-2], i[-1])))


def candidates(shape: tuple[int, ...], dtype: Any) -> tuple[Layout, ...]:
    """Layouts to choose from, the plainest first: row-major, rows whose parts of 16, 8 or 4 bytes change places from
    row to row or every second, fourth, … row, and rows with as many bytes between them."""
    found = [row_major(shape)]
    if len(shape) < 2:
        return tuple(found)
    bits = as_dtype(dtype).storage_bits
    for part_bytes in (16, 8, 4):
        if part_bytes * 8 >= bits and part_bytes * 8 % bits == 0:
            turned = (_turned(shape, bits, part_bytes, every) for every in (1, 2, 4, 8))
            found += [layout for layout in turned if layout is not None]
    for gap in (16, 8, 4):
        if gap * 8 >= bits and gap * 8 % bits == 0:
            image = (*shape[:-1], shape[-1] + gap * 8 // bits)
            found.append(Layout(shape, image, lambda *i: i))
    return tuple(found)


@lru_cache(maxsize=512)
def _turned(shape: tuple[int, ...], bits: int, part_bytes: int, every: int) -> Layout | None:
    """Parts of a row exchanged by the row's number over `every`, within at most the bytes that all banks hold."""
    row = shape[-1] * bits // 8
    line = BANKS * BANK_BYTES
    parts = min(row & -row, line) // part_bytes
    if shape[-1] * bits % 8 or parts < 2:
        return None
    # Short rows share a line of the banks.
    step = (max(1, line // row) if row < line else 1) * every
    if step >= shape[-2]:
        return None
    part = part_bytes * 8 // bits

    def place(r: Any, c: Any) -> Any:
        return (c // part ^ r // step % parts) * part + c % part

    return Layout(shape, shape, lambda *i: (*i[:-1], place(i[-2], i[-1])))


def wavefronts(starts: np.ndarray, width: int) -> int:
    """Trips to shared memory of accesses of `width` bytes, by warps: rows of first bytes, a thread each, -1 for none.

    Lanes whose bytes together fill a line of the banks go at once; in one trip a bank gives one word, to all who want
    it.
    """
    accesses = starts.reshape(-1, WARP)
    together = max(1, min(WARP, BANKS * BANK_BYTES // max(width, BANK_BYTES)))
    steps = np.arange(0, width, min(width, BANK_BYTES))
    words = (accesses.reshape(-1, together, 1) + steps) // BANK_BYTES
    words = np.where(accesses.reshape(-1, together, 1) < 0, -1, words).reshape(len(words), -1)
    words.sort(axis=1)
    first = np.ones_like(words, dtype=bool)
    first[:, 1:] = words[:, 1:] != words[:, :-1]
    first &= words >= 0
    row = np.broadcast_to(np.arange(len(words))[:, None], words.shape)
    counts = np.zeros((len(words), BANKS), dtype=np.int64)
    np.add.at(counts, (row[first], words[first] % BANKS), 1)
    return int(counts.max(axis=1).sum())
