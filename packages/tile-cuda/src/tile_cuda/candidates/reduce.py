"""Reduce a register tile: each thread its own registers, then lanes of a warp, then warps through shared memory."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from tile_core.dtypes import DType
from tile_core.ir import (
    Bind,
    Buffer,
    BufferLoad,
    BufferStore,
    Expr,
    For,
    If,
    Stmt,
    Var,
    as_expr,
    binary,
    cast,
    const,
    is_zero,
    seq,
    substitute,
)
from tile_core.layout import Fragment
from tile_core.layout.invert import digit_sums
from tile_core.tileop import Candidate, Constraint, Declined, Facts, LowerContext, Ok, Reduce, identity_value
from tile_core.tileop.default_candidates import accumulator_dtype, combined

from ..device import intrinsics
from ..layouts import WARP, Places, digit_expression, in_rows, padded, reduced
from ..transform.bind_threads import independent, thread_index
from .nests import ThreadReduce, fragment_of

__all__ = ["ShuffleReduce"]

INT32 = DType("int32")


class ShuffleReduce(Candidate):
    """Between registers, by butterflies of shuffles within a warp; no thread works in vain.

    The owners of a row must be lanes whose numbers differ in certain bits, in any number of warps; where the tiles turn
    out to lie otherwise, the threads combine it through shared memory (`ThreadReduce`).
    """

    op = Reduce
    name = "shuffle"

    def legal(self, op: Reduce, facts: Facts) -> Ok | Declined:
        for region in (op.src, op.dst):
            buffer = region.buffer
            if buffer.scope != "fragment" or buffer.data is not None:
                return Declined(f"{buffer.name} is in {buffer.scope} memory, not in registers")
            if region.static_extents() != buffer.static_shape() or any(not is_zero(low) for low in region.mins):
                return Declined(f"only a part of {buffer.name} takes part")
        if not facts.threads:
            return Declined("the number of threads is not known")
        return Ok(prod(op.src.static_extents() or ()) / 128)

    def constraints(self, op: Reduce, facts: Facts) -> Iterable[Constraint]:
        source = fragment_of(facts, op.src.buffer)
        asked = source is not None
        if source is None:
            source = _free(op, facts)
            yield Constraint(op.src.buffer, source, "free")
        target = _result(op, source)
        if target is None:
            return
        if asked:
            yield Constraint(op.dst.buffer, target, "common")
        yield Constraint(op.dst.buffer, target, "free")

    def lower(self, op: Reduce, context: LowerContext) -> Stmt:
        source, target = context.layouts[op.src.buffer], context.layouts[op.dst.buffer]
        plan = _plan(op, source, target, context.facts.threads or 0)
        if plan is None:
            return ThreadReduce().lower(op, context)
        return _emit(op, plan, context)


@dataclass
class _Plan:
    """Which register of the result each register of the source goes to, over which bits of the lane results are
    combined, how many warps share a row, and as which of them a warp counts (digits of its number)."""

    source: Fragment
    target: Fragment
    slots: list[list[tuple[int, int, int]]]
    lanes: list[int]
    shares: int
    share: list[list[tuple[int, int, int]]]


def _result(op: Reduce, source: Fragment) -> Fragment | None:
    """The result's fragment, in the shape of its buffer."""
    axes, own = range(source.ndim), op.src.tile_axes()
    small = reduced(source, [own[op.axis]])
    shape = op.dst.buffer.static_shape() or ()
    if small is None or small.domain == shape:
        return small
    kept = [a for a in axes if a != own[op.axis] and source.domain[a] != 1]
    order = [a for a in axes if a != own[op.axis]]
    moving = [position for position, extent in enumerate(shape) if extent != 1]
    if len(moving) != len(kept):
        return None

    def forward(*given: Any) -> tuple[Any, Any]:
        index: list[Any] = [0] * small.ndim
        for position, axis in zip(moving, kept):
            index[order.index(axis)] = given[position]
        return small.place(index, given[-1])

    return Fragment(shape, small.threads, small.regs, small.replicas, forward)


