"""Integer operators on constants."""

from __future__ import annotations

from typing import Any

from ..dtypes import DType

__all__ = ["fold_int", "wrap"]


def fold_int(op: str, a: int, b: int, dtype: DType) -> int | None:
    """The value of an integer operator on constants, wrapped to `dtype`, or None where it has none (division by
    zero)."""
    if op in ("floordiv", "floormod", "truncdiv", "truncmod", "div"):
        if b == 0 or op == "div":
            return None
        if op == "floordiv":
            return wrap(a // b, dtype)
        if op == "floormod":
            return wrap(a % b, dtype)
        quotient = abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
        return wrap(quotient if op == "truncdiv" else a - quotient * b, dtype)
    if op in ("shl", "shr") and not 0 <= b < dtype.bits:
        return None
    folded = _FOLD[op](a, b)
    return int(folded) if isinstance(folded, bool) or dtype.is_bool else wrap(folded, dtype)


_FOLD: dict[str, Any] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "min": min,
    "max": max,
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
    "and": lambda a, b: bool(a and b),
    "or": lambda a, b: bool(a or b),
    "bitand": lambda a, b: a & b,
    "bitor": lambda a, b: a | b,
    "bitxor": lambda a, b: a ^ b,
    "shl": lambda a, b: a << b,
    "shr": lambda a, b: a >> b,
}


def wrap(value: int, dtype: DType) -> int:
    """An integer as a type of so many bits holds it."""
    if dtype.is_bool:
        return int(bool(value))
    if dtype.min_value <= value <= dtype.max_value:
        return value
    value &= (1 << dtype.bits) - 1
    return value - (1 << dtype.bits) if dtype.kind == "i" and value >> (dtype.bits - 1) else value
