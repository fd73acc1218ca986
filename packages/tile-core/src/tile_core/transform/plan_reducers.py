"""PlanReducers: where the partial results of reducers are kept.

Needs TILE, leaves TILE without reducers. Where each nest contributes once an iteration, to elements named by loop
variables in order, the contributions become a register tile that is reduced into the reducer's, a register tile too:
then no two threads touch one element. Anything else keeps the reducer in shared memory, updated atomically.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..dtypes import DType
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
    For,
    If,
    IntImm,
    PrimFunc,
    Rewriter,
    Seq,
    Stmt,
    StringImm,
    TileOpStmt,
    Var,
    cast,
    const,
    full_region,
    seq,
    walk,
)
from ..tileop import Reduce
from ..tileop.default_candidates import combined
from ..tileop.numerics import identity_value
from .base import Pass, PassContext, register_pass

__all__ = ["PlanReducers"]

_ATOMIC = {"sum": "add", "max": "max", "min": "min"}


@register_pass("PlanReducers", needs="TILE", leaves="TILE")
class PlanReducers(Pass):
    def function(self, function: PrimFunc, context: PassContext) -> PrimFunc:
        reducers = [
            b for n in walk(function.body) if isinstance(n, Block) for b in n.allocations if b.scope == "reducer"
        ]
        if not reducers:
            return function
        scattered = {c.args[0].buffer for c in _updates(function.body)} - _in_order(function.body)  # type: ignore[attr-defined]
        return _Plan({b: b.with_(scope="shared" if b in scattered else "fragment") for b in reducers}).rewrite(function)


def _updates(stmt: Stmt) -> list[Call]:
    return [n for n in walk(stmt) if isinstance(n, Call) and n.op == "reducer_update"]


def _in_order(body: Stmt) -> set[Buffer]:
    """The reducers all of whose updates stand in nests that contribute in order."""
    fitting: set[Buffer] = set()
    misfits: set[Buffer] = set()
    stack: list[Stmt] = [body]
    while stack:
        stmt = stack.pop()
        if isinstance(stmt, For) and stmt.kind == "parallel":
            nest = _nest(stmt)
            buffers = {c.args[0].buffer for c in _updates(stmt)}  # type: ignore[attr-defined]
            (fitting if nest is not None else misfits).update(buffers)
            continue
        stack += [c for c in stmt.child_nodes() if isinstance(c, Stmt)]
    return fitting - misfits


@dataclass
class _Nest:
    """A nest that contributes once an iteration: `kept` are the loops that the reducer's axes follow."""

    loops: list[For]
    body: Stmt
    update: Call
    kept: list[For]


def _nest(loop: For) -> _Nest | None:
    loops = [loop]
    while isinstance(loops[-1].body, For) and loops[-1].body.kind == "parallel":
        loops.append(loops[-1].body)
    body = loops[-1].body
    updates = _updates(body)
    plain = all(
        isinstance(item.min, IntImm) and item.min.value == 0 and isinstance(item.extent, IntImm) and item.step is None
        for item in loops
    )
    if len(updates) != 1 or not plain or not _once(body):
        return None
    pointer = updates[0].args[0]
    assert isinstance(pointer, AccessPtr)
    kept: list[For] = []
    rest = iter(loops)
    for index, extent in zip(pointer.indices, pointer.buffer.shape):
        if isinstance(index, IntImm) and isinstance(extent, IntImm) and extent.value == 1:
            continue
        found = next((item for item in rest if item.var is index), None)
        if found is None or found.extent.value != extent.value:  # type: ignore[attr-defined]
            return None
        kept.append(found)
    return _Nest(loops, body, updates[0], kept)


def _once(body: Stmt) -> bool:
    """Whether a body is names, stores and the update, perhaps under conditions."""
    if isinstance(body, Seq):
        return all(_once(s) for s in body.stmts)
    if isinstance(body, If):
        return _once(body.then_body) and (body.else_body is None or not _updates(body.else_body))
    return isinstance(body, (Bind, BufferStore)) or (isinstance(body, Evaluate) and isinstance(body.value, Call))


