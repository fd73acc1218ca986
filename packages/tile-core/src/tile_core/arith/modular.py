"""Modular facts: what is known of an integer modulo something, such as "a multiple of 8" or "3 more than a multiple
of 16".
"""

from __future__ import annotations

from collections.abc import Mapping
from math import gcd
from typing import Any

from ..ir import Binary, Broadcast, Cast, Expr, IntImm, Ramp, Select, Unary, Var

__all__ = ["ANY_INTEGER", "ModularSet", "modular_of"]


class ModularSet:
    """The integers coefficient·k + base: coefficient 0 is one constant, 1 with base 0 any integer."""

    __slots__ = ("base", "coefficient")

    def __init__(self, coefficient: int, base: int = 0) -> None:
        coefficient = abs(coefficient)
        self.coefficient = coefficient
        self.base = base % coefficient if coefficient else base

    def __repr__(self) -> str:
        return f"{self.coefficient}·k + {self.base}"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ModularSet) and (self.coefficient, self.base) == (other.coefficient, other.base)

    def __hash__(self) -> int:
        return hash((self.coefficient, self.base))

    def contains(self, value: int) -> bool:
        """Whether `value` is in it."""
        return value == self.base if self.coefficient == 0 else (value - self.base) % self.coefficient == 0

    def divisible_by(self, divisor: int) -> bool:
        """Whether every value of it is a multiple of `divisor`."""
        return self.coefficient % divisor == 0 and self.base % divisor == 0

    def residue(self, divisor: int) -> int | None:
        """The value modulo `divisor` when there is one only."""
        return self.base % divisor if self.coefficient % divisor == 0 else None

    def join(self, other: ModularSet) -> ModularSet:
        """The smallest set that holds both."""
        return ModularSet(gcd(self.coefficient, other.coefficient, self.base - other.base), self.base)

    def meet(self, other: ModularSet) -> ModularSet:
        """What is known when both hold (the stronger one where both cannot be said in one)."""
        a, b = self, other
        if a.coefficient == 0 or (b.coefficient and a.coefficient % b.coefficient == 0):
            return a
        if b.coefficient == 0 or b.coefficient % a.coefficient == 0:
            return b
        common = gcd(a.coefficient, b.coefficient)
        if (a.base - b.base) % common:
            return a
        # Chinese remainder: x = a.base + a.coefficient·t with t = (b.base - a.base)/common · inverse.
        step = b.coefficient // common
        turns = (b.base - a.base) // common * pow(a.coefficient // common, -1, step) % step if step > 1 else 0
        return ModularSet(a.coefficient * step, a.base + a.coefficient * turns)

    def __add__(self, other: ModularSet) -> ModularSet:
        return ModularSet(gcd(self.coefficient, other.coefficient), self.base + other.base)

    def __neg__(self) -> ModularSet:
        return ModularSet(self.coefficient, -self.base)

    def __sub__(self, other: ModularSet) -> ModularSet:
        return self + -other

    def scale(self, factor: int) -> ModularSet:
        """Each value times a constant."""
        return ModularSet(self.coefficient * factor, self.base * factor)

    def __mul__(self, other: ModularSet) -> ModularSet:
        return ModularSet(
            gcd(self.coefficient * other.coefficient, self.coefficient * other.base, other.coefficient * self.base),
            self.base * other.base,
        )

    def floordiv(self, divisor: int) -> ModularSet:
        """Each value divided by a constant, rounded down."""
        if divisor != 0 and self.coefficient % divisor == 0:
            return ModularSet(self.coefficient // divisor, self.base // divisor)
        return ANY_INTEGER

    def floormod(self, divisor: int) -> ModularSet:
        """Each value modulo a constant."""
        if divisor == 0:
            return ANY_INTEGER
        common = gcd(self.coefficient, divisor)
        if common == abs(divisor) or self.coefficient == 0:
            return ModularSet(0, self.base % divisor)
        return ModularSet(common, self.base)


ANY_INTEGER = ModularSet(1, 0)


def modular_of(expr: Expr, known: Mapping[Var, ModularSet] | None = None) -> ModularSet:
    """What is known of an integer index expression (all lanes of a vector) modulo something, given facts about
    variables."""
    return _Modular(dict(known or {})).of(expr)


class _Modular:
    def __init__(self, known: dict[Var, ModularSet]) -> None:
        self.known = known
        self.memo: dict[int, ModularSet] = {}

    def of(self, expr: Expr) -> ModularSet:
        memo = self.memo
        stack: list[Any] = [expr]
        while stack:
            node = stack[-1]
            if id(node) in memo:
                stack.pop()
                continue
            children = node.child_nodes() if isinstance(node, (Binary, Unary, Cast, Select, Ramp, Broadcast)) else []
            waiting = [c for c in children if id(c) not in memo]
            if waiting:
                stack.extend(waiting)
                continue
            stack.pop()
            memo[id(node)] = self._node(node)
        return memo[id(expr)]

    def _node(self, node: Expr) -> ModularSet:
        of = self.memo
        if not node.dtype.is_int:
            return ANY_INTEGER
        if isinstance(node, IntImm):
            return ModularSet(0, node.value)
        if isinstance(node, Var):
            return self.known.get(node, ANY_INTEGER)
        # Facts on narrow and unsigned types would have to survive wrapping.
        if node.dtype.scalar.name not in ("int32", "int64"):
            return ANY_INTEGER
        if isinstance(node, Binary):
            a, b = of[id(node.a)], of[id(node.b)]
            return binary_modular(node.op, a, b)
        if isinstance(node, Unary):
            return -of[id(node.a)] if node.op == "neg" else ANY_INTEGER
        if isinstance(node, Cast):
            wide = node.value.dtype.is_int and node.value.dtype.bits <= node.dtype.bits
            return of[id(node.value)] if wide else ANY_INTEGER
        if isinstance(node, Select):
            return of[id(node.true_value)].join(of[id(node.false_value)])
        if isinstance(node, Ramp):
            step = of[id(node.stride)]
            return of[id(node.base)] + ModularSet(gcd(step.coefficient, step.base), 0)
        if isinstance(node, Broadcast):
            return of[id(node.value)]
        return ANY_INTEGER


def binary_modular(op: str, a: ModularSet, b: ModularSet) -> ModularSet:
    """What is known of `a op b`."""
    if op == "add":
        return a + b
    if op == "sub":
        return a - b
    if op == "mul":
        return a * b
    if op in ("min", "max"):
        return a.join(b)
    if b.coefficient == 0:
        constant = b.base
        if op == "floordiv":
            return a.floordiv(constant)
        if op == "floormod":
            return a.floormod(constant)
        if op == "shl" and 0 <= constant < 64:
            return a.scale(1 << constant)
    return ANY_INTEGER
