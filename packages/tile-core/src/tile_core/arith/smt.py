"""The solver, asked last. This is the one module that loads z3, and it is imported on the first question only.

Each question gets a fresh solver in a private context with a fixed seed and a resource limit (never wall clock), so
answers do not depend on load. What has no exact integer meaning (memory, calls, floats, wrapping types) becomes an
unknown of its own: "proven" stays right, "refuted" then does not count.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import inf
from typing import Any

import z3

from ..ir import Binary, Call, Cast, Expr, IntImm, Let, Select, SizeVar, Unary, Var, substitute
from .interval import Interval, bounds_of, dtype_interval, wraps_silently

__all__ = ["Answer", "ask"]

_RESOURCE_LIMIT = 400_000
_SMALL = 7


class Answer:
    """`outcome` is proven, refuted or unknown; a refuted one has `values` of the variables."""

    __slots__ = ("outcome", "values")

    def __init__(self, outcome: str, values: dict[Var, int] | None = None) -> None:
        self.outcome = outcome
        self.values = values


def ask(condition: Expr, facts: Iterable[Expr], ranges: Mapping[Var, Interval]) -> Answer:
    """Whether `condition` holds for all values that ranges and facts allow."""
    translation = _Translation(ranges)
    goal = translation.boolean(condition)
    assumed = [translation.boolean(fact) for fact in facts]
    solver = z3.Solver(ctx=translation.context)
    solver.set("random_seed", 1, "rlimit", _RESOURCE_LIMIT)
    solver.add(*assumed, *translation.side, z3.Not(goal))
    verdict = solver.check()
    if verdict == z3.unsat:
        return Answer("proven")
    if verdict == z3.unknown and not translation.opaque:
        # Products of sizes: small ones are decided by cases, and a witness among them is a witness.
        solver.add(*translation.small())
        verdict = solver.check()
    if verdict != z3.sat or translation.opaque:
        return Answer("unknown")
    model = solver.model()
    values = {}
    for var, symbol in translation.variables.items():
        value: Any = model.eval(symbol, model_completion=True)
        values[var] = value.as_long() if var.dtype.is_int else int(z3.is_true(value))
    return Answer("refuted", values)


class _Translation:
    """Expressions as z3 terms over the integers."""

    def __init__(self, ranges: Mapping[Var, Interval]) -> None:
        self.context = z3.Context()
        self.ranges = ranges
        self.variables: dict[Var, Any] = {}
        self.side: list[Any] = []
        self.opaque = False
        self._memo: dict[int, tuple[Expr, Any]] = {}
        self._unknowns: dict[int, Any] = {}

    def small(self) -> list[Any]:
        """Conditions that keep every variable within a few values of its least one (or of 0)."""
        found = []
        for var, symbol in self.variables.items():
            if var.dtype.is_int:
                known = self.ranges.get(var)
                low = 0 if known is None or known.lo == -inf else known.lo
                found += [symbol >= low, symbol <= low + _SMALL]
        return found

    def boolean(self, node: Expr) -> Any:
        """A z3 bool."""
        if isinstance(node, IntImm):
            return z3.BoolVal(bool(node.value), ctx=self.context)
        if isinstance(node, Var):
            return self._variable(node)
        if isinstance(node, Unary) and node.op == "not":
            return z3.Not(self.boolean(node.a))
        if isinstance(node, Call) and node.op == "likely":
            return self.boolean(node.args[0])
        if isinstance(node, Select):
            return z3.If(self.boolean(node.condition), self.boolean(node.true_value), self.boolean(node.false_value))
        if isinstance(node, Binary) and node.dtype.lanes == 1:
            if node.op == "and":
                return z3.And(self.boolean(node.a), self.boolean(node.b))
            if node.op == "or":
                return z3.Or(self.boolean(node.a), self.boolean(node.b))
            if node.a.dtype.is_int:
                a, b = self.integer(node.a), self.integer(node.b)
                return {"eq": a == b, "ne": a != b, "lt": a < b, "le": a <= b, "gt": a > b, "ge": a >= b}[node.op]
            if node.a.dtype.is_bool and node.op in ("eq", "ne"):
                a, b = self.boolean(node.a), self.boolean(node.b)
                return a == b if node.op == "eq" else a != b
        return self._unknown(node, z3.Bool)

    def integer(self, node: Expr) -> Any:
        """A z3 integer."""
        found = self._memo.get(id(node))
        if found is not None:
            return found[1]
        # The left spine first, without recursion.
        spine: list[Binary] = []
        inner = node
        while type(inner) is Binary and id(inner) not in self._memo:
            spine.append(inner)
            inner = inner.a
        for item in [inner, *reversed(spine)]:
            if id(item) not in self._memo:
                self._memo[id(item)] = (item, self._integer(item))
        return self._memo[id(node)][1]

    def _integer(self, node: Expr) -> Any:
        if isinstance(node, IntImm):
            return z3.IntVal(node.value, ctx=self.context)
        if wraps_silently(node.dtype) and not isinstance(node, Var):
            return self._unknown(node, z3.Int)
        if isinstance(node, Var):
            return self._variable(node)
        if isinstance(node, Unary):
            inner = self.integer(node.a)
            return -inner if node.op == "neg" else -inner - 1
        if isinstance(node, Select):
            return z3.If(self.boolean(node.condition), self.integer(node.true_value), self.integer(node.false_value))
        if isinstance(node, Cast) and node.value.dtype.is_bool:
            one, zero = z3.IntVal(1, ctx=self.context), z3.IntVal(0, ctx=self.context)
            return z3.If(self.boolean(node.value), one, zero)
        if isinstance(node, Cast) and node.value.dtype.is_int and node.value.dtype.bits <= node.dtype.bits:
            return self.integer(node.value)
        if isinstance(node, Let):
            return self.integer(substitute(node.body, {node.var: node.value}))
        if isinstance(node, Binary):
            return self._arithmetic(node)
        return self._unknown(node, z3.Int)

    def _arithmetic(self, node: Binary) -> Any:
        op = node.op
        if op in ("floordiv", "floormod", "shl", "shr"):
            return self._division(node)
        if op in ("add", "sub", "mul", "min", "max"):
            a, b = self.integer(node.a), self.integer(node.b)
            if op == "mul" and not isinstance(node.a, IntImm) and not isinstance(node.b, IntImm):
                return a * b
            return {
                "add": lambda: a + b,
                "sub": lambda: a - b,
                "mul": lambda: a * b,
                "min": lambda: z3.If(a <= b, a, b),
                "max": lambda: z3.If(a >= b, a, b),
            }[op]()
        return self._unknown(node, z3.Int)

    def _division(self, node: Binary) -> Any:
        if not isinstance(node.b, IntImm) or (node.op in ("shl", "shr") and not 0 <= node.b.value < 64):
            return self._unknown(node, z3.Int)
        a, c = self.integer(node.a), node.b.value
        if node.op == "shl":
            return a * (1 << c)
        if node.op == "shr":
            c = 1 << c
        if c == 0:
            return self._unknown(node, z3.Int)
        # z3 rounds so that the remainder is never negative; with a positive divisor that is rounding down.
        if node.op == "floormod":
            return a % c if c > 0 else -((-a) % -c)
        return a / c if c > 0 else (-a) / -c

    def _variable(self, var: Var) -> Any:
        found = self.variables.get(var)
        if found is not None:
            return found
        name = f"v{len(self.variables)}"
        if var.dtype.is_bool:
            found = self.variables[var] = z3.Bool(name, ctx=self.context)
            return found
        found = self.variables[var] = z3.Int(name, ctx=self.context)
        known = self.ranges.get(var)
        if known is None:
            whole = dtype_interval(var.dtype)
            known = Interval(0, whole.hi) if isinstance(var, SizeVar) else whole
        self._within(found, known)
        return found

    def _within(self, symbol: Any, known: Interval) -> None:
        if known.lo != -inf:
            self.side.append(symbol >= known.lo)
        if known.hi != inf:
            self.side.append(symbol <= known.hi)

    def _unknown(self, node: Expr, make: Any) -> Any:
        # Canonical nodes are interned, so equal ones are one unknown.
        self.opaque = True
        found = self._unknowns.get(id(node))
        if found is None:
            found = self._unknowns[id(node)] = make(f"u{len(self._unknowns)}", ctx=self.context)
            self._memo[id(node)] = (node, found)
            if node.dtype.is_int and node.dtype.lanes == 1:
                # What intervals say of an operator that has no translation (bits of tile layouts) is often enough.
                known = bounds_of(node, self.ranges)
                self._within(found, known if known.bounded else dtype_interval(node.dtype))
        return found
