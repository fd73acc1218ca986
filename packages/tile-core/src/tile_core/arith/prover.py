"""Prover: what holds, what fails with witness, what is not known.

Means are tried in the order of their cost: constants, intervals, moduli and the canonical difference with facts (all
inside the simplifier), then concrete values at the corners of the ranges, and the solver last. A proven condition
holds for all values that ranges and facts allow; a refuted one comes with values for which it fails; unknown is an
outcome of its own and must be treated as "may fail".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import inf
from typing import Any

from ..ir import Expr, IntImm, SizeVar, Var, walk
from .division import MayWrap
from .evaluate import Undefined, evaluate
from .interval import BOOL_INTERVAL, Interval, dtype_interval
from .modular import ModularSet
from .simplify import Simplifier
from .terms import Saved

__all__ = ["Decision", "Knowledge", "Prover"]


@dataclass(frozen=True, slots=True)
class Decision:
    """`outcome` is proven, refuted or unknown; a refuted one carries a `witness`: values for which the condition
    fails."""

    outcome: str
    witness: dict[Var, int] | None = None

    @property
    def proven(self) -> bool:
        return self.outcome == "proven"

    @property
    def refuted(self) -> bool:
        return self.outcome == "refuted"


_SMALL_SAMPLES, _WIDE_SAMPLES = 160, 24


class Knowledge:
    """What `bind` and `assume` return: as a context manager it takes the knowledge back at the end."""

    __slots__ = ("_prover", "_saved")

    def __init__(self, prover: Prover, saved: Saved) -> None:
        self._prover = prover
        self._saved = saved

    def __enter__(self) -> Prover:
        return self._prover

    def __exit__(self, *_: object) -> None:
        self._prover.simplifier.restore(self._saved)


class Prover:
    """Decides conditions under ranges and facts.

    Args:
        ranges: {Var: Interval | (min, extent) | range | int}; shape variables are ≥ 0 without being named.
        facts: conditions that hold.
        solver: whether z3 may be asked when all else fails.
    """

    def __init__(
        self, ranges: Mapping[Var, Any] | None = None, facts: Iterable[Expr] = (), solver: bool = True
    ) -> None:
        self.simplifier = Simplifier(ranges)
        self.solver = solver
        self.solver_queries = 0
        for fact in facts:
            self.simplifier.learn(fact)

    # ---- knowledge

    def bind(self, var: Var, min: Expr | int, extent: Expr | int, step: int = 1) -> Knowledge:
        """From now on min ≤ var < min + extent·step, in steps; use with `with` to take it back."""
        saved = self.simplifier.save()
        self.simplifier.learn_range(var, min, extent, step)
        return Knowledge(self, saved)

    def bind_value(self, var: Var, value: Expr) -> Knowledge:
        """From now on `var` names `value`."""
        saved = self.simplifier.save()
        self.simplifier.learn_value(var, value)
        return Knowledge(self, saved)

    def assume(self, condition: Expr) -> Knowledge:
        """From now on `condition` holds. Parts that read memory teach nothing."""
        saved = self.simplifier.save()
        self.simplifier.learn(condition)
        return Knowledge(self, saved)

    @property
    def contradictory(self) -> bool:
        """Whether what is known cannot all hold: the code here is never reached."""
        return self.simplifier.contradiction

    # ---- questions

    def simplify(self, expr: Expr) -> Expr:
        """The canonical form; never asks the solver."""
        return self.simplifier.simplify(expr)

    def bounds(self, expr: Expr) -> Interval:
        """The values of a scalar integer or bool expression."""
        if expr.dtype.is_bool:
            found = self.simplify(expr)
            return Interval.point(found.value) if isinstance(found, IntImm) else BOOL_INTERVAL
        if not expr.dtype.is_int:
            return Interval.full()
        if expr.dtype.lanes > 1:
            return self._vector_bounds(expr)
        return self.simplifier.sharp_interval(self.simplifier.linear(expr))

    def _vector_bounds(self, expr: Expr) -> Interval:
        affine = self.simplifier.affine(expr)
        if affine is not None:
            return self.simplifier.lane_values(affine)
        return dtype_interval(expr.dtype)

    def modular(self, expr: Expr) -> ModularSet:
        """What is known of a scalar integer expression modulo something."""
        return self.simplifier.modular(self.simplifier.linear(expr))

    def divides(self, divisor: int, expr: Expr) -> bool:
        """Whether `expr` is known to be a multiple of `divisor`."""
        if divisor in (1, -1) or self.contradictory:
            return True
        if divisor == 0:
            return False
        sum_ = self.simplifier.linear(expr)
        if self.simplifier.modular(sum_).divisible_by(divisor):
            return True
        try:
            remainder = self.simplifier.modulo(sum_, abs(divisor), expr.dtype)
        except MayWrap:
            return False
        return not remainder.terms and remainder.const == 0

    def proves(self, condition: Expr) -> bool:
        """Whether `condition` is known to hold."""
        return self.decide(condition).outcome == "proven"

    def decide(self, condition: Expr) -> Decision:
        """Proven, refuted with witness, or unknown."""
        if self.contradictory:
            return Decision("proven")
        goal = self.simplify(condition)
        if isinstance(goal, IntImm) and goal.value:
            return Decision("proven")
        if goal.dtype.lanes > 1:
            return self._decide_vector(goal)
        witness = self._search(goal)
        if witness is not None:
            return Decision("refuted", witness)
        if isinstance(goal, IntImm):
            # Always false where reached; whether it is reached at all is what no sample showed.
            return self._ask(goal) if self.solver and not self._plain() else Decision("unknown")
        return self._ask(goal) if self.solver else Decision("unknown")

    def _decide_vector(self, goal: Expr) -> Decision:
        value = getattr(goal, "value", None)
        if isinstance(value, Expr) and value.dtype.lanes == 1:
            return self.decide(value)
        return Decision("unknown")

    def _plain(self) -> bool:
        """Whether a sample would have been found had there been one: nothing known but bounded ranges."""
        return not self.simplifier.raw_facts and not self.simplifier.facts

    def _ask(self, goal: Expr) -> Decision:
        from .smt import ask

        self.solver_queries += 1
        simplifier = self.simplifier
        facts = [*simplifier.raw_facts, *simplifier.bound_conditions()]
        answer = ask(goal, facts, simplifier.ranges)
        values = answer.values or {}
        if answer.outcome == "refuted" and any(simplifier.is_unforeseen(var) for var in values):
            # What the variable holds comes from memory: the solver's choice need not occur.
            return Decision("unknown")
        return Decision(answer.outcome, answer.values)

    # ---- witnesses without the solver

    def _search(self, goal: Expr) -> dict[Var, int] | None:
        """Values at and near the corners of the ranges for which the goal fails and every fact holds."""
        simplifier = self.simplifier
        facts = [*simplifier.raw_facts, *simplifier.bound_conditions()]
        variables: dict[Var, None] = {}
        for condition in (goal, *facts):
            for item in walk(condition):
                if isinstance(item, Var):
                    variables.setdefault(item)
        if len(variables) > 24:
            return None
        if any(simplifier.is_unforeseen(var) for var in variables):
            return None
        ranges = {var: self._sample_range(var) for var in variables}
        if any(known.empty for known in ranges.values()):
            return None
        for values in _samples(ranges):
            try:
                if not evaluate(goal, values) and all(evaluate(fact, values) for fact in facts):
                    return values
            except Undefined:
                continue
        return None

    def _sample_range(self, var: Var) -> Interval:
        if var.dtype.is_bool:
            return BOOL_INTERVAL
        known = self.simplifier.atom_interval(self.simplifier.number(var))
        whole = dtype_interval(var.dtype)
        if isinstance(var, SizeVar):
            whole = Interval(0, whole.hi)
        return known.meet(whole)


def _samples(ranges: Mapping[Var, Interval]) -> Iterable[dict[Var, int]]:
    """A few dozen assignments: all low, all high, one variable at an end while the others are at the other, small
    values, the middle."""
    low = {var: _low(r) for var, r in ranges.items()}
    high = {var: _high(r) for var, r in ranges.items()}
    yield low
    if not ranges:
        return
    yield high
    small = {var: min(max(1, r.lo), r.hi) for var, r in ranges.items()}
    yield small
    for var in ranges:
        yield {**low, var: high[var]}
        yield {**high, var: low[var]}
        yield {**small, var: min(low[var] + 1, high[var])}
    yield {var: (low[var] + high[var]) // 2 for var in ranges}
    # A fixed pseudo-random sequence, so that every run finds the same witness: small values first, where sizes that
    # hang together by products are met, then the whole ranges.
    state = 0
    for count, widest in ((_SMALL_SAMPLES, 3), (_WIDE_SAMPLES, 1 << 20)):
        for _ in range(count):
            values = {}
            for var in ranges:
                state += 1
                span = min(high[var] - low[var], widest) + 1
                values[var] = low[var] + _scrambled(state) % span
            yield values


def _scrambled(number: int) -> int:
    """A number that looks random (the finaliser of splitmix64)."""
    number = (number * 0x9E3779B97F4A7C15) & 0xFFFFFFFFFFFFFFFF
    number = ((number ^ number >> 30) * 0xBF58476D1CE4E5B9) & 0xFFFFFFFFFFFFFFFF
    number = ((number ^ number >> 27) * 0x94D049BB133111EB) & 0xFFFFFFFFFFFFFFFF
    return number ^ number >> 31


def _low(known: Interval) -> int:
    return int(known.lo) if known.lo != -inf else (min(0, int(known.hi)) if known.hi != inf else 0)


def _high(known: Interval) -> int:
    return int(known.hi) if known.hi != inf else max(0, _low(known)) + (1 << 16)
