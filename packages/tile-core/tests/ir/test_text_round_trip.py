"""parse(script(f)) equals f, for functions made of every kind of node at random."""

from __future__ import annotations

import math

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tile_core import tileop  # noqa: F401  (registers nothing by itself; the classes below do)
from tile_core.dtypes import DType
from tile_core.ir import (
    AccessPtr,
    Assert,
    Attr,
    Binary,
    Bind,
    Block,
    Break,
    Broadcast,
    Buffer,
    BufferLoad,
    BufferRegion,
    BufferStore,
    Call,
    Cast,
    Continue,
    Evaluate,
    Executors,
    FloatImm,
    For,
    If,
    IndexMap,
    IntImm,
    IRModule,
    KernelLaunch,
    Let,
    PrimFunc,
    Ramp,
    Return,
    Select,
    Seq,
    Shuffle,
    SizeVar,
    StringImm,
    TileOpStmt,
    Unary,
    Var,
    While,
    assert_structural_equal,
    const,
    first_mismatch,
    full_region,
    parse,
    structural_equal,
    structural_key,
)
from tile_core.target import Target
from tile_core.tileop.fill import Fill

BOOL = DType("bool")
SCALARS = [
    DType(n) for n in ("int32", "int64", "int8", "uint8", "uint64", "float16", "bfloat16", "float32", "float64", "bool")
]
INTS = [d for d in SCALARS if d.is_int]
LOOPS = ("serial", "parallel", "pipelined", "unroll", "vectorized", "persistent", "threads")
ARITHMETIC = ("add", "sub", "mul", "min", "max")
INTEGER = ("floordiv", "floormod", "truncdiv", "truncmod", "bitand", "bitor", "bitxor", "shl", "shr")
COMPARE = ("eq", "ne", "lt", "le", "gt", "ge")


