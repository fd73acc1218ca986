"""DeviceSync: the threads of a block meet between a statement that writes a tensor in device memory and one that reads
it again, or writes it anew.

Needs FLAT, leaves FLAT; stands before ThreadSync. Statements of a block happen in order, but each is carried out by all
threads, and what one thread has written another may read. Only tensors that a kernel both writes and touches again
matter, which are few, so no ranges are compared: a tensor is one thing. Kernels with code for single threads place
their meetings themselves (launch annotation ``thread_code``), as do branches that threads may take differently.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ..analysis import root_buffer
from ..ir import (
    AccessPtr,
    Attr,
    Bind,
    Block,
    Buffer,
    BufferLoad,
    BufferStore,
    Call,
    For,
    If,
    KernelLaunch,
    PrimFunc,
    Rewriter,
    Seq,
    Stmt,
    Var,
    While,
    find_intrinsic,
    seq,
    walk,
)
from ..ir.effects import Rendezvous
from .base import Pass, PassContext, register_pass

__all__ = ["DeviceSync"]


@register_pass("DeviceSync", needs="FLAT", leaves="same", options=("tl.disable_thread_storage_sync",))
class DeviceSync(Pass):
    """Args: block: a meeting of all threads of the block."""

    def __init__(self, block: Callable[[], Stmt]) -> None:
        self.block = block

    def function(self, function: PrimFunc, context: PassContext) -> PrimFunc:
        if context.options["tl.disable_thread_storage_sync"]:
            return function
        return _Launches(self.block).rewrite(function)


class _Launches(Rewriter):
    def __init__(self, block: Callable[[], Stmt]) -> None:
        super().__init__()
        self.block = block

    def rewrite_KernelLaunch(self, node: KernelLaunch) -> Stmt:
        found = _accesses(node.body)
        again = _written_again(node.body)
        shared = {b for b in found.written | found.updated if b in found.read or b in again}
        if node.annotation("thread_code", True) or not shared:
            return node
        body, _ = _Walk(self.block, node, shared, again).statement(node.body, _State())
        return node.with_(body=body)


@dataclass
class _State:
    """What was done to tensors since the threads met: plain reads and writes, and indivisible updates."""

    read: set[Buffer] = field(default_factory=set)
    written: set[Buffer] = field(default_factory=set)
    updated: set[Buffer] = field(default_factory=set)

    def joined(self, other: _State) -> _State:
        """Either state."""
        return _State(self.read | other.read, self.written | other.written, self.updated | other.updated)

    def conflicts(self, later: _State, again: set[Buffer]) -> bool:
        """Whether something done later must see, or must not disturb, what was done before; `again`: the tensors of
        which a place may be written twice."""
        before = self.written | self.updated
        replaced = later.written & (self.read | self.updated | (self.written & again))
        return bool(later.read & before or replaced or later.updated & (self.written | self.read))


class _Walk:
    def __init__(
        self, block: Callable[[], Stmt], launch: KernelLaunch, tensors: set[Buffer], again: set[Buffer]
    ) -> None:
        self.block = block
        self.tensors = tensors
        self.again = again
        self.varying = set(launch.thread_vars)
        for node in walk(launch.body):
            sources: tuple[Any, ...] = ()
            if isinstance(node, Bind):
                sources = (node.value,)
            elif isinstance(node, For):
                sources = (node.min, node.extent)
            if not all(self.uniform(e) for e in sources):
                self.varying.add(node.var)

    def statement(self, node: Stmt, state: _State) -> tuple[Stmt, _State]:
        """The statement with meetings in it, and the state after it."""
        if isinstance(node, Seq):
            out: list[Stmt] = []
            for stmt in node.stmts:
                new, state = self.statement(stmt, state)
                out.append(new)
            return seq(*out, span=node.span), state
        if isinstance(node, Block) or (isinstance(node, Attr) and node.key != "independent"):
            body, state = self.statement(node.body, state)
            return node.with_(body=body), state
        if isinstance(node, For) and self.uniform(node.min) and self.uniform(node.extent):
            return self._loop(node, state)
        if isinstance(node, While) and self.uniform(node.condition):
            return self._loop(node, state)
        if isinstance(node, If) and self.uniform(node.condition):
            return self._branch(node, state)
        return self._unit(node, state)

    def _loop(self, node: Any, state: _State) -> tuple[Stmt, _State]:
        _, after = self.statement(node.body, state)
        body, after = self.statement(node.body, state.joined(after))
        return node.with_(body=body), state.joined(after)

    def _branch(self, node: If, state: _State) -> tuple[Stmt, _State]:
        then, taken = self.statement(node.then_body, state)
        if node.else_body is None:
            return node.with_(then_body=then), state.joined(taken)
        other, skipped = self.statement(node.else_body, state)
        return node.with_(then_body=then, else_body=other), taken.joined(skipped)

    def _unit(self, node: Stmt, state: _State) -> tuple[Stmt, _State]:
        found = _accesses(node, self.tensors)
        if state.conflicts(found, self.again):
            return seq(self.block().with_(span=node.span), node), found
        return node, found if any(_meets(n) for n in walk(node)) else state.joined(found)

    def uniform(self, expr: Any) -> bool:
        """Whether all threads of a block compute the same value."""
        for item in walk(expr):
            if isinstance(item, Var) and item in self.varying:
                return False
            if isinstance(item, BufferLoad) and item.buffer.memory.level == "thread":
                return False
        return True


def _meets(node: Any) -> bool:
    return isinstance(node, Call) and any(
        isinstance(e, Rendezvous) and e.unit == "block" and e.waits for e in find_intrinsic(node.op).effects
    )


def _accesses(stmt: Stmt, tensors: set[Buffer] | None = None) -> _State:
    """What a statement does to device memory (to `tensors` where given)."""
    found = _State()
    atomic: set[int] = set()

    def note(group: set[Buffer], buffer: Buffer) -> None:
        root = root_buffer(buffer)
        if root.memory.level != "device" or (tensors is not None and root not in tensors):
            return
        group.add(root)

    for node in walk(stmt):
        if isinstance(node, Call) and "atomic_" in node.op:
            atomic.update(id(a) for a in node.args if isinstance(a, AccessPtr))
        elif isinstance(node, BufferLoad):
            note(found.read, node.buffer)
        elif isinstance(node, BufferStore):
            note(found.written, node.buffer)
        elif isinstance(node, AccessPtr):
            if id(node) in atomic:
                note(found.updated, node.buffer)
                continue
            if "r" in node.mode:
                note(found.read, node.buffer)
            if "w" in node.mode:
                note(found.written, node.buffer)
    return found


def _written_again(body: Stmt) -> set[Buffer]:
    """The tensors that statements of different places in the source store to. Iterations of one statement, which
    passes may have written out, store to places of their own."""
    spans: dict[Buffer, set[Any]] = {}
    for node in walk(body):
        if isinstance(node, BufferStore):
            span = node.span
            where = id(node) if span is None else (span.source, span.line, span.column)
            spans.setdefault(root_buffer(node.buffer), set()).add(where)
    return {buffer for buffer, places in spans.items() if len(places) > 1}
