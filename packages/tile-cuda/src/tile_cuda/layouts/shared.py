"""Layouts of shared tiles that matrix instructions read: no two lanes of one access in one bank."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from tile_core.dtypes import as_dtype
from tile_core.layout import Layout
from tile_core.layout.swizzle import swizzle_span, swizzled

__all__ = ["matrix_tile"]


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