def _plan(op: Reduce, source: Any, target: Any, threads: int) -> _Plan | None:
    if not isinstance(source, Fragment) or not isinstance(target, Fragment) or _result(op, source) != target:
        return None
    full, axis = source, op.src.tile_axes()[op.axis]
    here = Places(source).table
    if (here < 0).any() and axis == source.ndim - 1:
        # Registers behind the end of a row take no part.
        full = padded(source)
        here = here if full is None else Places(full).table
    if full is None or (here < 0).any() or here.shape[0] != threads or source.replicas != 1:
        return None
    rest = np.delete(np.stack(np.unravel_index(here, full.domain)), axis, axis=0)
    shape = tuple(e for a, e in enumerate(source.domain) if a != axis)
    rows = np.ravel_multi_index(tuple(rest), shape) if shape else np.zeros_like(here)
    # Unit axes aside both number rows in row-major order.
    slots = target.tables()[1][..., 0].reshape(-1)[rows]
    if not (slots == slots[:1]).all():
        return None
    digits = digit_sums(np.asarray(slots[0], dtype=np.int64))
    if digits is None:
        return None
    lanes = _lane_bits(rows)
    ranks = _warp_ranks(rows)
    if ranks is None:
        return None
    group, rank, shares = ranks
    share = digit_sums(rank)
    if share is None or target.replicas != shares << len(lanes):
        return None
    # Threads that differ elsewhere must hold other rows.
    mask = ~sum(lanes) & (WARP - 1)
    owners: dict[tuple[int, ...], tuple[int, int]] = {}
    for thread in range(threads):
        own = (int(group[thread // WARP]), thread & mask)
        if owners.setdefault(tuple(rows[thread]), own) != own:
            return None
    return _Plan(source, target, digits, lanes, shares, share)


def _lane_bits(rows: Any) -> list[int]:
    """The bits of the lane that make no difference for the rows that a thread holds."""
    threads = rows.shape[0]
    bits = []
    for bit in (1, 2, 4, 8, 16):
        partner = np.arange(threads) ^ bit
        if (partner < threads).all() and (rows[partner] == rows).all():
            bits.append(bit)
    return bits


def _warp_ranks(rows: Any) -> tuple[Any, Any, int] | None:
    """(number of the group of warps that hold the same rows, which of the group a warp is, how many each has), or None
    where groups differ in size."""
    count = -(-len(rows) // WARP)
    if count > 1 and len(rows) % WARP:
        return None
    groups: dict[bytes, list[int]] = {}
    for warp in range(count):
        groups.setdefault(rows[warp * WARP : (warp + 1) * WARP].tobytes(), []).append(warp)
    sizes = {len(g) for g in groups.values()}
    if len(sizes) != 1:
        return None
    group, rank = np.zeros(count, dtype=np.int64), np.zeros(count, dtype=np.int64)
    for number, warps in enumerate(groups.values()):
        for place, warp in enumerate(warps):
            group[warp], rank[warp] = number, place
    return group, rank, sizes.pop()


def _emit(op: Reduce, plan: _Plan, context: LowerContext) -> Stmt:
    wide = accumulator_dtype(op.dst.dtype)
    kind = {"abssum": "sum", "absmax": "max"}.get(op.kind, op.kind)
    facts = context.facts
    assert facts.launch is not None
    count = plan.target.regs
    partial = context.allocate(f"{op.dst.buffer.name}_partial", (count,), wide)
    source = _view(op.src.buffer, plan.source)
    target = _view(op.dst.buffer, plan.target)

    def join(held: Expr, value: Expr) -> Expr:
        return combined(kind, held, value, op.nan_propagate)

    slot, register = Var("slot"), Var("register")
    start = _loop(slot, count, BufferStore(partial, const(identity_value(op.kind, wide), wide), (slot,)))
    at = facts.prover.simplify(digit_expression(plan.slots, (register,)))
    element = cast(BufferLoad(source, (register,)), wide)
    own: Stmt = BufferStore(partial, combined(op.kind, BufferLoad(partial, (at,)), element, op.nan_propagate), (at,))
    held_there = Places(plan.source).valid(thread_index(facts.launch), register)
    if held_there is not None:
        own = If(facts.prover.simplify(held_there), own, span=op.span)
    parts: list[Stmt] = [start, _loop(register, plan.source.regs, own)]
    if plan.lanes:
        lane = Var("slot")
        held = BufferLoad(partial, (lane,))
        steps: list[Stmt] = []
        for mask in plan.lanes:
            # Bound, as a comparison names it twice and all lanes must make each call.
            other = Var("other", wide)
            steps.append(Bind(other, intrinsics.shuffle("shfl_xor", held, mask)))
            steps.append(BufferStore(partial, join(held, other), (lane,), span=op.span))
        parts.append(_loop(lane, count, seq(*steps)))
    if plan.shares > 1:
        parts += _across_warps(op, plan, context, partial, wide, join)
    last = Var("slot")
    value: Expr = BufferLoad(partial, (last,))
    if not op.clear:
        value = join(value, cast(BufferLoad(target, (last,)), wide))
    parts.append(_loop(last, count, BufferStore(target, cast(value, op.dst.dtype), (last,), span=op.span)))
    return seq(*parts, span=op.span)


def _across_warps(
    op: Reduce, plan: _Plan, context: LowerContext, partial: Buffer, wide: DType, join: Any
) -> list[Stmt]:
    """Each of the warps that share rows leaves its results in shared memory; all read them all."""
    launch = context.facts.launch
    assert launch is not None
    thread = thread_index(launch)
    size = prod(plan.target.domain)
    shares = plan.shares
    scratch = context.allocate(f"{op.dst.buffer.name}_warps", (shares, size), wide, "shared")
    share = context.facts.prover.simplify(digit_expression(plan.share, (binary("floordiv", thread, WARP),)))
    places = Places(plan.target)
    slot = Var("slot")
    row: Expr = const(0, INT32)
    for index, extent in zip(places.indices(thread, slot), plan.target.domain):
        row = binary("add", binary("mul", row, extent), index)
    row = context.facts.prover.simplify(row)
    leave: Stmt = BufferStore(scratch, BufferLoad(partial, (slot,)), (share, row), span=op.span)
    for bit in plan.lanes:
        leave = If(binary("eq", binary("floormod", binary("floordiv", thread, bit), 2), 0), leave, span=op.span)
    other, again = Var("share"), Var("slot")
    row_again = _renamed(row, slot, again)
    value = join(BufferLoad(partial, (again,)), BufferLoad(scratch, (other, row_again)))
    reads = For(
        other, const(0, INT32), const(shares, INT32), "serial", BufferStore(partial, value, (again,), span=op.span)
    )
    reset = BufferStore(partial, const(identity_value(op.kind, wide), wide), (again,))
    return [independent(_loop(slot, plan.target.regs, leave)), _loop(again, plan.target.regs, seq(reset, reads))]


def _free(op: Reduce, facts: Facts) -> Fragment:
    """A place for a source that nobody placed: rows over as many threads as make whole vectors."""
    shape = op.src.buffer.static_shape() or (1,)
    vector = max(1, 128 // op.src.dtype.bits)
    while vector > 1 and (shape[-1] % vector or prod(shape) < vector * (facts.threads or 1)):
        vector //= 2
    return in_rows(shape, facts.threads or 1, vector)


def _renamed(expr: Expr, old: Var, new: Var) -> Expr:
    return substitute(expr, {old: new})


def _view(buffer: Buffer, fragment: Fragment) -> Buffer:
    return Buffer(f"{buffer.name}_registers", (as_expr(fragment.regs),), buffer.dtype, "local", data=buffer)


def _loop(var: Var, count: int, body: Stmt) -> For:
    return For(var, const(0, INT32), const(count, INT32), "unroll", body, span=body.span)
