"""One kernel for each element type that evaluates every operator, conversion and function of the language."""

from __future__ import annotations

import numpy as np

from tile_core.dtypes import DType, as_dtype
from tile_core.interpreter import interpret
from tile_core.ir import (
    Broadcast,
    Buffer,
    BufferLoad,
    BufferStore,
    Call,
    Expr,
    For,
    KernelLaunch,
    PrimFunc,
    Ramp,
    Shuffle,
    StringImm,
    Var,
    as_shape,
    binary,
    cast,
    const,
    select,
    seq,
    unary,
)
from tile_core.testing.compare import assert_close
from tile_core.testing.supply import random_array

__all__ = ["COUNT", "FLOATS", "INTEGERS", "Table", "tables"]

COUNT = 16
FLOATS = ("float16", "bfloat16", "float32", "float64")
INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
MATH = (
    *("exp", "exp2", "exp10", "log", "log2", "log10", "log1p", "sqrt", "rsqrt", "sin", "cos", "tan", "asin", "acos"),
    *("atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "erf", "sigmoid"),
    *("floor", "ceil", "trunc", "round", "nearbyint", "abs"),
)


class Table:
    """A kernel under construction: row k of the output of a type holds expression k over the inputs.

    Args:
        dtype: of the inputs.
        lanes: 1, or the length of its vectors.
    """

    def __init__(self, dtype: DType, lanes: int) -> None:
        self.dtype, self.lanes = dtype, lanes
        self.inputs = [Buffer(name, as_shape((COUNT,)), dtype) for name in ("A", "B")]
        self.index = Var("i")
        self.rows: dict[DType, list[tuple[str, Expr]]] = {}
        self.a, self.b = (BufferLoad(buffer, (self._place(),)) for buffer in self.inputs)

    def add(self, name: str, value: Expr) -> None:
        """One more expression, with a name for messages."""
        self.rows.setdefault(value.dtype.scalar, []).append((name, value))

    def constant(self, value: float) -> Expr:
        """A number in every lane."""
        scalar = const(value, self.dtype)
        return scalar if self.lanes == 1 else Broadcast(scalar, self.lanes)

    def function(self) -> PrimFunc:
        """The kernel: one thread, form FLAT."""
        outputs, body = [], []
        for dtype, rows in self.rows.items():
            out = Buffer(f"out_{dtype}", as_shape((len(rows) * COUNT,)), dtype)
            outputs.append(out)
            body += [BufferStore(out, value, (self._place(k * COUNT),)) for k, (_, value) in enumerate(rows)]
        loop = For(self.index, const(0, "int32"), const(COUNT // self.lanes, "int32"), "serial", seq(*body))
        launch = KernelLaunch((Var("bx"),), (const(1, "int32"),), (), (), loop)
        return PrimFunc(f"table_{self.dtype}_{self.lanes}", (*self.inputs, *outputs), launch)

    def arguments(self) -> list[np.ndarray]:
        """Inputs, and outputs of zeros."""
        outputs = [p for p in self.function().params if isinstance(p, Buffer)][2:]
        kinds = [random_array((1,), p.dtype, np.random.default_rng(0)).dtype for p in outputs]
        zeros = [np.zeros(p.static_shape() or (), kind) for p, kind in zip(outputs, kinds)]
        return [values(self.dtype, 1), values(self.dtype, 2), *zeros]

    def check(self, results: list[np.ndarray]) -> None:
        """Raises AssertionError unless the arguments hold, after the kernel, what the interpreter computes."""
        expected = self.arguments()
        interpret(self.function(), *expected)
        for dtype, got, wanted in zip(self.rows, results[2:], expected[2:]):
            for k, (label, _) in enumerate(self.rows[dtype]):
                part = slice(k * COUNT, (k + 1) * COUNT)
                assert_close(got[part], wanted[part], dtype, label=f"{label} → {dtype} x{self.lanes}")

    def _place(self, offset: int = 0) -> Expr:
        base = binary("add", binary("mul", self.index, self.lanes), offset)
        return base if self.lanes == 1 else Ramp(base, const(1, "int32"), self.lanes)


def operators(table: Table) -> None:
    a, b, scalar = table.a, table.b, table.dtype
    names = ["add", "sub", "mul", "min", "max", "eq", "ne", "lt", "le", "gt", "ge", "floordiv", "floormod"]
    names += ["div"] if scalar.is_float else ["bitand", "bitor", "bitxor"]
    for op in names:
        if scalar.is_int and op.startswith("floor"):
            table.add(f"{op} by a value", binary(op, a, binary("bitor", b, table.constant(1))))
        else:
            table.add(op, binary(op, a, b))
    if scalar.is_int:
        for divisor in (3, 8):
            for op in ("floordiv", "floormod", "truncdiv", "truncmod", "shl", "shr"):
                table.add(f"{op} {divisor}", binary(op, a, table.constant(divisor)))
        table.add("bitnot", unary("bitnot", a))
        table.add("popcount", Call("popcount", (a,), a.dtype))
        table.add("clz", Call("clz", (a,), a.dtype))
    table.add("neg", unary("neg", a))
    condition = binary("and", binary("lt", a, b), unary("not", binary("eq", a, b)))
    table.add("select", select(condition, a, b))
    table.add("or", binary("or", condition, binary("gt", a, b)))
    table.add("constant", binary("add", a, table.constant(1.25 if scalar.is_float else 5)))
    for other in ("bool", *FLOATS, *INTEGERS):
        if other != scalar.name:
            table.add(f"cast to {other}", cast(a, as_dtype(other)))
    if table.lanes > 1:
        table.add("shuffle", Shuffle((a, b), (0, 7, 2, 5)))
        total = Call("vector_reduce", (StringImm("max"), a), scalar)
        table.add("vector_reduce", Broadcast(total, table.lanes))


def functions(table: Table) -> None:
    a, b = table.a, table.b
    for op in MATH:
        argument = a
        if op in ("asin", "acos", "atanh"):
            argument = binary("div", a, table.constant(200.0))
        elif op in ("sinh", "cosh", "exp", "exp2", "exp10"):
            argument = binary("div", a, table.constant(25.0))
        elif op == "acosh":
            argument = binary("add", a, table.constant(1.0))
        table.add(op, Call(op, (argument,), a.dtype))
    for op in ("pow", "fmod", "atan2", "hypot", "copysign", "nextafter"):
        small = op == "pow"
        x, y = (binary("div", v, table.constant(25.0)) if small else v for v in (a, b))
        table.add(op, Call(op, (x, y), a.dtype))
    table.add("fma", Call("fma", (a, b, a), a.dtype))
    two = const(2, "int32")
    table.add("ldexp", Call("ldexp", (a, two if table.lanes == 1 else Broadcast(two, table.lanes)), a.dtype))
    for op in ("isnan", "isinf", "isfinite"):
        table.add(op, Call(op, (a,), DType("bool").with_lanes(table.lanes)))


def values(dtype: DType, seed: int) -> np.ndarray:
    array = random_array((COUNT,), dtype, np.random.default_rng(seed))
    if dtype.is_float:
        # Conversions of floats outside an integer type's range have no defined value.
        array = np.clip(np.abs(array.astype(np.float64)) * 10, 0.25, 100).astype(array.dtype)
    return array


def tables(name: str) -> list[Table]:
    """The expressions of an element type, on scalars and on vectors of four."""
    found = [Table(as_dtype(name), 1), Table(as_dtype(name), 4)]
    for table in found:
        operators(table)
        if table.dtype.is_float:
            functions(table)
    return found
