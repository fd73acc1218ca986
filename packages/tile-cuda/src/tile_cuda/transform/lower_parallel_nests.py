"""LowerParallelNests: each thread runs its own iterations of parallel loops; register tiles become its registers.

Needs PIPED with tile ops lowered and the layouts of memory applied, leaves THREAD: from here on every statement is
what one thread does. A nest becomes a loop over
the thread's turns; the iteration's indices are computed from thread and turn (`layouts.Places`). A tile whose element
lies in another thread than the one that needs it goes through shared memory: it is written there before the nest, or
read back after. Copies of an element that several threads hold compute the same; of what they store to memory that
all see, the first copy's store is made.

Stores outside of parallel loops that do not depend on the thread are made by the block's first thread, unless the
kernel has code for single threads.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from tile_core.analysis import root_buffer
from tile_core.arith import Prover
from tile_core.errors import CompileError, declare_codes
from tile_core.ir import (
    AccessPtr,
    Attr,
    Bind,
    Block,
    Buffer,
    BufferLoad,
    BufferStore,
    Call,
    Evaluate,
    Expr,
    For,
    If,
    IntImm,
    KernelLaunch,
    Let,
    PrimFunc,
    Rewriter,
    Seq,
    Stmt,
    StringImm,
    Var,
    While,
    as_expr,
    as_shape,
    binary,
    cast,
    const,
    seq,
    walk,
)
from tile_core.layout import Fragment, row_major
from tile_core.layout.invert import digit_sums
from tile_core.transform import Pass, PassContext, register_pass
from tile_core.transform.narrow_executors import executors_condition
from tile_core.transform.scoped import ScopedRewriter, is_index

from ..device.intrinsics import sync_threads
from ..layouts import Places, digit_expression
from .bind_threads import eviction, independent, thread_index
from .nests import Access, Nest, elements, held_by, is_register_tile, place_nest

__all__ = ["LowerParallelNests"]

declare_codes(
    {
        "E-ATOMIC-COPIES": "the previous value of an atomic update that several threads would make",
        "E-FRAGMENT-THREAD": "an element of a register tile is used where not every thread has it",
    }
)

_UNROLLED = 8  # turns without registers that are still written out


@register_pass("LowerParallelNests", needs="PIPED", leaves="THREAD")
class LowerParallelNests(Pass):
    def function(self, function: PrimFunc, context: PassContext) -> PrimFunc:
        return _Lower().rewrite(function)


class _Lower(ScopedRewriter):
    def __init__(self) -> None:
        super().__init__(Prover(solver=False))
        self.fragments: dict[Buffer, Fragment] = {}
        self.registers: dict[Buffer, Buffer] = {}
        self.places: dict[Fragment, Places] = {}
        self.launch: KernelLaunch | None = None
        self.thread: Expr = as_expr(0)
        self.threads = 1
        self.variables: set[Var] = set()
        self.first_only = False
        self.results: list[Buffer] = []

    # Statements of the block

    def rewrite_KernelLaunch(self, node: KernelLaunch) -> Stmt:
        self.launch = node
        self.thread = thread_index(node)
        self.threads = prod(e.value for e in node.threads if isinstance(e, IntImm))
        self.variables = set(node.thread_vars)
        self.first_only = not node.annotation("thread_code", True)
        self.results = []
        new = super().rewrite_KernelLaunch(node)
        if not self.results or not isinstance(new, KernelLaunch):
            return new
        laid = tuple((b, row_major((1,))) for b in self.results)
        return new.with_(body=Block(tuple(self.results), new.body, (("layouts", laid),), span=node.span))

    def rewrite_Attr(self, node: Attr) -> Stmt | None:
        if node.key != "executors" or self.launch is None:
            return super().rewrite_Attr(node)
        first, count, index = node.subject
        state = self.thread, self.threads, self.variables
        self.thread, self.threads, self.variables = index, count, {*self.variables, index}
        body: Stmt | None = self.body(node.body)
        self.thread, self.threads, self.variables = state
        for condition in reversed(executors_condition(self.launch, first, count)):
            body = If(condition, seq(body), span=node.span)
        return body

    def rewrite_Block(self, node: Block) -> Stmt:
        pairs = node.annotation("layouts", ())
        for buffer, layout in pairs:
            if is_register_tile(buffer):
                self.fragments[buffer] = layout
                if buffer.data is not None:
                    # Another shape of a tile shows the same registers.
                    self.registers[buffer] = self.registers[root_buffer(buffer)]
                    continue
                self.registers[buffer] = Buffer(
                    buffer.name, as_shape((layout.regs,)), buffer.dtype, "local", span=buffer.span
                )
        body = self.body(node.body)
        allocations = tuple(self.registers.get(b, b) for b in node.allocations)
        kept = tuple(pair for pair in pairs if pair[0] not in self.registers)
        others = tuple(pair for pair in node.annotations if pair[0] != "layouts")
        annotations = (*others, ("layouts", kept)) if kept else others
        return node.with_(allocations=allocations, body=body, annotations=annotations)

    def rewrite_For(self, node: For) -> Stmt | None:
        if node.kind == "parallel":
            wanted = eviction(node.annotations)
            nest = self.nest(node)
            return nest if wanted is None else Attr("eviction", wanted, None, nest, span=node.span)
        return self.divergent((node.min, node.extent), lambda: super(_Lower, self).rewrite_For(node))

    def rewrite_If(self, node: If) -> Stmt | None:
        return self.divergent((node.condition,), lambda: super(_Lower, self).rewrite_If(node))

    def rewrite_While(self, node: While) -> Stmt:
        return self.divergent((node.condition,), lambda: super(_Lower, self).rewrite_While(node))

    def divergent(self, controls: tuple[Expr, ...], build: Callable[[], Any]) -> Any:
        """Under a condition on the thread, a store is that thread's."""
        outer = self.first_only
        self.first_only = outer and not any(self.by_thread(c) for c in controls)
        try:
            return build()
        finally:
            self.first_only = outer

    def by_thread(self, node: Any) -> bool:
        """Whether something mentions a thread index."""
        return any(isinstance(n, Var) and n in self.variables for n in walk(node))

    def rewrite_BufferStore(self, node: BufferStore) -> Stmt:
        new = self.element(node)
        seen_by_all = node.buffer.memory.level != "thread" and not is_register_tile(node.buffer)
        return self.once(node, new) if seen_by_all else new

    def rewrite_Evaluate(self, node: Evaluate) -> Stmt:
        new = self.rewrite_children(node)
        thread = dict(node.value.annotations).get("thread") if isinstance(node.value, Call) else None
        if thread is not None:
            return If(binary("eq", self.thread, const(thread, "int32")), new, span=node.span)
        return seq(*self.released(node), self.once(node, new)) if is_atomic(node) else new

    def released(self, node: Any) -> list[Stmt]:
        """A release by the block's first thread comes after what all of its threads did before."""
        order = node.value.args[-1]
        releases = isinstance(order, StringImm) and order.value in ("release", "acq_rel", "seq_cst")
        if not releases or not self.first_only or self.threads == 1 or node.value.op == "atomic_load":
            return []
        return [sync_threads(node.span)]

    def rewrite_Bind(self, node: Bind) -> Stmt:
        """What the block's first thread gets from an atomic access, all of its threads know."""
        new = self.rewrite_children(node)
        if not is_atomic(node) or not self.first_only or self.threads == 1 or self.by_thread(node):
            return new
        zero = const(0, "int32")
        result = Buffer(f"{node.var.name}_of_block", as_shape((1,)), node.var.dtype, "shared", span=node.span)
        self.results.append(result)
        store = BufferStore(result, new.value, (zero,), span=node.span)
        first = If(binary("eq", self.thread, zero), store, span=node.span)
        return seq(*self.released(node), first, Bind(node.var, BufferLoad(result, (zero,)), span=node.span))

    def once(self, old: Stmt, new: Stmt) -> Stmt:
        """A statement of the block, made by its first thread."""
        if not self.first_only or self.threads == 1 or self.by_thread(old):
            return new
        return If(binary("eq", self.thread, const(0, "int32")), new, span=old.span)

    def rewrite_BufferLoad(self, node: BufferLoad) -> Expr:
        return self.element(node)

    def rewrite_AccessPtr(self, node: AccessPtr) -> Expr:
        return self.element(node)

    def element(self, node: Any) -> Any:
        """An access outside of parallel loops: to one's own registers, which a view shows as they are."""
        new = node.map_children(self.rewrite)
        root = node.buffer.data
        if root is not None and root in self.registers and node.buffer not in self.fragments:
            return new.with_(buffer=self.registers[root])
        fragment = self.fragments.get(node.buffer)
        if fragment is None:
            return new
        if not isinstance(node, AccessPtr) and not fragment.replicated_everywhere:
            raise CompileError(
                "E-FRAGMENT-THREAD",
                f"an element of {node.buffer.name} is used where not every thread has it",
                span=node.span,
                facts=[f"{node.buffer.name}: {fragment!r}"],
                help="use it inside T.Parallel, or T.copy the tile to shared memory first",
            )
        register = self.prover.simplify(fragment.register(new.indices))
        return new.with_(buffer=self.registers[node.buffer], indices=(register,))

    # Nests

    def nest(self, loop: For, place: Fragment | None = None) -> Stmt:
        """A nest as what each thread does; `place` says where its iterations run, otherwise that is chosen."""
        nest = Nest(loop)
        if _on_own_memory(nest.body):
            # Every thread has these arrays for itself, so every thread runs all iterations.
            serial = _Serial().rewrite(loop)
            return super().rewrite_For(serial) or Seq(())  # type: ignore[arg-type]
        if nest.extents is None:
            return self.counted(nest)
        if 0 in nest.extents:
            return Seq(())
        if place is None:
            place = place_nest(nest, self.fragments, self.threads)
        moved = [a for a in nest.accesses if not held_by(nest, place, a, self.fragments[a.buffer])]
        if not moved:
            return self.turns(nest, place, {})
        return self.exchanged(nest, place, moved)

    def exchanged(self, nest: Nest, place: Fragment, moved: list[Access]) -> Stmt:
        """A nest with tiles that go through shared memory on the way in or out."""
        tiles = list(dict.fromkeys(a.buffer for a in moved))
        scratch = {b: Buffer(f"{b.name}_exchange", b.shape, b.dtype, "shared", span=nest.loops[0].span) for b in tiles}
        out, back = [], []
        for tile in tiles:
            accesses = [a for a in nest.accesses if a.buffer is tile]
            fragment = self.fragments[tile]
            covered = any(a.writes and a.axes is not None and not nest.missing(a) for a in accesses)
            if any(not a.writes for a in accesses) or not covered or not nest.writes_always:
                out.append(self.nest(_copy_nest(scratch[tile], tile), fragment))
            if any(a.writes for a in accesses):
                back.append(self.nest(_copy_nest(tile, scratch[tile]), fragment))
        body = seq(*out, self.turns(nest, place, scratch), *back)
        laid = tuple((b, row_major(b.static_shape() or ())) for b in scratch.values())
        return Block(tuple(scratch.values()), body, (("layouts", laid),), span=nest.loops[0].span)

    def turns(self, nest: Nest, place: Fragment, scratch: dict[Buffer, Buffer]) -> Stmt:
        """The loop over a thread's turns, neighbours along the last axis innermost."""
        places = self.places.setdefault(place, Places(place))
        in_memory = any(_in_memory(b) for b in _buffers(nest.body))
        width = place.vector_width(-1) if in_memory else 1
        vector = min(width & -width, 16)
        count = place.regs // vector
        name = nest.vars[-1].name
        turn, lane = Var(f"{name}_turn"), Var(f"{name}_lane")
        first: Expr = binary("mul", turn, vector) if count > 1 else const(0, "int32")
        register: Expr = binary("add", first, lane) if vector > 1 else first
        with self.scope(self.prover.bind(turn, 0, count), self.prover.bind(lane, 0, vector)):
            indices = [self.prover.simplify(i) for i in places.indices(self.thread, register)]
            values = {
                var: self.prover.simplify(binary("add", index, low)) if low else index
                for var, index, low in zip(nest.vars, indices, nest.starts)
            }
            only = places.first(self.thread, register)
            inside = _Inside(self, nest, place, places, register, values, scratch, only)
            body = inside.rewrite(nest.body)
            body = Seq(()) if body is None else body
            if vector > 1:
                kind = "vectorized" if _is_plain(nest.body) else "unroll"
                body = For(lane, const(0, "int32"), const(vector, "int32"), kind, body, span=nest.loops[0].span)
            valid = places.valid(self.thread, first)
            if valid is not None:
                valid = self.prover.simplify(valid)
                if not (isinstance(valid, IntImm) and valid.value):
                    body = If(valid, body, span=nest.loops[0].span)
        shared = any(n.buffer.scope == "shared" for n in walk(body) if isinstance(n, BufferStore))
        mark = independent if shared else lambda stmt: stmt
        if count == 1:
            return mark(body)
        indexed = any(b.memory.level == "thread" or is_register_tile(b) for b in _buffers(nest.body))
        kind = "unroll" if indexed or count <= _UNROLLED else "serial"
        return mark(For(turn, const(0, "int32"), const(count, "int32"), kind, body, span=nest.loops[0].span))

    def counted(self, nest: Nest) -> Stmt:
        """A nest with symbolic bounds: iterations in row-major order, thread after thread."""
        extents = [self.rewrite(item.extent) for item in nest.loops]
        total: Expr = extents[0]
        for extent in extents[1:]:
            total = binary("mul", total, extent)
        turn = Var(f"{nest.vars[-1].name}_turn", total.dtype)
        number = Var(f"{nest.vars[-1].name}_number", total.dtype)
        binds: list[Stmt] = [Bind(number, binary("add", binary("mul", turn, self.threads), self.thread))]
        inner: list[Stmt] = []
        rest: Expr = number
        for item, extent in reversed(list(zip(nest.loops, extents))):
            index = binary("floormod", rest, extent) if item is not nest.loops[0] else rest
            rest = binary("floordiv", rest, extent)
            if item.step is not None:
                index = binary("mul", index, self.rewrite(item.step))
            inner.append(Bind(item.var, cast(binary("add", index, self.rewrite(item.min)), item.var.dtype)))
        count = binary("floordiv", binary("add", total, self.threads - 1), self.threads)
        outer, self.first_only = self.first_only, False
        with self.scope(self.prover.bind(turn, 0, count)):
            body = self.body(_Serial().rewrite(nest.body))
        self.first_only = outer
        guarded = If(binary("lt", number, total), seq(*inner, body), span=nest.loops[0].span)
        span = nest.loops[0].span
        return independent(For(turn, const(0, total.dtype), count, "serial", seq(*binds, guarded), span=span))


