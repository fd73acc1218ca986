"""Mathematics on scalar expressions: functions of floats, rounding, predicates, extremes."""

from __future__ import annotations

from typing import Any

from ..dtypes import DType, promote
from ..errors import CompileError
from ..frontend.operators import is_expression
from ..ir import Call, Expr, as_expr
from ..ir import binary as _binary
from ..ir import cast as _cast
from .checks import floating, number

__all__ = [
    "abs",
    "acos",
    "acosh",
    "asin",
    "asinh",
    "atan",
    "atan2",
    "atanh",
    "ceil",
    "clamp",
    "copysign",
    "cos",
    "cosh",
    "erf",
    "exp",
    "exp10",
    "exp2",
    "fabs",
    "floor",
    "fma",
    "fmod",
    "hypot",
    "isfinite",
    "isinf",
    "isnan",
    "ldexp",
    "likely",
    "log",
    "log10",
    "log1p",
    "log2",
    "max",
    "min",
    "nearbyint",
    "nextafter",
    "pow",
    "round",
    "rsqrt",
    "sigmoid",
    "sin",
    "sinh",
    "sqrt",
    "tan",
    "tanh",
    "trunc",
]


def exp(x: Any) -> Expr:
    """e to the power x."""
    return _float_call("exp", x)


def exp2(x: Any) -> Expr:
    """2 to the power x."""
    return _float_call("exp2", x)


def exp10(x: Any) -> Expr:
    """10 to the power x."""
    return _float_call("exp10", x)


def log(x: Any) -> Expr:
    """Natural logarithm of x."""
    return _float_call("log", x)


def log2(x: Any) -> Expr:
    """Logarithm of x to base 2."""
    return _float_call("log2", x)


def log10(x: Any) -> Expr:
    """Logarithm of x to base 10."""
    return _float_call("log10", x)


def log1p(x: Any) -> Expr:
    """log(1 + x), exact for small x."""
    return _float_call("log1p", x)


def sqrt(x: Any) -> Expr:
    """Square root of x."""
    return _float_call("sqrt", x)


def rsqrt(x: Any) -> Expr:
    """1 / sqrt(x)."""
    return _float_call("rsqrt", x)


def sin(x: Any) -> Expr:
    """Sine of x in radians."""
    return _float_call("sin", x)


def cos(x: Any) -> Expr:
    """Cosine of x in radians."""
    return _float_call("cos", x)


def tan(x: Any) -> Expr:
    """Tangent of x in radians."""
    return _float_call("tan", x)


def asin(x: Any) -> Expr:
    """Inverse sine of x, in radians."""
    return _float_call("asin", x)


def acos(x: Any) -> Expr:
    """Inverse cosine of x, in radians."""
    return _float_call("acos", x)


def atan(x: Any) -> Expr:
    """Inverse tangent of x, in radians."""
    return _float_call("atan", x)


def sinh(x: Any) -> Expr:
    """Hyperbolic sine of x."""
    return _float_call("sinh", x)


def cosh(x: Any) -> Expr:
    """Hyperbolic cosine of x."""
    return _float_call("cosh", x)


def tanh(x: Any) -> Expr:
    """Hyperbolic tangent of x."""
    return _float_call("tanh", x)


def asinh(x: Any) -> Expr:
    """Inverse hyperbolic sine of x."""
    return _float_call("asinh", x)


def acosh(x: Any) -> Expr:
    """Inverse hyperbolic cosine of x."""
    return _float_call("acosh", x)


def atanh(x: Any) -> Expr:
    """Inverse hyperbolic tangent of x."""
    return _float_call("atanh", x)


def erf(x: Any) -> Expr:
    """Error function of x."""
    return _float_call("erf", x)


def sigmoid(x: Any) -> Expr:
    """1 / (1 + exp(-x))."""
    return _float_call("sigmoid", x)


def floor(x: Any) -> Expr:
    """The largest integer ≤ x, in x's type."""
    return _rounding("floor", x)


def ceil(x: Any) -> Expr:
    """The smallest integer ≥ x, in x's type."""
    return _rounding("ceil", x)


def trunc(x: Any) -> Expr:
    """x without its fraction, in x's type."""
    return _rounding("trunc", x)


def round(x: Any, rounding_mode: str = "ties-to-even") -> Expr:
    """The nearest integer, in x's type; halves go to the even one, the only `rounding_mode` there is."""
    if rounding_mode != "ties-to-even":
        raise CompileError(
            "E-MATH-ROUND",
            f"T.round does not know the mode {rounding_mode!r}",
            facts=["allowed: 'ties-to-even'"],
            help="use T.floor(x + 0.5) for halves upwards, or T.trunc, T.floor, T.ceil",
        )
    return _rounding("round", x)


