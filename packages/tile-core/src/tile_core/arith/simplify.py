"""The canonical simplifier.

`Simplifier.simplify` brings an expression to a canonical form under what is known of its variables: integer
expressions become sums of atoms (`terms`), divided and reduced by rules that use ranges (`division`), comparisons are
decided from the sharpened interval of the difference (`facts`) and the modulus, else written with positive terms on
each side. Structurally equal results are the identical object. Floats change only by identities that hold for every
value, NaN and signed zero included. The solver is never asked.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import copysign, gcd, inf
from typing import Any, ClassVar

from ..dtypes import DType
from ..ir import (
    Binary,
    Call,
    Cast,
    Expr,
    FloatImm,
    IntImm,
    Let,
    Select,
    Unary,
    Var,
    cast,
    substitute,
)
from ..ir.expr import unary
from ..ir.fold import fold_int
from .division import MayWrap
from .facts import Facts
from .integers import INTEGER_RULES
from .interval import Interval, as_interval, wraps_silently
from .logic import Logic
from .modular import ModularSet
from .terms import Linear, reads_memory
from .vectors import Vectors

__all__ = ["Simplifier", "simplify"]

BOOL = DType("bool")


def simplify(expr: Expr, ranges: Mapping[Var, Any] | None = None) -> Expr:
    """The expression in canonical form; `ranges` maps variables to Interval, (min, extent), range or int."""
    return Simplifier(ranges).simplify(expr)


class Simplifier(Vectors, Logic, Facts):
    """Simplifies expressions under ranges and facts; one instance serves one function.

    Args:
        ranges: what is known of variables: {Var: Interval | (min, extent) | range | int}.
    """

    _RULES: ClassVar[dict[type, Callable[[Any, Any], Expr]]] = {}

    def __init__(self, ranges: Mapping[Var, Any] | None = None) -> None:
        super().__init__({var: as_interval(value) for var, value in (ranges or {}).items()})

    def simplify(self, expr: Expr) -> Expr:
        """The canonical form of an expression of any type."""
        found = self._simplified.get(id(expr))
        if found is not None:
            return found[1]
        if type(expr) is Binary and type(expr.a) is Binary:
            self._descend(expr)
        return self._store(expr, self._compute(expr))

    def _store(self, expr: Expr, result: Expr) -> Expr:
        self._simplified[id(expr)] = (expr, result)
        if result is not expr:
            self._simplified.setdefault(id(result), (result, result))
        return result

    def _descend(self, expr: Binary) -> None:
        """Simplifies the left spine of a long chain from the bottom, so that its depth costs no stack."""
        spine: list[Binary] = []
        node: Expr = expr
        while type(node) is Binary and id(node) not in self._simplified:
            spine.append(node)
            node = node.a
        if len(spine) < 40:
            return
        for depth in range(len(spine) - 1, 0, -1):
            parent, item = spine[depth - 1], spine[depth]
            # Sums are gathered in one go by the topmost node of the sum.
            if parent.op in _SUM_OPERATORS and item.op in _SUM_OPERATORS and _is_index(parent.dtype):
                continue
            self._store(item, self._compute(item))

    def _compute(self, expr: Expr) -> Expr:
        dtype = expr.dtype
        if dtype.lanes > 1:
            return self.vector(expr)
        if dtype.is_int:
            return self.build(self.linear(expr), dtype)
        if dtype.is_bool:
            return self.truth(expr)
        rule = self._RULES.get(type(expr))
        return rule(self, expr) if rule is not None else self.generic(expr)

    def generic(self, expr: Expr) -> Expr:
        """The node with its children simplified."""
        return expr.map_children(self.simplify)

    # ---- integers

    def linear(self, expr: Expr) -> Linear:
        """The sum that a scalar integer expression equals."""
        found = self._linears.get(id(expr))
        if found is not None:
            return found[1]
        known = self._sums.get(id(expr)) if not isinstance(expr, (IntImm, Var)) else None
        sum_ = self._gather(expr) if known is None or self._linears_stale(known) else known
        self._linears[id(expr)] = (expr, sum_)
        return sum_

    def _linears_stale(self, sum_: Linear) -> bool:
        """Whether a sum made under other knowledge may be simpler now; composite atoms are looked at again."""
        return any(not isinstance(self.atoms[i], Var) or self.atom_interval(i).is_point for i in sum_.terms)

    def _gather(self, expr: Expr) -> Linear:
        """Adds up a tree of sums, differences and constant multiples without recursion."""
        dtype = expr.dtype
        terms: dict[int, int] = {}
        const = 0
        stack: list[tuple[Any, int]] = [(expr, 1)]
        while stack:
            node, factor = stack.pop()
            kind = type(node)
            part: Linear | None = None
            if kind is IntImm:
                const += node.value * factor
                continue
            if kind is Binary:
                op = node.op
                if op == "add" or op == "sub":
                    if node is expr or not self._linears.get(id(node)):
                        stack.append((node.b, factor if op == "add" else -factor))
                        stack.append((node.a, factor))
                        continue
                elif op == "mul":
                    if type(node.b) is IntImm:
                        stack.append((node.a, factor * node.b.value))
                        continue
                    if type(node.a) is IntImm:
                        stack.append((node.b, factor * node.a.value))
                        continue
            elif kind is Unary and node.op == "neg":
                stack.append((node.a, -factor))
                continue
            part = self._composite(node) if node is expr else self.linear(node)
            const += part.const * factor
            for index, k in part.terms.items():
                total = terms.get(index, 0) + k * factor
                if total:
                    terms[index] = total
                else:
                    terms.pop(index, None)
        exact = wraps_silently(dtype) or (terms and self.is_data_sum(Linear(terms, 0)))
        if exact and not self._fits(expr, terms, const):
            return self._opaque(expr)
        sum_ = Linear(terms, const)
        for index in terms:
            if index in self.remainders or index in self.quotients:
                return self.join_halves(sum_, dtype)
        return sum_

    def _fits(self, expr: Expr, terms: dict[int, int], const: int) -> bool:
        """Whether the sum cannot leave its type, so that the exact sum is what the machine computes."""
        if not terms:
            return expr.dtype.min_value <= const <= expr.dtype.max_value
        if not const and len(terms) == 1 and next(iter(terms.values())) == 1:
            return True
        return self.interval(Linear(terms, const)).within(expr.dtype.min_value, expr.dtype.max_value)

    def _opaque(self, expr: Expr) -> Linear:
        """Arithmetic that may wrap: children simplified, nothing regrouped. Left spines are walked."""
        done = self._simplified.get(id(expr))
        if done is not None:
            return self._constant_or_atom(done[1])
        spine: list[Binary] = []
        node = expr
        while type(node) is Binary and id(node) not in self._simplified:
            spine.append(node)
            node = node.a
        if not spine:
            if isinstance(expr, Unary):
                inner = self.simplify(expr.a)
                folded = unary(expr.op, inner) if isinstance(inner, IntImm) else None
                node = folded if folded is not None else self.intern(Unary(expr.op, inner))
            else:
                return self._atom_of(self.intern(expr.map_children(self.simplify)))
            return self._constant_or_atom(node)
        left = self.simplify(node)
        for item in reversed(spine):
            left = self._wrapping(item.op, left, self.simplify(item.b), item.dtype)
            self._store(item, left)
        return self._constant_or_atom(left)

    def _wrapping(self, op: str, a: Expr, b: Expr, dtype: DType) -> Expr:
        """`a op b` on canonical operands with constants folded as the machine would and neutral elements dropped."""
        if isinstance(a, IntImm) and isinstance(b, IntImm):
            folded = fold_int(op, a.value, b.value, dtype)
            if folded is not None:
                return self.constant(folded, dtype)
        if isinstance(b, IntImm):
            if b.value == 0 and op in ("add", "sub", "bitor", "bitxor", "shl", "shr"):
                return a
            if b.value == 1 and op in ("mul", "floordiv", "truncdiv"):
                return a
            if b.value == 0 and op in ("mul", "bitand"):
                return self.constant(0, dtype)
        if isinstance(a, IntImm):
            if (a.value == 0 and op in ("add", "bitor", "bitxor")) or (a.value == 1 and op == "mul"):
                return b
            if a.value == 0 and op in ("mul", "bitand", "shl", "shr"):
                return self.constant(0, dtype)
        return self.operation(op, a, b)

    def _constant_or_atom(self, node: Expr) -> Linear:
        if isinstance(node, IntImm):
            return Linear({}, node.value)
        known = self._sums.get(id(node))
        return known if known is not None else self._atom_of(node)

    def _atom_of(self, canonical: Expr) -> Linear:
        number = self.number(canonical)
        known = self.atom_interval(number)
        if known.is_point and not reads_memory(canonical):
            return Linear({}, known.lo)
        return Linear({number: 1}, 0)

    def _composite(self, node: Any) -> Linear:
        """The sum that a node equals which is no sum itself."""
        if isinstance(node, Var):
            return self._atom_of(node)
        kind = type(node)
        if kind is Binary:
            rule = INTEGER_RULES.get(node.op)
            if rule is not None:
                a, b = self.linear(node.a), self.linear(node.b)
                try:
                    found = rule(self, a, b, node.dtype)
                except MayWrap:
                    found = None
                if found is not None:
                    return found
                return self._operation_atom(node.op, a, b, node.dtype)
            return self._opaque(node)
        if kind is Unary:
            inner = self.linear(node.a)
            if node.op == "bitnot" and not wraps_silently(node.dtype):
                return Linear({i: -k for i, k in inner.terms.items()}, -inner.const - 1)
            return self._opaque(node)
        if kind is Cast:
            return self._cast(node)
        if kind is Select:
            return self._constant_or_atom(self.select(node))
        if kind is Let:
            return self._constant_or_atom(self.let(node))
        if kind is Call and node.op == "likely":
            return self.linear(node.args[0])
        new = node.map_children(self.simplify)
        return self._atom_of(self.intern(new))

    def _operation_atom(self, op: str, a: Linear, b: Linear, dtype: DType) -> Linear:
        left, right = self.build(a, dtype), self.build(b, dtype)
        if op in _COMMUTATIVE and _rank(self, right) < _rank(self, left):
            left, right = right, left
        return self._constant_or_atom(self._wrapping(op, left, right, dtype))

    def _cast(self, node: Cast) -> Linear:
        value = node.value
        dtype = node.dtype
        if value.dtype.is_int:
            sum_ = self.linear(value)
            if not sum_.terms:
                folded = cast(IntImm(sum_.const, value.dtype), dtype)
                return Linear({}, folded.value)  # type: ignore[attr-defined]
            inner = self.build(sum_, value.dtype)
            if isinstance(inner, Cast) and inner.value.dtype is dtype and inner.dtype.bits >= dtype.bits:
                return self.linear(inner.value)
            return self._atom_of(self.intern(Cast(dtype, inner)))
        inner = self.simplify(value)
        if isinstance(inner, IntImm):
            return Linear({}, inner.value)
        return self._atom_of(self.intern(Cast(dtype, inner)))

    # ---- values of any type

    def select(self, node: Select) -> Expr:
        """A Select; each side is simplified under the condition where that can matter."""
        condition = self.simplify(node.condition)
        if isinstance(condition, IntImm):
            return self.simplify(node.true_value if condition.value else node.false_value)
        sides = []
        for value, negate in ((node.true_value, False), (node.false_value, True)):
            # Without `lazy` both sides are evaluated whatever the condition says: what memory they read must not
            # depend on it.
            if isinstance(value, (IntImm, FloatImm, Var)) or (not node.lazy and reads_memory(value)):
                sides.append(self.simplify(value))
                continue
            saved = self.save()
            self.learn(self.negated(condition) if negate else condition)
            sides.append(self.simplify(value))
            self.restore(saved)
        true_value, false_value = sides
        if true_value is false_value:
            return true_value
        if node.dtype.is_int and condition.dtype.lanes == 1 and not node.lazy:
            found = self._as_extremum(condition, true_value, false_value, node.dtype)
            if found is not None:
                return found
        if condition is node.condition and true_value is node.true_value and false_value is node.false_value:
            return self.intern(node) if node.dtype.is_int or node.dtype.is_bool else node
        new = Select(condition, true_value, false_value, node.lazy)
        return self.intern(new) if node.dtype.is_int or node.dtype.is_bool else new

    def _as_extremum(self, condition: Expr, true_value: Expr, false_value: Expr, dtype: DType) -> Expr | None:
        """min or max when a Select between two values is one."""
        known = self.comparisons.get(id(condition))
        if known is None or known[0] != "le" or dtype.lanes > 1 or wraps_silently(dtype):
            return None
        difference = self.linear(true_value).plus(self.linear(false_value), -1)
        if self.is_data_sum(difference):
            return None
        # condition: d ≤ 0. With d = a - b or a - b + 1 the true side a is the smaller one.
        for sign, op in ((1, "min"), (-1, "max")):
            rest = known[1].plus(difference, -sign)
            if not rest.terms and rest.const in (0, 1):
                a, b = self.linear(true_value), self.linear(false_value)
                found = INTEGER_RULES[op](self, a, b, dtype)
                return self.build(found if found is not None else self._operation_atom(op, a, b, dtype), dtype)
        return None

    def let(self, node: Let) -> Expr:
        """A Let; constants and plain variables take their name's place."""
        value = self.simplify(node.value)
        if isinstance(value, (IntImm, FloatImm, Var)):
            return self.simplify(substitute(node.body, {node.var: value}))
        saved = self.save()
        self.learn_value(node.var, value)
        body = self.simplify(node.body)
        self.restore(saved)
        if isinstance(body, (IntImm, FloatImm)):
            return body
        if value is node.value and body is node.body:
            return node
        return Let(node.var, value, body)

    def learn_range(self, var: Var, low: Expr | int, extent: Expr | int, step: int = 1) -> None:
        """Records low ≤ var < low + extent·step, and var ≡ low (mod step)."""
        low_sum = Linear({}, low) if isinstance(low, int) else self.linear(low)
        count = Linear({}, extent) if isinstance(extent, int) else self.linear(extent)
        high_sum = low_sum.plus(count, step)
        first, last = self.interval(low_sum), self.interval(high_sum)
        number = self.number(var)
        exact = step > 1 and not high_sum.terms
        self.ranges[var] = _span(first.lo, last.hi - step if exact else last.hi - 1)
        self._clear_memos()
        own = Linear({number: 1}, 0)
        if step > 1:
            known = self.modular(low_sum)
            self.moduli[number] = ModularSet(gcd(known.coefficient, step), known.base)
        if low_sum.terms and not self.is_data_sum(low_sum):
            self.add_bound(own.plus(low_sum, -1), at_least=0)
        if high_sum.terms and not self.is_data_sum(high_sum):
            self.add_bound(own.plus(high_sum, -1), at_most=-1)
        if self.is_data_sum(low_sum) or self.is_data_sum(high_sum):
            # How far the range really goes is decided by memory.
            self.ranged_by_data = self.ranged_by_data | {var}
        if self.ranges[var].empty:
            self.contradiction = True
        self._clear_memos()

    def learn_value(self, var: Var, value: Expr) -> None:
        """Records that `var` names `value` from here on."""
        if var.dtype.is_int and var.dtype.lanes == 1:
            sum_ = self.linear(value)
            if self.is_data_sum(sum_):
                self.data_vars = self.data_vars | {var}
                self.ranges[var] = self.interval(sum_)
            else:
                self.ranges[var] = self.interval(sum_)
                number = self.number(var)
                known = self.modular(sum_)
                if known.coefficient != 1:
                    self.moduli[number] = known
                if sum_.terms:
                    self.add_bound(Linear({number: 1}, 0).plus(sum_, -1), at_least=0, at_most=0)
            self._clear_memos()
        elif var.dtype.is_bool and var.dtype.lanes == 1:
            truth = self.simplify(value)
            if reads_memory(truth):
                self.data_vars = self.data_vars | {var}
            if isinstance(truth, IntImm):
                self.truths[id(self.simplify(var))] = bool(truth.value)
                self._clear_memos()

    def _float_binary(self, node: Binary) -> Expr:
        a, b = self.simplify(node.a), self.simplify(node.b)
        op = node.op
        if isinstance(b, FloatImm):
            if b.value == 1.0 and op in ("mul", "div"):
                return a
            # x - 0.0 and x + -0.0 are x for every x, -0.0 included; x + 0.0 is not.
            if b.value == 0.0 and (op == "sub") == (copysign(1.0, b.value) > 0) and op in ("add", "sub"):
                return a
        if isinstance(a, FloatImm) and a.value == 1.0 and op == "mul":
            return b
        return node if a is node.a and b is node.b else Binary(op, a, b)

    def _float_unary(self, node: Unary) -> Expr:
        inner = self.simplify(node.a)
        if node.op == "neg" and isinstance(inner, Unary) and inner.op == "neg":
            return inner.a
        return node if inner is node.a else Unary(node.op, inner)

    def _float_cast(self, node: Cast) -> Expr:
        inner = self.simplify(node.value)
        if isinstance(inner, (IntImm, FloatImm)):
            folded = cast(inner, node.dtype)
            if not isinstance(folded, Cast):
                return folded
        return node if inner is node.value else Cast(node.dtype, inner)


Simplifier._RULES = {
    Binary: Simplifier._float_binary,
    Unary: Simplifier._float_unary,
    Cast: Simplifier._float_cast,
    Select: Simplifier.select,
    Let: Simplifier.let,
}


_SUM_OPERATORS = ("add", "sub")
_COMMUTATIVE = ("min", "max", "bitand", "bitor", "bitxor", "mul")


def _is_index(dtype: DType) -> bool:
    return dtype.is_int and dtype.lanes == 1


def _rank(s: Simplifier, node: Expr) -> tuple[int, int]:
    """Order of operands of a commutative operator: by appearance, constants last."""
    if isinstance(node, IntImm):
        return 1, node.value
    sum_ = s.sum_of(node)
    return 0, min(sum_.terms) if sum_ is not None else s.number(node)


def _span(lo: Any, hi: Any) -> Interval:
    return Interval(-inf if lo == inf else lo, inf if hi == -inf else hi)
