"""What threads do together: shuffles, votes and reductions of a warp, meetings of a block's threads, and who one is.

All of it is code for single threads: it means something in a kernel with ``threads=``. A warp is 32 neighbouring
threads, x fastest. Backends that run a block on one thread carry it out in loops over the threads.
"""

from __future__ import annotations

from typing import Any

from ..dtypes import DType
from ..errors import CompileError, declare_codes
from ..frontend.builder import Builder, known, require_builder
from ..frontend.operators import as_condition
from ..frontend.placeholder import refuse_placeholder
from ..ir import Call, Evaluate, Expr, IntImm, as_expr, binary, cast, const
from .checks import number

__all__ = [
    "activemask",
    "all_sync",
    "any_sync",
    "ballot",
    "ballot_sync",
    "get_lane_idx",
    "get_warp_group_idx",
    "get_warp_idx",
    "get_warp_idx_sync",
    "match_all_sync",
    "match_any_sync",
    "named_barrier_arrive",
    "shfl_down",
    "shfl_sync",
    "shfl_up",
    "shfl_xor",
    "shuffle_elect",
    "sync_grid",
    "sync_threads",
    "sync_warp",
    "syncthreads_and",
    "syncthreads_count",
    "syncthreads_or",
    "tvm_warp_activemask",
    "tvm_warp_shuffle",
    "tvm_warp_shuffle_down",
    "tvm_warp_shuffle_up",
    "warp_reduce_bitand",
    "warp_reduce_bitor",
    "warp_reduce_max",
    "warp_reduce_min",
    "warp_reduce_sum",
]

declare_codes(
    {
        "E-WARP-OPTION": "a warp operation with a width, mask or barrier that it does not take",
        "E-WARP-TYPE": "a value that lanes cannot exchange or combine",
    }
)

_WARP, _GROUP = 32, 128
_FULL = 0xFFFFFFFF
_BARRIERS = 15
INT32, UINT32, VOID = DType("int32"), DType("uint32"), DType("void")


def shfl_sync(value: Any, srcLane: Any, width: int = 32, mask: Any = _FULL) -> Expr:
    """The value of lane `srcLane` of each `width` neighbouring lanes.

    Args:
        value: a scalar of up to 64 bits, of any lane's own.
        srcLane: counted within the `width` lanes, modulo `width`.
        width: 1, 2, 4, 8, 16 or 32.
        mask: the lanes that come to this call, a bit each. What is asked of another lane is undefined on devices.
    """
    return _shuffle("T.shfl_sync", "shfl", value, srcLane, width, mask)


def shfl_up(value: Any, delta: Any, width: int = 32, mask: Any = _FULL) -> Expr:
    """The value of the lane `delta` places below; the own value where there is none. See `shfl_sync`."""
    return _shuffle("T.shfl_up", "shfl_up", value, delta, width, mask)


def shfl_down(value: Any, delta: Any, width: int = 32, mask: Any = _FULL) -> Expr:
    """The value of the lane `delta` places above; the own value where there is none. See `shfl_sync`."""
    return _shuffle("T.shfl_down", "shfl_down", value, delta, width, mask)


def shfl_xor(value: Any, delta: Any, width: int = 32, mask: Any = _FULL) -> Expr:
    """The value of the lane whose number differs in the bits of `delta`. See `shfl_sync`."""
    return _shuffle("T.shfl_xor", "shfl_xor", value, delta, width, mask)


def tvm_warp_shuffle(mask: Any, value: Any, warp_id: Any, width: int = 32, warp_size: int = 32) -> Expr:
    """`shfl_sync` with TVM's order of arguments: `warp_id` is its srcLane, `warp_size` must be 32."""
    _require_warp_size("T.tvm_warp_shuffle", warp_size)
    return _shuffle("T.tvm_warp_shuffle", "shfl", value, warp_id, width, mask)


def tvm_warp_shuffle_up(mask: Any, value: Any, offset: Any, width: int = 32, warp_size: int = 32) -> Expr:
    """`shfl_up` with TVM's order of arguments: `offset` is its delta, `warp_size` must be 32."""
    _require_warp_size("T.tvm_warp_shuffle_up", warp_size)
    return _shuffle("T.tvm_warp_shuffle_up", "shfl_up", value, offset, width, mask)


def tvm_warp_shuffle_down(mask: Any, value: Any, offset: Any, width: int = 32, warp_size: int = 32) -> Expr:
    """`shfl_down` with TVM's order of arguments: `offset` is its delta, `warp_size` must be 32."""
    _require_warp_size("T.tvm_warp_shuffle_down", warp_size)
    return _shuffle("T.tvm_warp_shuffle_down", "shfl_down", value, offset, width, mask)


