"""``T.fill`` and ``T.clear``: set a tile to one value."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..dtypes import DType
from ..errors import CompileError
from ..frontend.builder import ScalarRef, reads_memory, require_builder
from ..frontend.operators import is_expression
from ..frontend.placeholder import refuse_placeholder
from ..ir import BufferRegion, BufferStore, Expr, For, Stmt, Var, as_expr, cast, const
from ..tileop import Fill
from .operands import annotation_pairs, tile_region

__all__ = ["clear", "fill"]


def fill(buffer: Any, value: Any, annotations: Mapping[str, Any] | None = None) -> None:
    """Sets every element of `buffer`, a buffer or slice, to the scalar `value`; `annotations` are hints, by name."""
    _fill("T.fill", buffer, value, annotations)


def clear(buffer: Any, annotations: Mapping[str, Any] | None = None) -> None:
    """Sets every element of `buffer`, a buffer or slice, to 0; `annotations` are hints, by name."""
    _fill("T.clear", buffer, 0, annotations)


def _fill(op: str, buffer: Any, value: Any, annotations: Mapping[str, Any] | None) -> None:
    builder = require_builder(op)
    builder.require_kernel(op)
    region = tile_region(op, "buffer", buffer)
    refuse_placeholder(value)
    if not is_expression(value) and not isinstance(value, (bool, int, float)):
        raise CompileError(
            "E-OPERAND",
            f"{op}: the value is no scalar",
            facts=[f"found {value!r}, a {type(value).__name__}"],
            help="pass a number or an expression; T.copy copies a tile",
        )
    dtype = region.dtype
    if isinstance(buffer, ScalarRef):
        builder.store(buffer.buffer, buffer.indices, value)
        return
    plain = isinstance(value, (bool, int, float))
    # A whole number is written in the buffer's type; what does not fit stays as it is, for the op's check to name.
    fits = plain and (
        dtype.is_float or (dtype.is_int and isinstance(value, int) and dtype.min_value <= value <= dtype.max_value)
    )
    expr = const(value, dtype.scalar) if fits else as_expr(value)
    if reads_memory(expr, region.buffer):
        # The value is what it was before the first element is written.
        expr = builder.bind("value", expr)
    if region.buffer.memory.level == "thread" and any(
        f.loop_kind in ("parallel", "vectorized") for f in builder.frames
    ):
        builder.emit(_element_by_element(region, expr))
        return
    builder.emit_op(Fill(region, expr, annotation_pairs(op, {}, annotations), span=builder.span))


def _element_by_element(region: BufferRegion, value: Expr) -> Stmt:
    """Loops of stores: an iteration of a parallel loop has its thread's own elements, and no tile of the block."""
    extents = region.tile_extents()
    places = [Var(f"i{axis}" if axis else "i", DType("int32")) for axis in range(len(extents))]
    stmt: Stmt = BufferStore(region.buffer, cast(value, region.dtype), region.indices(tuple(places)))
    for place, extent in reversed(list(zip(places, extents))):
        stmt = For(place, const(0, "int32"), extent, "serial", stmt)
    return stmt
