"""Atomic updates, loads and stores of memory that several threads or blocks share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..dtypes import DType
from ..errors import CompileError, declare_codes
from ..frontend.builder import Builder, ScalarRef, reads_memory, require_builder
from ..frontend.operators import is_expression
from ..frontend.placeholder import refuse_placeholder
from ..ir import (
    AccessPtr,
    Buffer,
    BufferLoad,
    BufferRegion,
    Call,
    Evaluate,
    Expr,
    IntImm,
    Shuffle,
    StringImm,
    as_expr,
    binary,
    cast,
    const,
)
from ..tileop import MEMORY_ORDERS, AtomicUpdate
from .operands import annotation_pairs, operand_error, paired_regions, require_flag, require_option, tile_region

__all__ = [
    "atomic_add",
    "atomic_addx2",
    "atomic_addx4",
    "atomic_and",
    "atomic_load",
    "atomic_max",
    "atomic_min",
    "atomic_or",
    "atomic_store",
    "atomic_xor",
]

declare_codes(
    {
        "E-ATOMIC-MEMORY": "an atomic access that needs memory which several threads see",
        "E-ATOMIC-RESULT": "the previous value of an atomic update of more than one element",
        "E-ATOMIC-VECTOR": "an atomic update of neighbours that are not the right number of elements",
    }
)

_LOAD_ORDERS = ("relaxed", "consume", "acquire", "seq_cst")
_STORE_ORDERS = ("relaxed", "release", "seq_cst")


def atomic_add(
    dst: Any,
    value: Any,
    memory_order: str | None = None,
    return_prev: bool = False,
    use_tma: bool = False,
    annotations: Mapping[str, Any] | None = None,
) -> Any:
    """``dst += value``, each element's update indivisible.

    Args:
        dst: an element, a slice, a buffer, or the first element of a tile that `value` has the shape of.
        value: a scalar, or a tile of the destination's shape.
        memory_order: relaxed (the default), consume, acquire, release, acq_rel or seq_cst.
        return_prev: give the value from before the update; for a single element of global or shared memory.
        use_tma: prefer the tensor copy engine; a hint, which targets without one leave aside.
        annotations: hints, by name.

    Returns:
        The value before with `return_prev`, else nothing.

    Raises:
        CompileError: shapes or element types that do not fit, an unknown order, a result of more than one element.
    """
    given = {"use_tma": require_flag("T.atomic_add", "use_tma", use_tma) or None}
    return _update("T.atomic_add", "add", dst, value, memory_order, return_prev, given, annotations)


def atomic_max(
    dst: Any,
    value: Any,
    memory_order: str | None = None,
    return_prev: bool = False,
    annotations: Mapping[str, Any] | None = None,
) -> Any:
    """``dst = max(dst, value)``, each element's update indivisible; a number wins over NaN. See `atomic_add`."""
    return _update("T.atomic_max", "max", dst, value, memory_order, return_prev, {}, annotations)


def atomic_min(
    dst: Any,
    value: Any,
    memory_order: str | None = None,
    return_prev: bool = False,
    annotations: Mapping[str, Any] | None = None,
) -> Any:
    """``dst = min(dst, value)``, each element's update indivisible; a number wins over NaN. See `atomic_add`."""
    return _update("T.atomic_min", "min", dst, value, memory_order, return_prev, {}, annotations)


def atomic_or(dst: Any, value: Any, memory_order: str | None = None, return_prev: bool = False) -> Any:
    """``dst |= value`` for integers, each element's update indivisible; see `atomic_add`."""
    return _update("T.atomic_or", "or", dst, value, memory_order, return_prev, {}, None)


def atomic_and(dst: Any, value: Any, memory_order: str | None = None, return_prev: bool = False) -> Any:
    """``dst &= value`` for integers, each element's update indivisible; see `atomic_add`."""
    return _update("T.atomic_and", "and", dst, value, memory_order, return_prev, {}, None)


def atomic_xor(dst: Any, value: Any, memory_order: str | None = None, return_prev: bool = False) -> Any:
    """``dst ^= value`` for integers, each element's update indivisible; see `atomic_add`."""
    return _update("T.atomic_xor", "xor", dst, value, memory_order, return_prev, {}, None)


def atomic_addx2(dst: Any, value: Any, return_prev: bool = False) -> Any:
    """Adds two neighbours along the last axis; each of the two updates is indivisible, and one instruction makes both
    where the target has it.

    Args:
        dst: the first of the two elements, ``C[i, j]``, or the slice of both.
        value: the first of two elements, their slice, or a vector of two.
        return_prev: give the two values from before, as a vector.
    """
    return _update_neighbours("T.atomic_addx2", 2, dst, value, return_prev)


def atomic_addx4(dst: Any, value: Any, return_prev: bool = False) -> Any:
    """Adds four neighbours along the last axis; see `atomic_addx2`."""
    return _update_neighbours("T.atomic_addx4", 4, dst, value, return_prev)


def atomic_load(src: Any, memory_order: str = "seq_cst") -> Expr:
    """The value of an element that other threads may be updating.

    Args:
        src: an element of global or shared memory.
        memory_order: relaxed, consume, acquire or seq_cst.
    """
    op = "T.atomic_load"
    builder = _builder(op)
    order = require_option(op, "memory_order", memory_order, _LOAD_ORDERS)
    pointer = _pointer(op, "src", src, "r")
    return builder.bind("loaded", Call("atomic_load", (pointer, StringImm(order)), pointer.buffer.dtype))