def any_sync(predicate: Any, mask: Any = _FULL) -> Expr:
    """Whether the predicate holds in one of the warp's lanes; bool. `mask` as for `shfl_sync`."""
    return _vote("T.any_sync", "any_sync", predicate, mask, "bool")


def all_sync(predicate: Any, mask: Any = _FULL) -> Expr:
    """Whether the predicate holds in all of the warp's lanes; bool. `mask` as for `shfl_sync`."""
    return _vote("T.all_sync", "all_sync", predicate, mask, "bool")


def ballot_sync(predicate: Any, mask: Any = _FULL) -> Expr:
    """The lanes of the warp in which the predicate holds, bit i for lane i; uint32. `mask` as for `shfl_sync`."""
    return _vote("T.ballot_sync", "ballot", predicate, mask, "uint32")


def ballot(predicate: Any) -> Expr:
    """`ballot_sync` of the predicate in all lanes."""
    return _vote("T.ballot", "ballot", predicate, _FULL, "uint32")


def activemask() -> Expr:
    """The lanes of the warp that execute this together now, bit i for lane i; uint32."""
    return _lanes("T.activemask").bind("active", Call("activemask", (), UINT32))


def tvm_warp_activemask() -> Expr:
    """`activemask` under TVM's name."""
    return activemask()


def match_any_sync(value: Any, mask: Any = _FULL) -> Expr:
    """The lanes of the warp whose value has the same bits, bit i for lane i; uint32. `mask` as for `shfl_sync`."""
    return _match("T.match_any_sync", "match_any", value, mask)


def match_all_sync(value: Any, mask: Any = _FULL) -> Expr:
    """The lanes that came, where `value` has the same bits in all, else 0; uint32. `mask` as for `shfl_sync`."""
    return _match("T.match_all_sync", "match_all", value, mask)


def warp_reduce_sum(value: Any) -> Expr:
    """The sum of `value` over the warp; every lane gets it. All 32 lanes must come here."""
    return _reduce("sum", value)


def warp_reduce_max(value: Any) -> Expr:
    """The largest of the warp's values, numbers before NaN; see `warp_reduce_sum`."""
    return _reduce("max", value)


def warp_reduce_min(value: Any) -> Expr:
    """The smallest of the warp's values, numbers before NaN; see `warp_reduce_sum`."""
    return _reduce("min", value)


def warp_reduce_bitand(value: Any) -> Expr:
    """The bits that are set in all of the warp's integers; see `warp_reduce_sum`."""
    return _reduce("bitand", value)


def warp_reduce_bitor(value: Any) -> Expr:
    """The bits that are set in one of the warp's integers; see `warp_reduce_sum`."""
    return _reduce("bitor", value)


def sync_threads(barrier_id: Any = None, arrive_count: Any = None) -> None:
    """All threads of the block meet here. Between tile ops the compiler synchronises by itself; this is for code with
    thread indices.

    Args:
        barrier_id: a numbered barrier, 1 to 15, at which only some of the threads meet.
        arrive_count: how many threads meet there, a multiple of 32; all of the block's by default.
    """
    op = "T.sync_threads"
    builder = _builder(op)
    if barrier_id is None and arrive_count is None:
        builder.emit(Evaluate(Call("sync_threads", (), VOID)))
        return
    if barrier_id is None or known(barrier_id) == 0:
        if arrive_count is not None and known(arrive_count) != _threads(builder):
            raise _option(op, "arrive_count", arrive_count, "the number of the block's threads for barrier 0")
        builder.emit(Evaluate(Call("sync_threads", (), VOID)))
        return
    builder.emit(Evaluate(Call("sync_named", _meeting(op, builder, barrier_id, arrive_count), VOID)))


def named_barrier_arrive(barrier_id: Any, thread_count: Any) -> None:
    """Arrives at barrier `barrier_id` without waiting: those that wait there count this thread among `thread_count`.
    See `sync_threads`."""
    op = "T.named_barrier_arrive"
    builder = _builder(op)
    builder.emit(Evaluate(Call("arrive_named", _meeting(op, builder, barrier_id, thread_count), VOID)))


def sync_warp(mask: Any = None) -> None:
    """The lanes of a warp meet; what each wrote to memory is then seen by the others.

    Args:
        mask: the lanes that come, a bit each; all by default.
    """
    op = "T.sync_warp"
    _lanes(op).emit(Evaluate(Call("sync_warp", (_mask(op, _FULL if mask is None else mask),), VOID)))


