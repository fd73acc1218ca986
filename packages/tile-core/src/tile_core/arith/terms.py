"""Terms: canonical nodes, linear sums over them, and what is known of each.

Inside the simplifier an integer expression is a `Linear`: a constant and coefficients of *atoms*. An atom is a
canonical expression that is no sum (a variable, `x // 8`, `min(a, b)`, a load, a product of two of them), known by
its number. Structurally equal nodes are made once, so equality of canonical expressions is identity, and the order of
the numbers is the order of first appearance: output never depends on addresses.

`TermTable` also holds knowledge: ranges and modular facts of atoms, and bounds on sums of atoms, which come from
loops and assumptions. Knowledge is scoped: `save` and `restore` take it back, interned nodes stay.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import gcd, inf
from typing import Any

from ..dtypes import DType
from ..ir import Binary, BufferLoad, Call, Cast, Expr, FloatImm, IntImm, Select, StringImm, Unary, Var
from ..ir.intrinsics import intrinsics
from ..ir.node import Node
from .interval import (
    BOOL_INTERVAL,
    Interval,
    binary_interval,
    cast_interval,
    dtype_interval,
    is_data,
    unary_interval,
    var_interval,
)
from .modular import ANY_INTEGER, ModularSet, binary_modular

__all__ = ["Linear", "Saved", "TermTable", "reads_memory"]


class Linear:
    """constant + Σ coefficient · atom. `terms` maps atom numbers to coefficients, none 0, in order of appearance.
    Never changed once shared."""

    __slots__ = ("const", "terms")

    def __init__(self, terms: dict[int, int], const: int) -> None:
        self.terms = terms
        self.const = const

    def __repr__(self) -> str:
        return " + ".join([*(f"{k}·#{i}" for i, k in self.terms.items()), str(self.const)])

    def plus(self, other: Linear, factor: int = 1) -> Linear:
        """This sum plus `factor` times another."""
        terms = dict(self.terms)
        for index, k in other.terms.items():
            total = terms.get(index, 0) + k * factor
            if total:
                terms[index] = total
            else:
                terms.pop(index, None)
        return Linear(terms, self.const + other.const * factor)

    def scaled(self, factor: int) -> Linear:
        """This sum times a constant."""
        if factor == 0:
            return Linear({}, 0)
        return Linear({i: k * factor for i, k in self.terms.items()}, self.const * factor)

    @property
    def sole_atom(self) -> int | None:
        """The atom when this is one atom and nothing else."""
        if self.const == 0 and len(self.terms) == 1:
            for index, k in self.terms.items():
                return index if k == 1 else None
        return None


class Saved:
    """Knowledge as it was: ranges, facts and everything derived from them."""

    __slots__ = (
        "atom_facts",
        "contradiction",
        "data_vars",
        "facts",
        "memos",
        "moduli",
        "ranged_by_data",
        "ranges",
        "raw",
        "truths",
    )

    def __init__(self, table: TermTable) -> None:
        self.ranges = table.ranges
        self.atom_facts = table.atom_facts
        self.facts = table.facts
        self.moduli = table.moduli
        self.truths = table.truths
        self.raw = table.raw_facts
        self.data_vars = table.data_vars
        self.ranged_by_data = table.ranged_by_data
        self.contradiction = table.contradiction
        self.memos = table.memos()


class TermTable:
    """Interned nodes and knowledge about them."""

    def __init__(self, ranges: Mapping[Var, Interval]) -> None:
        self.atoms: list[Expr] = []
        self._numbers: dict[int, int] = {}
        self._interned: dict[Any, Expr] = {}
        self._kept: list[Expr] = []
        self._data: list[bool] = []
        # Canonical expression → its sum, for those that are sums; atom → its factors, for products.
        self._sums: dict[int, Linear] = {}
        self.factors: dict[int, tuple[int, ...]] = {}
        # Atom → (dividend, divisor) for `x // c` and `x % c` with a positive constant c.
        self.quotients: dict[int, tuple[Linear, int]] = {}
        self.remainders: dict[int, tuple[Linear, int]] = {}
        # Canonical comparison → (kind, sum): sum <= 0, sum == 0 or sum != 0.
        self.comparisons: dict[int, tuple[str, Linear]] = {}

        self.ranges: dict[Var, Interval] = dict(ranges)
        self.atom_facts: dict[int, Interval] = {}
        self.facts: dict[frozenset[tuple[int, int]], tuple[dict[int, int], Interval]] = {}
        self.moduli: dict[int, ModularSet] = {}
        self.truths: dict[int, bool] = {}
        self.raw_facts: list[Expr] = []
        # Variables whose values come from memory, and loop variables whose ranges do.
        self.data_vars: frozenset[Var] = frozenset()
        self.ranged_by_data: frozenset[Var] = frozenset()
        self.contradiction = False
        self._clear_memos()

    # ---- scoping of knowledge

    def _clear_memos(self) -> None:
        self._intervals: dict[int, Interval] = {}
        self._modular: dict[int, ModularSet] = {}
        self._simplified: dict[int, tuple[Expr, Expr]] = {}
        self._linears: dict[int, tuple[Expr, Linear]] = {}
        self._divisions: dict[Any, Linear] = {}

    def memos(self) -> tuple[Any, ...]:
        """Results that hold under the present knowledge only."""
        return self._intervals, self._modular, self._simplified, self._linears, self._divisions

    def save(self) -> Saved:
        """Remembers the present knowledge and starts a copy that may grow."""
        saved = Saved(self)
        self.ranges = dict(self.ranges)
        self.atom_facts = dict(self.atom_facts)
        self.facts = dict(self.facts)
        self.moduli = dict(self.moduli)
        self.truths = dict(self.truths)
        self.raw_facts = list(self.raw_facts)
        self._clear_memos()
        return saved

    def restore(self, saved: Saved) -> None:
        """Takes knowledge back to what `saved` holds."""
        self.ranges, self.atom_facts, self.facts = saved.ranges, saved.atom_facts, saved.facts
        self.moduli, self.truths, self.raw_facts = saved.moduli, saved.truths, saved.raw
        self.data_vars, self.contradiction = saved.data_vars, saved.contradiction
        self.ranged_by_data = saved.ranged_by_data
        self._intervals, self._modular, self._simplified, self._linears, self._divisions = saved.memos

    # ---- interning

    def intern(self, node: Expr) -> Expr:
        """The one canonical node of this structure; its children are canonical already. Impure calls keep their
        identity."""
        key = _structure(node)
        if key is None:
            self._kept.append(node)
            return node
        return self._interned.setdefault(key, node)

    def constant(self, value: int, dtype: DType) -> IntImm:
        """An integer or bool constant."""
        key = (IntImm, value, dtype.name)
        found = self._interned.get(key)
        if found is None:
            found = self._interned[key] = IntImm(value, dtype)
        return found  # type: ignore[return-value]

    def operation(self, op: str, a: Expr, b: Expr) -> Expr:
        """The canonical Binary node."""
        key = (op, id(a), id(b))
        found = self._interned.get(key)
        if found is None:
            found = self._interned[key] = Binary(op, a, b)
        return found

    def number(self, atom: Expr) -> int:
        """The number of an atom."""
        found = self._numbers.get(id(atom))
        if found is None:
            found = self._numbers[id(atom)] = len(self.atoms)
            self.atoms.append(atom)
            self._data.append(self._holds_data(atom))
        return found

    def _holds_data(self, atom: Expr) -> bool:
        stack: list[Any] = [atom]
        while stack:
            node = stack.pop()
            if is_data(node) or (isinstance(node, Var) and node in self.data_vars):
                return True
            number = self._numbers.get(id(node))
            sum_ = self._sums.get(id(node))
            if number is not None and number < len(self._data):
                if self._data[number]:
                    return True
            elif sum_ is not None:
                if self.is_data_sum(sum_):
                    return True
            elif not isinstance(node, (BufferLoad, Call)):
                stack += node.child_nodes()
        return False

    def is_unforeseen(self, var: Var) -> bool:
        """Whether memory decides the values of a variable, so that not all values that are known to be possible need
        occur."""
        return var in self.data_vars or var in self.ranged_by_data

    def is_data_sum(self, sum_: Linear) -> bool:
        """Whether values from memory, calls or wrapping types are in a sum, so that it may wrap."""
        data = self._data
        return any(data[i] for i in sum_.terms)

    def variables(self, sum_: Linear) -> Iterator[Expr]:
        """The atoms of a sum."""
        for index in sum_.terms:
            yield self.atoms[index]

    # ---- sums

    def atom_sum(self, atom: Expr) -> Linear:
        """A sum of one atom."""
        return Linear({self.number(atom): 1}, 0)

    def product(self, a: Linear, b: Linear) -> Linear | None:
        """The product multiplied out, or None where that would be too long."""
        if not a.terms:
            return b.scaled(a.const)
        if not b.terms:
            return a.scaled(b.const)
        if len(a.terms) * len(b.terms) > 16:
            return None
        terms: dict[int, int] = {}
        for i, k in a.terms.items():
            for j, m in b.terms.items():
                index = self._product_atom(i, j)
                terms[index] = terms.get(index, 0) + k * m
        result = Linear({i: k for i, k in terms.items() if k}, a.const * b.const)
        if b.const:
            result = result.plus(Linear(a.terms, 0), b.const)
        if a.const:
            result = result.plus(Linear(b.terms, 0), a.const)
        return result

    def _product_atom(self, i: int, j: int) -> int:
        factors = sorted((*self.factors.get(i, (i,)), *self.factors.get(j, (j,))))
        return self.monomial(tuple(factors))

    def monomial(self, factors: tuple[int, ...]) -> int:
        """The atom that is the product of atoms, given in order of their numbers."""
        product = self.atoms[factors[0]]
        for index in factors[1:]:
            product = self.operation("mul", product, self.atoms[index])
        number = self.number(product)
        if len(factors) > 1:
            self.factors[number] = factors
        return number

    def build(self, sum_: Linear, dtype: DType) -> Expr:
        """The canonical expression of a sum."""
        terms = sum_.terms
        if not terms:
            return self.constant(sum_.const, dtype)
        index = sum_.sole_atom
        if index is not None:
            return self.atoms[index]
        key = ("sum", sum_.const, dtype.name, frozenset(terms.items()))
        found = self._interned.get(key)
        if found is None:
            found = self._interned[key] = self._emit(sum_, dtype)
            self._sums.setdefault(id(found), sum_)
        return found

    def sum_of(self, expr: Expr) -> Linear | None:
        """The sum that a canonical expression was built from."""
        return self._sums.get(id(expr))

    def _emit(self, sum_: Linear, dtype: DType) -> Expr:
        parts = list(self._parts(sum_, dtype))
        first = next((i for i, (k, _) in enumerate(parts) if k > 0), None)
        constant = sum_.const
        if first is not None:
            coefficient, atom = parts.pop(first)
            total = self._scaled(atom, coefficient, dtype)
        elif constant:
            total, constant = self.constant(constant, dtype), 0
        else:
            coefficient, atom = parts.pop(0)
            total = self.intern(Unary("neg", atom)) if coefficient == -1 else self._scaled(atom, coefficient, dtype)
        for coefficient, atom in parts:
            op = "add" if coefficient > 0 else "sub"
            total = self.operation(op, total, self._scaled(atom, abs(coefficient), dtype))
        if constant:
            # The one negative number whose absolute value the type lacks.
            op = "sub" if constant < 0 and -constant <= dtype.max_value else "add"
            total = self.operation(op, total, self.constant(abs(constant) if op == "sub" else constant, dtype))
        return total

    def _scaled(self, atom: Expr, coefficient: int, dtype: DType) -> Expr:
        return atom if coefficient == 1 else self.operation("mul", atom, self.constant(coefficient, dtype))

    def _parts(self, sum_: Linear, dtype: DType) -> Iterator[tuple[int, Expr]]:
        """(coefficient, expression) in order; products that share their last factor come as one: `(x*8 + y) *
        stride`."""
        factors = self.factors
        groups: dict[int, dict[int, int]] = {}
        for index in sum_.terms:
            if index in factors:
                groups.setdefault(self._shared_factor(index, sum_), {})[index] = sum_.terms[index]
        done: set[int] = set()
        for index, coefficient in sum_.terms.items():
            if index not in factors:
                yield coefficient, self.atoms[index]
                continue
            shared = self._shared_factor(index, sum_)
            group = groups[shared]
            if len(group) == 1:
                yield coefficient, self.atoms[index]
                continue
            if shared in done:
                continue
            done.add(shared)
            inner: dict[int, int] = {}
            for member, k in group.items():
                rest = list(factors[member])
                rest.remove(shared)
                inner[self.monomial(tuple(rest))] = k
            common = gcd(*inner.values())
            quotient = Linear({i: k // common for i, k in inner.items()}, 0)
            if all(k < 0 for k in quotient.terms.values()):
                quotient, common = quotient.scaled(-1), -common
            yield common, self.operation("mul", self.build(quotient, dtype), self.atoms[shared])

    def _shared_factor(self, index: int, sum_: Linear) -> int:
        best, most = self.factors[index][-1], 0
        for factor in reversed(self.factors[index]):
            count = sum(1 for other in sum_.terms if factor in self.factors.get(other, ()))
            if count > most:
                best, most = factor, count
        return best

    # ---- what is known

    def interval(self, sum_: Linear) -> Interval:
        """The values of a sum, from what is known of each atom alone."""
        lo: Any = sum_.const
        hi: Any = sum_.const
        for index, k in sum_.terms.items():
            known = self.atom_interval(index)
            if k > 0:
                lo += k * known.lo
                hi += k * known.hi
            else:
                lo += k * known.hi
                hi += k * known.lo
        return Interval(lo, hi)

    def atom_interval(self, index: int) -> Interval:
        """The values of an atom."""
        found = self._intervals.get(index)
        if found is None:
            atom = self.atoms[index]
            if type(atom) is Binary and type(atom.a) is Binary:
                self._descend_intervals(atom.a)
            found = self._atom_interval(index, atom)
            fact = self.atom_facts.get(index)
            if fact is not None:
                found = found.meet(fact)
            modulus = self._atom_modular(index)
            if modulus.coefficient > 1:
                found = _round_inwards(found, modulus)
            self._intervals[index] = found
        return found

    def _descend_intervals(self, node: Expr) -> None:
        """Bounds a long left spine from the bottom, so that its depth costs no stack."""
        spine: list[Expr] = []
        while type(node) is Binary and node.dtype.is_int and id(node) not in self._sums:
            number = self._numbers.get(id(node))
            if number is not None and number in self._intervals:
                break
            spine.append(node)
            node = node.a
        if len(spine) > 30:
            for item in reversed(spine):
                self.atom_interval(self.number(item))

    def _atom_interval(self, index: int, atom: Expr) -> Interval:
        if isinstance(atom, Var):
            return var_interval(atom, self.ranges)
        if index in self.quotients:
            dividend, divisor = self.quotients[index]
            return self.interval(dividend).floordiv(Interval(divisor, divisor))
        if index in self.remainders:
            dividend, divisor = self.remainders[index]
            return self.interval(dividend).floormod(Interval(divisor, divisor))
        factors = self.factors.get(index)
        if factors is not None:
            return self._fit(atom, self.product_interval(factors))
        return self._fit(atom, self.expression_interval(atom))

    def product_interval(self, factors: tuple[int, ...]) -> Interval:
        """The values of a product of atoms, computed without wrapping."""
        found = self.atom_interval(factors[0])
        for factor in factors[1:]:
            found = found * self.atom_interval(factor)
        if len(factors) == 2 and factors[0] == factors[1]:
            found = found.meet(Interval(0, inf))
        return found

    def expression_interval(self, node: Expr) -> Interval:
        """The values of a canonical expression: of its sum, or of the node from those of its children."""
        if isinstance(node, IntImm):
            return Interval(node.value, node.value)
        sum_ = self._sums.get(id(node))
        if sum_ is not None:
            return self.interval(sum_)
        if isinstance(node, Binary) and not node.a.dtype.is_float:
            return binary_interval(node.op, self._child_interval(node.a), self._child_interval(node.b))
        if isinstance(node, Unary):
            return unary_interval(node.op, self._child_interval(node.a), node.dtype)
        if isinstance(node, Cast):
            return cast_interval(self._child_interval(node.value), node.value.dtype, node.dtype)
        if isinstance(node, Select):
            return self._child_interval(node.true_value).join(self._child_interval(node.false_value))
        if isinstance(node, Call) and node.op == "likely":
            return self._child_interval(node.args[0])
        return dtype_interval(node.dtype)

    def _child_interval(self, node: Expr) -> Interval:
        if node.dtype.lanes > 1:
            return dtype_interval(node.dtype)
        if isinstance(node, IntImm):
            return Interval(node.value, node.value)
        if node.dtype.is_bool:
            truth = self.truths.get(id(node))
            return BOOL_INTERVAL if truth is None else Interval(int(truth), int(truth))
        sum_ = self._sums.get(id(node))
        if sum_ is not None:
            return self.interval(sum_)
        return self.atom_interval(self.number(node)) if node.dtype.is_int else dtype_interval(node.dtype)

    def _fit(self, atom: Expr, found: Interval) -> Interval:
        """Wrapping types and data hold what their type holds."""
        dtype = atom.dtype.scalar
        if not dtype.is_int or found.within(dtype.min_value, dtype.max_value):
            return found
        return dtype_interval(dtype) if self._data[self.number(atom)] else found

    def modular(self, sum_: Linear) -> ModularSet:
        """What is known of a sum modulo something."""
        coefficient, base = 0, sum_.const
        for index, k in sum_.terms.items():
            known = self._atom_modular(index)
            coefficient = gcd(coefficient, known.coefficient * k)
            base += known.base * k
            if coefficient == 1:
                return ANY_INTEGER
        return ModularSet(coefficient, base)

    def _atom_modular(self, index: int) -> ModularSet:
        found = self._modular.get(index)
        if found is None:
            found = self._modular_of_atom(index)
            fact = self.moduli.get(index)
            if fact is not None:
                found = found.meet(fact)
            self._modular[index] = found
        return found

    atom_modular = _atom_modular

    def _modular_of_atom(self, index: int) -> ModularSet:
        atom = self.atoms[index]
        if isinstance(atom, Var) or self._data[index]:
            return ANY_INTEGER
        if index in self.quotients:
            dividend, divisor = self.quotients[index]
            return self.modular(dividend).floordiv(divisor)
        if index in self.remainders:
            dividend, divisor = self.remainders[index]
            return self.modular(dividend).floormod(divisor)
        factors = self.factors.get(index)
        if factors is not None:
            known = self._atom_modular(factors[0])
            for factor in factors[1:]:
                known = known * self._atom_modular(factor)
            return known
        if isinstance(atom, Binary):
            return binary_modular(atom.op, self._child_modular(atom.a), self._child_modular(atom.b))
        if isinstance(atom, Select):
            return self._child_modular(atom.true_value).join(self._child_modular(atom.false_value))
        if isinstance(atom, Cast) and atom.value.dtype.is_int and atom.value.dtype.bits <= atom.dtype.bits:
            return self._child_modular(atom.value)
        return ANY_INTEGER

    def _child_modular(self, node: Expr) -> ModularSet:
        if isinstance(node, IntImm):
            return ModularSet(0, node.value)
        if node.dtype.lanes > 1 or not node.dtype.is_int:
            return ANY_INTEGER
        sum_ = self._sums.get(id(node))
        return self.modular(sum_) if sum_ is not None else self._atom_modular(self.number(node))


def reads_memory(node: Any) -> bool:
    """Whether an expression's value can change between two evaluations: it loads, or calls something impure."""
    from ..ir import walk

    for item in walk(node):
        if isinstance(item, BufferLoad):
            return True
        if isinstance(item, Call):
            row = intrinsics().get(item.op)
            if row is None or not row.pure:
                return True
    return False


