"""Reductions and scans over an axis of a tile."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..dtypes import DType
from ..errors import CompileError
from ..frontend.builder import known, require_builder
from ..ir import Buffer, BufferLoad, BufferStore, Expr, For, Stmt, Var, binary, cast, const
from ..tileop import REDUCE_KINDS, Reduce, Scan, normal_axis
from .operands import annotation_pairs, require_flag, require_option, tile_region

__all__ = [
    "cummax",
    "cumsum",
    "reduce",
    "reduce_absmax",
    "reduce_abssum",
    "reduce_bitand",
    "reduce_bitor",
    "reduce_bitxor",
    "reduce_max",
    "reduce_min",
    "reduce_sum",
]


def reduce(
    buffer: Any,
    out: Any,
    reduce_type: str,
    dim: int = -1,
    clear: bool = True,
    batch: int = 1,
    annotations: Mapping[str, Any] | None = None,
) -> None:
    """Combines an axis of a tile away.

    Args:
        buffer: the tile.
        out: the result: the tile's shape without the axis, or with extent 1 there.
        reduce_type: sum, max, min, abssum, absmax, bitand, bitor or bitxor.
        dim: the axis; negative ones count from the end.
        clear: False lets what `out` holds take part.
        batch: rows that a thread should reduce at once; a hint.
        annotations: hints, by name.

    Raises:
        CompileError: no such axis, shapes or element types that do not fit, an unknown kind.
    """
    require_option("T.reduce", "reduce_type", reduce_type, REDUCE_KINDS)
    _reduce("T.reduce", reduce_type, buffer, out, dim, clear, batch, False, annotations)


def reduce_sum(
    buffer: Any,
    out: Any,
    dim: int = -1,
    clear: bool = True,
    batch: int = 1,
    annotations: Mapping[str, Any] | None = None,
) -> None:
    """Sums along an axis; see `reduce`."""
    _reduce("T.reduce_sum", "sum", buffer, out, dim, clear, batch, False, annotations)


def reduce_max(
    buffer: Any,
    out: Any,
    dim: int = -1,
    clear: bool = True,
    batch: int = 1,
    nan_propagate: bool = False,
    annotations: Mapping[str, Any] | None = None,
) -> None:
    """Largest value along an axis; numbers win over NaN unless `nan_propagate`. See `reduce`."""
    _reduce("T.reduce_max", "max", buffer, out, dim, clear, batch, nan_propagate, annotations)


def reduce_min(
    buffer: Any,
    out: Any,
    dim: int = -1,
    clear: bool = True,
    batch: int = 1,
    nan_propagate: bool = False,
    annotations: Mapping[str, Any] | None = None,
) -> None:
    """Smallest value along an axis; numbers win over NaN unless `nan_propagate`. See `reduce`."""
    _reduce("T.reduce_min", "min", buffer, out, dim, clear, batch, nan_propagate, annotations)


def reduce_absmax(
    buffer: Any,
    out: Any,
    dim: int = -1,
    clear: bool = True,
    batch: int = 1,
    nan_propagate: bool = False,
    annotations: Mapping[str, Any] | None = None,
) -> None:
    """Largest absolute value along an axis; see `reduce_max`."""
    _reduce("T.reduce_absmax", "absmax", buffer, out, dim, clear, batch, nan_propagate, annotations)


def reduce_abssum(
    buffer: Any,
    out: Any,
    dim: int = -1,
    batch: int = 1,
    annotations: Mapping[str, Any] | None = None,
    *,
    clear: bool = True,
) -> None:
    """Sum of absolute values along an axis; see `reduce`."""
    _reduce("T.reduce_abssum", "abssum", buffer, out, dim, clear, batch, False, annotations)


def reduce_bitand(
    buffer: Any,
    out: Any,
    dim: int = -1,
    clear: bool = True,
    batch: int = 1,
    annotations: Mapping[str, Any] | None = None,
) -> None:
    """Bits set in all integers along an axis; see `reduce`."""
    _reduce("T.reduce_bitand", "bitand", buffer, out, dim, clear, batch, False, annotations)


def reduce_bitor(
    buffer: Any,
    out: Any,
    dim: int = -1,
    clear: bool = True,
    batch: int = 1,
    annotations: Mapping[str, Any] | None = None,
) -> None:
    """Bits set in one of the integers along an axis; see `reduce`."""
    _reduce("T.reduce_bitor", "bitor", buffer, out, dim, clear, batch, False, annotations)


def reduce_bitxor(
    buffer: Any,
    out: Any,
    dim: int = -1,
    clear: bool = True,
    batch: int = 1,
    annotations: Mapping[str, Any] | None = None,
) -> None:
    """Bits set in an odd number of integers along an axis; see `reduce`."""
    _reduce("T.reduce_bitxor", "bitxor", buffer, out, dim, clear, batch, False, annotations)


def cumsum(
    src: Any, dst: Any = None, dim: int = 0, reverse: bool = False, annotations: Mapping[str, Any] | None = None
) -> None:
    """Running sums along an axis, the element itself included.

    Args:
        src: the tile.
        dst: the result; the tile itself when left out.
        dim: the axis; negative ones count from the end.
        reverse: from the end.
        annotations: hints, by name.
    """
    _scan("T.cumsum", "sum", src, dst, dim, reverse, annotations)


def cummax(
    src: Any, dst: Any = None, dim: int = 0, reverse: bool = False, annotations: Mapping[str, Any] | None = None
) -> None:
    """Running maxima along an axis; see `cumsum`."""
    _scan("T.cummax", "max", src, dst, dim, reverse, annotations)


def elements_hold(op: str, value: Any, every: bool) -> Expr:
    """Whether one element, or every element, of a buffer or slice is not zero."""
    builder = require_builder(op)
    builder.require_kernel(op)
    region = tile_region(op, "buffer", value)
    if region.buffer.scope == "fragment" or region.dtype.kind not in "biuf":
        raise CompileError(
            "E-OPERAND",
            f"{op} looks at elements that one thread sees",
            facts=[f"buffer = {region!r}, {region.dtype} in {region.buffer.scope}"],
            help="copy the tile to shared memory first, or reduce it with T.reduce_bitor or T.reduce_max",
        )
    found = Buffer("found", (const(1, "int32"),), DType("int32"), "var", span=builder.span)
    builder.allocate(found)
    zero = const(0, "int32")
    builder.emit(BufferStore(found, const(int(every), "int32"), (zero,)))
    indices: list[Expr] = []
    loops: list[tuple[Var, Expr]] = []
    for extent in region.tile_extents():
        index = Var("ijklmn"[len(loops) % 6], DType("int32"))
        loops.append((index, extent))
        indices.append(index)
    holds = cast(binary("ne", region.load(tuple(indices)), const(0, region.dtype)), "int32")
    combined = binary("bitand" if every else "bitor", BufferLoad(found, (zero,)), holds)
    body: Stmt = BufferStore(found, combined, (zero,), span=builder.span)
    for index, extent in reversed(loops):
        body = For(index, const(0, "int32"), extent, "serial", body, span=builder.span)
    builder.emit(body)
    return builder.bind("all" if every else "any", binary("ne", BufferLoad(found, (zero,)), 0))


def _reduce(
    op: str,
    kind: str,
    buffer: Any,
    out: Any,
    dim: Any,
    clear: Any,
    batch: Any,
    nan_propagate: Any,
    annotations: Mapping[str, Any] | None,
) -> None:
    builder = require_builder(op)
    builder.require_kernel(op)
    source, target = tile_region(op, "buffer", buffer), tile_region(op, "out", out)
    rows = _integer(op, "batch", batch)
    if rows < 1:
        raise _integer_error(op, "batch", batch, "a positive integer")
    builder.emit_op(
        Reduce(
            source,
            target,
            kind,
            normal_axis(_integer(op, "dim", dim), len(source.tile_extents())),
            require_flag(op, "clear", clear),
            require_flag(op, "nan_propagate", nan_propagate),
            annotation_pairs(op, {"batch": None if rows == 1 else rows}, annotations),
            span=builder.span,
        )
    )


def _scan(
    op: str, kind: str, src: Any, dst: Any, dim: Any, reverse: Any, annotations: Mapping[str, Any] | None
) -> None:
    builder = require_builder(op)
    builder.require_kernel(op)
    source = tile_region(op, "src", src)
    target = source if dst is None else tile_region(op, "dst", dst)
    axis = normal_axis(_integer(op, "dim", dim), len(source.tile_extents()))
    pairs = annotation_pairs(op, {}, annotations)
    builder.emit_op(Scan(source, target, kind, axis, require_flag(op, "reverse", reverse), pairs, span=builder.span))


def _integer(op: str, label: str, value: Any) -> int:
    number = known(value)
    if isinstance(number, int) and not isinstance(number, bool):
        return number
    raise _integer_error(op, label, value, "an integer that is known while the kernel is traced")


def _integer_error(op: str, label: str, value: Any, allowed: str) -> CompileError:
    return CompileError(
        "E-OPERAND-OPTION",
        f"{op} does not take {label}={value!r}",
        facts=[f"allowed: {allowed}"],
        help=f"leave {label} out, or correct it",
    )
