"""Generated C++ computes what the interpreter computes: every operator, conversion and math function.
vector.

One kernel for each element type holds all its expressions, since compiling is what costs.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tile_core.dtypes import DType, as_dtype
from tile_core.ffi import load_module
from tile_core.interpreter import interpret
from tile_core.ir import (
    Broadcast,
    Buffer,
    BufferLoad,
    BufferStore,
    Call,
    Expr,
    For,
    IRModule,
    KernelLaunch,
    PrimFunc,
    Ramp,
    Var,
    as_shape,
    binary,
    cast,
    const,
    select,
    seq,
    unary,
)
from tile_core.plugin.api import Artifact
from tile_core.target import Target
from tile_core.testing.compare import assert_close
from tile_core.testing.supply import random_array
from tile_core.transform.base import PassContext
from tile_core.transform.make_packed_api import MakePackedAPI
from tile_core.transform.split_host_device import SplitHostDevice
from tile_cpu.codegen import generate
from tile_cpu.target import resolve_target
from tile_cpu.toolchain import TOOLCHAIN

COUNT = 20  # one whole vector and a tail at every width
TARGET = resolve_target(Target("cpu"))
FLOATS = ("float16", "bfloat16", "float32", "float64")
INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
MATH = (
    *("exp", "exp2", "exp10", "log", "log2", "log10", "log1p", "sqrt", "rsqrt", "sin", "cos", "tan", "asin", "acos"),
    *("atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "erf", "sigmoid"),
    *("floor", "ceil", "trunc", "round", "nearbyint", "abs"),
)


def quickly(kept: tuple[str, ...], names: tuple[str, ...]) -> list:
    """Parameters, all but `kept` marked slow: each is a compilation."""
    return [name if name in kept else pytest.param(name, marks=pytest.mark.slow) for name in names]


def compile_flat(function: PrimFunc, folder: Path):
    context = PassContext(TARGET)
    module = SplitHostDevice().apply(IRModule((function,)), context)
    module = MakePackedAPI("cpu").apply(module, context)
    artifact = Artifact(TARGET, function.name, function, module, generate(module, TARGET))
    library = folder / f"{function.name}.so"
    library.write_bytes(TOOLCHAIN.build(artifact)["kernel.so"])
    return load_module(library).get_function(function.name)


class Table:
    """A kernel under construction: row k of the output of a type holds expression k over the inputs."""

    def __init__(self, dtype: DType, lanes: int) -> None:
        self.dtype, self.lanes = dtype, lanes
        self.inputs = [Buffer(name, as_shape((COUNT,)), dtype) for name in ("A", "B")]
        self.index = Var("i")
        self.rows: dict[DType, list[tuple[str, Expr]]] = {}

    def operands(self) -> list[Expr]:
        loads = []
        for buffer in self.inputs:
            if self.lanes == 1:
                loads.append(BufferLoad(buffer, (self.index,)))
            else:
                loads.append(BufferLoad(buffer, (self._ramp(),), self._tail()))
        return loads

    def add(self, name: str, value: Expr) -> None:
        self.rows.setdefault(value.dtype.scalar, []).append((name, value))

    def function(self, name: str) -> PrimFunc:
        outputs, body = [], []
        for dtype, rows in self.rows.items():
            out = Buffer(f"out_{dtype}", as_shape((len(rows) * COUNT,)), dtype)
            outputs.append(out)
            for k, (_, value) in enumerate(rows):
                if self.lanes == 1:
                    body.append(BufferStore(out, value, (binary("add", self.index, k * COUNT),)))
                else:
                    body.append(BufferStore(out, value, (self._ramp(k * COUNT),), self._tail()))
        trips = -(-COUNT // self.lanes)
        loop = For(self.index, const(0, "int32"), const(trips, "int32"), "serial", seq(*body))
        launch = KernelLaunch((Var("bx"),), (const(1, "int32"),), (), (), loop)
        return PrimFunc(name, (*self.inputs, *outputs), launch)

    def _ramp(self, offset: int = 0) -> Expr:
        base = binary("add", binary("mul", self.index, self.lanes), offset)
        return Ramp(base, const(1, "int32"), self.lanes)

    def _tail(self) -> Expr:
        active = binary("min", binary("sub", COUNT, binary("mul", self.index, self.lanes)), self.lanes)
        return binary("lt", Ramp(const(0, "int32"), const(1, "int32"), self.lanes), Broadcast(active, self.lanes))


def check(table: Table, name: str, folder: Path, a: np.ndarray, b: np.ndarray) -> None:
    function = table.function(name)
    outputs = [p for p in function.params if isinstance(p, Buffer)][2:]
    given = [a, b, *(random_array((int(p.shape[0].value),), p.dtype, np.random.default_rng(0)) for p in outputs)]
    expected = [np.copy(g) for g in given]
    interpret(function, *expected)
    import torch

    tensors = [_tensor(torch, g) for g in given]
    compile_flat(function, folder)(*tensors)
    for buffer, tensor, wanted in zip(outputs, tensors[2:], expected[2:]):
        for k, (label, _) in enumerate(table.rows[buffer.dtype]):
            part = slice(k * COUNT, (k + 1) * COUNT)
            assert_close(tensor[part], wanted[part], buffer.dtype, label=f"{label} → {buffer.dtype}")


def _tensor(torch, array: np.ndarray):
    if array.dtype.name == "bfloat16":
        return torch.from_numpy(array.view(np.int16).copy()).view(torch.bfloat16)
    return torch.from_numpy(array.copy())


def operators(table: Table) -> None:
    a, b = table.operands()
    scalar = table.dtype
    names = ["add", "sub", "mul", "min", "max", "eq", "ne", "lt", "le", "gt", "ge"]
    names += ["div"] if scalar.is_float else ["bitand", "bitor", "bitxor"]
    for op in names:
        table.add(op, binary(op, a, b))
    if scalar.is_int:
        divisor = _spread(const(3, scalar), table.lanes)
        for op in ("floordiv", "floormod", "truncdiv", "truncmod", "shl", "shr"):
            table.add(op, binary(op, a, divisor))
        table.add("bitnot", unary("bitnot", a))
        table.add(
            "floordiv by a value", binary("floordiv", a, binary("bitor", b, _spread(const(1, scalar), table.lanes)))
        )
    else:
        table.add("floordiv", binary("floordiv", a, b))
        table.add("floormod", binary("floormod", a, b))
    table.add("neg", unary("neg", a))
    condition = binary("and", binary("lt", a, b), unary("not", binary("eq", a, b)))
    table.add("select", select(condition, a, b))
    table.add("or", binary("or", condition, binary("gt", a, b)))
    for other in ("bool", *FLOATS, *INTEGERS):
        if other != scalar.name:
            table.add(f"cast to {other}", cast(a, as_dtype(other)))


def _spread(value: Expr, lanes: int) -> Expr:
    return value if lanes == 1 else Broadcast(value, lanes)


def values(dtype: DType, seed: int) -> np.ndarray:
    array = random_array((COUNT,), dtype, np.random.default_rng(seed))
    if dtype.is_float:
        # Conversions of floats outside an integer type's range have no defined value.
        array = np.clip(np.abs(array.astype(np.float64)) * 10, 0.25, 100).astype(array.dtype)
    return array


@pytest.mark.parametrize("lanes", [1, 8], ids=["scalar", "vector"])
@pytest.mark.parametrize("name", quickly(("float32", "int32"), FLOATS + INTEGERS))
def test_operators_and_conversions_agree_with_the_interpreter(name, lanes, tmp_path):
    dtype = as_dtype(name)
    table = Table(dtype, lanes)
    operators(table)
    check(table, f"operators_{name}_{lanes}", tmp_path, values(dtype, 1), values(dtype, 2))


@pytest.mark.parametrize("lanes", [1, 8], ids=["scalar", "vector"])
@pytest.mark.parametrize("name", quickly(("float32",), FLOATS))
def test_math_agrees_with_the_interpreter(name, lanes, tmp_path):
    dtype = as_dtype(name)
    table = Table(dtype, lanes)
    a, b = table.operands()
    for op in MATH:
        argument = a
        if op in ("asin", "acos", "atanh"):
            argument = binary("div", a, _spread(const(200.0, dtype), lanes))
        elif op in ("sinh", "cosh", "exp", "exp2", "exp10"):
            argument = binary("div", a, _spread(const(25.0, dtype), lanes))
        elif op == "acosh":
            argument = binary("add", a, _spread(const(1.0, dtype), lanes))
        table.add(op, Call(op, (argument,), a.dtype))
    for op in ("pow", "fmod", "atan2", "hypot", "copysign"):
        x = binary("div", a, _spread(const(25.0, dtype), lanes)) if op == "pow" else a
        y = binary("div", b, _spread(const(25.0, dtype), lanes)) if op == "pow" else b
        table.add(op, Call(op, (x, y), a.dtype))
    table.add("fma", Call("fma", (a, b, a), a.dtype))
    for op in ("isnan", "isinf", "isfinite"):
        table.add(op, Call(op, (a,), DType("bool").with_lanes(lanes)))
    check(table, f"math_{name}_{lanes}", tmp_path, values(dtype, 3), values(dtype, 4))


def test_strided_and_indexed_accesses_agree_with_the_interpreter(tmp_path):
    dtype, lanes = DType("float32"), 8
    a = Buffer("A", as_shape((64,)), dtype)
    out = Buffer("out", as_shape((64,)), dtype)
    where = Buffer("where", as_shape((8,)), DType("int32"))
    three = Ramp(const(1, "int32"), const(3, "int32"), lanes)
    picked = BufferLoad(where, (Ramp(const(0, "int32"), const(1, "int32"), lanes),))
    mask = binary("lt", picked, Broadcast(const(20, "int32"), lanes))
    body = seq(
        BufferStore(out, BufferLoad(a, (three,)), (Ramp(const(0, "int32"), const(2, "int32"), lanes),)),
        BufferStore(out, BufferLoad(a, (picked,), mask), (Ramp(const(20, "int32"), const(1, "int32"), lanes),)),
        BufferStore(out, BufferLoad(a, (Ramp(const(8, "int32"), const(1, "int32"), lanes),)), (picked + 30,), mask),
    )
    launch = KernelLaunch((Var("bx"),), (const(1, "int32"),), (), (), body)
    function = PrimFunc("accesses", (a, out, where), launch)
    given = [np.arange(64, dtype=np.float32), np.zeros(64, np.float32), np.array([3, 1, 31, 7, 0, 25, 12, 9], np.int32)]
    expected = [g.copy() for g in given]
    interpret(function, *expected)
    import torch

    tensors = [torch.from_numpy(g.copy()) for g in given]
    compile_flat(function, tmp_path)(*tensors)
    np.testing.assert_array_equal(tensors[1].numpy(), expected[1])
