"""Dependence: whether two accesses can touch the same element, and what it means when they do.

`boxes_apart` compares the boxes that accesses cover over all iterations: it proves that two never meet, cheaply.
Unknown overlap is a dependence.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..arith import Interval, Prover
from ..ir import Binary, Expr, IntImm, binary
from .access import AccessSite, root_buffer

__all__ = ["Box", "boxes_apart", "covered_box", "fixed_by"]


@dataclass(frozen=True, slots=True)
class Box:
    """What an access covers at most, over all iterations: an interval for each axis, or None for "anything" (seen
    through a view)."""

    axes: tuple[Interval, ...] | None

    def apart_from(self, other: Box) -> bool:
        """Whether the two have no element in common."""
        if self.axes is None or other.axes is None or len(self.axes) != len(other.axes):
            return False
        return any(a.hi < b.lo or b.hi < a.lo for a, b in zip(self.axes, other.axes))


def covered_box(site: AccessSite, prover: Prover) -> Box:
    """The box of an access under what the prover knows where it stands."""
    if root_buffer(site.buffer) is not site.buffer:
        return Box(None)
    axes = []
    for low, extent in zip(site.region.mins, site.region.extents):
        axes.append(Interval(_low(low, prover), _high(low, extent, prover)))
    return Box(tuple(axes))


def boxes_apart(first: AccessSite, second: AccessSite, prover: Prover) -> bool:
    """Whether two accesses, at any two points of their loops, never touch one element."""
    if root_buffer(first.buffer) is not root_buffer(second.buffer):
        return True
    return covered_box(first, prover).apart_from(covered_box(second, prover))


def fixed_by(indices: list[Expr], prover: Prover) -> list[Expr]:
    """Expressions whose values are the same wherever the given indices are.

    Two rules that intervals do not know, since the divisors are symbolic: `i*n + j` with 0 ≤ j < n fixes i and j; and
    `m // s` with
    `m % s` fixes m, also where the remainder is itself taken apart (`m % (h*w) // w` with `m % w`).
    """
    known: dict[int, Expr] = {}
    found: list[Expr] = []
    work = [prover.simplify(index) for index in indices]
    while work:
        expr = work.pop()
        if id(expr) in known or not expr.dtype.is_int or expr.dtype.lanes != 1:
            continue
        known[id(expr)] = expr
        found.append(expr)
        work += _parts(expr, prover)
        work += _joined(known, prover)
    return found


def _parts(expr: Expr, prover: Prover) -> list[Expr]:
    """Quotient and remainder by a symbolic factor of the expression, where they come out without division."""
    simplifier = prover.simplifier
    factors: dict[int, None] = {}
    for index in simplifier.linear(expr).terms:
        factors.update(dict.fromkeys(simplifier.factors.get(index, ())))
    found: list[Expr] = []
    for factor in factors:
        divisor = simplifier.atoms[factor]
        if prover.bounds(divisor).lo < 1:
            # A factor of 0 fixes nothing.
            continue
        quotient = prover.simplify(binary("floordiv", expr, divisor))
        if not (isinstance(quotient, Binary) and quotient.op == "floordiv"):
            found += [quotient, prover.simplify(binary("floormod", expr, divisor))]
    return found


def _joined(known: dict[int, Expr], prover: Prover) -> list[Expr]:
    """Dividends whose quotient and remainder by one divisor are both known."""
    quotients = [e for e in known.values() if isinstance(e, Binary) and e.op == "floordiv"]
    remainders = {(id(e.a), id(e.b)) for e in known.values() if isinstance(e, Binary) and e.op == "floormod"}
    found: list[Expr] = []
    for quotient in quotients:
        dividend, divisor = quotient.a, quotient.b
        if (id(dividend), id(divisor)) in remainders:
            found.append(dividend)
        elif isinstance(dividend, Binary) and dividend.op == "floormod" and (id(dividend.a), id(divisor)) in remainders:
            # m % s // w and m % w fix m % s when w divides s.
            if _divides(divisor, dividend.b, prover):
                found.append(dividend)
    return found


def _divides(divisor: Expr, product: Expr, prover: Prover) -> bool:
    if isinstance(divisor, IntImm):
        return divisor.value > 0 and prover.divides(divisor.value, product)
    simplifier = prover.simplifier
    number = simplifier.number(divisor)
    return all(number in simplifier.factors.get(i, (i,)) for i in simplifier.linear(product).terms) and not (
        simplifier.linear(product).const
    )


def _low(low: Expr, prover: Prover) -> int | float:
    return prover.bounds(low).lo


def _high(low: Expr, extent: Expr, prover: Prover) -> int | float:
    return prover.bounds(low + extent - 1).hi