def sync_grid() -> None:
    """All threads of all blocks of the kernel meet. On a device all blocks must run at the same time: a launch with
    more blocks than it holds is an error."""
    _builder("T.sync_grid").emit(Evaluate(Call("sync_grid", (), VOID)))


def syncthreads_count(predicate: Any) -> Expr:
    """All threads of the block meet; the number of those in which the predicate holds, int32."""
    return _meet("count", predicate)


def syncthreads_and(predicate: Any) -> Expr:
    """All threads of the block meet; 1 where the predicate holds in all of them, else 0, int32."""
    return _meet("and", predicate)


def syncthreads_or(predicate: Any) -> Expr:
    """All threads of the block meet; 1 where the predicate holds in one of them, else 0, int32."""
    return _meet("or", predicate)


def get_lane_idx(warp_size: Any = None) -> Expr:
    """The number of the executing thread in its warp.

    Args:
        warp_size: lanes of a warp, 32.
    """
    op = "T.get_lane_idx"
    return binary("floormod", _thread(op), _size(op, "warp_size", warp_size, _WARP))


def get_warp_idx(warp_size: Any = None) -> Expr:
    """The number of the executing thread's warp in its block; see `get_lane_idx`."""
    op = "T.get_warp_idx"
    return binary("floordiv", _thread(op), _size(op, "warp_size", warp_size, _WARP))


def get_warp_idx_sync(warp_size: Any = None) -> Expr:
    """`get_warp_idx`, where all lanes of the warp come here together."""
    op = "T.get_warp_idx_sync"
    return binary("floordiv", _thread(op), _size(op, "warp_size", warp_size, _WARP))