class _Serial(Rewriter):
    """Parallel loops inside an iteration: one thread runs them in order."""

    def rewrite_For(self, node: For) -> Stmt:
        new = self.rewrite_children(node)
        return new.with_(kind="serial", annotations=()) if node.kind == "parallel" else new


class _Inside(Rewriter):
    """The body of a nest for one thread and turn."""

    def __init__(
        self,
        outer: _Lower,
        nest: Nest,
        place: Fragment,
        places: Places,
        register: Expr,
        values: dict[Var, Expr],
        scratch: dict[Buffer, Buffer],
        only: Expr | None,
    ) -> None:
        super().__init__()
        self.outer = outer
        self.nest = nest
        self.place = place
        self.places = places
        self.register = register
        self.vars.update(values)
        self.scratch = scratch
        self.only = only

    def rewrite_For(self, node: For) -> Stmt:
        # Inner variables must be fresh where a turn is written out more than once, and parallel loops inside an
        # iteration are one thread's.
        fresh = Var(node.var.name, node.var.dtype, span=node.var.span)
        low, extent = self.rewrite(node.min), self.rewrite(node.extent)
        self.vars[node.var] = fresh
        body = self.rewrite(node.body)
        kind = "serial" if node.kind == "parallel" else node.kind
        body = Seq(()) if body is None else body
        return node.with_(var=fresh, min=low, extent=extent, kind=kind, body=body)

    def rewrite_Bind(self, node: Bind) -> Stmt | None:
        """Indices are put where they are used: what lanes of a vector differ in must be seen."""
        value = self.rewrite(node.value)
        if is_index(value):
            self.vars[node.var] = value
            return None
        if is_atomic(node) and self.only is not None:
            raise CompileError(
                "E-ATOMIC-COPIES",
                f"{node.var.name} is the previous value of an element, but several threads hold this iteration",
                span=node.span,
                facts=["the register tiles of this T.Parallel lie in more than one thread"],
                help="make the update in a T.Parallel loop without such tiles, and keep its result in shared memory",
            )
        fresh = Var(node.var.name, node.var.dtype, span=node.var.span)
        self.vars[node.var] = fresh
        return node.with_(var=fresh, value=value)

    def rewrite_BufferLoad(self, node: BufferLoad) -> Expr:
        return self.access(node)

    def rewrite_AccessPtr(self, node: AccessPtr) -> Expr:
        return self.access(node)

    def rewrite_BufferStore(self, node: BufferStore) -> Stmt:
        new = self.access(node)
        return self.once(new) if new.buffer.memory.level != "thread" else new

    def rewrite_Evaluate(self, node: Evaluate) -> Stmt:
        new = self.rewrite_children(node)
        return self.once(new) if is_atomic(node) else new

    def once(self, stmt: Stmt) -> Stmt:
        """A store to memory that others see, by the first of the threads that hold the iteration."""
        return stmt if self.only is None else If(self.only, stmt, span=stmt.span)

    def access(self, node: Any) -> Any:
        root = node.buffer.data
        new = node.map_children(self.rewrite)
        if root is not None and root in self.outer.registers and node.buffer not in self.outer.fragments:
            return new.with_(buffer=self.outer.registers[root])
        if not is_register_tile(node.buffer):
            return new
        if node.buffer in self.scratch:
            return new.with_(buffer=self.scratch[node.buffer])
        return new.with_(buffer=self.outer.registers[node.buffer], indices=(self.slot(node, new.indices),))

    def slot(self, node: Any, indices: tuple[Expr, ...]) -> Expr:
        """The register of an element; without the thread in it wherever the tables allow, as registers have no
        addresses."""
        fragment = self.outer.fragments[node.buffer]
        access = self.nest._access(node)
        whole = access.axes is not None and not self.nest.missing(access)
        if whole and fragment is self.place:
            return self.register
        found = elements(self.nest, access)
        closed = None if found is None else self.closed(fragment, *found, indices)
        return closed if closed is not None else self.outer.prover.simplify(fragment.register(indices))

    def closed(self, fragment: Fragment, touched: Any, uniform: list[int], indices: tuple[Expr, ...]) -> Expr | None:
        """The register as digits of the turn and of the indices that all iterations share."""
        assert self.nest.extents is not None
        registers = fragment.tables()[1][..., 0].reshape(-1)[touched]
        registers = registers.reshape(prod(self.nest.extents), *registers.shape[len(self.nest.extents) :])
        runs = self.places.table >= 0
        by_slot = registers[np.where(runs, self.places.table, 0)]
        if not runs.any(axis=0).all():
            return None
        some = runs.argmax(axis=0)
        chosen = by_slot[some, np.arange(by_slot.shape[1])]
        same = (by_slot == chosen[None]) | ~runs.reshape(*runs.shape, *(1,) * len(uniform))
        if not same.all():
            return None
        base = int(chosen.flat[0])
        digits = digit_sums(np.asarray(chosen - base, dtype=np.int64))
        if digits is None:
            return None
        values = (self.register, *(indices[axis] for axis in uniform))
        return self.outer.prover.simplify(binary("add", digit_expression(digits, values), base))