def _round_inwards(found: Interval, modulus: ModularSet) -> Interval:
    """The interval between the first and last value that the modulus allows."""
    lo, hi, step = found.lo, found.hi, modulus.coefficient
    if lo != -inf:
        lo += (modulus.base - lo) % step
    if hi != inf:
        hi -= (hi - modulus.base) % step
    return Interval(lo, hi)


def _structure(node: Expr) -> Any:
    """A key that two nodes with the same canonical children share exactly when they are equal, or None for a node
    that stands for itself only."""
    kind = type(node)
    if kind is Binary:
        return node.op, id(node.a), id(node.b)  # type: ignore[attr-defined]
    if isinstance(node, Var):
        return None
    if isinstance(node, FloatImm):
        return FloatImm, float(node.value).hex(), node.dtype.name
    if isinstance(node, (IntImm, StringImm)):
        return kind, node.value, node.dtype.name
    if isinstance(node, Call):
        row = intrinsics().get(node.op)
        if node.annotations or row is None or not row.pure:
            return None
    parts: list[Any] = [kind]
    for field in node.FIELDS:
        value = getattr(node, field.name)
        if field.kind == "child":
            parts.append(id(value))
        elif field.kind == "children":
            parts.append(tuple([id(v) for v in value]))
        elif field.kind in ("attr", "binder"):
            parts.append(id(value) if isinstance(value, Node) else value)
    return tuple(parts)