class Maker:
    """Draws well-typed trees: every expression kind of the wanted type, every statement kind."""

    def __init__(self, draw) -> None:
        self.draw = draw
        self.vars: list[Var] = []
        self.buffers: list[Buffer] = []

    def pick(self, options):
        return self.draw(st.sampled_from(list(options)))

    def name(self) -> str:
        return self.pick(("i", "A", "x_1", "x", "T", "for", "a.b", "A_1", "größe"))

    def number(self, dtype: DType):
        if dtype.is_float:
            value = self.draw(st.sampled_from((0.0, -0.0, 1.0, -2.5, 1e-7, 1e30, math.inf, -math.inf, math.nan)))
            return FloatImm(value, dtype)
        if dtype.is_bool:
            return IntImm(self.pick((0, 1)), dtype)
        return IntImm(self.draw(st.integers(dtype.min_value, dtype.max_value)), dtype)

    def index(self, depth: int):
        return self.expr(self.pick((DType("int32"), DType("int64"))), depth)

    def load(self, dtype: DType, depth: int):
        fitting = [b for b in self.buffers if b.dtype is dtype]
        if not fitting:
            return self.number(dtype)
        buffer = self.pick(fitting)
        predicate = self.expr(BOOL, 0) if self.draw(st.integers(0, 4)) == 0 else None
        return BufferLoad(buffer, tuple(self.index(depth - 1) for _ in range(buffer.ndim)), predicate)

    def expr(self, dtype: DType, depth: int):
        if depth <= 0:
            known = [v for v in self.vars if v.dtype is dtype]
            return self.pick(known) if known and self.draw(st.booleans()) else self.number(dtype)
        choices = ["leaf", "load", "select", "let", "cast", "call", "unary"]
        choices += ["compare", "logic", "not"] if dtype.is_bool else ["arithmetic", "arithmetic"]
        if dtype.is_int:
            choices += ["integer"]
        if dtype.is_float:
            choices += ["divide", "math"]
        kind = self.pick(choices)
        sub = depth - 1
        if kind == "leaf":
            return self.expr(dtype, 0)
        if kind == "load":
            return self.load(dtype, depth)
        if kind == "select":
            return Select(self.expr(BOOL, sub), self.expr(dtype, sub), self.expr(dtype, sub), self.draw(st.booleans()))
        if kind == "let":
            value = self.expr(self.pick(SCALARS), sub)
            var = Var(self.name(), value.dtype)
            self.vars.append(var)
            body = self.expr(dtype, sub)
            self.vars.pop()
            return Let(var, value, body)
        if kind == "cast":
            return Cast(dtype, self.expr(self.pick(SCALARS), sub))
        if kind == "call":
            name = self.pick(("likely", "call_extern", "third.party", "min", "two words", "copy"))
            if name == "likely":
                return Call(name, (self.expr(dtype, sub),), dtype)
            notes = (("k", 1),) if self.draw(st.booleans()) else ()
            return Call(name, (StringImm("f'\"\n"), self.expr(self.pick(SCALARS), sub)), dtype, notes)
        if kind == "unary":
            op = "not" if dtype.is_bool else "bitnot" if dtype.is_int and self.draw(st.booleans()) else "neg"
            return Unary(op, self.expr(dtype, sub))
        if kind == "not":
            return Unary("not", self.expr(BOOL, sub))
        if kind == "compare":
            other = self.pick(SCALARS)
            return Binary(self.pick(COMPARE), self.expr(other, sub), self.expr(other, sub))
        if kind == "logic":
            return Binary(self.pick(("and", "or")), self.expr(BOOL, sub), self.expr(BOOL, sub))
        if kind == "integer":
            return Binary(self.pick(INTEGER), self.expr(dtype, sub), self.expr(dtype, sub))
        if kind == "divide":
            return Binary("div", self.expr(dtype, sub), self.expr(dtype, sub))
        if kind == "math":
            return Call(self.pick(("exp", "sqrt", "abs")), (self.expr(dtype, sub),), dtype)
        return Binary(self.pick(ARITHMETIC), self.expr(dtype, sub), self.expr(dtype, sub))

    def vector(self, dtype: DType):
        broadcast = Broadcast(self.expr(dtype, 1), 4)
        if dtype.is_int and self.draw(st.booleans()):
            return Ramp(self.expr(dtype, 1), self.expr(dtype, 0), 4)
        return (
            Shuffle((broadcast, Broadcast(self.number(dtype), 2)), (0, 5, 2, 1))
            if self.draw(st.booleans())
            else broadcast
        )

    def new_buffer(self, scope: str = "global") -> Buffer:
        dtype = self.pick(SCALARS)
        ndim = self.draw(st.integers(0, 2))
        size = [SizeVar("n", self.pick((DType("int32"), DType("int64")))), const(4, "int32"), const(8, "int64")]
        shape = tuple(self.pick(size) for _ in range(ndim))
        strides = tuple(self.pick(size) for _ in range(ndim)) if self.draw(st.booleans()) else ()
        view = self.pick(self.buffers) if self.buffers and self.draw(st.integers(0, 3)) == 0 else None
        offset = self.expr(DType("int32"), 1) if view is not None else None
        return Buffer(self.name(), shape, dtype, scope, strides, view, offset, self.pick((0, 16)))

    def region(self) -> BufferRegion:
        buffer = self.pick(self.buffers)
        if self.draw(st.booleans()):
            return full_region(buffer)
        squeezed = tuple(self.draw(st.booleans()) for _ in buffer.shape)
        mins = tuple(self.index(2) for _ in buffer.shape)
        extents = tuple(const(1, "int32") if s and self.draw(st.booleans()) else self.index(1) for s in squeezed)
        return BufferRegion(buffer, mins, extents, squeezed)

    def value(self):
        """A value of an attribute field."""
        options = [
            None,
            True,
            3,
            -2,
            1.5,
            math.inf,
            "a\"b'\n",
            b"x",
            (),
            (1, (2,)),
            [1],
            {"a": 1, 2: None},
            DType("float16", 4),
        ]
        options += [Target("cuda", {"arch": 90, "x": "y"}), Executors("warp", 1, 2, self.expr(BOOL, 1))]
        options += [self.expr(self.pick(SCALARS), 1), *self.vars, *self.buffers]
        options += [self.region()] if self.buffers else []
        i = Var("i")
        options.append(IndexMap((i, Var("j")), (Binary("add", i, self.index(0)), self.index(1))))
        return self.pick(options)

    def annotations(self):
        count = self.draw(st.integers(0, 2))
        keys = ("num_stages", "order", "min", "a b", "lambda")
        return tuple((self.pick(keys), self.value()) for _ in range(count))

    def suite(self, depth: int):
        known, held = len(self.vars), len(self.buffers)
        stmts = tuple(self.stmt(depth - 1) for _ in range(self.draw(st.integers(0, 3))))
        del self.vars[known:], self.buffers[held:]
        return stmts[0] if len(stmts) == 1 and self.draw(st.booleans()) else Seq(stmts)

    def stmt(self, depth: int):
        simple = ["store", "bind", "evaluate", "assert", "return", "break", "continue", "pointer"]
        simple += ["fill"] if self.buffers else []
        kind = self.pick(
            simple + ["for", "nest", "while", "if", "block", "attr", "assume", "kernel", "seq"] * (depth > 0)
        )
        if kind == "store" and self.buffers:
            buffer = self.pick(self.buffers)
            vectors = buffer.ndim > 0 and self.draw(st.booleans())
            indices = [self.index(1) for _ in buffer.shape]
            if vectors:
                indices[-1] = Ramp(self.index(1), const(1, "int32"), 4)
            value = self.vector(buffer.dtype) if vectors else self.expr(buffer.dtype, 3)
            predicate = self.expr(BOOL, 1) if self.draw(st.integers(0, 3)) == 0 else None
            return BufferStore(buffer, value, tuple(indices), predicate)
        if kind == "bind":
            dtype = self.pick(SCALARS)
            value = self.expr(dtype, 3)
            var = self.pick((Var, SizeVar))(self.name(), dtype)
            self.vars.append(var)
            return Bind(var, value)
        if kind == "assert":
            return Assert(self.expr(BOOL, 2), self.pick(("", "a\"b'\n")))
        if kind == "return":
            return Return(self.index(1) if self.draw(st.booleans()) else None)
        if kind == "break":
            return Break()
        if kind == "continue":
            return Continue()
        if kind == "fill":
            region = self.region()
            op = Fill(region, self.expr(region.dtype, 2), self.annotations())
            return TileOpStmt(op, self.pick((None, "loop")))
        if kind == "pointer" and self.buffers:
            buffer = self.pick(self.buffers)
            indices = tuple(self.index(1) for _ in buffer.shape)
            pointer = AccessPtr(buffer, indices, self.index(1), self.pick(("r", "w", "rw")))
            return Evaluate(Call("sync_threads", (pointer,), DType("void")))
        if kind == "for":
            extent = self.index(1)
            low = const(0, extent.dtype) if self.draw(st.booleans()) else self.index(1)
            step = self.index(0) if self.draw(st.booleans()) else None
            var = Var(self.name(), self.pick((extent.dtype, DType("int64"))))
            notes = self.annotations()
            return For(var, low, extent, self.pick(LOOPS), self.inside((var,), depth), step, notes)
        if kind == "nest":
            i, j = Var("i"), Var("j")
            inner = For(j, const(0, "int32"), const(4, "int32"), "parallel", self.inside((i, j), depth))
            return For(i, const(0, "int32"), const(8, "int32"), "parallel", inner, None, self.annotations())
        if kind == "while":
            return While(self.expr(BOOL, 2), self.suite(depth))
        if kind == "if":
            orelse = self.suite(depth) if self.draw(st.booleans()) else None
            return If(self.expr(BOOL, 2), self.suite(depth), orelse)
        if kind == "block":
            return self.block(depth)
        if kind == "attr":
            value = self.expr(BOOL, 1) if self.draw(st.booleans()) else None
            return Attr(self.pick(("assume", "a b")), self.value(), value, self.suite(depth))
        if kind == "assume":
            return Attr("assume", None, self.expr(BOOL, 2), self.suite(depth))
        if kind == "kernel":
            grid, threads = self.draw(st.integers(0, 2)), self.draw(st.integers(0, 2))
            variables = tuple(Var(self.name(), self.pick(INTS[:2])) for _ in range(grid + threads))
            extents = tuple(self.index(1) for _ in variables)
            cluster = self.pick(((), (2, 1)))
            notes = self.annotations()
            body = self.inside(variables, depth)
            return KernelLaunch(
                variables[:grid], extents[:grid], variables[grid:], extents[grid:], body, cluster, notes
            )
        if kind == "seq":
            return Seq((self.suite(depth), self.suite(depth)))
        return Evaluate(self.expr(self.pick(SCALARS), 3))

    def inside(self, variables, depth: int):
        self.vars.extend(variables)
        body = self.suite(depth)
        del self.vars[-len(variables) :]
        return body

    def block(self, depth: int):
        held = len(self.buffers)
        allocations = []
        for _ in range(self.draw(st.integers(0, 2))):
            allocations.append(self.new_buffer(self.pick(("shared", "fragment", "local"))))
            self.buffers.append(allocations[-1])
        notes = self.annotations()
        body = self.suite(depth)
        del self.buffers[held:]
        return Block(tuple(allocations), body, notes)


