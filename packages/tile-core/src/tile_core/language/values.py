"""Values: chosen by a condition, converted, constants of a type, vectors."""

from __future__ import annotations

from typing import Any

from ..casts import FORMATS, cast_rule, check_cast
from ..dtypes import DType, as_dtype
from ..errors import CompileError
from ..frontend.builder import known
from ..frontend.operators import as_condition, is_expression
from ..ir import Broadcast as _Broadcast
from ..ir import Buffer, BufferRegion, Call, Expr, FloatImm, StringImm, as_expr, const, select
from ..ir import Cast as _Cast
from ..ir import Ramp as _Ramp
from ..ir import binary as _binary
from ..ir import cast as _cast
from .checks import float_type
from .operands import require_flag, require_option
from .reduce import elements_hold

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
    """Whether one of the conditions holds; of a single buffer or slice in shared, local or global memory, whether one
    of its elements is not zero."""
    if len(conditions) == 1 and isinstance(conditions[0], (Buffer, BufferRegion)):
        return elements_hold("T.any_of", conditions[0], False)
    return _junction("or", conditions)


def all_of(*conditions: Any) -> Any:
    """Whether all of the conditions hold; of a single buffer or slice, whether none of its elements is zero."""
    if len(conditions) == 1 and isinstance(conditions[0], (Buffer, BufferRegion)):
        return elements_hold("T.all_of", conditions[0], True)
    return _junction("and", conditions)


def cast(value: Any, dtype: Any, round: str = "", sat: bool = True, rbits: Any = None) -> Expr:
    """`value` as the element type `dtype`: the exact value, rounded once.

    Args:
        round: "" for the default: floats round to nearest even ("rn"), float → int truncates ("rz") and clamps, NaN
            gives 0. Also "rp" (up), "rm" (down), and for float targets "rs" (stochastic, with rbits).
        sat: whether values beyond the range of a float of eight bits or fewer become the largest finite one; if not
            they become infinity, or NaN where the type has no infinity.
        rbits: random bits (uint32) for "rs": the value moves away from zero when the dropped fraction, as 32 bits, plus
            rbits reaches 2^32.

    Raises:
        CompileError: the types do not round this way, or rbits and "rs" do not go together (E-CAST).
    """
    target = as_dtype(dtype)
    sat = require_flag("T.cast", "sat", sat)
    if not isinstance(round, str):
        require_option("T.cast", "round", round, ("", "rn", "rz", "rp", "rm", "rs"))
    source = as_expr(value, target if isinstance(value, (int, float)) and not isinstance(value, bool) else None)
    if not round and sat and rbits is None:
        return _cast(source, target)
    if source.dtype.kind in "biuf" and isinstance(value, (int, float)):
        source = as_expr(value)
    mode = check_cast(source.dtype, target, round, rbits is not None)
    rule = cast_rule(source.dtype, target)
    lanes = max(source.dtype.lanes, target.lanes)
    unsaturated = rule.takes_saturation and not sat
    if not rule.roundings or (mode == rule.roundings[0] and not unsaturated):
        return _cast(source, target)
    if source.dtype.lanes != lanes:
        source = _Broadcast(source, lanes)
    arguments = [StringImm(mode + ("-unsaturated" if unsaturated else "")), source]
    if rbits is not None:
        bits = _cast(as_expr(rbits, DType("uint32")), DType("uint32"))
        arguments.append(bits if bits.dtype.lanes == lanes else _Broadcast(bits, lanes))
    return Call("convert", tuple(arguments), target.with_lanes(lanes))


def Cast(dtype: Any, value: Any) -> Expr:
    """`value` as the element type `dtype`, as a node even where nothing changes."""
    return _Cast(as_dtype(dtype), as_expr(value))


def reinterpret(value: Any, dtype: Any) -> Expr:
    """The bits of `value` seen as `dtype`, a type of as many: scalars and vectors, four-bit lanes too (the first in the
    low half of a byte). A six-bit float takes a byte.

    Raises:
        CompileError: the types differ in width (E-REINTERPRET).
    """
    if isinstance(value, (str, DType)):
        value, dtype = dtype, value
    source, target = as_expr(value), as_dtype(dtype)
    if source.dtype is target:
        return source
    if source.dtype.storage_bits != target.storage_bits or target.kind == "v":
        raise CompileError(
            "E-REINTERPRET",
            f"{source.dtype} and {target} differ in width",
            facts=[
                f"{source.dtype}: {source.dtype.storage_bits} bits",
                f"{target}: {target.storage_bits} bits",
            ],
            help="cast to an integer of the other width first",
        )
    return Call("reinterpret", (source,), target)


def infinity(dtype: Any = "float32") -> FloatImm:
    """Positive infinity of the float type `dtype`."""
    return FloatImm(float("inf"), float_type("infinity", dtype))


def max_value(dtype: Any) -> Expr:
    """The largest finite value of the element type `dtype`."""
    target = as_dtype(dtype)
    if target.is_int or target.is_bool:
        return const(target.max_value, target)
    return FloatImm(FORMATS[float_type("max_value", target).name].largest_value, target)


def min_value(dtype: Any) -> Expr:
    """The smallest finite value of the element type `dtype`."""
    target = as_dtype(dtype)
    if target.is_int or target.is_bool:
        return const(target.min_value, target)
    form = FORMATS[float_type("min_value", target).name]
    return FloatImm(-form.largest_value if form.signed else form.value(0), target)


def Ramp(base: Any, stride: Any, lanes: int) -> Expr:
    """The vector base, base + stride, … of so many lanes."""
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
