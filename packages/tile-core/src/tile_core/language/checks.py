"""What scalar functions take: numbers, floats, integers, each with an error that says what was found."""

from __future__ import annotations

from typing import Any

from ..dtypes import DType, as_dtype
from ..errors import CompileError, declare_codes
from ..ir import Expr, as_expr
from ..ir import cast as _cast

__all__ = ["float_type", "floating", "integer", "number"]

declare_codes(
    {
        "E-MATH-TYPE": "a function of numbers that does not take this element type",
        "E-MATH-ROUND": "a rounding mode that this version does not have",
        "E-REINTERPRET": "the bits of a value seen as a type of another width",
    }
)


def number(name: str, x: Any) -> Expr:
    """A number of any element type."""
    value = as_expr(x)
    if value.dtype.kind in "biuf":
        return value
    raise CompileError(
        "E-MATH-TYPE",
        f"T.{name} does not take {value.dtype}",
        span=value.span,
        facts=[f"found {value!r}"],
        help="pass a number",
    )


def floating(name: str, x: Any) -> Expr:
    """A float; integers become float32."""
    value = number(name, x)
    return value if value.dtype.is_float else _cast(value, DType("float32").with_lanes(value.dtype.lanes))


def integer(name: str, x: Any) -> Expr:
    """An integer."""
    value = number(name, x)
    if not value.dtype.is_float:
        return value
    raise CompileError(
        "E-MATH-TYPE",
        f"T.{name} is for integers",
        span=value.span,
        facts=[f"found {value!r}, which is {value.dtype}"],
        help="cast to an integer first, or divide floats with /",
    )


def float_type(name: str, dtype: Any) -> DType:
    """A scalar float type."""
    target = as_dtype(dtype)
    if target.is_float and target.lanes == 1:
        return target
    raise CompileError(
        "E-MATH-TYPE",
        f"T.{name}: {target} is no scalar float type",
        help="pass a float type; integers have T.max_value and T.min_value",
    )
