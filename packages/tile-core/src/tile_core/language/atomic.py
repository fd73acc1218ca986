"""Atomic updates of memory that several blocks share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..errors import CompileError
from ..frontend.builder import reads_memory, require_builder
from ..frontend.operators import is_expression
from ..frontend.placeholder import refuse_placeholder
from ..ir import Buffer, BufferRegion, as_expr
from ..tileop import MEMORY_ORDERS, AtomicUpdate
from .operands import annotation_pairs, operand_error, paired_regions, require_option, tile_region

__all__ = ["atomic_add", "atomic_max", "atomic_min"]


def atomic_add(
    dst: Any,
    value: Any,
    memory_order: str | None = None,
    return_prev: bool = False,
    use_tma: bool = False,
    annotations: Mapping[str, Any] | None = None,
) -> None:
    """``dst += value``, each element's update indivisible.

    Args:
        dst: an element, a slice, a buffer, or the first element of a tile that `value` has the shape of.
        value: a scalar, or a tile of the destination's shape.
        memory_order: relaxed (the default), consume, acquire, release, acq_rel or seq_cst.
        return_prev: whether the old value is wanted; not in this version.
        use_tma: prefer the tensor copy engine; a hint.
        annotations: hints, by name.
    """
    _update("T.atomic_add", "add", dst, value, memory_order, return_prev, {"use_tma": use_tma or None}, annotations)


def atomic_max(
    dst: Any,
    value: Any,
    memory_order: str | None = None,
    return_prev: bool = False,
    annotations: Mapping[str, Any] | None = None,
) -> None:
    """``dst = max(dst, value)``, each element's update indivisible; see `atomic_add`."""
    _update("T.atomic_max", "max", dst, value, memory_order, return_prev, {}, annotations)


def atomic_min(
    dst: Any,
    value: Any,
    memory_order: str | None = None,
    return_prev: bool = False,
    annotations: Mapping[str, Any] | None = None,
) -> None:
    """``dst = min(dst, value)``, each element's update indivisible; see `atomic_add`."""
    _update("T.atomic_min", "min", dst, value, memory_order, return_prev, {}, annotations)


def _update(
    op: str,
    kind: str,
    dst: Any,
    value: Any,
    memory_order: str | None,
    return_prev: bool,
    given: Mapping[str, Any],
    annotations: Mapping[str, Any] | None,
) -> None:
    builder = require_builder(op)
    builder.require_kernel(op)
    if return_prev:
        raise CompileError(
            "E-OPERAND-OPTION",
            f"{op} does not return the previous value in this version",
            facts=["found return_prev=True"],
            help="leave return_prev out",
        )
    refuse_placeholder(value)
    order = "relaxed" if memory_order is None else require_option(op, "memory_order", memory_order, MEMORY_ORDERS)
    if isinstance(value, (Buffer, BufferRegion)):
        operand, target = paired_regions(op, ("value", value), ("dst", dst))
    elif is_expression(value) or isinstance(value, (bool, int, float)):
        target = tile_region(op, "dst", dst)
        operand = as_expr(value, target.dtype)
        if reads_memory(operand, target.buffer):
            operand = builder.bind("value", operand)
    else:
        raise operand_error(op, "value", value)
    pairs = annotation_pairs(op, given, annotations)
    builder.emit_op(AtomicUpdate(target, operand, kind, order, pairs, span=builder.span))
