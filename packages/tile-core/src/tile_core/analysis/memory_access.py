"""What statements of a thread touch in block-shared memory, as byte ranges: the facts that ThreadSync compares.

An access is made once by every thread that reaches it; `low` and `high` are byte positions in its arena as functions of
thread and loop variables. `age` follows asynchronous accesses: None before their group is committed, then the number of
groups committed after it; a wait that leaves n groups unfinished completes those of age n and more.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from ..dtypes import DType
from ..ir import (
    AccessPtr,
    Buffer,
    BufferLoad,
    BufferStore,
    Call,
    Expr,
    IntImm,
    Ramp,
    Stmt,
    binary,
    cast,
    const,
    find_intrinsic,
    substitute,
    walk,
)
from ..ir.effects import CommitGroup, OperandEffect, Rendezvous, WaitGroup
from ..source import Span
from .access import root_buffer

__all__ = ["SharedAccess", "Step", "shared_steps"]


@dataclass(frozen=True)
class SharedAccess:
    """One access to shared memory.

    Args:
        root, buffer: the arena (or buffer with storage of its own), and the view that was named.
        kind: read, write or accumulate.
        low, high: first byte, and the one after the last.
        conditions: what holds where it stands.
        atomic: indivisible; two of them do not race.
        queue: of asynchronous ones, until they are known to be complete.
        moved_from: the loop of whose previous iteration the access is.
    """

    root: Buffer
    buffer: Buffer
    kind: str
    low: Expr
    high: Expr
    span: Span | None
    conditions: tuple[Expr, ...] = ()
    atomic: bool = False
    queue: str | None = None
    age: int | None = None
    moved_from: Any = None

    @property
    def writes(self) -> bool:
        return self.kind != "read"

    def where(self, condition: Expr) -> SharedAccess:
        """The same access under a further condition."""
        return replace(self, conditions=(*self.conditions, condition))

    def moved(self, values: dict[Any, Expr]) -> SharedAccess:
        """The same access with variables replaced, such as a loop's variable by that of an earlier iteration."""
        return replace(
            self,
            low=substitute(self.low, values),
            high=substitute(self.high, values),
            conditions=tuple(substitute(c, values) for c in self.conditions),
        )

    def committed(self, queue: str) -> SharedAccess:
        """After a commit to `queue`."""
        if self.queue != queue:
            return self
        return replace(self, age=0 if self.age is None else min(self.age + 1, 64))

    def waited(self, queue: str, pending: int) -> SharedAccess:
        """After a wait on `queue` that leaves `pending` groups unfinished."""
        if self.queue == queue and self.age is not None and self.age >= pending:
            return replace(self, queue=None, age=None)
        return self


# What one statement does, in order: an access, or an effect (CommitGroup, WaitGroup with a number, Rendezvous).
Step = Any


def shared_steps(stmt: Stmt) -> list[Step]:
    """The accesses to shared memory and the synchronising effects of a statement's own expressions, in order."""
    found: list[Step] = []
    for child in stmt.child_nodes():
        if isinstance(child, Expr):
            found += _expression(child, stmt.span)
    if isinstance(stmt, BufferStore) and _is_shared(stmt.buffer):
        found.append(_element(stmt, "write", stmt.span))
    return found


def _expression(expr: Expr, span: Span | None) -> list[Step]:
    found: list[Step] = []
    declared: dict[int, OperandEffect | str] = {}
    calls = [node for node in walk(expr) if isinstance(node, Call)]
    for call in calls:
        atomic = "atomic" in call.op
        effects = {e.argument: e for e in find_intrinsic(call.op).effects if isinstance(e, OperandEffect)}
        for position, argument in enumerate(call.args):
            if isinstance(argument, AccessPtr):
                declared[id(argument)] = "atomic" if atomic else effects.get(position, "plain")
    for node in walk(expr):
        if isinstance(node, BufferLoad) and _is_shared(node.buffer):
            found.append(_element(node, "read", node.span or span))
        elif isinstance(node, AccessPtr) and _is_shared(node.buffer):
            found += _pointer(node, declared.get(id(node), "plain"), node.span or span)
    for call in calls:
        for effect in find_intrinsic(call.op).effects:
            if isinstance(effect, (CommitGroup, Rendezvous)):
                found.append(effect)
            elif isinstance(effect, WaitGroup):
                pending = call.args[effect.pending] if effect.pending is not None else const(0, "int32")
                # A number that is not known when compiling may be 0 groups waited for: the careful reading is "many".
                found.append((effect.queue, pending.value if isinstance(pending, IntImm) else 1 << 30))
    return found


def _is_shared(buffer: Buffer) -> bool:
    return buffer.memory.level == "block" and buffer.memory.addressable and buffer.scope != "barrier"


def _pointer(node: AccessPtr, effect: Any, span: Span | None) -> list[SharedAccess]:
    low, high = _range(node.buffer, node.indices[0], node.extent)
    root = root_buffer(node.buffer)
    if effect == "atomic":
        return [SharedAccess(root, node.buffer, "accumulate", low, high, span, atomic=True)]
    if isinstance(effect, OperandEffect):
        queue = effect.completion.queue if effect.completion.kind == "group" else None
        return [SharedAccess(root, node.buffer, effect.kind, low, high, span, queue=queue)]
    kinds = [kind for mode, kind in (("r", "read"), ("w", "write")) if mode in node.mode]
    return [SharedAccess(root, node.buffer, kind, low, high, span) for kind in kinds]


def _element(node: BufferLoad | BufferStore, kind: str, span: Span | None) -> SharedAccess:
    index = node.indices[0]
    if isinstance(index, Ramp) and isinstance(index.stride, IntImm) and index.stride.value > 0:
        base, count = index.base, const((index.lanes - 1) * index.stride.value + 1, "int32")
    elif index.dtype.lanes > 1:
        base, count = const(0, "int32"), node.buffer.shape[0]
    else:
        base, count = index, const(1, "int32")
    low, high = _range(node.buffer, base, count)
    return SharedAccess(root_buffer(node.buffer), node.buffer, kind, low, high, span)


def _range(buffer: Buffer, index: Expr, count: Expr) -> tuple[Expr, Expr]:
    first = cast(index, "int32")
    low, high = _bytes(first, buffer.dtype), _bytes(binary("add", first, cast(count, "int32")), buffer.dtype, up=True)
    while buffer.data is not None:
        if buffer.offset is not None:
            moved = _bytes(cast(buffer.offset, "int32"), buffer.data.dtype)
            low, high = binary("add", moved, low), binary("add", moved, high)
        buffer = buffer.data
    return low, high


def _bytes(count: Expr, dtype: DType, up: bool = False) -> Expr:
    """Bytes that `count` elements take; of four-bit ones those begun, or those ended."""
    if dtype.storage_bits >= 8:
        return binary("mul", count, dtype.bytes)
    per_byte = 8 // dtype.storage_bits
    return binary("floordiv", binary("add", count, per_byte - 1) if up else count, per_byte)
