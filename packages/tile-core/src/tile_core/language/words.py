"""Loads and stores of 4 to 32 bytes at once: `ldg` and `stg` of global memory, `lds` and `sts` of shared memory.

The bytes come and go as vectors of uint32; `T.reinterpret` shows them as another type. The address must be a multiple
of the size, as the instructions demand.
"""

from __future__ import annotations

from typing import Any

from ..errors import CompileError, declare_codes
from ..frontend.builder import index_of, require_builder
from ..frontend.operators import as_condition
from ..frontend.placeholder import refuse_placeholder
from ..ir import Buffer, BufferLoad, BufferRegion, BufferStore, Expr, If, Ramp, as_expr, const, select
from .operands import tile_region
from .values import reinterpret

__all__ = [
    "__ldg",
    "ldg32",
    "ldg64",
    "ldg128",
    "ldg256",
    "lds32",
    "lds64",
    "lds128",
    "stg32",
    "stg64",
    "stg128",
    "stg256",
    "sts32",
    "sts64",
    "sts128",
]

declare_codes({"E-WORDS": "a load or store of whole words from memory, or of a value, that does not fit it"})


def __ldg(load_or_buf: Any, index: Any = None) -> Expr:
    """An element of global memory that no thread writes while the kernel runs.

    Args:
        load_or_buf: an element, or a buffer of one dimension.
        index: the element's index in the buffer.
    """
    op = "T.__ldg"
    require_builder(op).require_kernel(op)
    value = load_or_buf
    if isinstance(value, Buffer) and index is not None and value.ndim == 1:
        value = BufferLoad(value, (index_of(value, index),))
    if isinstance(value, BufferLoad) and value.buffer.scope == "global" and (index is None) == (value is load_or_buf):
        return value
    raise CompileError(
        "E-WORDS",
        f"{op} loads an element of global memory",
        facts=[f"found {load_or_buf!r}" + ("" if index is None else f", index {index!r}")],
        help="pass A[i], or a tensor of one dimension and an index",
    )


def ldg32(src: Any, pred: Any = None) -> Expr:
    """4 bytes of global memory as uint32.

    Args:
        src: the first element.
        pred: where it does not hold nothing is read, and the value is 0.
    """
    return _load("T.ldg32", "global", 4, src, pred)


def ldg64(src: Any, pred: Any = None) -> Expr:
    """8 bytes of global memory as uint32x2; see `ldg32`."""
    return _load("T.ldg64", "global", 8, src, pred)


def ldg128(src: Any, pred: Any = None) -> Expr:
    """16 bytes of global memory as uint32x4; see `ldg32`."""
    return _load("T.ldg128", "global", 16, src, pred)


def ldg256(src: Any, pred: Any = None) -> Expr:
    """32 bytes of global memory as uint32x8; see `ldg32`."""
    return _load("T.ldg256", "global", 32, src, pred)


def stg32(dst: Any, value: Any, pred: Any = None) -> None:
    """Stores 4 bytes to global memory.

    Args:
        dst: the first element.
        value: a scalar or vector of 4 bytes, of any type.
        pred: where it does not hold nothing is written.
    """
    _store("T.stg32", "global", 4, dst, value, pred)


def stg64(dst: Any, value: Any, pred: Any = None) -> None:
    """Stores 8 bytes to global memory; see `stg32`."""
    _store("T.stg64", "global", 8, dst, value, pred)


def stg128(dst: Any, value: Any, pred: Any = None) -> None:
    """Stores 16 bytes to global memory; see `stg32`."""
    _store("T.stg128", "global", 16, dst, value, pred)


def stg256(dst: Any, value: Any, pred: Any = None) -> None:
    """Stores 32 bytes to global memory; see `stg32`."""
    _store("T.stg256", "global", 32, dst, value, pred)


def lds32(src: Any) -> Expr:
    """4 bytes of shared memory as uint32, from the element `src` on."""
    return _load("T.lds32", "shared", 4, src, None)


def lds64(src: Any) -> Expr:
    """8 bytes of shared memory as uint32x2, from the element `src` on."""
    return _load("T.lds64", "shared", 8, src, None)


def lds128(src: Any) -> Expr:
    """16 bytes of shared memory as uint32x4, from the element `src` on."""
    return _load("T.lds128", "shared", 16, src, None)


def sts32(dst: Any, value: Any) -> None:
    """Stores 4 bytes to shared memory, from the element `dst` on; see `stg32`."""
    _store("T.sts32", "shared", 4, dst, value, None)


def sts64(dst: Any, value: Any) -> None:
    """Stores 8 bytes to shared memory, from the element `dst` on; see `stg32`."""
    _store("T.sts64", "shared", 8, dst, value, None)


def sts128(dst: Any, value: Any) -> None:
    """Stores 16 bytes to shared memory, from the element `dst` on; see `stg32`."""
    _store("T.sts128", "shared", 16, dst, value, None)


def _place(op: str, scope: str, size: int, label: str, place: Any) -> tuple[BufferRegion, int, tuple[Expr, ...]]:
    """(the place, elements from there on, their indices)."""
    require_builder(op).require_kernel(op)
    refuse_placeholder(place)
    region = tile_region(op, label, place)
    buffer = region.buffer
    count = size * 8 // buffer.dtype.bits if buffer.dtype.bits else 0
    if buffer.scope != scope or buffer.dtype.lanes != 1 or count < 1 or count * buffer.dtype.bits != size * 8:
        raise CompileError(
            "E-WORDS",
            f"{op} moves {size} bytes of {scope} memory",
            facts=[f"{label} = {region!r}: {buffer.dtype} in {buffer.scope}"],
            help=f"pass an element of a buffer in {scope} memory whose elements have at most {size} bytes",
        )
    *before, first = region.mins
    if count == 1:
        return region, 1, (*before, first)
    return region, count, (*before, Ramp(first, const(1, first.dtype), count))


def _load(op: str, scope: str, size: int, src: Any, pred: Any) -> Expr:
    region, count, indices = _place(op, scope, size, "src", src)
    loaded: Expr = BufferLoad(region.buffer, indices)
    word = f"uint32x{size // 4}" if size > 4 else "uint32"
    builder = require_builder(op)
    if pred is not None:
        zero = const(0, region.buffer.dtype.with_lanes(count))
        loaded = select(as_condition(pred), loaded, zero, lazy=True)
    return builder.bind("words", reinterpret(loaded, word))


def _store(op: str, scope: str, size: int, dst: Any, value: Any, pred: Any) -> None:
    region, count, indices = _place(op, scope, size, "dst", dst)
    refuse_placeholder(value)
    given = as_expr(value)
    dtype = region.buffer.dtype.with_lanes(count)
    if given.dtype.bits * given.dtype.lanes != size * 8:
        raise CompileError(
            "E-WORDS",
            f"{op} stores {size} bytes",
            span=given.span,
            facts=[f"found {given!r}, which is {given.dtype}"],
            help=f"pass a value such as uint32{f'x{size // 4}' if size > 4 else ''}",
        )
    builder = require_builder(op)
    held = builder.bind("words", reinterpret(given, dtype))
    store = BufferStore(region.buffer, held, indices, span=builder.span)
    builder.emit(store if pred is None else If(as_condition(pred), store, None, span=builder.span))
