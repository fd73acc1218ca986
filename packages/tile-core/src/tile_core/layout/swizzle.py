"""Swizzles: permuting 16-byte chunks of each row so that a column of chunks falls into different banks.

The three spans are those of the tensor copy engine and of the matrix instructions that read them: 128 bytes (chunk ^
row % 8), 64 bytes (chunk ^ row / 2 % 4) and 32 bytes (chunk ^ row / 4 % 2). In all of them eight rows of one chunk
column cover all 32 banks as far as the span allows.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

from ..dtypes import as_dtype
from ..errors import CompileError, declare_codes
from .layout import Layout, row_major

__all__ = [
    "SWIZZLE_SPANS",
    "make_full_bank_swizzled_layout",
    "make_half_bank_swizzled_layout",
    "make_quarter_bank_swizzled_layout",
    "make_swizzled_layout",
    "padded",
    "swizzle_span",
    "swizzled",
]

declare_codes({"E-LAYOUT-SWIZZLE": "a tile that the asked swizzle does not fit"})

SWIZZLE_SPANS = (128, 64, 32)
_CHUNK_BYTES = 16


def swizzle_span(shape: tuple[int, ...], dtype: Any) -> int:
    """The widest span in bytes that divides the rows of a tile, or 0 when none does."""
    row = shape[-1] * as_dtype(dtype).bits
    if len(shape) < 2:
        return 0
    return next((span for span in SWIZZLE_SPANS if row % (span * 8) == 0), 0)


@lru_cache(maxsize=512)
def swizzled(shape: tuple[int, ...], dtype: Any, span: int | None = None, tiled: bool = False) -> Layout:
    """The swizzled layout of a tile whose last axis is contiguous.

    Args:
        shape: extents; the last two are rows and columns, those before are kept in front.
        dtype: element type.
        span: bytes of 128, 64, 32, or None for the widest that fits (row-major when none does).
        tiled: whether columns beyond one span form tiles of their own, one after another, as the tensor copy engine
            writes them; the image is
            then (…, column tiles, rows, columns a span), else it has the shape of the tile.

    Raises:
        CompileError: the span is none of the three, or does not divide a row.
    """
    dtype = as_dtype(dtype)
    if span is None:
        span = swizzle_span(shape, dtype)
        if not span:
            return row_major(shape)
    per_chunk = _CHUNK_BYTES * 8 // dtype.bits
    if (
        span not in SWIZZLE_SPANS
        or len(shape) < 2
        or shape[-1] * dtype.bits % (span * 8)
        or per_chunk * dtype.bits != 128
    ):
        raise CompileError(
            "E-LAYOUT-SWIZZLE",
            f"a swizzle over {span} bytes does not fit a tile of {shape} {dtype}",
            facts=[
                f"a row has {math.prod(shape[-1:]) * dtype.bits / 8:g} bytes",
                f"spans: {', '.join(map(str, SWIZZLE_SPANS))} bytes",
            ],
            help="make the last axis a multiple of the span, or choose a smaller span",
        )
    chunks = span // _CHUNK_BYTES
    rows_a_step = 8 // chunks
    columns = span * 8 // dtype.bits

    def place(row: Any, column: Any) -> Any:
        turn = row // rows_a_step % chunks
        return (column // per_chunk ^ turn) * per_chunk + column % per_chunk

    if tiled:
        image = (*shape[:-2], shape[-1] // columns, shape[-2], columns)
        return Layout(shape, image, lambda *i: (*i[:-2], i[-1] // columns, i[-2], place(i[-2], i[-1] % columns)))
    return Layout(shape, shape, lambda *i: (*i[:-1], place(i[-2], i[-1])))


def padded(shape: tuple[int, ...], dtype: Any, pad_bytes: int = _CHUNK_BYTES) -> Layout:
    """Row-major with `pad_bytes` more a row, the way without swizzle to shift rows against the banks."""
    extra = pad_bytes * 8 // as_dtype(dtype).bits
    return Layout(shape, (*shape[:-1], shape[-1] + extra), lambda *indices: indices)


def make_swizzled_layout(buffer: Any, k_major: bool = True, allow_pad: bool = True) -> Layout:
    """The swizzle that `T.annotate_layout` may fix for a shared tile: the widest that fits its rows, row-major when
    none does.

    Args:
        buffer: a tile of constant extents.
        k_major, allow_pad: TileLang's wishes about the axis that products sum over and about padding; the layout is
            correct and free of conflicts without them.
    """
    return _for_buffer(buffer, None)


def make_full_bank_swizzled_layout(buffer: Any) -> Layout:
    """The swizzle over 128 bytes for a shared tile; CompileError where rows are no multiple of them."""
    return _for_buffer(buffer, 128)


def make_half_bank_swizzled_layout(buffer: Any) -> Layout:
    """The swizzle over 64 bytes."""
    return _for_buffer(buffer, 64)


def make_quarter_bank_swizzled_layout(buffer: Any) -> Layout:
    """The swizzle over 32 bytes."""
    return _for_buffer(buffer, 32)


def _for_buffer(buffer: Any, span: int | None) -> Layout:
    asked = getattr(buffer, "static_shape", None)
    shape = None if asked is None else asked()
    if shape is None:
        raise CompileError(
            "E-LAYOUT-SWIZZLE",
            "a swizzle is for a tile of constant extents",
            facts=[f"found {buffer!r}"],
            help="give a tile that T.alloc_shared made",
        )
    return swizzled(shape, buffer.dtype, span)
