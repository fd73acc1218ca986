"""LegalizeSafeMemoryAccess: an access to a global tensor that may fall outside it is guarded.

Needs PIPED, leaves the form as it is. A load outside the tensor gives the tensor's safe value (0 unless a Block
annotation ``safe_value`` names another), a store outside is dropped. What the prover shows to be inside stays as it
is, so a kernel whose tiles divide its tensors has no guard. On-chip accesses are the checks' business
(VerifyRegions), not this pass's.

Runs after layouts are applied and before TightenLoopBounds, which turns guards into loop bounds.
"""

from __future__ import annotations

from typing import Any

from ..arith import Prover
from ..ir import (
    AccessPtr,
    Bind,
    Block,
    Buffer,
    BufferLoad,
    BufferStore,
    Call,
    Evaluate,
    Expr,
    If,
    IntImm,
    OperandEffect,
    PrimFunc,
    Ramp,
    Select,
    Stmt,
    binary,
    cast,
    const,
    find_intrinsic,
    walk,
)
from .base import Pass, PassContext, register_pass
from .options import declare_option
from .scoped import ScopedRewriter

__all__ = ["LegalizeSafeMemoryAccess"]

declare_option(
    "tl.disable_safe_memory_legalize", False, bool, "leaves accesses to global tensors unguarded; True or False"
)


@register_pass(
    "LegalizeSafeMemoryAccess", needs="PIPED..THREAD", leaves="same", options=("tl.disable_safe_memory_legalize",)
)
class LegalizeSafeMemoryAccess(Pass):
    def function(self, function: PrimFunc, context: PassContext) -> PrimFunc:
        if context.options["tl.disable_safe_memory_legalize"]:
            return function
        # Divisibility facts (T.assume) need the solver; without them intervals decide as much as it would.
        prover = Prover(solver=False)
        return _Guard(prover).rewrite(function)


class _Guard(ScopedRewriter):
    def __init__(self, prover: Prover) -> None:
        super().__init__(prover)
        self.safe_values: dict[Buffer, Expr] = {}

    def rewrite_Block(self, node: Block) -> Stmt:
        self.safe_values.update(node.annotation("safe_value", ()))
        return self.rewrite_children(node)

    def rewrite_BufferStore(self, node: BufferStore) -> Stmt:
        if all(i.dtype.lanes == 1 for i in node.indices):
            return self._guarded(node, self._unproven(node.buffer, node.indices))
        new = self.rewrite_children(node)
        guard = _all(self._unproven(node.buffer, node.indices))
        return new if guard is None else new.with_(predicate=_both(new.predicate, guard, _lanes(node.indices)))

    def rewrite_Evaluate(self, node: Evaluate) -> Stmt:
        """An intrinsic that works on one element of a global tensor (an atomic update) is dropped outside of it. An
        asynchronous copy has a predicate of its own, as what it does not read it must fill with zeros."""
        if isinstance(node.value, Call) and any(
            isinstance(e, OperandEffect) and e.completion.kind != "sync" for e in find_intrinsic(node.value.op).effects
        ):
            return self.rewrite_children(node)
        guards: list[Expr] = []
        for item in walk(node.value):
            if isinstance(item, AccessPtr) and _is_element(item):
                guards += self._unproven(item.buffer, item.indices)
        return self._guarded(node, guards)

    def rewrite_Bind(self, node: Bind) -> Stmt:
        """An update of one element that gives the value before: outside of the tensor that is the safe value."""
        value = node.value
        pointers = [a for a in value.args if isinstance(a, AccessPtr)] if isinstance(value, Call) else []
        if not pointers or find_intrinsic(value.op).pure:  # type: ignore[attr-defined]
            return self.rewrite_children(node)
        guards = [g for p in pointers if _is_element(p) for g in self._unproven(p.buffer, p.indices)]
        guard = _all(guards)
        with self.scope(*(self.prover.assume(g) for g in guards)):
            new = self.rewrite(value)
        if guard is None:
            return node if new is value else node.with_(value=new)
        safe = self.safe_values.get(pointers[0].buffer)
        other = const(0, value.dtype) if safe is None else cast(safe, value.dtype)
        return node.with_(value=Select(guard, new, other, True, span=node.span))

    def rewrite_BufferLoad(self, node: BufferLoad) -> Expr:
        new = self.rewrite_children(node)
        guard = _all(self._unproven(node.buffer, node.indices))
        if guard is None:
            return new
        if _lanes(node.indices) > 1:
            return new.with_(predicate=_both(new.predicate, guard, _lanes(node.indices)))
        safe = self.safe_values.get(node.buffer)
        other = const(0, node.dtype) if safe is None else cast(safe, node.dtype)
        return Select(guard, new, other, True, span=node.span)

    def _guarded(self, node: Any, guards: list[Expr]) -> Stmt:
        guard = _all(guards)
        if guard is None:
            return self.rewrite_children(node)
        with self.scope(*(self.prover.assume(g) for g in guards)):
            inner = self.rewrite_children(node)
        return If(guard, inner, span=node.span)

    def _unproven(self, buffer: Buffer, indices: tuple[Expr, ...]) -> list[Expr]:
        """The conditions for `indices` to be inside `buffer` that are not known to hold."""
        if buffer.memory.level != "device":
            return []
        found: list[Expr] = []
        for index, extent in zip(indices, buffer.shape):
            low, high = (index, index) if not isinstance(index, Ramp) else _ends(index)
            lanes = index.dtype.lanes
            for condition, known in (
                (binary("ge", index, const(0, index.dtype)), binary("ge", low, const(0, low.dtype.scalar))),
                (binary("lt", index, extent if lanes == 1 else cast(extent, index.dtype)), binary("lt", high, extent)),
            ):
                decided = known if known.dtype.lanes == 1 else condition
                if not (isinstance(decided, IntImm) and decided.value) and not self.prover.proves(decided):
                    found.append(condition)
        return found


def _is_element(pointer: AccessPtr) -> bool:
    return isinstance(pointer.extent, IntImm) and pointer.extent.value == 1


def _ends(index: Ramp) -> tuple[Expr, Expr]:
    last = binary("add", index.base, binary("mul", index.stride, index.lanes - 1))
    falling = isinstance(index.stride, IntImm) and index.stride.value < 0
    return (last, index.base) if falling else (index.base, last)


def _all(conditions: list[Expr]) -> Expr | None:
    result: Expr | None = None
    for condition in conditions:
        result = condition if result is None else binary("and", result, condition)
    return result


def _both(first: Expr | None, second: Expr, lanes: int) -> Expr:
    if second.dtype.lanes == 1 and lanes > 1:
        second = cast(second, second.dtype.with_lanes(lanes))
    return second if first is None else binary("and", first, second)


def _lanes(indices: tuple[Expr, ...]) -> int:
    return max(i.dtype.lanes for i in indices)
