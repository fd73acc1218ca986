"""Calls of device functions, with their arguments checked: what candidates and passes of this backend emit."""

from __future__ import annotations

from typing import Any

from tile_core.dtypes import DType
from tile_core.errors import InternalError
from tile_core.ir import AccessPtr, Call, Evaluate, Expr, IntImm, as_expr, const
from tile_core.source import Span

from . import table, table_atomic, table_warp  # noqa: F401  (the rows)
from .row import find_device_function
from .table import CP_ASYNC_BYTES, FULL_MASK

__all__ = [
    "all_sync",
    "any_sync",
    "ballot",
    "bar_arrive",
    "bar_sync",
    "block_reduce",
    "cp_async",
    "cp_async_commit",
    "cp_async_wait",
    "fast_math",
    "fence",
    "ldmatrix",
    "mma",
    "mma_sp",
    "shuffle",
    "sync_threads",
    "sync_warp",
    "warp_reduce",
    "warp_scan",
]

VOID, INT32, UINT32, BOOL = DType("void"), DType("int32"), DType("uint32"), DType("bool")


def sync_threads(span: Span | None = None) -> Evaluate:
    """All threads of the block meet."""
    return _statement("sync_threads", (), span)


def sync_warp(mask: int = FULL_MASK, span: Span | None = None) -> Evaluate:
    """The lanes of the mask meet."""
    return _statement("sync_warp", (const(mask, UINT32),), span)


def bar_sync(barrier: int | Expr, count: int, span: Span | None = None) -> Evaluate:
    """`count` threads meet at a named barrier."""
    return _statement("bar_sync", (_barrier(barrier), _threads(count)), span)


def bar_arrive(barrier: int | Expr, count: int, span: Span | None = None) -> Evaluate:
    """Arrives at a named barrier of `count` threads without waiting."""
    return _statement("bar_arrive", (_barrier(barrier), _threads(count)), span)


def fence(scope: str, span: Span | None = None) -> Evaluate:
    """Orders this thread's accesses as seen by the `block`, the `device` or the `system`."""
    return _statement(f"fence_{scope}", (), span)


def cp_async(
    dst: AccessPtr,
    src: AccessPtr,
    bytes: int,
    predicate: Expr | None = None,
    span: Span | None = None,
) -> Evaluate:
    """Starts a copy of 4, 8 or 16 bytes from global to shared memory; zeros when the predicate is false."""
    if bytes not in CP_ASYNC_BYTES:
        raise InternalError("E-INTERNAL", f"cp.async copies 4, 8 or 16 bytes, not {bytes}", span=span)
    args = (dst, src) if predicate is None else (dst, src, predicate)
    return _statement("cp_async", args, span, bytes=bytes)


def cp_async_commit(span: Span | None = None) -> Evaluate:
    """Closes the executing thread's group of copies."""
    return _statement("cp_async_commit", (), span)


def cp_async_wait(pending: int, span: Span | None = None) -> Evaluate:
    """Waits until at most `pending` of the thread's groups are unfinished."""
    return _statement("cp_async_wait", (const(pending, INT32),), span)


def ldmatrix(dst: AccessPtr, src: AccessPtr, num: int, trans: bool, span: Span | None = None) -> Evaluate:
    """Loads `num` (1, 2, 4) matrices of 8 rows of 16 bytes; `src` is the lane's row, `dst` its registers."""
    if num not in (1, 2, 4):
        raise InternalError("E-INTERNAL", f"ldmatrix loads 1, 2 or 4 matrices, not {num}", span=span)
    return _statement("ldmatrix", (dst, src), span, num=num, trans=bool(trans))


def mma(
    c: AccessPtr,
    a: AccessPtr,
    b: AccessPtr,
    shape: tuple[int, int, int],
    a_dtype: Any,
    b_dtype: Any,
    c_dtype: Any,
    span: Span | None = None,
) -> Evaluate:
    """c += a b for one warp, in registers laid out as PTX says."""
    return _statement("mma", (c, a, b), span, shape=tuple(shape), a=str(a_dtype), b=str(b_dtype), c=str(c_dtype))


