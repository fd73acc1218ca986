"""Truth: comparisons, connectives, and what a condition that holds teaches.

A comparison of integers becomes a statement about one sum: sum ≤ 0, sum = 0 or sum ≠ 0. Intervals, facts and the
modulus decide it or it is printed with positive terms on each side, divided by their common divisor, so that equal
comparisons are the identical node.
"""

from __future__ import annotations

from math import gcd
from typing import TYPE_CHECKING

from ..dtypes import DType
from ..ir import Binary, Call, Cast, Expr, FloatImm, IntImm, Let, Select, Unary, Var
from .interval import wraps_silently
from .modular import ModularSet
from .terms import Linear, TermTable, reads_memory

if TYPE_CHECKING:
    from .simplify import Simplifier

__all__ = ["Logic"]

BOOL = DType("bool")
_Sides = tuple[str, Linear, Linear]
_OPPOSITE = {"lt": "ge", "ge": "lt", "gt": "le", "le": "gt", "eq": "ne", "ne": "eq"}


class Logic(TermTable):
    """Rules for bool expressions."""

    def truth(self: Simplifier, expr: Expr) -> Expr:  # type: ignore[misc]
        """The canonical form of a scalar bool expression."""
        found = self._truth(expr)
        known = self.truths.get(id(found))
        return found if known is None else self.boolean(known)

    def boolean(self, value: bool) -> Expr:
        """A bool constant."""
        return self.constant(int(value), BOOL)

    def _truth(self: Simplifier, expr: Expr) -> Expr:  # type: ignore[misc]
        kind = type(expr)
        if kind is IntImm:
            return self.boolean(bool(expr.value))  # type: ignore[attr-defined]
        if isinstance(expr, Var):
            return expr
        if kind is Binary:
            op = expr.op  # type: ignore[attr-defined]
            if op in ("and", "or"):
                return self._connective(expr)  # type: ignore[arg-type]
            return self._comparison(expr)  # type: ignore[arg-type]
        if kind is Unary:
            return self.negated(self.simplify(expr.a))  # type: ignore[attr-defined]
        if kind is Select:
            return self._bool_select(expr)  # type: ignore[arg-type]
        if kind is Let:
            return self.let(expr)  # type: ignore[arg-type]
        if kind is Call and expr.op == "likely":  # type: ignore[attr-defined]
            inner = self.simplify(expr.args[0])  # type: ignore[attr-defined]
            return inner if isinstance(inner, IntImm) else self.intern(expr.with_(args=(inner,)))
        if kind is Cast:
            inner = self.simplify(expr.value)  # type: ignore[attr-defined]
            if isinstance(inner, IntImm):
                return self.boolean(bool(inner.value))
            return self.intern(Cast(BOOL, inner))
        return self.intern(expr.map_children(self.simplify))

    # ---- comparisons

    def _comparison(self: Simplifier, expr: Binary) -> Expr:  # type: ignore[misc]
        op, a, b = expr.op, expr.a, expr.b
        if not a.dtype.is_int:
            return self._opaque_comparison(op, self.simplify(a), self.simplify(b))
        left, right = self.linear(a), self.linear(b)
        return self.compare(op, left, right, a.dtype)

    def compare(self: Simplifier, op: str, left: Linear, right: Linear, dtype: DType) -> Expr:  # type: ignore[misc]
        """`left op right` for sums of type `dtype`, decided or canonical."""
        if op in ("gt", "ge"):
            left, right, op = right, left, "lt" if op == "gt" else "le"
        difference = left.plus(right, -1)
        if op == "lt":
            difference = Linear(difference.terms, difference.const + 1)
        exact = wraps_silently(dtype) or self.is_data_sum(left) or self.is_data_sum(right)
        fallback = (op, left, right) if exact else None
        if op in ("eq", "ne"):
            return self._equality(op, difference, dtype, fallback)
        return self._at_most_zero(difference, dtype, fallback)

    def _at_most_zero(self: Simplifier, d: Linear, dtype: DType, fallback: _Sides | None = None) -> Expr:  # type: ignore[misc]
        """sum ≤ 0; `fallback` is the comparison as written, for sums that may wrap when they are moved to another
        side."""
        if not d.terms:
            return self.boolean(d.const <= 0)
        values = self.sharp_interval(d, low_goal=1, high_goal=0)
        if values.hi <= 0:
            return self.boolean(True)
        if values.lo > 0:
            return self.boolean(False)
        common = gcd(*d.terms.values())
        # g·s + c ≤ 0 is s ≤ floor(-c / g).
        d = Linear({i: k // common for i, k in d.terms.items()}, -(-d.const // common))
        whole = self._without_division(d, dtype)
        if whole is not None:
            return self._at_most_zero(whole, dtype, fallback)
        return self._order_node(d, dtype, fallback)

    def _without_division(self: Simplifier, d: Linear, dtype: DType) -> Linear | None:  # type: ignore[misc]
        """y//k + c ≤ 0 as y ≤ -c·k + k - 1, and -(y//k) + c ≤ 0 as y ≥ c·k, so that bounds on y show."""
        if len(d.terms) != 1:
            return None
        index, k = next(iter(d.terms.items()))
        if index not in self.quotients or k not in (1, -1):
            return None
        dividend, divisor = self.quotients[index]
        if k == 1:
            return Linear(dividend.terms, dividend.const + d.const * divisor - divisor + 1)
        return Linear({}, d.const * divisor).plus(dividend, -1)

    def _equality(self: Simplifier, op: str, d: Linear, dtype: DType, fallback: _Sides | None) -> Expr:  # type: ignore[misc]
        if not d.terms:
            return self.boolean((d.const == 0) == (op == "eq"))
        values = self.sharp_interval(d, low_goal=1, high_goal=-1)
        if values.lo > 0 or values.hi < 0 or not self.modular(d).contains(0):
            return self.boolean(op == "ne")
        if values.lo == values.hi == 0:
            return self.boolean(op == "eq")
        common = gcd(*d.terms.values())
        if d.const % common:
            return self.boolean(op == "ne")
        first = min(d.terms)
        common = common if d.terms[first] > 0 else -common
        d = Linear({i: k // common for i, k in d.terms.items()}, d.const // common)
        found = self.operation(op, *self._sides(d, dtype, fallback))
        self.comparisons[id(found)] = (op, d)
        return found

    def _order_node(self: Simplifier, d: Linear, dtype: DType, fallback: _Sides | None = None) -> Expr:  # type: ignore[misc]
        positive = any(k > 0 for k in d.terms.values())
        negative = any(k < 0 for k in d.terms.values())
        if fallback is not None and not self._movable(d, dtype):
            op, left, right = fallback
            found = self.operation(op, self.build(left, dtype), self.build(right, dtype))
        elif not positive:
            # -s + c ≤ 0
            found = self.operation(
                "ge", self.build(Linear({i: -k for i, k in d.terms.items()}, 0), dtype), self.constant(d.const, dtype)
            )
        elif not negative:
            found = self.operation("lt", self.build(Linear(d.terms, 0), dtype), self.constant(1 - d.const, dtype))
        elif d.const == 0:
            found = self.operation("le", *self._sides(d, dtype))
        else:
            found = self.operation("lt", *self._sides(Linear(d.terms, d.const - 1), dtype))
        self.comparisons[id(found)] = ("le", d)
        return found

    def _movable(self: Simplifier, d: Linear, dtype: DType) -> bool:  # type: ignore[misc]
        """Whether both sides of the canonical forms of sum ≤ 0 and sum = 0 stay within the type."""
        for sign in (1, -1):
            side = Linear({i: k * sign for i, k in d.terms.items() if k * sign > 0}, 0)
            for const in (0, -1, 1, sign * d.const, sign * d.const - 1, sign * d.const + 1):
                if self.may_wrap(Linear(side.terms, const), dtype):
                    return False
            if not side.terms and wraps_silently(dtype) and not dtype.min_value + 1 <= abs(d.const) < dtype.max_value:
                return False
        return True

    def _sides(self: Simplifier, d: Linear, dtype: DType, fallback: _Sides | None = None) -> tuple[Expr, Expr]:  # type: ignore[misc]
        """Positive terms on the left, negative ones on the right, the constant where it is positive (right when a
        side would be empty)."""
        if fallback is not None and not self._movable(d, dtype):
            return self.build(fallback[1], dtype), self.build(fallback[2], dtype)
        left = {i: k for i, k in d.terms.items() if k > 0}
        right = {i: -k for i, k in d.terms.items() if k < 0}
        left_const, right_const = (d.const, 0) if d.const > 0 and left and right else (0, -d.const)
        return self.build(Linear(left, left_const), dtype), self.build(Linear(right, right_const), dtype)

    def _opaque_comparison(self: Simplifier, op: str, a: Expr, b: Expr) -> Expr:  # type: ignore[misc]
        if isinstance(a, IntImm) and isinstance(b, IntImm) and op in ("eq", "ne"):
            return self.boolean((a.value == b.value) == (op == "eq"))
        if a.dtype.is_bool and op in ("eq", "ne") and isinstance(b, IntImm):
            return a if bool(b.value) == (op == "eq") else self.negated(a)
        if a.dtype.is_float and (a.dtype.lanes > 1 or not isinstance(a, FloatImm)):
            # The operands keep their places: NaN makes a < b and not (b <= a) differ.
            return Binary(op, a, b)
        return self.operation(op, a, b)

    # ---- connectives

    def _connective(self: Simplifier, expr: Binary) -> Expr:  # type: ignore[misc]
        op = expr.op
        absorbing = op == "or"
        parts: dict[int, Expr] = {}
        stack: list[Expr] = [expr]
        while stack:
            node = stack.pop()
            if type(node) is Binary and node.op == op:
                stack += [node.b, node.a]
                continue
            part = self.simplify(node)
            if type(part) is Binary and part.op == op:
                stack += [part.b, part.a]
                continue
            if isinstance(part, IntImm):
                if bool(part.value) == absorbing:
                    return part
                continue
            if id(self.negated(part)) in parts:
                return self.boolean(absorbing)
            parts[id(part)] = part
        kept = self._without_weaker(list(parts.values()), op)
        if kept is None:
            return self.boolean(absorbing)
        if not kept:
            return self.boolean(not absorbing)
        result = kept[0]
        for part in kept[1:]:
            result = self.operation(op, result, part)
        return result

    def _without_weaker(self: Simplifier, parts: list[Expr], op: str) -> list[Expr] | None:  # type: ignore[misc]
        """Bounds on one sum reduced to the tightest (loosest for `or`); None when two of them decide the whole."""
        bounds: dict[frozenset[tuple[int, int]], tuple[int, int]] = {}
        kept: list[Expr | None] = []
        for part in parts:
            kind, d = self.comparisons.get(id(part), ("", Linear({}, 0)))
            position = len(kept)
            kept.append(part)
            if kind != "le":
                continue
            key = frozenset(d.terms.items())
            known = bounds.get(key)
            if known is not None:
                # s + c ≤ 0: a larger c is the stronger bound.
                stronger = d.const > known[0]
                if stronger == (op == "and"):
                    kept[known[1]] = None
                    bounds[key] = (d.const, position)
                else:
                    kept[position] = None
                continue
            bounds[key] = (d.const, position)
            other = bounds.get(frozenset((i, -k) for i, k in d.terms.items()))
            # s ≤ -c and s ≥ c2: empty when -c < c2; everything (for `or`) when the two bounds meet.
            if other is not None and (
                (op == "and" and -d.const < other[0]) or (op == "or" and other[0] <= -d.const + 1)
            ):
                return None
        return [part for part in kept if part is not None]

    def negated(self: Simplifier, condition: Expr) -> Expr:  # type: ignore[misc]
        """The canonical negation of a canonical condition."""
        if isinstance(condition, IntImm):
            return self.boolean(not condition.value)
        if isinstance(condition, Unary) and condition.op == "not":
            return condition.a
        if isinstance(condition, Binary):
            known = self.comparisons.get(id(condition))
            if known is not None:
                kind, d = known
                dtype = condition.a.dtype
                if kind == "le":
                    # not (d ≤ 0) is -d + 1 ≤ 0
                    negative = Linear({i: -k for i, k in d.terms.items()}, 1 - d.const)
                    exact = wraps_silently(dtype) or self.is_data_sum(d)
                    if not exact or self._movable(negative, dtype):
                        return self._order_node(negative, dtype)
                    found = self.operation(_OPPOSITE[condition.op], condition.a, condition.b)
                    self.comparisons[id(found)] = ("le", negative)
                    return found
                found = self.operation(_OPPOSITE[kind], condition.a, condition.b)
                self.comparisons[id(found)] = (_OPPOSITE[kind], d)
                return found
            if condition.op in ("and", "or") and condition.dtype.lanes == 1:
                parts: list[Expr] = []
                node: Expr = condition
                while type(node) is Binary and node.op == condition.op:
                    parts.append(node.b)
                    node = node.a
                result = self.negated(node)
                other = "or" if condition.op == "and" else "and"
                for part in reversed(parts):
                    result = self.operation(other, result, self.negated(part))
                return result
            if condition.op in _OPPOSITE and (not condition.a.dtype.is_float or condition.op in ("eq", "ne")):
                return self.operation(_OPPOSITE[condition.op], condition.a, condition.b)
        return self.intern(Unary("not", condition))

    def _bool_select(self: Simplifier, node: Select) -> Expr:  # type: ignore[misc]
        found = self.select(node)
        if isinstance(found, Select):
            a, b = found.true_value, found.false_value
            if isinstance(a, IntImm) and isinstance(b, IntImm):
                return found.condition if a.value else self.negated(found.condition)
        return found

    # ---- learning

    def learn(self: Simplifier, condition: Expr) -> None:  # type: ignore[misc]
        """Records that `condition` holds. Parts that read memory are left out, since memory changes."""
        stack = [condition]
        while stack:
            part = stack.pop()
            if isinstance(part, Call) and part.op == "likely":
                stack.append(part.args[0])
                continue
            if type(part) is Binary and part.op == "and":
                stack += [part.b, part.a]
                continue
            if part.dtype.lanes > 1 or reads_memory(part):
                continue
            canonical = self.simplify(part)
            if isinstance(canonical, IntImm):
                if not canonical.value:
                    self.contradiction = True
                continue
            if type(canonical) is Binary and canonical.op == "and" and not (type(part) is Binary and part is canonical):
                stack += [canonical.b, canonical.a]
                continue
            self.raw_facts.append(canonical)
            self.truths[id(canonical)] = True
            self.truths[id(self.negated(canonical))] = False
            self._kept.append(canonical)
            known = self.comparisons.get(id(canonical))
            if known is not None:
                self._learn_sum(*known)
            self._clear_memos()

    def _learn_sum(self: Simplifier, kind: str, d: Linear) -> None:  # type: ignore[misc]
        if kind == "le":
            self.add_bound(d, at_most=0)
        elif kind == "eq":
            self.add_bound(d, at_least=0, at_most=0)
            self._learn_modulus(d)
        elif len(d.terms) == 1:
            # s ≠ c sharpens an end of the interval.
            index, k = next(iter(d.terms.items()))
            if k == 1:
                known = self.atom_interval(index)
                if known.lo == -d.const:
                    self.add_bound(d, at_least=1)
                elif known.hi == -d.const:
                    self.add_bound(d, at_most=-1)

    def _learn_modulus(self: Simplifier, d: Linear) -> None:  # type: ignore[misc]
        """From x % c = r: x ≡ r (mod c), for x one atom with a constant. From k·x = … nothing."""
        if len(d.terms) != 1:
            return
        index, k = next(iter(d.terms.items()))
        if k != 1 or index not in self.remainders:
            return
        dividend, divisor = self.remainders[index]
        if len(dividend.terms) != 1:
            return
        inner, factor = next(iter(dividend.terms.items()))
        if factor not in (1, -1):
            return
        fact = ModularSet(divisor, (-d.const - dividend.const) * factor)
        known = self.moduli.get(inner)
        self.moduli[inner] = fact if known is None else known.meet(fact)