def nearbyint(x: Any) -> Expr:
    """The nearest integer, in x's type; halves go to the even one."""
    return _rounding("nearbyint", x)


def abs(x: Any) -> Expr:
    """Absolute value of x, a float or an integer; of the smallest integer, itself."""
    value = number("abs", x)
    return value if value.dtype.kind in "ub" else Call("abs", (value,), value.dtype)


def fabs(x: Any) -> Expr:
    """Absolute value of x, a float."""
    return _float_call("abs", x)


def isnan(x: Any) -> Expr:
    """Whether x is NaN."""
    return _predicate("isnan", x)


def isinf(x: Any) -> Expr:
    """Whether x is infinite."""
    return _predicate("isinf", x)


def isfinite(x: Any) -> Expr:
    """Whether x is neither NaN nor infinite."""
    return _predicate("isfinite", x)


def likely(cond: Any) -> Expr:
    """The condition `cond`, expected to be true."""
    value = as_expr(cond)
    return Call("likely", (value,), value.dtype)


def pow(x: Any, y: Any) -> Expr:
    """x to the power y, as floats."""
    return _float_pair("pow", x, y)


def fmod(x: Any, y: Any) -> Expr:
    """The remainder of x / y with the sign of x, as floats."""
    return _float_pair("fmod", x, y)


def atan2(x1: Any, x2: Any) -> Expr:
    """The angle of the point with abscissa x2 and ordinate x1: atan(x1 / x2) with the quadrant."""
    return _float_pair("atan2", x1, x2)


def hypot(x1: Any, x2: Any) -> Expr:
    """√(a² + b²) for a = x1 and b = x2, without overflow in between."""
    return _float_pair("hypot", x1, x2)


def copysign(x1: Any, x2: Any) -> Expr:
    """|x1| with the sign of x2."""
    return _float_pair("copysign", x1, x2)


def nextafter(x1: Any, x2: Any) -> Expr:
    """The next number after x1 towards x2."""
    return _float_pair("nextafter", x1, x2)


def ldexp(x1: Any, x2: Any) -> Expr:
    """x1 times 2 to the power of an integer x2."""
    value = floating("ldexp", x1)
    return Call("ldexp", (value, _cast(as_expr(x2), DType("int32").with_lanes(value.dtype.lanes))), value.dtype)


def fma(x: Any, y: Any, z: Any) -> Expr:
    """x · y + z, rounded once."""
    values = [floating("fma", v) for v in (x, y, z)]
    dtype = promote(promote(values[0].dtype, values[1].dtype), values[2].dtype)
    return Call("fma", tuple([_cast(v, dtype) for v in values]), dtype)


def max(*values: Any) -> Any:
    """The largest of two or more values; a number wins over NaN."""
    return _extreme("max", values)


def min(*values: Any) -> Any:
    """The smallest of two or more values; a number wins over NaN."""
    return _extreme("min", values)


def clamp(dst: Any, min_val: Any, max_val: Any) -> Any:
    """dst brought into [min_val, max_val]."""
    return min(max(dst, min_val), max_val)


def _float_call(name: str, x: Any) -> Expr:
    value = floating(name, x)
    return Call(name, (value,), value.dtype)


def _float_pair(name: str, x: Any, y: Any) -> Expr:
    if not is_expression(x):
        b = floating(name, y)
        a = floating(name, as_expr(x, b.dtype.scalar))
    else:
        a = floating(name, x)
        b = floating(name, as_expr(y, a.dtype.scalar))
    dtype = promote(a.dtype, b.dtype)
    return Call(name, (_cast(a, dtype), _cast(b, dtype)), dtype)


def _rounding(name: str, x: Any) -> Expr:
    value = number(name, x)
    return Call(name, (value,), value.dtype) if value.dtype.is_float else value


def _predicate(name: str, x: Any) -> Expr:
    value = floating(name, x)
    return Call(name, (value,), DType("bool").with_lanes(value.dtype.lanes))


def _extreme(op: str, values: tuple[Any, ...]) -> Any:
    if len(values) < 2:
        raise CompileError(
            "E-CALL",
            f"T.{op} takes two or more values",
            facts=[f"found {len(values)}"],
            help=f"T.reduce_{op} reduces a tile",
        )
    result = values[0]
    for value in values[1:]:
        if isinstance(result, int) and isinstance(value, int):
            larger = result if result > value else value
            result = larger if op == "max" else result + value - larger
        else:
            result = _binary(op, result, value)
    return result