def mma_sp(
    c: AccessPtr,
    a: AccessPtr,
    b: AccessPtr,
    e: AccessPtr,
    shape: tuple[int, int, int],
    a_dtype: Any,
    b_dtype: Any,
    c_dtype: Any,
    selector: int = 0,
    span: Span | None = None,
) -> Evaluate:
    """c += a b for one warp and a sparse a, of which `e` says where the elements lie, in the lanes that the selector
    names."""
    types = {"a": str(a_dtype), "b": str(b_dtype), "c": str(c_dtype)}
    return _statement("mma_sp", (c, a, b, e), span, shape=tuple(shape), **types, selector=selector)


def shuffle(kind: str, value: Expr, operand: int | Expr, width: int = 32) -> Call:
    """Another lane's value; kind: shfl, shfl_up, shfl_down, shfl_xor."""
    return _value(kind, (value, as_expr(operand), const(width, INT32)), value.dtype)


def ballot(predicate: Expr, mask: int = FULL_MASK) -> Call:
    """The lanes whose predicate is true."""
    return _value("ballot", (predicate, const(mask, UINT32)), UINT32)


def any_sync(predicate: Expr, mask: int = FULL_MASK) -> Call:
    """Whether a lane's predicate is true."""
    return _value("any_sync", (predicate, const(mask, UINT32)), BOOL)


def all_sync(predicate: Expr, mask: int = FULL_MASK) -> Call:
    """Whether every lane's predicate is true."""
    return _value("all_sync", (predicate, const(mask, UINT32)), BOOL)


def warp_reduce(op: str, value: Expr, width: int = 32) -> Call:
    """`op` (of REDUCE_OPERATORS) over each `width` neighbouring lanes; every lane gets it."""
    return _value(f"warp_reduce_{op}", (value, const(width, INT32)), value.dtype)


def warp_scan(op: str, value: Expr, width: int = 32) -> Call:
    """Inclusive `op` over the lanes before, within each `width` neighbouring lanes."""
    return _value(f"warp_scan_{op}", (value, const(width, INT32)), value.dtype)


def block_reduce(op: str, value: Expr, scratch: AccessPtr) -> Call:
    """`op` over all threads of the block, through shared memory: an element a warp, or an element a thread when the
    block's threads are no multiple of 32."""
    return _value(f"block_reduce_{op}", (value, scratch), value.dtype)


def fast_math(name: str, *args: Expr) -> Call:
    """An approximate function of fp32 values: a key of FAST_MATH, or div."""
    return _value(f"fast_{name}", args, args[0].dtype)


def _call(name: str, args: tuple[Expr, ...], dtype: DType, span: Span | None, annotations: dict[str, Any]) -> Call:
    call = Call(f"cuda.{name}", args, dtype, tuple(annotations.items()), span=span)
    find_device_function(call)
    return call


def _value(name: str, args: tuple[Expr, ...], dtype: DType) -> Call:
    return _call(name, args, dtype, args[0].span, {})


def _statement(name: str, args: tuple[Expr, ...], span: Span | None, **annotations: Any) -> Evaluate:
    return Evaluate(_call(name, args, VOID, span, annotations), span=span)


def _barrier(barrier: int | Expr) -> Expr:
    number = barrier.value if isinstance(barrier, IntImm) else barrier
    if isinstance(number, int) and not 1 <= number <= 15:
        raise InternalError("E-INTERNAL", f"named barriers are 1 to 15, not {number}")
    return as_expr(barrier)


def _threads(count: int) -> Expr:
    if count <= 0 or count % 32:
        raise InternalError("E-INTERNAL", f"a named barrier counts whole warps, not {count} threads")
    return const(count, INT32)
