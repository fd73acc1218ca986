"""Seeded fuzz against brute force: what the simplifier, intervals, moduli and the prover say is true of every value."""

from __future__ import annotations

import itertools
import random

import pytest

from tile_core.arith import Prover, Simplifier, Undefined, bounds_of, evaluate, modular_of
from tile_core.dtypes import DType
from tile_core.ir import Expr, IntImm, SizeVar, Var, binary, cast, const, select, unary

CONSTANTS = [-17, -8, -3, -1, 0, 1, 2, 3, 4, 5, 7, 8, 12, 16, 31, 32, 33, 64]
ARITHMETIC = ["add", "add", "sub", "mul", "mulc", "mulc", "divc", "divc", "modc", "modc", "min", "max", "select", "neg"]
RARE = ["truncdiv", "truncmod", "shl", "shr", "bitand", "bitxor", "bitor", "cast", "div", "mod"]
COMPARISONS = ["lt", "le", "gt", "ge", "eq", "ne"]


class Generator:
    """Random expressions over a few variables with small ranges."""

    def __init__(self, seed: int, dtype: str = "int32") -> None:
        self.random = random.Random(seed)
        self.dtype = DType(dtype)
        self.variables: dict[Var, tuple[int, int]] = {}
        for name in "abc"[: self.random.randint(1, 3)]:
            low = self.random.choice([0, 0, 0, -5, 3, -20])
            self.variables[Var(name, self.dtype)] = (low, self.random.choice([1, 2, 4, 7, 8, 9]))
        if self.random.random() < 0.3:
            self.variables[SizeVar("n", self.dtype)] = (self.random.choice([0, 1, 5]), self.random.choice([3, 8]))

    def integer(self, depth: int) -> Expr:
        if depth == 0 or self.random.random() < 0.1:
            if self.random.random() < 0.2:
                return const(self.constant(), self.dtype)
            return self.random.choice(list(self.variables))
        op = self.random.choice(ARITHMETIC if self.random.random() < 0.9 else RARE)
        a = self.integer(depth - 1)
        if op == "mulc":
            return binary("mul", a, const(self.constant(), self.dtype))
        if op in ("divc", "modc", "truncdiv", "truncmod"):
            op = {"divc": "floordiv", "modc": "floormod"}.get(op, op)
            return binary(op, a, const(self.constant() or 6, self.dtype))
        if op == "neg":
            return unary("neg", a)
        if op in ("shl", "shr"):
            return binary(op, a, const(self.random.randint(0, 4), self.dtype))
        if op == "cast":
            return cast(cast(a, self.random.choice(["int64", "int16", "uint8", "int8"])), self.dtype)
        b = self.integer(depth - 1)
        if op == "select":
            return select(self.condition(depth - 1), a, b)
        return binary({"div": "floordiv", "mod": "floormod"}.get(op, op), a, b)

    def constant(self) -> int:
        value = self.random.choice(CONSTANTS)
        return value if self.dtype.min_value <= value else abs(value)

    def condition(self, depth: int) -> Expr:
        kind = self.random.random()
        if kind < 0.15 and depth > 0:
            return binary(self.random.choice(["and", "or"]), self.condition(depth - 1), self.condition(depth - 1))
        if kind < 0.2 and depth > 0:
            return unary("not", self.condition(depth - 1))
        return binary(self.random.choice(COMPARISONS), self.integer(depth), self.integer(min(depth, 1)))

    def points(self) -> list[dict[Var, int]]:
        names = list(self.variables)
        spans = [range(low, low + extent) for low, extent in self.variables.values()]
        return [dict(zip(names, values)) for values in itertools.product(*spans)]


def value_of(expr: Expr, point: dict[Var, int]) -> int | None:
    try:
        return evaluate(expr, point)
    except Undefined:
        return None


def overflows(expr: Expr, points: list[dict[Var, int]]) -> bool:
    values = [value_of(expr, p) for p in points]
    return any(v is not None and abs(v) >= 1 << 31 for v in values)