def _copy_nest(target: Buffer, source: Buffer) -> For:
    """``target[i, …] = source[i, …]`` over whole tiles."""
    indices = tuple(Var(f"i{axis}") for axis in range(source.ndim))
    stmt: Stmt = BufferStore(target, BufferLoad(source, indices), indices)
    for var, extent in reversed(list(zip(indices, source.shape))):
        stmt = For(var, const(0, var.dtype), extent, "parallel", stmt)
    assert isinstance(stmt, For)
    return stmt


def _buffers(node: Any) -> list[Buffer]:
    return [n.buffer for n in walk(node) if isinstance(n, (BufferLoad, BufferStore, AccessPtr))]


def _on_own_memory(body: Stmt) -> bool:
    """Whether a body stores to nothing but arrays that each thread has for itself, and touches no register tile."""
    if any(is_register_tile(b) for b in _buffers(body)):
        return False
    stored = [n.buffer for n in walk(body) if isinstance(n, BufferStore)]
    stored += [n.buffer for n in walk(body) if isinstance(n, AccessPtr) and n.mode != "r"]
    return bool(stored) and all(b.memory.level == "thread" for b in stored)


def _in_memory(buffer: Buffer) -> bool:
    return buffer.memory.level != "thread" and not is_register_tile(buffer)


def _is_plain(body: Stmt) -> bool:
    """Whether a body only computes and stores, so that vectors of it may be formed."""
    return not any(isinstance(n, (For, While, Evaluate, Block, AccessPtr, Let)) for n in walk(body))


def is_atomic(stmt: Stmt) -> bool:
    """Whether a statement is a call that counts how often it is made: an indivisible access to memory, one that goes
    on, or a printed line."""
    return (
        isinstance(stmt, (Bind, Evaluate))
        and isinstance(stmt.value, Call)
        and ("atomic_" in stmt.value.op or stmt.value.op in ("async_copy", "device_print"))
    )
