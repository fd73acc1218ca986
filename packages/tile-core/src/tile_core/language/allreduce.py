"""A reduction over threads as TVM's kernels write it: `tvm_thread_allreduce` under ``T.attr(…, "reduce_scope", …)``."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from ..dtypes import DType
from ..errors import CompileError, declare_codes
from ..frontend.builder import Builder, ScalarRef, require_builder
from ..frontend.loops import serial_range
from ..ir import Buffer, BufferLoad, BufferStore, Call, Evaluate, Expr, If, Stmt, as_expr, binary, cast, const, select
from ..ir.thread_intrinsics import WARP_SIZE
from .operands import operand_error

__all__ = ["comm_reducer", "tvm_thread_allreduce"]

declare_codes({"E-ALLREDUCE": "a reduction over threads that is not written as this version reads it"})

_current: ContextVar[Any] = ContextVar("tile_reduce_scope", default=None)


class CommReducer:
    """How two values are combined, and what changes nothing."""

    def __init__(self, combiner: Callable[..., Any], identity: tuple[Any, ...]) -> None:
        self.combiner = combiner
        self.identity = identity

    def combine(self, a: Expr, b: Expr) -> Expr:
        """The combination of two values."""
        return as_expr(self.combiner(a, b))


def comm_reducer(combiner: Callable[..., Any], identity: Sequence[Any]) -> CommReducer:
    """A way to combine values that is associative and commutative.

    Args:
        combiner: (x, y) → the combination, an expression.
        identity: a list with the value that changes nothing.
    """
    values = tuple(identity) if isinstance(identity, (list, tuple)) else (identity,)
    if len(values) != 1 or not callable(combiner):
        raise CompileError(
            "E-ALLREDUCE",
            "T.comm_reducer combines one value at a time",
            facts=[f"found identity={list(values)!r}"],
            help="write T.comm_reducer(lambda x, y: x + y, [T.float32(0)])",
        )
    return CommReducer(combiner, values)


@contextmanager
def reduce_scope(reducer: CommReducer) -> Iterator[None]:
    """``with T.attr(reducer, "reduce_scope", …)``: how `tvm_thread_allreduce` inside combines."""
    token = _current.set(reducer)
    try:
        yield
    finally:
        _current.reset(token)


def tvm_thread_allreduce(size: Any, value: Any, cond: Any, out: Any, *threads: Any, dtype: Any = None) -> None:
    """Combines the values of the threads that differ in one thread index; each of them gets the result.

    Args:
        size: 1.
        value: the executing thread's value.
        cond: whether it takes part.
        out: an element of the thread's own memory, which is set.
        threads: the thread index, such as `T.get_thread_binding(0)`.
        dtype: not used.
    """
    op = "T.tvm_thread_allreduce"
    builder = require_builder(op)
    kernel = builder.require_kernel(op)
    reducer: CommReducer | None = _current.get()
    if reducer is None or getattr(as_expr(size), "value", None) != 1 or len(threads) != 1:
        raise CompileError(
            "E-ALLREDUCE",
            f"{op} combines one value along one thread index, under T.attr(…, 'reduce_scope', …)",
            facts=[f"found {len(threads)} thread indices, size {size!r}"],
            help="write it in `with T.attr(T.comm_reducer(…), 'reduce_scope', T.reinterpret(T.uint64(0), 'handle')):`",
        )
    index = as_expr(threads[0])
    axis = next((i for i, var in enumerate(kernel.thread_vars) if var is index), None)
    if axis is None:
        raise CompileError(
            "E-ALLREDUCE",
            f"{op} combines along a thread index",
            facts=[f"found {index!r}", f"thread indices: {', '.join(v.name for v in kernel.thread_vars) or 'none'}"],
            help="pass T.get_thread_binding(0)",
        )
    target = out.__tile_expr__() if isinstance(out, ScalarRef) else out
    if not isinstance(target, BufferLoad) or target.buffer.memory.level != "thread":
        raise operand_error(op, "out", out)
    element = target.buffer.dtype
    held = cast(as_expr(value, element), element)
    neutral = cast(as_expr(reducer.identity[0], element), element)
    held = builder.bind("value", select(as_expr(cond, None), held, neutral))
    result = _combined(builder, kernel, axis, reducer, held, neutral)
    builder.emit(BufferStore(target.buffer, cast(result, element), target.indices))


def _combined(builder: Builder, kernel: Any, axis: int, reducer: CommReducer, value: Expr, neutral: Expr) -> Expr:
    """The combination along an axis of the block's threads."""
    extent = kernel.threads[axis]
    if extent == 1:
        return value
    stride, thread, scale = 1, None, 1
    for position, (var, count) in enumerate(zip(kernel.thread_vars, kernel.threads)):
        if position < axis:
            stride *= count
        term = binary("mul", var, scale) if scale > 1 else var
        thread = term if thread is None else binary("add", thread, term)
        scale *= count
    assert thread is not None
    width = min(extent, WARP_SIZE)
    lanes = stride == 1 and width & (width - 1) == 0 and extent % width == 0 and value.dtype.bits <= 64
    if lanes:
        distance = width // 2
        while distance:
            arguments = (value, const(distance, "int32"), const(width, "int32"), const(0xFFFFFFFF, "uint32"))
            other = builder.bind("other", Call("shfl_xor", arguments, value.dtype))
            value = builder.bind("value", cast(reducer.combine(value, other), value.dtype))
            distance //= 2
        if extent == width:
            return value
    # The rest goes through shared memory: a value a warp, or a value a thread.
    step = width if lanes else 1
    scratch = Buffer("partial", (const(scale // step, "int32"),), value.dtype, "shared", span=builder.span)
    builder.allocate(scratch)
    _meet(builder)
    store: Stmt = BufferStore(scratch, value, (binary("floordiv", thread, step),), span=builder.span)
    if step > 1:
        store = If(binary("eq", binary("floormod", thread, step), 0), store, None, span=builder.span)
    builder.emit(store)
    _meet(builder)
    position = binary("floormod", binary("floordiv", thread, stride), extent)
    first = binary("floordiv", binary("sub", thread, binary("mul", position, stride)), step)
    total = Buffer("total", (const(1, "int32"),), value.dtype, "var", span=builder.span)
    builder.allocate(total)
    zero = const(0, "int32")
    builder.emit(BufferStore(total, neutral, (zero,)))
    for i in serial_range("range", (extent // step,), builder.span):
        at = binary("add", first, binary("mul", as_expr(i), stride) if stride > 1 else as_expr(i))
        both = reducer.combine(BufferLoad(total, (zero,)), BufferLoad(scratch, (at,)))
        builder.emit(BufferStore(total, cast(both, value.dtype), (zero,)))
    return BufferLoad(total, (zero,))


def _meet(builder: Builder) -> None:
    builder.emit(Evaluate(Call("sync_threads", (), DType("void"))))
