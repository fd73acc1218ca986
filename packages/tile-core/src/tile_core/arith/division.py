"""Division rules: floor division and remainder of a sum by a positive constant.

Both split the dividend the same way, so that `x // c * c + x % c` finds its halves again: multiples of c leave as
they are; then a common divisor of what stays and c is taken out; then a part that never carries over a smaller
divisor (`(x*8 + r) // 32` with 0 ≤ r < 8) falls away.
"""

from __future__ import annotations

from math import gcd

from ..dtypes import DType
from .interval import Interval, wraps_silently
from .terms import Linear, TermTable

__all__ = ["Division", "MayWrap"]


class MayWrap(Exception):
    """A rule would have to compute a part that may leave its type; the caller keeps the operation as it is."""


class Division(TermTable):
    """The rules, on sums; each result is remembered under the present knowledge."""

    def divide(self, x: Linear, c: int, dtype: DType) -> Linear:
        """x // c for a constant c ≥ 1."""
        if c == 1:
            return x
        if not x.terms:
            return Linear({}, x.const // c)
        key = ("div", c, x.const, frozenset(x.terms.items()))
        found = self._divisions.get(key)
        if found is None:
            found = self._divisions[key] = self._divide(x, c, dtype)
        return found

    def modulo(self, x: Linear, c: int, dtype: DType) -> Linear:
        """x % c for a constant c ≥ 1."""
        if c == 1:
            return Linear({}, 0)
        if not x.terms:
            return Linear({}, x.const % c)
        key = ("mod", c, x.const, frozenset(x.terms.items()))
        found = self._divisions.get(key)
        if found is None:
            found = self._divisions[key] = self._modulo(x, c, dtype)
        return found

    def _divide(self, x: Linear, c: int, dtype: DType) -> Linear:
        whole, rest = self._split(x, c, dtype)
        if not rest.terms:
            return Linear(whole.terms, whole.const + rest.const // c)
        carry = _one_quotient(self.interval(rest), c)
        if carry is not None:
            return Linear(whole.terms, whole.const + carry)
        common = gcd(c, *rest.terms.values())
        if common > 1:
            reduced = Linear({i: k // common for i, k in rest.terms.items()}, rest.const // common)
            return whole.plus(self.divide(reduced, c // common, dtype))
        part = self._without_carry(rest, c)
        if part is not None:
            divisor, large, _, carry = part
            return whole.plus(self.divide(Linear(large, carry), c // divisor, dtype))
        return whole.plus(self._quotient_atom(rest, c, dtype))

    def _modulo(self, x: Linear, c: int, dtype: DType) -> Linear:
        x = self._without_multiples(x, c)
        if not x.terms:
            return Linear({}, x.const % c)
        rest = Linear(x.terms, x.const % c)
        carry = _one_quotient(self.interval(rest), c)
        if carry is not None:
            return Linear(rest.terms, rest.const - carry * c)
        common = gcd(c, *rest.terms.values())
        if common > 1:
            reduced = Linear({i: k // common for i, k in rest.terms.items()}, rest.const // common)
            inner = self.modulo(reduced, c // common, dtype).scaled(common)
            return Linear(inner.terms, inner.const + rest.const % common)
        part = self._without_carry(rest, c)
        if part is not None:
            divisor, large, small, carry = part
            inner = self.modulo(Linear(large, carry), c // divisor, dtype).scaled(divisor)
            return inner.plus(Linear(small.terms, small.const - carry * divisor))
        return self._remainder_atom(rest, c, dtype)

    def _split(self, x: Linear, c: int, dtype: DType) -> tuple[Linear, Linear]:
        """x = c·whole + rest, with coefficients of the rest smaller than c and its constant in [0, c)."""
        whole: dict[int, int] = {}
        rest: dict[int, int] = {}
        for index, k in x.terms.items():
            quotient = abs(k) // c * (1 if k > 0 else -1)
            remainder = k - quotient * c
            if quotient:
                whole[index] = whole.get(index, 0) + quotient
            if not remainder:
                continue
            known = self.atom_modular(index)
            if known.coefficient > 1 and (known.coefficient * remainder) % c == 0 and (known.base * remainder) % c == 0:
                # remainder·atom is a multiple of c although remainder is not: then c / gcd divides the atom.
                common = gcd(remainder, c)
                part = self._quotient_atom(Linear({index: 1}, 0), c // common, dtype).sole_atom
                if part is not None:
                    whole[part] = whole.get(part, 0) + remainder // common
                    continue
            rest[index] = remainder
        const, low = divmod(x.const, c)
        return Linear({i: k for i, k in whole.items() if k}, const), Linear(rest, low)

    def _without_multiples(self, x: Linear, c: int) -> Linear:
        """x modulo c with coefficients smaller than c and nothing in it that is known modulo c."""
        terms: dict[int, int] = {}
        const = x.const
        again = False
        for index, k in x.terms.items():
            k -= abs(k) // c * c * (1 if k > 0 else -1)
            if not k:
                continue
            residue = self.atom_modular(index).scale(k).residue(c)
            if residue is not None:
                const += residue
                continue
            if index in self.remainders:
                dividend, divisor = self.remainders[index]
                if (k * divisor) % c == 0:
                    # y % n differs from y by a multiple of n.
                    for inner, m in dividend.terms.items():
                        terms[inner] = terms.get(inner, 0) + m * k
                    const += dividend.const * k
                    again = True
                    continue
            terms[index] = terms.get(index, 0) + k
        found = Linear({i: k for i, k in terms.items() if k}, const)
        return self._without_multiples(found, c) if again else found

    def _without_carry(self, rest: Linear, c: int) -> tuple[int, dict[int, int], Linear, int] | None:
        """(d, large, small, carry) with rest = d·large + small, d a divisor of c, and small // d always `carry`."""
        divisors = {gcd(k, c) for k in rest.terms.values()} - {1}
        for divisor in sorted(divisors, reverse=True):
            small = Linear({i: k for i, k in rest.terms.items() if k % divisor}, rest.const)
            carry = _one_quotient(self.interval(small), divisor)
            if carry is not None:
                large = {i: k // divisor for i, k in rest.terms.items() if k % divisor == 0}
                return divisor, large, small, carry
        return None

    def _quotient_atom(self, x: Linear, c: int, dtype: DType) -> Linear:
        index = x.sole_atom if not x.const else None
        if index is None and len(x.terms) == 1:
            (index, k) = next(iter(x.terms.items()))
            index = index if k == 1 else None
        if index is not None:
            if index in self.quotients:
                # (y // a + r) // c = (y + a·r) // (a·c)
                dividend, divisor = self.quotients[index]
                shifted = Linear(dividend.terms, dividend.const + divisor * x.const)
                return self.divide(shifted, divisor * c, dtype)
            if index in self.remainders and not x.const:
                dividend, divisor = self.remainders[index]
                if divisor % c == 0:
                    # (y % n) // c = (y // c) % (n // c)
                    return self.modulo(self.divide(dividend, c, dtype), divisor // c, dtype)
        self._refuse_wrapping(x, dtype)
        atom = self.operation("floordiv", self.build(x, dtype), self.constant(c, dtype))
        number = self.number(atom)
        self.quotients[number] = (x, c)
        return Linear({number: 1}, 0)

    def _remainder_atom(self, x: Linear, c: int, dtype: DType) -> Linear:
        self._refuse_wrapping(x, dtype)
        atom = self.operation("floormod", self.build(x, dtype), self.constant(c, dtype))
        number = self.number(atom)
        self.remainders[number] = (x, c)
        return Linear({number: 1}, 0)

    def may_wrap(self, x: Linear, dtype: DType) -> bool:
        """Whether computing this sum could leave its type (index arithmetic is taken not to)."""
        if not wraps_silently(dtype) and not self.is_data_sum(x):
            return False
        return not self.interval(x).within(dtype.min_value, dtype.max_value)

    def _refuse_wrapping(self, x: Linear, dtype: DType) -> None:
        if self.may_wrap(x, dtype):
            raise MayWrap

    def join_halves(self, sum_: Linear, dtype: DType) -> Linear:
        """The sum with `x // c * c·k + x % c * k` written as `x * k`, `x // c * c` as x where c divides x, and
        `x - x // c * c` as `x % c`."""
        remainders, quotients = self.remainders, self.quotients
        for index in list(sum_.terms):
            k = sum_.terms.get(index)
            if k is None:
                continue
            if index in remainders:
                dividend, divisor = remainders[index]
                try:
                    other = self.divide(dividend, divisor, dtype).sole_atom
                except MayWrap:
                    continue
                if other is not None and sum_.terms.get(other) == k * divisor:
                    terms = dict(sum_.terms)
                    del terms[index], terms[other]
                    sum_ = self.join_halves(Linear(terms, sum_.const).plus(dividend, k), dtype)
            elif index in quotients:
                dividend, divisor = quotients[index]
                if k % divisor == 0 and self.modular(dividend).divisible_by(divisor):
                    terms = dict(sum_.terms)
                    del terms[index]
                    sum_ = self.join_halves(Linear(terms, sum_.const).plus(dividend, k // divisor), dtype)
                elif k % divisor == 0 and _holds(sum_, dividend, -k // divisor):
                    # x - x // c * c is x % c.
                    factor = -k // divisor
                    terms = dict(sum_.terms)
                    del terms[index]
                    rest = Linear(terms, sum_.const).plus(dividend, -factor)
                    try:
                        remainder = self.modulo(dividend, divisor, dtype)
                    except MayWrap:
                        continue
                    sum_ = self.join_halves(rest.plus(remainder, factor), dtype)
        return sum_


def _holds(sum_: Linear, part: Linear, factor: int) -> bool:
    """Whether a sum has every term of `part` times `factor` exactly."""
    return all(sum_.terms.get(index) == k * factor for index, k in part.terms.items())


def _one_quotient(values: Interval, c: int) -> int | None:
    """The quotient by c when every value has the same."""
    if not values.bounded or values.empty:
        return None
    low = values.lo // c
    return low if values.hi // c == low else None