@st.composite
def functions(draw):
    maker = Maker(draw)
    params = []
    for _ in range(draw(st.integers(0, 3))):
        buffer = maker.new_buffer()
        params.append(buffer)
        maker.buffers.append(buffer)
    for _ in range(draw(st.integers(0, 2))):
        var = draw(st.sampled_from((Var, SizeVar)))(maker.name(), maker.pick(SCALARS))
        params.append(var)
        maker.vars.append(var)
    for _ in range(draw(st.integers(0, 1))):
        maker.buffers.append(maker.new_buffer())  # a buffer that the function uses without declaring it
        maker.vars.append(Var("free", maker.pick(SCALARS)))
    attrs = maker.annotations()
    body = maker.suite(4)
    return PrimFunc(draw(st.sampled_from(("main", "kernel", "weird name", "class"))), tuple(params), body, attrs)


RELAXED = settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))


@pytest.fixture(autouse=True)
def _trusting_fill(monkeypatch):
    # These functions are drawn without regard to what a tile op allows.
    monkeypatch.setattr(Fill, "check", lambda self: None)


@RELAXED
@given(functions())
def test_a_function_reads_back_equal(function):
    text = function.script()
    again = parse(text)
    assert_structural_equal(again, function)
    assert structural_key(again) == structural_key(function)
    assert again.script() == text


@settings(parent=RELAXED, max_examples=30)
@given(st.lists(functions(), max_size=3))
def test_a_module_reads_back_equal(functions):
    named = [f.with_(name=f"f{i}") for i, f in enumerate(functions)]
    module = IRModule(tuple(named))
    assert_structural_equal(parse(module.script(spans=True)), module)


@settings(parent=RELAXED, max_examples=60)
@given(functions(), functions())
def test_keys_agree_with_equality(a, b):
    assert structural_equal(a, b) == (structural_key(a) == structural_key(b))
    assert (first_mismatch(a, b) is None) == structural_equal(a, b)