class _Plan(Rewriter):
    def __init__(self, places: dict[Buffer, Buffer]) -> None:
        super().__init__()
        self.places = places
        self.buffers = dict(places)

    def rewrite_For(self, node: For) -> Stmt | None:
        updates = _updates(node) if node.kind == "parallel" else []
        if not updates or self.places[updates[0].args[0].buffer].scope != "fragment":  # type: ignore[attr-defined]
            return self.rewrite_children(node)
        nest = _nest(node)
        assert nest is not None
        return self.contributed(nest)

    def rewrite_Evaluate(self, node: Evaluate) -> Stmt:
        new = self.rewrite_children(node)
        call = new.value
        if not isinstance(call, Call) or call.op != "reducer_update":
            return new
        pointer, value, kind = call.args
        assert isinstance(kind, StringImm)
        update = Call(
            f"atomic_{_ATOMIC[kind.value]}", (pointer, value, StringImm("relaxed")), call.dtype, span=call.span
        )
        return Evaluate(update, span=node.span)

    def contributed(self, nest: _Nest) -> Stmt:
        """The nest with contributions in registers, and their reduction into the reducer's tile."""
        pointer, _, kind_text = nest.update.args
        assert isinstance(pointer, AccessPtr) and isinstance(kind_text, StringImm)
        kind, span = kind_text.value, nest.update.span
        target = self.places[pointer.buffer]
        dtype = target.dtype
        if len(nest.kept) == len(nest.loops):
            return self.around(nest, _Direct(self, target, kind).rewrite(nest.body))
        wide = DType("float32") if dtype.is_float and dtype.bits < 32 else dtype
        shape = tuple(item.extent for item in nest.loops)
        values = Buffer(f"{target.name}_values", shape, wide, "fragment", span=span)
        body = _Keep(self, values, tuple(item.var for item in nest.loops)).rewrite(nest.body)
        if any(isinstance(n, If) and _updates(n) for n in walk(nest.body)):
            neutral = const(identity_value(kind, wide), wide)
            body = seq(BufferStore(values, neutral, tuple(item.var for item in nest.loops), span=span), body)
        steps: list[Stmt] = [self.around(nest, body)]
        buffers = [values]
        axes = [axis for axis, item in enumerate(nest.loops) if item not in nest.kept]
        source = values
        for number, axis in enumerate(reversed(axes)):
            last = number == len(axes) - 1
            extents = tuple(e for position, e in enumerate(source.shape) if position != axis)
            if last:
                into = full_region(target)
            else:
                partial = Buffer(f"{target.name}_partial", extents, wide, "fragment", span=span)
                buffers.append(partial)
                into = full_region(partial)
            steps.append(
                TileOpStmt(Reduce(full_region(source), into, kind, axis, clear=not last, span=span), span=span)
            )
            source = into.buffer
        return Block(tuple(buffers), seq(*steps), span=span)

    def around(self, nest: _Nest, body: Stmt | None) -> Stmt:
        """The nest's loops round another body."""
        stmt = Seq(()) if body is None else body
        for item in reversed(nest.loops):
            stmt = item.with_(body=stmt)
        return stmt


class _Keep(Rewriter):
    """The update as a store of the contribution."""

    def __init__(self, outer: _Plan, values: Buffer, indices: tuple[Var, ...]) -> None:
        super().__init__()
        self.outer = outer
        self.values = values
        self.indices = indices

    def rewrite_Evaluate(self, node: Evaluate) -> Stmt:
        if not (isinstance(node.value, Call) and node.value.op == "reducer_update"):
            return node
        value: Expr = node.value.args[1]
        return BufferStore(self.values, cast(value, self.values.dtype), self.indices, span=node.span)


class _Direct(Rewriter):
    """The update of an element that no other iteration contributes to."""

    def __init__(self, outer: _Plan, target: Buffer, kind: str) -> None:
        super().__init__()
        self.outer = outer
        self.target = target
        self.kind = kind

    def rewrite_Evaluate(self, node: Evaluate) -> Stmt:
        if not (isinstance(node.value, Call) and node.value.op == "reducer_update"):
            return node
        pointer, value, _ = node.value.args
        assert isinstance(pointer, AccessPtr)
        held = BufferLoad(self.target, pointer.indices, span=node.span)
        return BufferStore(self.target, combined(self.kind, held, value, False), pointer.indices, span=node.span)
