"""Vectors: index vectors that are a base and a constant step stay so through sums, products, divisions and
comparisons.
"""

from __future__ import annotations

from math import gcd
from typing import TYPE_CHECKING

from ..dtypes import DType
from ..ir import Binary, Broadcast, BufferLoad, Cast, Expr, IntImm, Ramp, Select, Shuffle, Unary
from .division import MayWrap
from .interval import Interval, wraps_silently
from .terms import Linear, TermTable

if TYPE_CHECKING:
    from .simplify import Simplifier

__all__ = ["Vectors"]


class _Affine:
    """base + step · lane, for `lanes` lanes."""

    __slots__ = ("base", "lanes", "step")

    def __init__(self, base: Linear, step: Linear, lanes: int) -> None:
        self.base = base
        self.step = step
        self.lanes = lanes


_ZERO = Linear({}, 0)


class Vectors(TermTable):
    """Rules for expressions with lanes."""

    def vector(self: Simplifier, expr: Expr) -> Expr:  # type: ignore[misc]
        """The canonical form of a vector expression."""
        dtype = expr.dtype
        if dtype.is_int and not wraps_silently(dtype):
            affine = self.affine(expr)
            if affine is not None:
                return self._from_affine(affine, dtype.scalar)
        if isinstance(expr, Broadcast):
            value = self.simplify(expr.value)
            if isinstance(value, Broadcast):
                return Broadcast(value.value, value.lanes * expr.lanes)
            return expr if value is expr.value else Broadcast(value, expr.lanes)
        if isinstance(expr, Binary):
            return self._binary_vector(expr)
        if isinstance(expr, Select):
            condition = self.simplify(expr.condition)
            known = condition.value if isinstance(condition, Broadcast) else condition
            if isinstance(known, IntImm):
                return self.simplify(expr.true_value if known.value else expr.false_value)
        if isinstance(expr, Unary) and expr.op == "not":
            inner = self.simplify(expr.a)
            if isinstance(inner, Broadcast):
                return Broadcast(self.negated(inner.value), inner.lanes)
        if isinstance(expr, Cast) and not isinstance(expr.value, BufferLoad):
            inner = self.simplify(expr.value)
            if isinstance(inner, Broadcast):
                return Broadcast(self.simplify(Cast(expr.dtype.scalar, inner.value)), inner.lanes)
        if isinstance(expr, Shuffle) and len(expr.vectors) == 1 and len(expr.indices) == 1:
            inner = self.simplify(expr.vectors[0])
            if isinstance(inner, Broadcast):
                return inner.value
        return expr.map_children(self.simplify)

    def affine(self: Simplifier, expr: Expr) -> _Affine | None:  # type: ignore[misc]
        """The base and step of a vector that has them, or None."""
        try:
            found = self._affine(expr)
        except MayWrap:
            return None
        if found is not None and self.is_data_sum(found.base):
            scalar = expr.dtype.scalar
            if not self.lane_values(found).within(scalar.min_value, scalar.max_value):
                return None
        return found

    def _affine(self: Simplifier, expr: Expr) -> _Affine | None:  # type: ignore[misc]
        if isinstance(expr, Ramp):
            if expr.base.dtype.lanes > 1:
                return None
            return _Affine(self.linear(expr.base), self.linear(expr.stride), expr.lanes)
        if isinstance(expr, Broadcast):
            if expr.value.dtype.lanes > 1:
                return None
            return _Affine(self.linear(expr.value), _ZERO, expr.lanes)
        if isinstance(expr, Unary) and expr.op == "neg":
            inner = self._affine(expr.a)
            return None if inner is None else _Affine(inner.base.scaled(-1), inner.step.scaled(-1), inner.lanes)
        if isinstance(expr, Cast) and expr.value.dtype.is_int and not wraps_silently(expr.value.dtype):
            return self._cast_affine(expr)
        if not isinstance(expr, Binary):
            return None
        # Index vectors are shallow; left spines of sums are not long.
        a = self._affine(expr.a)
        b = self._affine(expr.b) if a is not None else None
        if a is None or b is None or a.lanes != b.lanes:
            return None
        return self._combine(expr.op, a, b, expr.dtype.scalar)

    def _combine(self: Simplifier, op: str, a: _Affine, b: _Affine, dtype: DType) -> _Affine | None:  # type: ignore[misc]
        lanes = a.lanes
        if op in ("add", "sub"):
            sign = 1 if op == "add" else -1
            return _Affine(self._checked(a.base.plus(b.base, sign), dtype), a.step.plus(b.step, sign), lanes)
        if op == "mul":
            for x, y in ((a, b), (b, a)):
                if not y.step.terms and y.step.const == 0:
                    base, step = self.product(x.base, y.base), self.product(x.step, y.base)
                    return None if base is None or step is None else _Affine(base, step, lanes)
            return None
        if op in ("floordiv", "floormod", "truncdiv", "truncmod"):
            return self._divided(op, a, b, dtype)
        if (
            op == "shl"
            and not b.step.terms
            and not b.step.const
            and not b.base.terms
            and 0 <= b.base.const < dtype.bits
        ):
            factor = 1 << b.base.const
            return _Affine(a.base.scaled(factor), a.step.scaled(factor), lanes)
        if op in ("min", "max"):
            values = self.lane_values(_Affine(a.base.plus(b.base, -1), a.step.plus(b.step, -1), lanes))
            if values.hi <= 0:
                return a if op == "min" else b
            if values.lo >= 0:
                return b if op == "min" else a
        return None

    def _divided(self: Simplifier, op: str, a: _Affine, b: _Affine, dtype: DType) -> _Affine | None:  # type: ignore[misc]
        if b.step.terms or b.step.const or b.base.terms or b.base.const < 1:
            return None
        if op.startswith("trunc"):
            if self.lane_values(a).lo < 0:
                return None
            op = "floordiv" if op == "truncdiv" else "floormod"
        c, lanes = b.base.const, a.lanes
        if not a.step.terms and a.step.const == 0:
            result = self.divide(a.base, c, dtype) if op == "floordiv" else self.modulo(a.base, c, dtype)
            return _Affine(self.join_halves(result, dtype), _ZERO, lanes)
        if all(k % c == 0 for k in (*a.step.terms.values(), a.step.const)):
            if op == "floormod":
                return _Affine(self.modulo(a.base, c, dtype), _ZERO, lanes)
            step = Linear({i: k // c for i, k in a.step.terms.items()}, a.step.const // c)
            return _Affine(self.divide(a.base, c, dtype), step, lanes)
        if a.step.terms:
            return None
        # No lane carries over c: the step is added to a remainder that stays within [0, c).
        rest = self.modulo(a.base, c, dtype)
        values = self.interval(rest)
        reach = a.step.const * (lanes - 1)
        if values.lo + min(0, reach) < 0 or values.hi + max(0, reach) >= c:
            return None
        if op == "floormod":
            return _Affine(rest, a.step, lanes)
        return _Affine(self.divide(a.base, c, dtype), _ZERO, lanes)

    def _cast_affine(self: Simplifier, expr: Cast) -> _Affine | None:  # type: ignore[misc]
        inner = self._affine(expr.value)
        if inner is None:
            return None
        target, source = expr.dtype.scalar, expr.value.dtype.scalar
        if target.bits < source.bits and not self.lane_values(inner).within(target.min_value, target.max_value):
            return None
        parts = []
        for sum_ in (inner.base, inner.step):
            parts.append(self.linear(Cast(target, self.build(sum_, source))))
        return _Affine(parts[0], parts[1], inner.lanes)

    def lane_values(self: Simplifier, a: _Affine) -> Interval:  # type: ignore[misc]
        """The values of all lanes."""
        last = a.base.plus(a.step, a.lanes - 1)
        return self.sharp_interval(a.base).join(self.sharp_interval(last))

    def _checked(self: Simplifier, sum_: Linear, dtype: DType) -> Linear:  # type: ignore[misc]
        return self.join_halves(sum_, dtype)

    def _from_affine(self: Simplifier, a: _Affine, dtype: DType) -> Expr:  # type: ignore[misc]
        base = self.build(a.base, dtype)
        if not a.step.terms and a.step.const == 0:
            return self.intern(Broadcast(base, a.lanes))
        return self.intern(Ramp(base, self.build(a.step, dtype), a.lanes))

    def _binary_vector(self: Simplifier, expr: Binary) -> Expr:  # type: ignore[misc]
        dtype = expr.a.dtype
        if expr.dtype.is_bool and dtype.is_int and not wraps_silently(dtype) and expr.op not in ("and", "or"):
            found = self._compared(expr)
            if found is not None:
                return found
        a, b = self.simplify(expr.a), self.simplify(expr.b)
        if isinstance(a, Broadcast) and isinstance(b, Broadcast) and a.value.dtype.lanes == b.value.dtype.lanes == 1:
            return Broadcast(self.simplify(Binary(expr.op, a.value, b.value)), a.lanes)
        if expr.op in ("and", "or"):
            for x, y in ((a, b), (b, a)):
                if isinstance(x, Broadcast) and isinstance(x.value, IntImm):
                    return x if bool(x.value.value) == (expr.op == "or") else y
        if expr.dtype.is_float and isinstance(b, Broadcast):
            scalar = self._float_binary(Binary(expr.op, _lane_of(a), b.value))
            if not isinstance(scalar, Binary) and scalar is _lane_of(a):
                return a
        return expr if a is expr.a and b is expr.b else Binary(expr.op, a, b)

    def _compared(self: Simplifier, expr: Binary) -> Expr | None:  # type: ignore[misc]
        a = self.affine(expr.a)
        b = self.affine(expr.b)
        if a is None or b is None:
            return None
        d = _Affine(a.base.plus(b.base, -1), a.step.plus(b.step, -1), a.lanes)
        if not d.step.terms and d.step.const == 0:
            return Broadcast(self.compare(expr.op, a.base, b.base, expr.a.dtype.scalar), a.lanes)
        values = self.lane_values(d)
        truth: bool | None = None
        if expr.op in ("lt", "ge"):
            truth = True if values.hi < 0 else False if values.lo >= 0 else None
        elif expr.op in ("le", "gt"):
            truth = True if values.hi <= 0 else False if values.lo > 0 else None
        elif values.lo > 0 or values.hi < 0 or not self._reaches_zero(d):
            truth = False
        if truth is not None:
            return Broadcast(self.boolean(truth == (expr.op in ("lt", "le", "eq"))), a.lanes)
        return None

    def _reaches_zero(self: Simplifier, d: _Affine) -> bool:  # type: ignore[misc]
        base, step = self.modular(d.base), self.modular(d.step)
        common = gcd(base.coefficient, step.coefficient, step.base)
        return common == 0 or base.base % common == 0 if common != 1 else True


def _lane_of(value: Expr) -> Expr:
    return value.value if isinstance(value, Broadcast) else value
