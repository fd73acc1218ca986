"""How an index depends on a variable: coefficient and rest, found from the shape of the expression alone."""

from __future__ import annotations

from typing import Any

from ..ir import Binary, Cast, Expr, IntImm, Unary, Var, binary, cast, const, is_zero, unary, walk

__all__ = ["linear_in", "mentions", "mentioned_vars"]


def linear_in(expr: Expr, var: Var) -> tuple[Expr, Expr] | None:
    """(coefficient, rest) with ``expr == coefficient · var + rest`` and neither mentioning `var`, or None where there
    are none.

    Both have the expression's type. The coefficient is a constant where it can be; 0 says that `var` does not matter.
    """
    if expr is var:
        return const(1, expr.dtype), const(0, expr.dtype)
    if isinstance(expr, (IntImm, Var)):
        return const(0, expr.dtype), expr
    if isinstance(expr, Binary) and expr.op in ("add", "sub", "mul"):
        a, b = linear_in(expr.a, var), linear_in(expr.b, var)
        if a is None or b is None:
            return None
        if is_zero(a[0]) and is_zero(b[0]):
            return a[0], expr
        if expr.op == "mul":
            if not is_zero(a[0]) and not is_zero(b[0]):
                return None
            moving, factor = (a, expr.b) if is_zero(b[0]) else (b, expr.a)
            return binary("mul", moving[0], factor), _times(moving[1], factor)
        return binary(expr.op, a[0], b[0]), _plus(expr.op, a[1], b[1])
    if isinstance(expr, Unary) and expr.op == "neg":
        a = linear_in(expr.a, var)
        return None if a is None else (unary("neg", a[0]), unary("neg", a[1]))
    if (
        isinstance(expr, Cast)
        and expr.dtype.is_int
        and expr.value.dtype.is_int
        and expr.dtype.bits >= expr.value.dtype.bits
    ):
        # Index arithmetic does not overflow (an arith convention), so a widening cast distributes.
        a = linear_in(expr.value, var)
        if a is None or is_zero(a[0]):
            return a if a is None else (const(0, expr.dtype), expr)
        return cast(a[0], expr.dtype), cast(a[1], expr.dtype)
    return None if mentions(expr, var) else (const(0, expr.dtype) if expr.dtype.is_int else const(0, "int32"), expr)


def mentions(node: Any, var: Var) -> bool:
    """Whether `var` occurs in a tree."""
    return any(item is var for item in walk(node))


def mentioned_vars(node: Any) -> set[Var]:
    """The variables that occur in a tree."""
    return {item for item in walk(node) if isinstance(item, Var)}


def _times(value: Expr, factor: Expr) -> Expr:
    return value if is_zero(value) else binary("mul", value, factor)


def _plus(op: str, a: Expr, b: Expr) -> Expr:
    if is_zero(b):
        return a
    if is_zero(a) and op == "add":
        return b
    return binary(op, a, b)