def atomic_store(dst: Any, src: Any, memory_order: str = "seq_cst") -> None:
    """Sets an element that other threads may be reading.

    Args:
        dst: an element of global or shared memory.
        src: a scalar, converted to the element's type.
        memory_order: relaxed, release or seq_cst.
    """
    op = "T.atomic_store"
    builder = _builder(op)
    order = require_option(op, "memory_order", memory_order, _STORE_ORDERS)
    pointer = _pointer(op, "dst", dst, "w")
    value = _scalar(op, "src", src, pointer.buffer.dtype)
    builder.emit(Evaluate(Call("atomic_store", (pointer, value, StringImm(order)), DType("void"))))


def _builder(op: str) -> Builder:
    builder = require_builder(op)
    builder.require_kernel(op)
    return builder


def _update(
    op: str,
    kind: str,
    dst: Any,
    value: Any,
    memory_order: str | None,
    return_prev: bool,
    given: Mapping[str, Any],
    annotations: Mapping[str, Any] | None,
) -> Any:
    builder = _builder(op)
    refuse_placeholder(value)
    order = "relaxed" if memory_order is None else require_option(op, "memory_order", memory_order, MEMORY_ORDERS)
    previous = require_flag(op, "return_prev", return_prev)
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
    update = AtomicUpdate(target, operand, kind, order, pairs, span=builder.span)
    single = all(isinstance(e, IntImm) and e.value == 1 for e in target.extents) and isinstance(operand, Expr)
    if not previous and not (single and target.buffer.memory.addressable):
        builder.emit_op(update)
        return None
    update.check()
    if not single:
        raise CompileError(
            "E-ATOMIC-RESULT",
            f"{op} gives the previous value of a single element only",
            facts=[f"dst = {target!r}"],
            help="loop over the elements with T.Parallel, or leave return_prev out",
        )
    pointer = _pointer(op, "dst", BufferLoad(target.buffer, target.mins), "rw")
    assert isinstance(operand, Expr)
    arguments = (pointer, cast(operand, target.dtype), StringImm(order))
    if not previous:
        # One element: in code for threads, each thread's own update.
        builder.emit(Evaluate(Call(f"atomic_{kind}", arguments, DType("void"))))
        return None
    return builder.bind("previous", Call(f"atomic_fetch_{kind}", arguments, target.dtype))


def _update_neighbours(op: str, count: int, dst: Any, value: Any, return_prev: Any) -> Any:
    builder = _builder(op)
    refuse_placeholder(value)
    previous = require_flag(op, "return_prev", return_prev)
    pointers = [_pointer(op, "dst", element, "rw") for element in _neighbours(op, "dst", dst, count)]
    dtype = pointers[0].buffer.dtype
    if dtype.kind not in "iuf" or dtype.lanes != 1:
        raise CompileError(
            "E-OP-DTYPE", f"{op}: {dtype} elements are not added", facts=[f"dst = {dst!r}"], help="add numbers"
        )
    if isinstance(value, Expr) and value.dtype.lanes == count:
        held = builder.bind("values", value)
        values: list[Expr] = [Shuffle((held,), (lane,)) for lane in range(count)]
    else:
        values = list(_neighbours(op, "value", value, count))
    values = [builder.bind("value", cast(v, dtype)) for v in values]
    order, old = StringImm("relaxed"), []
    for pointer, item in zip(pointers, values):
        if previous:
            old.append(builder.bind("previous", Call("atomic_fetch_add", (pointer, item, order), dtype)))
        else:
            builder.emit(Evaluate(Call("atomic_add", (pointer, item, order), DType("void"))))
    return Shuffle(tuple(old), tuple(range(count))) if previous else None


def _neighbours(op: str, label: str, value: Any, count: int) -> list[BufferLoad]:
    """`count` elements along the last axis from the first on; a slice or buffer must be that many."""
    region = tile_region(op, label, value)
    extents = region.static_extents()
    whole = extents is not None and extents[-1] == count and set(extents[:-1]) <= {1}
    single = extents is not None and set(extents) <= {1}
    if not (whole or (single and not isinstance(value, (Buffer, BufferRegion)))):
        raise CompileError(
            "E-ATOMIC-VECTOR",
            f"{op}: {label} is not {count} neighbours along the last axis",
            facts=[f"{label} = {region!r}"],
            help=f"pass the first of the {count} elements, such as A[i, j], or the slice A[i, j : j + {count}]",
        )
    *before, first = region.mins
    return [
        BufferLoad(region.buffer, (*before, binary("add", first, i) if i else first), span=region.span)
        for i in range(count)
    ]


def _pointer(op: str, label: str, element: Any, mode: str) -> AccessPtr:
    """The address of one element of memory that threads share."""
    refuse_placeholder(element)
    region = tile_region(op, label, element)
    if any(not (isinstance(e, IntImm) and e.value == 1) for e in region.extents):
        raise CompileError(
            "E-OPERAND",
            f"{op}: {label} is no single element",
            facts=[f"{label} = {region!r}"],
            help="pass an element such as A[i, j]",
        )
    buffer = region.buffer
    if isinstance(element, ScalarRef) or not buffer.memory.addressable:
        raise CompileError(
            "E-ATOMIC-MEMORY",
            f"{op}: {buffer.name} is in {buffer.scope} memory, which no other thread sees",
            facts=[f"{buffer!r}"],
            help="allocate it with T.alloc_shared, or use a plain assignment",
        )
    return AccessPtr(buffer, region.mins, const(1, "int32"), mode, span=region.span)


def _scalar(op: str, label: str, value: Any, dtype: DType) -> Expr:
    refuse_placeholder(value)
    if not (is_expression(value) or isinstance(value, (bool, int, float))):
        raise operand_error(op, label, value)
    return cast(as_expr(value, dtype), dtype)
