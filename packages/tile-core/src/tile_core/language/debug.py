"""Looking into a running kernel: printed values and checked conditions, with the kernel's line."""

from __future__ import annotations

from pathlib import PurePath
from typing import Any

from ..dtypes import DType
from ..errors import CompileError, declare_codes
from ..frontend.builder import Builder, ScalarRef, known, require_builder
from ..frontend.operators import as_condition, is_expression
from ..frontend.placeholder import refuse_placeholder
from ..ir import (
    Binary,
    Buffer,
    BufferLoad,
    BufferRegion,
    Call,
    Evaluate,
    Expr,
    FloatImm,
    For,
    IntImm,
    Stmt,
    StringImm,
    Var,
    as_expr,
    const,
    expr_text,
    full_region,
)
from ..tileop import Copy
from .operands import operand_error, require_flag

__all__ = ["device_assert", "print"]

declare_codes(
    {
        "E-DEBUG-THREAD": "a thread that the block does not have",
        "E-DEBUG-VALUE": "a value that cannot be printed",
    }
)

_MOST_VALUES = 8
_COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge", "and", "or")


def print(obj: Any = None, msg: str = "", warp_group_id: int = 0, warp_id: int = 0) -> None:
    """Prints while the kernel runs.

    Args:
        obj: an expression, which every thread that comes here prints with its block and thread; a buffer or slice,
            whose elements one thread prints; or nothing, to print `msg` alone.
        msg: text before it.
        warp_group_id, warp_id: the thread that prints a buffer: the first of this warp (of 32 threads) of this group
            (of 4 warps).
    """
    op = "T.print"
    builder = require_builder(op)
    kernel = builder.require_kernel(op)
    refuse_placeholder(obj)
    if not isinstance(msg, str):
        raise operand_error(op, "msg", msg)
    if isinstance(obj, str) and not msg:
        obj, msg = None, obj
    thread = _printing_thread(op, builder, warp_group_id, warp_id)
    label = f"{msg}: " if msg and obj is not None else msg
    if obj is None:
        _emit(builder, "device_print", [label, *_where(kernel)], None)
    elif isinstance(obj, (Buffer, BufferRegion)):
        _elements(builder, obj, label, thread)
    elif isinstance(obj, ScalarRef) or is_expression(obj) or isinstance(obj, (bool, int, float)):
        value = as_expr(obj)
        _require_printable(op, value)
        name = "" if isinstance(value, (IntImm, FloatImm)) else f"{_text(value)} = "
        _emit(builder, "device_print", [f"{label}{name}", value, *_where(kernel)], None)
    else:
        raise operand_error(op, "obj", obj)


def device_assert(condition: Any, msg: str = "", no_stack_info: bool = False) -> None:
    """Ends the kernel with an error where a condition does not hold while it runs.

    Args:
        condition: an expression; what is known to be false while tracing is an error at once.
        msg: text for the error.
        no_stack_info: leaves out the kernel's file and line.

    Raises:
        CompileError: the condition is false whatever the kernel does.
    """
    op = "T.device_assert"
    builder = require_builder(op)
    kernel = builder.require_kernel(op)
    if not isinstance(msg, str):
        raise CompileError(
            "E-OPERAND-OPTION",
            f"{op} does not take msg={msg!r}",
            facts=["allowed: a string"],
            help="say in words what holds; T.print shows values",
        )
    refuse_placeholder(condition)
    if not isinstance(msg, str):
        raise operand_error(op, "msg", msg)
    require_flag(op, "no_stack_info", no_stack_info)
    value = as_condition(condition) if isinstance(condition, str) else known(condition)
    if not is_expression(value):
        if value:
            return
        raise CompileError(
            "E-ASSUME-FALSE",
            f"{op} is given something false" + (f": {msg}" if msg else ""),
            facts=[f"found {condition!r}"],
            help="correct the condition",
        )
    holds = as_condition(value, builder.span)
    place = (
        "" if no_stack_info or builder.span is None else f"{PurePath(builder.span.source).name}:{builder.span.line}: "
    )
    pieces: list[Any] = [f"{place}{msg + ': ' if msg else ''}{_text(holds)} does not hold"]
    for number, operand in enumerate(_operands(holds)[:_MOST_VALUES]):
        pieces += [f"{', where ' if number == 0 else ', '}{_text(operand)} = ", operand]
    _emit(builder, "device_assert", [holds, *pieces, *_where(kernel)], None)


