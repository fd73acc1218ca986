"""Bounds on sums from assumptions, and from what quotients, remainders, minima and maxima imply.

The interval of a sum from its atoms alone forgets how atoms hang together: `i + n*128 < m` says nothing about i or n.
A bound on a sum is sharpened here by adding multiples of known bounds that cancel an atom, a few steps deep: enough
for guards and tile offsets, and cheap.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import gcd, inf
from typing import Any

from ..ir import Binary, Expr, IntImm
from .division import Division
from .interval import Interval
from .terms import Linear

__all__ = ["Facts"]

_DEPTH = 3
_MOST_STEPS = 120


class Facts(Division):
    """Bounds on sums."""

    def add_bound(self, sum_: Linear, at_least: Any = -inf, at_most: Any = inf) -> None:
        """Records at_least ≤ sum ≤ at_most."""
        terms = sum_.terms
        lo, hi = at_least - sum_.const, at_most - sum_.const
        if not terms:
            if lo > 0 or hi < 0:
                self.contradiction = True
            return
        common = gcd(*terms.values())
        if terms[min(terms)] < 0:
            common = -common
        scaled = {i: k // common for i, k in terms.items()}
        if common < 0:
            lo, hi = -hi, -lo
        size = abs(common)
        bound = Interval(-inf if lo == -inf else -(-lo // size), inf if hi == inf else hi // size)
        if len(scaled) == 1:
            index = next(iter(scaled))
            known = self.atom_facts.get(index)
            self.atom_facts[index] = bound if known is None else bound.meet(known)
        else:
            key = frozenset(scaled.items())
            old = self.facts.get(key)
            self.facts[key] = (scaled, bound if old is None else bound.meet(old[1]))
        self._clear_memos()
        if len(scaled) == 1 and self.atom_interval(index).empty:
            self.contradiction = True

    def bound_conditions(self) -> list[Expr]:
        """The recorded bounds on sums as conditions, for a solver or a concrete check."""
        found: list[Expr] = []
        for terms, bound in [*self.facts.values(), *(({i: 1}, b) for i, b in self.atom_facts.items())]:
            dtype = self.atoms[next(iter(terms))].dtype
            sum_ = self.build(Linear(terms, 0), dtype)
            if bound.lo != -inf:
                found.append(self.operation("ge", sum_, self.constant(bound.lo, dtype)))
            if bound.hi != inf:
                found.append(self.operation("le", sum_, self.constant(bound.hi, dtype)))
        return found

    def sharp_interval(self, sum_: Linear, low_goal: Any = inf, high_goal: Any = -inf) -> Interval:
        """The values of a sum with all bounds used; stops early once all are ≥ `low_goal` or all ≤ `high_goal`."""
        budget = [_MOST_STEPS]
        return self._sharpen(sum_, _DEPTH, budget, low_goal, high_goal)

    def _sharpen(self, sum_: Linear, depth: int, budget: list[int], low_goal: Any, high_goal: Any) -> Interval:
        best = self.interval(sum_)
        if depth == 0 or best.lo >= low_goal or best.hi <= high_goal:
            return best
        for terms, bound in self._relevant(sum_):
            for index, k in terms.items():
                own = sum_.terms.get(index)
                if own is None or budget[0] <= 0:
                    continue
                # Cancel the atom: up·sum = down·terms + rest.
                common = gcd(own, k)
                up, down = k // common, own // common
                if up < 0:
                    up, down = -up, -down
                if up > 64 or abs(down) > 1 << 40:
                    continue
                budget[0] -= 1
                rest = sum_.scaled(up).plus(Linear(terms, 0), -down)
                share = bound.scale(down)
                part = self._sharpen(
                    rest,
                    depth - 1,
                    budget,
                    inf if share.lo == -inf else low_goal * up - share.lo,
                    -inf if share.hi == inf else high_goal * up - share.hi,
                )
                total = part + share
                lo = total.lo if total.lo in (inf, -inf) else -(-total.lo // up)
                hi = total.hi if total.hi in (inf, -inf) else total.hi // up
                best = best.meet(Interval(lo, hi))
                if best.lo >= low_goal or best.hi <= high_goal:
                    return best
        return best

    def _relevant(self, sum_: Linear) -> Iterator[tuple[dict[int, int], Interval]]:
        """Bounds that share an atom with the sum: assumed ones first, then implied ones."""
        own = sum_.terms
        for terms, bound in list(self.facts.values()):
            if any(i in own for i in terms):
                yield terms, bound
        for index in list(own):
            yield from self._implied(index)

    def _implied(self, index: int) -> Iterator[tuple[dict[int, int], Interval]]:
        if index in self.quotients:
            dividend, divisor = self.quotients[index]
            # 0 ≤ x - c·(x // c) ≤ c - 1
            terms = dict(dividend.terms)
            terms[index] = terms.get(index, 0) - divisor
            rest = self.modular(dividend).residue(divisor)
            least, most = (0, divisor - 1) if rest is None else (rest, rest)
            yield terms, Interval(least - dividend.const, most - dividend.const)
        elif index in self.remainders:
            dividend, _ = self.remainders[index]
            if self.interval(dividend).lo >= 0:
                # x % c ≤ x for x ≥ 0
                terms = {i: -k for i, k in dividend.terms.items()}
                terms[index] = terms.get(index, 0) + 1
                yield terms, Interval(-inf, dividend.const)
        else:
            atom = self.atoms[index]
            if isinstance(atom, Binary) and atom.op in ("min", "max") and atom.dtype.is_int and atom.dtype.lanes == 1:
                for side in (atom.a, atom.b):
                    value = self.linear_of(side)
                    terms = {i: -k for i, k in value.terms.items()}
                    terms[index] = terms.get(index, 0) + 1
                    if atom.op == "min":
                        yield terms, Interval(-inf, value.const)
                    else:
                        yield terms, Interval(value.const, inf)

    def linear_of(self, canonical: Expr) -> Linear:
        """The sum of a canonical integer expression."""
        sum_ = self.sum_of(canonical)
        if sum_ is not None:
            return sum_
        if isinstance(canonical, IntImm):
            return Linear({}, canonical.value)
        return Linear({self.number(canonical): 1}, 0)
