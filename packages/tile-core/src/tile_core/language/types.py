"""Element types: ``T.float16``, ``T.int32``, vectors such as ``T.float32x4``. Calling one converts a value or makes a
constant."""

from __future__ import annotations

from typing import Any

from ..dtypes import DType, as_dtype
from ..errors import CompileError, declare_codes
from ..frontend.operators import is_expression
from ..frontend.placeholder import refuse_placeholder
from ..ir import Shuffle, Var, as_expr, cast, const

declare_codes({"E-CONVERT": "a conversion with the wrong number or kind of values"})

int4 = DType("int4")
int8 = DType("int8")
int16 = DType("int16")
int32 = DType("int32")
int64 = DType("int64")
uint4 = DType("uint4")
uint8 = DType("uint8")
uint16 = DType("uint16")
uint32 = DType("uint32")
uint64 = DType("uint64")
float16 = DType("float16")
bfloat16 = DType("bfloat16")
float32 = DType("float32")
tfloat32 = DType("tfloat32")
float64 = DType("float64")
float8_e3m4 = DType("float8_e3m4")
float8_e4m3 = DType("float8_e4m3")
float8_e4m3b11fnuz = DType("float8_e4m3b11fnuz")
float8_e4m3fn = DType("float8_e4m3fn")
float8_e4m3fnuz = DType("float8_e4m3fnuz")
float8_e5m2 = DType("float8_e5m2")
float8_e5m2fnuz = DType("float8_e5m2fnuz")
float8_e8m0fnu = DType("float8_e8m0fnu")
float6_e2m3fn = DType("float6_e2m3fn")
float6_e3m2fn = DType("float6_e3m2fn")
float4_e2m1fn = DType("float4_e2m1fn")
handle = DType("handle")
void = DType("void")
half = float16
double = float64
short = int16
long = int64
uint = uint32
boolean = DType("bool")

__all__ = [
    "bfloat16",
    "boolean",
    "double",
    "dtype",
    "float16",
    "float32",
    "float4_e2m1fn",
    "float64",
    "float6_e2m3fn",
    "float6_e3m2fn",
    "float8_e3m4",
    "float8_e4m3",
    "float8_e4m3b11fnuz",
    "float8_e4m3fn",
    "float8_e4m3fnuz",
    "float8_e5m2",
    "float8_e5m2fnuz",
    "float8_e8m0fnu",
    "half",
    "handle",
    "int16",
    "int32",
    "int4",
    "int64",
    "int8",
    "long",
    "short",
    "tfloat32",
    "uint",
    "uint16",
    "uint32",
    "uint4",
    "uint64",
    "uint8",
    "void",
]


def dtype(value: Any) -> DType:
    """The element type that `value` names: a string, a torch or numpy dtype, a Python type, or an element type itself.

    Raises:
        CompileError: it names none (E-DTYPE).
    """
    return as_dtype(value)


def convert(target: DType, value: Any, *more: Any) -> Any:
    """What calling an element type does: ``T.float16(x)`` casts, ``T.float32x4(a, b, c, d)`` packs lanes,
    ``T.int32()`` makes a variable."""
    if more:
        values = (value, *more)
        if len(values) != target.lanes:
            raise CompileError(
                "E-CONVERT",
                f"{target} has {target.lanes} lane{'' if target.lanes == 1 else 's'}, {len(values)} values are given",
                help="give one value for all lanes, or one a lane",
            )
        return Shuffle(
            tuple([cast(as_expr(v, target.scalar), target.scalar) for v in values]), tuple(range(len(values)))
        )
    if value is None:
        return Var("v", target)
    refuse_placeholder(value)
    if isinstance(value, (bool, int, float)):
        return _constant(target, value)
    if isinstance(value, str) and target.is_float:
        try:
            return const(float(value), target)
        except ValueError:
            pass
    if not is_expression(value) and not hasattr(value, "item"):
        raise CompileError(
            "E-CONVERT",
            f"{value!r} cannot be converted to {target}",
            facts=[f"it is a {type(value).__name__}"],
            help="convert numbers and expressions",
        )
    return cast(as_expr(value), target)


def _constant(target: DType, value: Any) -> Any:
    if target.is_float or target.is_bool:
        return const(bool(value) if target.is_bool else value, target)
    if not target.is_int:
        raise CompileError("E-CONVERT", f"{target} has no constants", help="use a number type")
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        raise CompileError("E-CONVERT", f"{value} is no {target}", help="use a float type, or T.max_value(dtype)")
    whole = int(value)
    if not target.scalar.min_value <= whole <= target.scalar.max_value:
        raise CompileError(
            "E-CONVERT",
            f"{whole} is no {target}",
            facts=[f"{target.scalar} holds {target.scalar.min_value} to {target.scalar.max_value}"],
            help="use a wider type",
        )
    return const(whole, target)


DType.convert = convert
