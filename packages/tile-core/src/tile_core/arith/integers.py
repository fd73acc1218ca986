"""Rules of the simplifier for integer operators: sums of atoms in, a sum of atoms out, None where there is none."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ..dtypes import DType
from .interval import wraps_silently
from .terms import Linear

if TYPE_CHECKING:
    from .simplify import Simplifier

__all__ = ["INTEGER_RULES"]


def _rule_add(s: Simplifier, a: Linear, b: Linear, dtype: DType) -> Linear:
    return a.plus(b)


def _rule_sub(s: Simplifier, a: Linear, b: Linear, dtype: DType) -> Linear:
    return a.plus(b, -1)


def _rule_mul(s: Simplifier, a: Linear, b: Linear, dtype: DType) -> Linear | None:
    found = s.product(a, b)
    if found is None or s.may_wrap(found, dtype):
        return None
    if wraps_silently(dtype) or s.is_data_sum(found):
        # Each product is an atom and taken as exact.
        for index in found.terms:
            factors = s.factors.get(index)
            if factors is not None and not s.product_interval(factors).within(dtype.min_value, dtype.max_value):
                return None
    return found


def _rule_floordiv(s: Simplifier, a: Linear, b: Linear, dtype: DType) -> Linear | None:
    if b.terms:
        return _symbolic_quotient(s, a, b, dtype)
    if b.const == 0:
        return None
    if b.const < 0:
        return s.divide(a.scaled(-1), -b.const, dtype)
    return s.divide(a, b.const, dtype)


def _rule_floormod(s: Simplifier, a: Linear, b: Linear, dtype: DType) -> Linear | None:
    if b.terms:
        quotient = _symbolic_quotient(s, a, b, dtype)
        product = None if quotient is None else s.product(quotient, b)
        return None if product is None else a.plus(product, -1)
    if b.const == 0:
        return None
    if b.const < 0:
        return s.modulo(a.scaled(-1), -b.const, dtype).scaled(-1)
    return s.modulo(a, b.const, dtype)


def _symbolic_quotient(s: Simplifier, a: Linear, b: Linear, dtype: DType) -> Linear | None:
    """a // b for a divisor that is an atom ≥ 0 (0 has no quotient), where a is a multiple of it plus a part in [0,
    b)."""
    divisor = b.sole_atom
    if divisor is None or s.interval(b).lo < 0 or s.is_data_sum(a):
        return None
    quotient: dict[int, int] = {}
    const = 0
    rest: dict[int, int] = {}
    for index, k in a.terms.items():
        if index == divisor:
            const += k
            continue
        factors = list(s.factors.get(index, ()))
        if divisor in factors:
            factors.remove(divisor)
            left = s.monomial(tuple(factors))
            quotient[left] = quotient.get(left, 0) + k
        else:
            rest[index] = k
    remaining = Linear(rest, a.const)
    if not rest and not a.const:
        return Linear(quotient, const)
    if s.sharp_interval(remaining, low_goal=0).lo < 0:
        return None
    if s.sharp_interval(remaining.plus(b, -1), high_goal=-1).hi > -1:
        return None
    return Linear(quotient, const)


def _rule_truncdiv(s: Simplifier, a: Linear, b: Linear, dtype: DType) -> Linear | None:
    if not a.terms and not b.terms and b.const:
        return Linear({}, abs(a.const) // abs(b.const) * (1 if (a.const < 0) == (b.const < 0) else -1))
    if b.terms or s.interval(a).lo >= 0:
        return _rule_floordiv(s, a, b, dtype) if s.interval(a).lo >= 0 and s.interval(b).lo >= 1 else None
    if s.interval(a).hi <= 0 and b.const > 0:
        return s.divide(a.scaled(-1), b.const, dtype).scaled(-1)
    return None


def _rule_truncmod(s: Simplifier, a: Linear, b: Linear, dtype: DType) -> Linear | None:
    if b.terms:
        return _rule_floormod(s, a, b, dtype) if s.interval(a).lo >= 0 and s.interval(b).lo >= 1 else None
    # The remainder has the sign of the dividend, whatever the sign of the divisor.
    divisor = abs(b.const)
    if divisor and s.interval(a).lo >= 0:
        return s.modulo(a, divisor, dtype)
    if divisor and s.interval(a).hi <= 0:
        return s.modulo(a.scaled(-1), divisor, dtype).scaled(-1)
    return None


def _rule_min(s: Simplifier, a: Linear, b: Linear, dtype: DType) -> Linear | None:
    values = s.sharp_interval(a.plus(b, -1), low_goal=0, high_goal=0)
    return a if values.hi <= 0 else b if values.lo >= 0 else None


def _rule_max(s: Simplifier, a: Linear, b: Linear, dtype: DType) -> Linear | None:
    values = s.sharp_interval(a.plus(b, -1), low_goal=0, high_goal=0)
    return a if values.lo >= 0 else b if values.hi <= 0 else None


def _rule_shl(s: Simplifier, a: Linear, b: Linear, dtype: DType) -> Linear | None:
    if b.terms or not 0 <= b.const < dtype.bits:
        return None
    found = a.scaled(1 << b.const)
    return None if s.may_wrap(found, dtype) else found


def _rule_shr(s: Simplifier, a: Linear, b: Linear, dtype: DType) -> Linear | None:
    if b.terms or not 0 <= b.const < dtype.bits or 1 << b.const > dtype.max_value:
        # The divisor would not be a value of the type.
        return None
    return s.divide(a, 1 << b.const, dtype)


def _rule_bitand(s: Simplifier, a: Linear, b: Linear, dtype: DType) -> Linear | None:
    if not a.terms:
        a, b = b, a
    mask = b.const
    if b.terms or mask < 0 or mask & (mask + 1) or mask + 1 > dtype.max_value:
        return None
    return s.modulo(a, mask + 1, dtype)


def _rule_operands(s: Simplifier, a: Linear, b: Linear, dtype: DType) -> Linear | None:
    """Nothing is known of the operator, but its operands are simpler."""
    return None


INTEGER_RULES: dict[str, Callable[[Simplifier, Linear, Linear, DType], Linear | None]] = {
    "add": _rule_add,
    "sub": _rule_sub,
    "mul": _rule_mul,
    "floordiv": _rule_floordiv,
    "floormod": _rule_floormod,
    "truncdiv": _rule_truncdiv,
    "truncmod": _rule_truncmod,
    "min": _rule_min,
    "max": _rule_max,
    "shl": _rule_shl,
    "shr": _rule_shr,
    "bitand": _rule_bitand,
    "bitor": _rule_operands,
    "bitxor": _rule_operands,
}