def _emit(builder: Builder, op: str, pieces: list[Any], thread: int | None) -> None:
    """A call with its texts and values; texts that follow each other are joined."""
    arguments: list[Expr] = []
    for piece in pieces:
        if isinstance(piece, Expr):
            arguments.append(piece)
        elif arguments and isinstance(arguments[-1], StringImm):
            arguments[-1] = StringImm(arguments[-1].value + piece)
        elif piece:
            arguments.append(StringImm(piece))
    annotations = () if thread is None else (("thread", thread),)
    call = Call(op, tuple(arguments), DType("void"), annotations)
    builder.emit(Evaluate(call))


def _where(kernel: Any) -> list[Any]:
    """The block, as pieces; a kernel's threads are told where they differ."""
    pieces: list[Any] = []
    for number, var in enumerate(kernel.grid_vars):
        pieces += [f" [block {var.name} = " if number == 0 else f", {var.name} = ", var]
    return [*pieces, "]"] if pieces else []


def _elements(builder: Builder, obj: Any, label: str, thread: int) -> None:
    region = full_region(obj) if isinstance(obj, Buffer) else obj
    buffer = region.buffer
    _require_printable("T.print", const(0, buffer.dtype.scalar) if buffer.dtype.kind in "biuf" else as_expr(0), buffer)
    own = buffer.memory.level == "thread"
    source = region
    if buffer.scope == "fragment":
        # Its elements lie in several threads: they are brought where one of them sees all.
        scratch = Buffer(f"{buffer.name}_printed", region.tile_extents(), buffer.dtype, "shared", span=builder.span)
        builder.allocate(scratch)
        source = full_region(scratch)
        builder.emit_op(Copy(region, source, span=builder.span))
    loops: list[tuple[Var, Expr]] = []
    indices: list[Expr] = []
    for extent in region.tile_extents():
        index = Var(f"i{len(loops)}", DType("int32"))
        loops.append((index, extent))
        indices.append(index)
    shown = region.indices(tuple(indices))
    pieces: list[Any] = [f"{label}{buffer.name}["]
    for number, index in enumerate(shown):
        pieces += [", " if number else "", index]
    pieces += ["] = ", BufferLoad(source.buffer, source.indices(tuple(indices)), span=builder.span)]
    frame = builder.frame
    first = len(frame.stmts)
    _emit(builder, "device_print", [*pieces, *_where(builder.kernel)], None if own else thread)
    body: Stmt = frame.stmts.pop(first)
    for index, extent in reversed(loops):
        body = For(index, const(0, "int32"), extent, "serial", body, span=builder.span)
    builder.emit(body)


def _operands(condition: Expr) -> list[Expr]:
    """What a condition compares, constants aside."""
    found: list[Expr] = []
    stack = [condition]
    while stack:
        item = stack.pop(0)
        if isinstance(item, Binary) and item.op in _COMPARISONS:
            stack[:0] = [item.a, item.b]
        elif not isinstance(item, (IntImm, FloatImm)) and item.dtype.lanes == 1 and item.dtype.kind in "biuf":
            if not any(item is other for other in found):
                found.append(item)
    return found


def _text(value: Expr) -> str:
    """An expression as the kernel's author would write it, cut where it is long."""
    text = expr_text(value)
    return text if len(text) <= 80 else text[:77] + "..."


def _require_printable(op: str, value: Expr, buffer: Buffer | None = None) -> None:
    dtype = value.dtype if buffer is None else buffer.dtype
    if dtype.kind in "biuf" and dtype.lanes == 1:
        return
    raise CompileError(
        "E-DEBUG-VALUE",
        f"{op} prints no {dtype}",
        facts=[f"found {buffer if buffer is not None else value!r}"],
        help="print numbers one by one",
    )


def _printing_thread(op: str, builder: Builder, group: Any, warp: Any) -> int:
    """The number of the thread that prints a buffer."""
    numbers = [known(group), known(warp)]
    total = 1
    for extent in builder.kernel.threads:
        total *= extent
    if all(isinstance(n, int) and not isinstance(n, bool) and n >= 0 for n in numbers):
        thread = numbers[0] * 128 + numbers[1] * 32
        if thread < (total if builder.kernel.threads else 128):
            return thread
    raise CompileError(
        "E-DEBUG-THREAD",
        f"{op} does not take warp_group_id={group!r}, warp_id={warp!r}",
        facts=[f"threads of the block: {total if builder.kernel.threads else 'left to the target'}"],
        help="name a group of 128 threads and a warp of 32 in it that the block has",
    )
