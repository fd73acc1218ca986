"""The checks against brute force: random loops, every iteration run by hand."""

from __future__ import annotations

import itertools
import random
import warnings

import pytest

from tile_core.arith import evaluate
from tile_core.dtypes import DType
from tile_core.errors import CompileError
from tile_core.ir import (
    Block,
    Buffer,
    BufferLoad,
    BufferStore,
    Expr,
    For,
    If,
    IRModule,
    KernelLaunch,
    PrimFunc,
    Var,
    as_shape,
    binary,
    const,
    select,
)
from tile_core.target import Target
from tile_core.transform import PassContext, VerifyParallelLoop, VerifyRegions

pytestmark = pytest.mark.layer("fuzz")
FLOAT32 = DType("float32")


def number(value: int) -> Expr:
    return const(value, "int32")


class Maker:
    """A parallel nest over one or two small axes, a store and a load at random indices, sometimes a guard."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        names = "ij"[: self.random.randint(1, 2)]
        self.axes = [(Var(name), self.random.choice([2, 3, 4, 6, 8])) for name in names]
        self.buffer = Buffer("s", as_shape(self.random.choice([8, 16, 24, 64])), FLOAT32, "shared")
        self.target = self.index(2)
        self.source = self.target if self.random.random() < 0.4 else self.index(2)
        self.guard = self.condition() if self.random.random() < 0.4 else None

    def index(self, depth: int) -> Expr:
        if depth == 0 or self.random.random() < 0.15:
            return self.random.choice([*(v for v, _ in self.axes), number(self.random.randint(0, 9))])
        a = self.index(depth - 1)
        op = self.random.choice(
            ["add", "add", "sub", "mul", "mul", "floordiv", "floormod", "min", "max", "select", "xor"]
        )
        if op in ("mul", "floordiv", "floormod"):
            return binary(op, a, number(self.random.choice([2, 3, 4, 7, 8])))
        b = self.index(depth - 1)
        if op == "select":
            return select(a < b, a, b + 1)
        return binary("bitxor" if op == "xor" else op, a, b)

    def condition(self) -> Expr:
        return binary(self.random.choice(["lt", "le", "eq", "ne", "ge"]), self.index(1), self.index(1))

    def function(self) -> PrimFunc:
        body = BufferStore(self.buffer, BufferLoad(self.buffer, (self.source,)) + 1.0, (self.target,))
        if self.guard is not None:
            body = If(self.guard, body)
        for var, extent in reversed(self.axes):
            body = For(var, number(0), number(extent), "parallel", body)
        launch = KernelLaunch((), (), (), (), Block((self.buffer,), body))
        return PrimFunc("main", (), launch)

    def iterations(self) -> list[dict[Var, int]]:
        variables = [v for v, _ in self.axes]
        spans = [range(e) for _, e in self.axes]
        points = [dict(zip(variables, values)) for values in itertools.product(*spans)]
        return [p for p in points if self.guard is None or evaluate(self.guard, p)]


def outcome(pass_, function: PrimFunc) -> str:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        context = PassContext(Target("cpu"))
        try:
            pass_().apply(IRModule((function,)), context)
        except CompileError as error:
            return error.code
    return "unknown" if context.diagnostics else "silent"


@pytest.mark.parametrize("block", range(5))
def test_races(block):
    counted = {"E-PARALLEL-RACE": 0, "silent": 0, "unknown": 0}
    for seed in range(block * 60, block * 60 + 60):
        made = Maker(seed)
        points = made.iterations()
        writes = [evaluate(made.target, p) for p in points]
        reads = [evaluate(made.source, p) for p in points]
        race = any(
            writes[p] == other[q]
            for other in (writes, reads)
            for p, q in itertools.product(range(len(points)), repeat=2)
            if p != q
        )
        found = outcome(VerifyParallelLoop, made.function())
        counted[found] += 1
        assert found == "unknown" or (found == "E-PARALLEL-RACE") == race, (seed, race, found)
    # The check decides: "unknown" is the exception.
    assert counted["unknown"] <= 12, counted


@pytest.mark.parametrize("block", range(5))
def test_bounds(block):
    unknown = 0
    for seed in range(block * 60, block * 60 + 60):
        made = Maker(seed + 10_000)
        size = made.buffer.static_shape()[0]
        indices = [evaluate(e, p) for p in made.iterations() for e in (made.target, made.source)]
        fault = any(not 0 <= index < size for index in indices)
        found = outcome(VerifyRegions, made.function())
        unknown += found == "unknown"
        assert found == "unknown" or (found == "E-REGION-BOUNDS") == fault, (seed, fault, found)
    assert unknown <= 12