@pytest.mark.parametrize("block", range(8))
def test_simplified_expressions_have_the_same_values(block):
    for seed in range(block * 150, block * 150 + 150):
        made = Generator(seed, "int64" if seed % 5 == 0 else "int32")
        expr = made.integer(made.random.randint(2, 5))
        simplifier = Simplifier(made.variables)
        new = simplifier.simplify(expr)
        assert simplifier.simplify(new) is new
        assert new.dtype is expr.dtype
        for point in made.points():
            old_value = value_of(expr, point)
            if old_value is not None:
                assert evaluate(new, point) == old_value, (seed, point)


@pytest.mark.parametrize("block", range(4))
def test_simplified_conditions_have_the_same_truth(block):
    for seed in range(block * 150, block * 150 + 150):
        made = Generator(seed + 10_000)
        expr = made.condition(made.random.randint(1, 4))
        new = Simplifier(made.variables).simplify(expr)
        for point in made.points():
            old_value = value_of(expr, point)
            if old_value is not None:
                assert bool(evaluate(new, point)) == bool(old_value), (seed, point)


@pytest.mark.parametrize("dtype", ["uint8", "int8", "uint32", "int16"])
def test_wrapping_types_keep_their_values(dtype):
    for seed in range(250):
        made = Generator(seed + 20_000, dtype)
        floor = 0 if dtype[0] == "u" else -99
        made.variables = {v: (max(low, floor), extent) for v, (low, extent) in made.variables.items()}
        expr = made.integer(made.random.randint(2, 4))
        new = Simplifier(made.variables).simplify(expr)
        for point in made.points():
            old_value = value_of(expr, point)
            if old_value is not None:
                assert evaluate(new, point) == old_value, (seed, point)


def test_intervals_and_moduli_contain_every_value():
    for seed in range(600):
        made = Generator(seed + 30_000)
        expr = made.integer(made.random.randint(1, 5))
        bounds, modulus = bounds_of(expr, made.variables), modular_of(expr)
        prover = Prover(made.variables, solver=False)
        sharp, known = prover.bounds(expr), prover.modular(expr)
        for point in made.points():
            value = value_of(expr, point)
            if value is not None:
                assert bounds.contains(value), (seed, point, value, bounds)
                assert sharp.contains(value), (seed, point, value, sharp)
                assert modulus.contains(value), (seed, point, value, modulus)
                assert known.contains(value), (seed, point, value, known)


@pytest.mark.parametrize("block", range(4))
def test_the_prover_never_proves_a_falsehood_nor_refutes_a_truth(block):
    for seed in range(block * 60, block * 60 + 60):
        made = Generator(seed + 40_000)
        facts = [made.condition(1) for _ in range(made.random.randint(0, 2))]
        goal = made.condition(made.random.randint(1, 3))
        points = [p for p in made.points() if all(value_of(f, p) for f in facts)]
        prover = Prover(made.variables, facts)
        decision = prover.decide(goal)
        if decision.proven:
            assert all(value_of(goal, p) in (1, True, None) for p in points), seed
        elif decision.refuted:
            witness = {v: decision.witness.get(v, low) for v, (low, _) in made.variables.items()}
            assert value_of(goal, witness) in (0, False, None), (seed, witness)
            for var, (low, extent) in made.variables.items():
                assert low <= witness[var] < low + extent, (seed, witness)


def test_knowledge_is_taken_back():
    for seed in range(150):
        made = Generator(seed + 50_000)
        prover = Prover(made.variables, solver=False)
        expr = made.condition(2)
        before = prover.simplify(expr)
        with prover.assume(made.condition(1)):
            prover.simplify(expr)
            if not prover.contradictory:
                prover.bounds(made.integer(2))
        assert prover.simplify(expr) is before, seed


def test_simplifying_under_a_fact_is_right_where_it_holds():
    for seed in range(400):
        made = Generator(seed + 60_000)
        fact, expr = made.condition(2), made.integer(4)
        prover = Prover(made.variables, solver=False)
        with prover.assume(fact):
            if prover.contradictory:
                assert not any(value_of(fact, p) for p in made.points())
                continue
            new = prover.simplify(expr)
        for point in made.points():
            if value_of(fact, point) and value_of(expr, point) is not None:
                assert evaluate(new, point) == value_of(expr, point), (seed, point)


def test_constants_are_folded():
    assert isinstance(Simplifier().simplify(binary("add", const(2, "int32"), const(3, "int32"))), IntImm)
