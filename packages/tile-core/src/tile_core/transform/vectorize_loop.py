"""VectorizeLoop: a loop of kind ``vectorized`` becomes statements on vectors, whole ones and a masked rest.

Needs FLAT, leaves FLAT. The loop's extent may be anything: ``n // W`` whole vectors of W lanes run in a serial loop,
the remaining ``n % W`` lanes in one statement whose loads and stores carry the predicate ``ramp(0, 1, W) <
broadcast(rest)``. W is the loop's annotation ``lanes``, or comes from the widest element type in the body and the
target's vector registers. A loop whose body cannot be executed on vectors (effects other than stores, a store that
all lanes share, bounds that differ between lanes) becomes serial, which is always right.

Nothing traps on lanes that are off: they load nothing, and integer divisors are 1 there.
"""

from __future__ import annotations

from typing import Any

from ..arith import Prover
from ..dtypes import DType
from ..ir import (
    AccessPtr,
    Binary,
    Bind,
    Block,
    Broadcast,
    Buffer,
    BufferLoad,
    BufferStore,
    Call,
    Cast,
    Expr,
    FloatImm,
    For,
    If,
    IntImm,
    Let,
    PrimFunc,
    Ramp,
    Rewriter,
    Select,
    Seq,
    Stmt,
    StringImm,
    Unary,
    Var,
    binary,
    cast,
    const,
    find_intrinsic,
    is_zero,
    seq,
    unary,
    walk,
)
from ..ir.structural import structural_equal
from .base import Pass, PassContext, register_pass
from .options import declare_option
from .ramps import load_in_order, ramp_arithmetic, ramp_cast

__all__ = ["VectorizeLoop", "widest_bits"]

BOOL, INT32 = DType("bool"), DType("int32")
_DIVISIONS = ("floordiv", "floormod", "truncdiv", "truncmod")


declare_option("tirx.disable_vectorize", False, bool, "no vector code")


@register_pass("VectorizeLoop", needs="FLAT", leaves="same", options=("tirx.disable_vectorize",))
class VectorizeLoop(Pass):
    def function(self, function: PrimFunc, context: PassContext) -> PrimFunc:
        # A register of no bits holds no lanes, so every loop stays scalar.
        bits = 0 if context.options["tirx.disable_vectorize"] else int(context.target.get("vector_bits", 128))
        return _VectorizeLoops(bits).rewrite(function)


