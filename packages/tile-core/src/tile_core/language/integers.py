"""Integer arithmetic and bits. On Python integers the divisions give Python integers, so that they serve for sizes."""

from __future__ import annotations

from typing import Any

from ..errors import CompileError
from ..frontend.builder import known
from ..ir import Call, Expr, unary
from ..ir import binary as _binary
from .checks import integer

__all__ = [
    "align_up",
    "bitwise_and",
    "bitwise_not",
    "bitwise_or",
    "bitwise_xor",
    "cdiv",
    "ceildiv",
    "clz",
    "floordiv",
    "floormod",
    "popcount",
    "shift_left",
    "shift_right",
    "truncdiv",
    "truncmod",
]


def popcount(x: Any) -> Expr:
    """Number of set bits of x, an integer."""
    return _integer_call("popcount", x)


def clz(x: Any) -> Expr:
    """Number of leading zero bits of x, an integer; its width for 0."""
    return _integer_call("clz", x)


def ceildiv(lhs: Any, rhs: Any) -> Any:
    """lhs / rhs rounded up, for integers; rhs > 0."""
    if isinstance(lhs, int) and isinstance(rhs, int):
        return -(-lhs // _divisor("ceildiv", rhs))
    return _binary(
        "floordiv", _binary("sub", _binary("add", integer("ceildiv", lhs), rhs), 1), _divisor("ceildiv", rhs)
    )


cdiv = ceildiv


def floordiv(a: Any, b: Any) -> Any:
    """a / b rounded down (Python's //), for integers."""
    if isinstance(a, int) and isinstance(b, int):
        return a // _divisor("floordiv", b)
    return _binary("floordiv", integer("floordiv", a), _divisor("floordiv", b))


def floormod(a: Any, b: Any) -> Any:
    """a - b · floor(a / b) (Python's %), for integers."""
    if isinstance(a, int) and isinstance(b, int):
        return a % _divisor("floormod", b)
    return _binary("floormod", integer("floormod", a), _divisor("floormod", b))


def truncdiv(a: Any, b: Any) -> Any:
    """a / b rounded to zero (C's /), for integers."""
    if isinstance(a, int) and isinstance(b, int):
        quotient = (a if a >= 0 else -a) // (b if _divisor("truncdiv", b) > 0 else -b)
        return quotient if (a >= 0) == (b > 0) else -quotient
    return _binary("truncdiv", integer("truncdiv", a), _divisor("truncdiv", b))


def truncmod(a: Any, b: Any) -> Any:
    """The remainder of `truncdiv` for a and b (C's %), with the sign of a."""
    if isinstance(a, int) and isinstance(b, int):
        return a - b * truncdiv(a, b)
    return _binary("truncmod", integer("truncmod", a), _divisor("truncmod", b))


def align_up(x: Any, y: Any) -> Any:
    """The smallest multiple of y that is ≥ x."""
    return ceildiv(x, y) * y


def bitwise_and(x: Any, y: Any) -> Expr:
    """Bits set in both x and y."""
    return _binary("bitand", x, y)


def bitwise_or(x: Any, y: Any) -> Expr:
    """Bits set in x or y."""
    return _binary("bitor", x, y)


def bitwise_xor(x: Any, y: Any) -> Expr:
    """Bits set in exactly one of x and y."""
    return _binary("bitxor", x, y)


def bitwise_not(x: Any) -> Expr:
    """Every bit of x turned over."""
    return unary("bitnot", integer("bitwise_not", x))


def shift_left(x: Any, y: Any) -> Expr:
    """x shifted left by y bits, in x's width."""
    return _binary("shl", x, y)


def shift_right(x: Any, y: Any) -> Expr:
    """x shifted right by y bits, keeping the sign of signed types."""
    return _binary("shr", x, y)


def _divisor(name: str, b: Any) -> Any:
    value = known(b)
    if isinstance(value, int) and value == 0:
        raise CompileError("E-MATH-TYPE", f"T.{name} divides by 0", help="give a divisor that is not 0")
    if isinstance(b, int):
        return b
    return integer(name, b)


def _integer_call(name: str, x: Any) -> Expr:
    value = integer(name, x)
    return Call(name, (value,), value.dtype)