def get_warp_group_idx(warp_size: Any = None, warps_per_group: Any = None) -> Expr:
    """The number of the executing thread's group of warps in its block.

    Args:
        warp_size: lanes of a warp, 32.
        warps_per_group: 4 by default.
    """
    op = "T.get_warp_group_idx"
    lanes = _size(op, "warp_size", warp_size, _WARP)
    warps = _size(op, "warps_per_group", warps_per_group, _GROUP // _WARP)
    return binary("floordiv", _thread(op), lanes * warps)


def shuffle_elect(thread_extent: Any) -> Expr:
    """Whether the executing thread is the first of each `thread_extent` neighbouring threads; with 0, of the block."""
    op = "T.shuffle_elect"
    count = known(thread_extent)
    if not isinstance(count, int) or isinstance(count, bool) or count < 0 or count % _WARP:
        raise _option(op, "thread_extent", thread_extent, "0, or a multiple of 32")
    thread = _thread(op)
    return binary("eq", binary("floormod", thread, count) if count else thread, const(0, INT32))


def _builder(op: str) -> Builder:
    builder = require_builder(op)
    builder.require_kernel(op)
    return builder


def _lanes(op: str) -> Builder:
    """The builder, in a kernel that says how many threads it has."""
    builder = _builder(op)
    if not builder.kernel.threads:
        raise CompileError(
            "E-KERNEL-THREADS",
            f"{op} needs a kernel that says how many threads it has",
            facts=["threads: left to the target"],
            help="pass threads= to T.Kernel",
        )
    return builder


def _thread(op: str) -> Expr:
    """The number of the executing thread in its block, x fastest."""
    kernel = _lanes(op).kernel
    thread: Any = None
    scale = 1
    for var, extent in zip(kernel.thread_vars, kernel.threads):
        if extent > 1:
            term = binary("mul", var, scale) if scale > 1 else var
            thread = term if thread is None else binary("add", thread, term)
            scale *= extent
    return const(0, INT32) if thread is None else thread


def _threads(builder: Builder) -> int | None:
    """The number of the block's threads, where the kernel says it."""
    total = 1
    for extent in builder.kernel.threads:
        total *= extent
    return total if builder.kernel.threads else None


def _shuffle(op: str, name: str, value: Any, operand: Any, width: Any, mask: Any) -> Expr:
    builder = _lanes(op)
    item = _exchanged(op, value)
    size = known(width)
    if type(size) is not int or size not in (1, 2, 4, 8, 16, 32):
        raise _option(op, "width", width, "1, 2, 4, 8, 16 or 32")
    moved = number(op.removeprefix("T."), operand)
    if moved.dtype.is_float:
        raise _option(op, "lane or delta", operand, "an integer")
    arguments = (item, cast(moved, INT32), const(size, INT32), _mask(op, mask))
    return builder.bind("shuffled", Call(name, arguments, item.dtype))


def _exchanged(op: str, value: Any) -> Expr:
    refuse_placeholder(value)
    item = number(op.removeprefix("T."), value)
    if item.dtype.lanes == 1 and item.dtype.kind in "iuf" and item.dtype.bits in (8, 16, 32, 64):
        return item
    raise CompileError(
        "E-WARP-TYPE",
        f"{op} exchanges no {item.dtype}",
        span=item.span,
        facts=[f"found {item!r}", "allowed: numbers of 8, 16, 32 or 64 bits"],
        help="convert a bool with T.cast(x, 'int32'), and exchange the lanes of a vector one by one",
    )


def _vote(op: str, name: str, predicate: Any, mask: Any, result: str) -> Expr:
    builder = _lanes(op)
    arguments = (_condition(predicate), _mask(op, mask))
    return builder.bind("vote", Call(name, arguments, DType(result)))


def _condition(predicate: Any) -> Expr:
    refuse_placeholder(predicate)
    return as_condition(predicate)


def _match(op: str, name: str, value: Any, mask: Any) -> Expr:
    builder = _lanes(op)
    item = _exchanged(op, value)
    if item.dtype.is_float:
        # Bits are compared, so that a NaN matches itself.
        item = Call("reinterpret", (item,), DType(f"uint{item.dtype.bits}"))
    return builder.bind("matching", Call(name, (item, _mask(op, mask)), UINT32))


def _reduce(kind: str, value: Any) -> Expr:
    op = f"T.warp_reduce_{kind}"
    builder = _lanes(op)
    item = _exchanged(op, value)
    if kind.startswith("bit") and item.dtype.is_float:
        raise CompileError(
            "E-WARP-TYPE",
            f"{op} does not combine the bits of floats",
            span=item.span,
            facts=[f"found {item!r}, which is {item.dtype}"],
            help="T.reinterpret the value as an integer first",
        )
    return builder.bind("reduced", Call(f"warp_reduce_{kind}", (item,), item.dtype))


def _meet(kind: str, predicate: Any) -> Expr:
    builder = _lanes(f"T.syncthreads_{kind}")
    return builder.bind("total", Call(f"sync_threads_{kind}", (_condition(predicate),), INT32))


def _meeting(op: str, builder: Builder, barrier: Any, count: Any) -> tuple[Expr, Expr]:
    """A numbered barrier and the threads that meet there, checked."""
    identifier = known(barrier)
    if isinstance(identifier, int) and not isinstance(identifier, bool):
        if not 1 <= identifier <= _BARRIERS:
            raise _option(op, "barrier_id", barrier, f"1 to {_BARRIERS}; T.sync_threads() is for the whole block")
    elif not (isinstance(identifier, Expr) and identifier.dtype.is_int):
        raise _option(op, "barrier_id", barrier, "an integer")
    threads = _threads(builder)
    present = threads if count is None else known(count)
    if not isinstance(present, int) or isinstance(present, bool) or present < _WARP or present % _WARP:
        raise _option(op, "arrive_count", count, "a multiple of 32 that is known while the kernel is traced")
    if threads is not None and present > threads:
        raise _option(op, "arrive_count", count, f"at most the block's {threads} threads")
    return cast(as_expr(identifier), INT32), const(present, INT32)


def _mask(op: str, mask: Any) -> Expr:
    refuse_placeholder(mask)
    lanes = known(mask)
    if isinstance(lanes, int) and not isinstance(lanes, bool):
        if 0 < lanes <= _FULL or lanes == -1:
            return const(lanes & _FULL, UINT32)
        raise _option(op, "mask", mask, "32 bits, not all of them 0")
    value = as_expr(lanes)
    if value.dtype.is_int and value.dtype.lanes == 1:
        return cast(value, UINT32)
    raise _option(op, "mask", mask, "an integer of 32 bits")


def _size(op: str, label: str, value: Any, default: int) -> int:
    size = default if value is None else known(value)
    if isinstance(size, IntImm) or not isinstance(size, int) or isinstance(size, bool) or size < 1:
        raise _option(op, label, value, "a positive integer that is known while the kernel is traced")
    if label == "warp_size":
        _require_warp_size(op, size)
    return size


def _require_warp_size(op: str, size: Any) -> None:
    if known(size) != _WARP:
        raise _option(op, "warp_size", size, "32, the lanes of a warp on every target there is")


def _option(op: str, label: str, value: Any, allowed: str) -> CompileError:
    return CompileError(
        "E-WARP-OPTION",
        f"{op} does not take {label}={value!r}",
        facts=[f"allowed: {allowed}"],
        help=f"correct {label}, or leave it out",
    )
