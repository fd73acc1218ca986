"""Values: chosen by a condition, converted, constants of a type, vectors."""

from __future__ import annotations

from typing import Any

from ..dtypes import DType, as_dtype
from ..errors import CompileError
from ..frontend.builder import known
from ..frontend.operators import as_condition, is_expression
from ..ir import Broadcast as _Broadcast
from ..ir import Call, Expr, FloatImm, as_expr, const, select
from ..ir import Cast as _Cast
from ..ir import Ramp as _Ramp
from ..ir import binary as _binary
from ..ir import cast as _cast
from .checks import float_type

__all__ = [
    "Broadcast",
    "Cast",
    "Ramp",
    "Select",
    "all_of",
    "any_of",
    "cast",
    "if_then_else",
    "infinity",
    "max_value",
    "min_value",
    "reinterpret",
]


def if_then_else(cond: Any, t: Any, f: Any) -> Any:
    """t where cond holds, else f; only that one is evaluated when the kernel runs."""
    condition = known(cond)
    if not is_expression(condition):
        return t if condition else f
    return select(condition, t, f, lazy=True)


def Select(condition: Any, true_value: Any, false_value: Any) -> Expr:
    """true_value where condition holds, else false_value; both are evaluated."""
    return select(condition, true_value, false_value)


def any_of(*conditions: Any) -> Any:
    """Whether one of the conditions holds."""
    return _junction("or", conditions)


def all_of(*conditions: Any) -> Any:
    """Whether all of the conditions hold."""
    return _junction("and", conditions)


def cast(value: Any, dtype: Any, round: str = "", sat: bool = True, rbits: Any = None) -> Expr:
    """`value` as another element type: floats round to nearest even, float → int truncates.

    Args:
        round: rounding mode; only "" and "rn" (to nearest even) in this version.
        sat: whether float8 conversions saturate; accepted, they do.
        rbits: random bits for stochastic rounding; not in this version.
    """
    if round not in ("", "rn") or rbits is not None:
        raise CompileError(
            "E-MATH-ROUND",
            f"T.cast does not round by {round or 'random bits'!r} in this version",
            facts=["allowed: '' and 'rn' (to nearest even)"],
            help="leave out round and rbits",
        )
    target = as_dtype(dtype)
    return _cast(as_expr(value, target if isinstance(value, (int, float)) else None), target)


def Cast(dtype: Any, value: Any) -> Expr:
    """`value` as another element type, as a node even where nothing changes."""
    return _Cast(as_dtype(dtype), as_expr(value))


def reinterpret(value: Any, dtype: Any) -> Expr:
    """The bits of `value` seen as another type of the same width."""
    if isinstance(value, (str, DType)):
        value, dtype = dtype, value
    source, target = as_expr(value), as_dtype(dtype)
    if source.dtype.bits * source.dtype.lanes != target.bits * target.lanes:
        raise CompileError(
            "E-REINTERPRET",
            f"{source.dtype} and {target} differ in width",
            facts=[
                f"{source.dtype}: {source.dtype.bits * source.dtype.lanes} bits",
                f"{target}: {target.bits * target.lanes} bits",
            ],
            help="cast to an integer of the other width first",
        )
    return Call("reinterpret", (source,), target)


def infinity(dtype: Any = "float32") -> FloatImm:
    """Positive infinity of a float type."""
    return FloatImm(float("inf"), float_type("infinity", dtype))


# Largest finite values; what is not here has no finite maximum of its own.
_LARGEST = {
    "float16": 65504.0,
    "bfloat16": 3.3895313892515355e38,
    "float32": 3.4028234663852886e38,
    "tfloat32": 3.4011621342146535e38,
    "float64": 1.7976931348623157e308,
    "float8_e3m4": 15.5,
    "float8_e4m3": 240.0,
    "float8_e4m3b11fnuz": 30.0,
    "float8_e4m3fn": 448.0,
    "float8_e4m3fnuz": 240.0,
    "float8_e5m2": 57344.0,
    "float8_e5m2fnuz": 57344.0,
    "float6_e2m3fn": 7.5,
    "float6_e3m2fn": 28.0,
    "float4_e2m1fn": 6.0,
    "float8_e8m0fnu": 2.0**127,
}


def max_value(dtype: Any) -> Expr:
    """The largest finite value of a type."""
    target = as_dtype(dtype)
    if target.is_int or target.is_bool:
        return const(target.max_value, target)
    return FloatImm(_LARGEST[float_type("max_value", target).name], target)


def min_value(dtype: Any) -> Expr:
    """The smallest finite value of a type."""
    target = as_dtype(dtype)
    if target.is_int or target.is_bool:
        return const(target.min_value, target)
    name = float_type("min_value", target).name
    return FloatImm(2.0**-127 if name == "float8_e8m0fnu" else -_LARGEST[name], target)


def Ramp(base: Any, stride: Any, lanes: int) -> Expr:
    """The vector base, base + stride, …"""
    low = as_expr(base)
    return _Ramp(low, as_expr(stride, low.dtype), int(lanes))


def Broadcast(value: Any, lanes: int) -> Expr:
    """The vector of `lanes` copies of a value."""
    return _Broadcast(as_expr(value), int(lanes))


def _junction(op: str, conditions: tuple[Any, ...]) -> Any:
    if not conditions:
        raise CompileError("E-CALL", "a condition is missing", help="pass one or more conditions")
    result: Any = None
    for condition in conditions:
        value = as_condition(condition)
        result = value if result is None else _binary(op, result, value)
    return result