class _VectorizeLoops(Rewriter):
    def __init__(self, vector_bits: int) -> None:
        super().__init__()
        self.vector_bits = vector_bits

    def rewrite_For(self, node: For) -> Stmt | None:
        if node.kind != "vectorized":
            return self.rewrite_children(node)
        chosen = node.annotation("lanes") if self.vector_bits else None
        lanes = chosen or max(1, self.vector_bits // widest_bits(node.body))
        inner = self.rewrite(node.body)
        serial = node.with_(kind="serial", body=Seq(()) if inner is None else inner, annotations=())
        if lanes < 2 or inner is None or (isinstance(node.extent, IntImm) and node.extent.value < 2):
            return serial
        binds, hoisted = _hoisted(serial)
        vectors = _strips(hoisted, lanes)
        return serial if vectors is None else seq(*binds, vectors)


def _hoisted(loop: For) -> tuple[list[Stmt], For]:
    """The loop with loads that all iterations share done once before it, where it surely runs.

    The target's compiler cannot do it: it does not know that the loop's stores go elsewhere.
    """
    if not isinstance(loop.extent, IntImm):
        return [], loop
    own = {loop.var} | {n.var for n in walk(loop.body) if isinstance(n, (Bind, For, Let))}
    written = {_root(n.buffer) for n in walk(loop.body) if isinstance(n, (BufferStore, AccessPtr))}
    shared: list[tuple[BufferLoad, Var]] = []
    for load in _unconditional_loads(loop.body):
        known = any(structural_equal(load, other) for other, _ in shared)
        if known or load.dtype.lanes != 1 or load.predicate is not None or _root(load.buffer) in written:
            continue
        inside = [n for index in load.indices for n in walk(index)]
        if any(isinstance(n, (BufferLoad, Call)) or (isinstance(n, Var) and n in own) for n in inside):
            continue
        shared.append((load, Var(load.buffer.name, load.dtype)))
    if not shared:
        return [], loop
    return [Bind(var, load, span=load.span) for load, var in shared], _Shared(shared).rewrite_children(loop)


def _unconditional_loads(body: Stmt) -> list[BufferLoad]:
    """Loads that every iteration carries out."""
    found: list[BufferLoad] = []
    stack: list[Any] = [body]
    while stack:
        item = stack.pop()
        if isinstance(item, (If, For)):
            continue
        if isinstance(item, Select) and item.lazy:
            stack.append(item.condition)
            continue
        if isinstance(item, Binary) and item.op in ("and", "or"):
            stack.append(item.a)
            continue
        if isinstance(item, BufferLoad):
            found.append(item)
        stack.extend(reversed(item.child_nodes()))
    return found


class _Shared(Rewriter):
    """Loads replaced by the variables that hold their values."""

    def __init__(self, shared: list[tuple[BufferLoad, Var]]) -> None:
        super().__init__()
        self.shared = shared

    def rewrite_BufferLoad(self, node: BufferLoad) -> Expr:
        for load, var in self.shared:
            if load.buffer is node.buffer and structural_equal(load, node):
                return var
        return self.rewrite_children(node)


def _root(buffer: Buffer) -> Buffer:
    while buffer.data is not None:
        buffer = buffer.data
    return buffer


def _strips(loop: For, lanes: int) -> Stmt | None:
    """The loop as vector statements, or None where its body cannot be one."""
    extent = loop.extent
    if loop.step is not None and not (isinstance(loop.step, IntImm) and loop.step.value == 1):
        return None
    if isinstance(extent, IntImm):
        whole, rest = divmod(extent.value, lanes)
        if rest and whole == 0 and rest & (rest - 1) == 0:
            lanes, whole, rest = rest, 1, 0
        parts: list[Stmt | None] = []
        if whole:
            parts.append(_whole(loop, lanes, const(whole, extent.dtype)))
        if rest:
            parts.append(_rest(loop, lanes, const(whole * lanes, extent.dtype), const(rest, INT32)))
        return None if any(p is None for p in parts) else seq(*parts)
    # A negative extent means no iterations; truncdiv and truncmod by W then give at most 0 for both parts.
    total = extent if isinstance(extent, Var) else Var(f"{loop.var.name}_count", extent.dtype)
    rest = Var(f"{loop.var.name}_rest", INT32)
    main = _whole(loop, lanes, binary("truncdiv", total, lanes))
    tail = _rest(loop, lanes, binary("sub", total, cast(rest, total.dtype)), rest)
    if main is None or tail is None:
        return None
    guarded = If(binary("gt", rest, 0), tail)
    count = None if total is extent else Bind(total, extent)
    return seq(count, main, Bind(rest, cast(binary("truncmod", total, lanes), INT32)), guarded)


def _whole(loop: For, lanes: int, count: Expr) -> Stmt | None:
    """The serial loop over whole vectors."""
    if isinstance(count, IntImm) and count.value == 1:
        return _body(loop, loop.min, lanes, None)
    strip = Var(loop.var.name, loop.var.dtype)
    base = _sum(loop.min, binary("mul", strip, lanes))
    body = _body(loop, base, lanes, None)
    return (
        None
        if body is None
        else For(strip, const(0, strip.dtype), cast(count, strip.dtype), "serial", body, span=loop.span)
    )


def _rest(loop: For, lanes: int, done: Expr, count: Expr) -> Stmt | None:
    """The masked statement for the last `count` iterations."""
    active = Binary("lt", Ramp(const(0, INT32), const(1, INT32), lanes), Broadcast(count, lanes))
    return _body(loop, _sum(loop.min, cast(done, loop.min.dtype)), lanes, active)


def _body(loop: For, base: Expr, lanes: int, active: Expr | None) -> Stmt | None:
    vector = _Vectorize(loop.var, Ramp(base, const(1, base.dtype), lanes), lanes, active)
    try:
        return vector.statement(loop.body)
    except _Scalar:
        return None


def _surely_there(buffer: Buffer, index: Expr) -> bool:
    """Whether a load is right even where the condition round it does not hold: of a tile's own element."""
    shape = buffer.static_shape()
    if shape is None or buffer.memory.level == "device" or not isinstance(index, IntImm):
        return False
    return 0 <= index.value < shape[0]


class _Scalar(Exception):
    """The body cannot be executed on vectors."""


class _Vectorize:
    """One body, with `var` standing for the lanes of `ramp`.

    Expressions stay scalar where they do not depend on the lane. `mask` is what the branches around a statement say;
    `active` is the tail's.
    """

    def __init__(self, var: Var, ramp: Ramp, lanes: int, active: Expr | None) -> None:
        self.lanes = lanes
        self.active = active
        self.mask: Expr | None = None
        self.values: dict[Var, Expr] = {var: ramp}
        self.prover = Prover(solver=False)
        self.memo: dict[int, tuple[Expr, Expr]] = {}

    # Statements

    def statement(self, stmt: Stmt) -> Stmt:
        if isinstance(stmt, Seq):
            return seq(*[self.statement(s) for s in stmt.stmts])
        if isinstance(stmt, BufferStore):
            return self.store(stmt)
        if isinstance(stmt, Bind):
            return self.bind(stmt)
        if isinstance(stmt, If):
            return self.branch(stmt)
        if isinstance(stmt, For) and stmt.kind in ("serial", "unroll"):
            return self.loop(stmt)
        if isinstance(stmt, Block) and not stmt.allocations:
            return stmt.with_(body=self.statement(stmt.body))
        raise _Scalar

    def store(self, stmt: BufferStore) -> Stmt:
        if stmt.predicate is not None or stmt.buffer.dtype.lanes != 1:
            raise _Scalar
        index = self.value(stmt.indices[0])
        if index.dtype.lanes == 1 or (isinstance(index, Ramp) and is_zero(index.stride)):
            raise _Scalar
        value = self.full(self.value(stmt.value))
        return BufferStore(stmt.buffer, value, (index,), self.predicate(), span=stmt.span)

    def bind(self, stmt: Bind) -> Stmt:
        value = self.value(stmt.value)
        if isinstance(value, Ramp) and _is_arithmetic(value):
            # A name would hide from loads and stores that these are neighbours.
            self.values[stmt.var] = value
            return Seq(())
        var = Var(stmt.var.name, value.dtype, span=stmt.var.span)
        self.values[stmt.var] = var
        return Bind(var, value, span=stmt.span)

    def branch(self, stmt: If) -> Stmt:
        condition = self.value(stmt.condition)
        if condition.dtype.lanes == 1:
            else_body = None if stmt.else_body is None else self.statement(stmt.else_body)
            return If(condition, self.statement(stmt.then_body), else_body, span=stmt.span)
        if _writes_what_it_reads(stmt):
            # The condition would be evaluated again after a store that changes it.
            raise _Scalar
        then_body = self.under(condition, lambda: self.statement(stmt.then_body))
        if stmt.else_body is None:
            return then_body
        other = stmt.else_body
        return seq(then_body, self.under(unary("not", condition), lambda: self.statement(other)))

    def loop(self, stmt: For) -> Stmt:
        low, extent = self.value(stmt.min), self.value(stmt.extent)
        if (
            low.dtype.lanes != 1
            or extent.dtype.lanes != 1
            or (stmt.step is not None and not isinstance(stmt.step, IntImm))
        ):
            raise _Scalar
        var = Var(stmt.var.name, stmt.var.dtype, span=stmt.var.span)
        self.values[stmt.var] = var
        return stmt.with_(var=var, min=low, extent=extent, body=self.statement(stmt.body))

    def under(self, condition: Expr, build: Any) -> Any:
        """What `build` makes with `condition` added to the mask."""
        kept, self.mask = self.mask, condition if self.mask is None else binary("and", self.mask, condition)
        memo, self.memo = self.memo, {}
        try:
            return build()
        finally:
            self.mask, self.memo = kept, memo

    def predicate(self) -> Expr | None:
        """The lanes that are on; the tail's condition comes first, where a printer looks for it."""
        if self.active is None or self.mask is None:
            return self.active if self.mask is None else self.mask
        return Binary("and", self.active, self.mask)

    # Expressions

    def value(self, expr: Expr) -> Expr:
        """The expression for all lanes: scalar where the lanes agree."""
        known = self.memo.get(id(expr))
        if known is None:
            known = self.memo[id(expr)] = (expr, self._value(expr))
        return known[1]

    def full(self, expr: Expr) -> Expr:
        """A value with a lane for each iteration."""
        if expr.dtype.lanes == self.lanes:
            return expr
        if expr.dtype.lanes != 1:
            raise _Scalar
        return Broadcast(expr, self.lanes)

    def _value(self, expr: Expr) -> Expr:
        if expr.dtype.lanes > 1:
            # The kernel's own vectors: their lanes are not the loop's.
            raise _Scalar
        if isinstance(expr, Var):
            return self.values.get(expr, expr)
        if isinstance(expr, (IntImm, FloatImm, StringImm)):
            return expr
        if isinstance(expr, Binary):
            return self.chain(expr)
        if isinstance(expr, BufferLoad):
            return self.load(expr)
        if isinstance(expr, Unary):
            value = self.value(expr.a)
            return expr if value is expr.a else Unary(expr.op, value, span=expr.span)
        if isinstance(expr, Cast):
            return self.convert(expr)
        if isinstance(expr, Select):
            return self.select(expr)
        if isinstance(expr, Let):
            value = self.value(expr.value)
            if isinstance(value, Ramp) and _is_arithmetic(value):
                self.values[expr.var] = value
                return self.value(expr.body)
            var = Var(expr.var.name, value.dtype)
            self.values[expr.var] = var
            return Let(var, value, self.value(expr.body), span=expr.span)
        if isinstance(expr, Call):
            return self.call(expr)
        raise _Scalar

    def chain(self, expr: Binary) -> Expr:
        """A left-deep chain of operators, from its innermost one outwards: sums may have thousands of terms."""
        spine = [expr]
        while isinstance(spine[-1].a, Binary) and id(spine[-1].a) not in self.memo:
            spine.append(spine[-1].a)
        for item in reversed(spine[1:]):
            self.memo[id(item)] = (item, self.binary(item))
        return self.binary(expr)

    def binary(self, expr: Binary) -> Expr:
        a = self.value(expr.a)
        if expr.op in ("and", "or") and a.dtype.lanes > 1 and _reads(expr.b):
            # The right side is evaluated only where the left side leaves the answer open.
            b = self.under(a if expr.op == "and" else unary("not", a), lambda: self.value(expr.b))
        else:
            b = self.value(expr.b)
        if a is expr.a and b is expr.b:
            return expr
        if a.dtype.lanes == b.dtype.lanes == 1:
            return Binary(expr.op, a, b, span=expr.span)
        if a.dtype.is_int:
            linear = ramp_arithmetic(expr.op, a, b, self.prover)
            if linear is not None:
                return linear
        if expr.op in _DIVISIONS and a.dtype.is_int:
            simpler = self.prover.simplify(Binary(expr.op, self.full(a), self.full(b)))
            if isinstance(simpler, (Ramp, Broadcast)):
                return simpler.value if isinstance(simpler, Broadcast) else simpler
            b = self.divisor(b)
        return Binary(expr.op, self.full(a), self.full(b), span=expr.span)

    def divisor(self, value: Expr) -> Expr:
        """A divisor that is not 0 on lanes that are off."""
        mask = self.predicate()
        if mask is None or isinstance(value, IntImm):
            return value
        return Select(mask, self.full(value), const(1, value.dtype.scalar.with_lanes(self.lanes)))

    def load(self, expr: BufferLoad) -> Expr:
        if expr.predicate is not None or expr.buffer.dtype.lanes != 1 or expr.dtype.lanes != 1:
            raise _Scalar
        index = self.value(expr.indices[0])
        if isinstance(index, Ramp) and is_zero(index.stride):
            index = index.base
        if index.dtype.lanes == 1:
            if self.mask is None or _surely_there(expr.buffer, index):
                # Under the tail alone at least one lane is on, so the one address is valid.
                return expr if index is expr.indices[0] else BufferLoad(expr.buffer, (index,), span=expr.span)
            index = Broadcast(index, self.lanes)
        return load_in_order(BufferLoad(expr.buffer, (index,), self.predicate(), span=expr.span))

    def convert(self, expr: Cast) -> Expr:
        value = self.value(expr.value)
        if value is expr.value:
            return expr
        if value.dtype.lanes == 1:
            return cast(value, expr.dtype)
        dtype = expr.dtype.scalar
        ramp = ramp_cast(value, dtype)
        return ramp if ramp is not None else Cast(dtype.with_lanes(self.lanes), value, span=expr.span)

    def select(self, expr: Select) -> Expr:
        condition = self.value(expr.condition)
        if condition.dtype.lanes == 1:
            a, b = self.value(expr.true_value), self.value(expr.false_value)
            if a.dtype.lanes != b.dtype.lanes:
                a, b = self.full(a), self.full(b)
            return Select(condition, a, b, expr.lazy, span=expr.span)
        if not expr.lazy:
            a, b = self.value(expr.true_value), self.value(expr.false_value)
        else:
            a = self.under(condition, lambda: self.value(expr.true_value))
            b = self.under(unary("not", condition), lambda: self.value(expr.false_value))
        if isinstance(a, BufferLoad) and a.predicate is not None and _is_zero_value(b) and expr.lazy:
            # Lanes that are off load 0 already.
            return a
        return Select(condition, self.full(a), self.full(b), span=expr.span)

    def call(self, expr: Call) -> Expr:
        if any(isinstance(a, AccessPtr) for a in expr.args) or not find_intrinsic(expr.op).pure:
            raise _Scalar
        arguments = [a if isinstance(a, StringImm) else self.value(a) for a in expr.args]
        if all(a is b for a, b in zip(arguments, expr.args)):
            return expr
        if all(a.dtype.lanes == 1 for a in arguments):
            return expr.with_(args=tuple(arguments))
        arguments = [a if isinstance(a, StringImm) else self.full(a) for a in arguments]
        return Call(
            expr.op, tuple(arguments), expr.dtype.scalar.with_lanes(self.lanes), expr.annotations, span=expr.span
        )


def widest_bits(body: Any) -> int:
    """Bits of the widest element that a body loads, stores or computes with (index arithmetic aside); 8 at least."""
    widest = 8
    stack: list[Any] = [body]
    while stack:
        item = stack.pop()
        if isinstance(item, (BufferLoad, BufferStore)):
            widest = max(widest, item.buffer.dtype.bits)
            if isinstance(item, BufferStore):
                stack.append(item.value)
            stack.extend(i for i in item.indices if _reads(i))
            continue
        if isinstance(item, Expr) and item.dtype.is_float:
            widest = max(widest, item.dtype.bits)
        stack.extend(item.child_nodes())
    return widest


def _is_arithmetic(index: Expr) -> bool:
    return not any(isinstance(i, (BufferLoad, Call)) for i in walk(index))


def _reads(index: Expr) -> bool:
    return any(isinstance(i, BufferLoad) for i in walk(index))


def _writes_what_it_reads(stmt: If) -> bool:
    read = {i.buffer for i in walk(stmt.condition) if isinstance(i, BufferLoad)}
    if not read:
        return False
    written: set[Buffer] = {i.buffer for i in walk(stmt) if isinstance(i, BufferStore)}
    return bool(read & written)


def _is_zero_value(expr: Expr) -> bool:
    expr = expr.value if isinstance(expr, Broadcast) else expr
    return isinstance(expr, (IntImm, FloatImm)) and expr.value == 0 and str(expr.value)[0] != "-"


def _sum(a: Expr, b: Expr) -> Expr:
    return b if is_zero(a) else a if is_zero(b) else binary("add", a, b)
