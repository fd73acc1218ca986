"""Values of vector types: their lanes, arithmetic on pairs; what is to be known of an element type."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..dtypes import DType, as_dtype
from ..errors import CompileError, declare_codes
from ..ir import Call, Expr, IntImm, as_expr, const, select
from ..ir import Shuffle as _Shuffle
from ..ir import binary as _binary

__all__ = [
    "Shuffle",
    "abs2",
    "add2",
    "extract_lane",
    "fma2",
    "get_tvm_dtype",
    "is_f8f6f4_family",
    "is_float4",
    "is_float4_e2m1fn",
    "max2",
    "min2",
    "mul2",
    "sub2",
]

declare_codes(
    {
        "E-LANE": "a lane that a vector does not have, or a vector where none is",
        "E-PACKED2": "arithmetic on pairs with operands that are no pairs of float32, float16 or bfloat16",
    }
)

_PAIRS = ("float32x2", "float16x2", "bfloat16x2")
_F8F6F4 = ("float8_e4m3fn", "float8_e5m2", "float6_e2m3fn", "float6_e3m2fn", "float4_e2m1fn")


def extract_lane(vector: Any, lane: Any) -> Expr:
    """One lane of a vector.

    Args:
        vector: a value of a vector type.
        lane: its number, from 0; a constant, or an integer expression within the vector.

    Raises:
        CompileError: `vector` is a scalar, or has no such lane (E-LANE).
    """
    value = as_expr(vector)
    lanes = value.dtype.lanes
    number = as_expr(lane)
    if lanes == 1 or not number.dtype.is_int or number.dtype.lanes > 1:
        raise CompileError(
            "E-LANE",
            f"T.extract_lane takes a vector and an integer, found {value.dtype} and {number.dtype}",
            span=value.span,
            facts=[f"the value is {value!r}"],
            help="index a buffer for its elements; vectors come from T.float32x4(…) and buffers of vector types",
        )
    if isinstance(number, IntImm):
        if not 0 <= number.value < lanes:
            raise CompileError(
                "E-LANE",
                f"{value.dtype} has no lane {number.value}",
                span=value.span,
                facts=[f"allowed: 0 to {lanes - 1}"],
                help="lanes count from 0",
            )
        return _Shuffle((value,), (number.value,))
    found: Expr = _Shuffle((value,), (lanes - 1,))
    for i in reversed(range(lanes - 1)):
        found = select(_binary("eq", number, const(i, number.dtype)), _Shuffle((value,), (i,)), found)
    return found


def Shuffle(vectors: Any, indices: Any) -> Expr:
    """A vector, or scalar, made of chosen lanes of vectors laid end to end.

    Args:
        vectors: a list of vectors or scalars of one type.
        indices: a list of lane numbers, constants.

    Raises:
        CompileError: element types differ, or there is no such lane (E-LANE).
    """
    parts = tuple([as_expr(v) for v in vectors]) if isinstance(vectors, (list, tuple)) else (as_expr(vectors),)
    chosen = [getattr(i, "value", i) for i in (indices if isinstance(indices, (list, tuple)) else [indices])]
    total = sum(part.dtype.lanes for part in parts)
    fits = all(isinstance(i, int) and 0 <= i < total for i in chosen)
    if not parts or not chosen or not fits or any(p.dtype.scalar is not parts[0].dtype.scalar for p in parts):
        raise CompileError(
            "E-LANE",
            "T.Shuffle takes lanes of vectors of one element type",
            facts=[f"vectors: {', '.join(str(p.dtype) for p in parts)}", f"indices: {chosen!r}"],
            help=f"pass numbers from 0 to {total - 1}",
        )
    return _Shuffle(parts, tuple(chosen))


def add2(x: Any, y: Any) -> Expr:
    """x + y of pairs, each sum rounded once."""
    return _pairs("add2", lambda a, b: _binary("add", a, b), x, y)


def sub2(x: Any, y: Any) -> Expr:
    """x - y of pairs, each difference rounded once."""
    return _pairs("sub2", lambda a, b: _binary("sub", a, b), x, y)


def mul2(x: Any, y: Any) -> Expr:
    """x · y of pairs, each product rounded once."""
    return _pairs("mul2", lambda a, b: _binary("mul", a, b), x, y)


def fma2(x: Any, y: Any, z: Any) -> Expr:
    """x · y + z of pairs, each rounded once."""
    return _pairs("fma2", lambda a, b, c: Call("fma", (a, b, c), a.dtype), x, y, z)


def max2(x: Any, y: Any) -> Expr:
    """The larger of x and y in each lane; the number where the other is NaN."""
    return _pairs("max2", lambda a, b: _binary("max", a, b), x, y)


def min2(x: Any, y: Any) -> Expr:
    """The smaller of x and y in each lane; the number where the other is NaN."""
    return _pairs("min2", lambda a, b: _binary("min", a, b), x, y)


def abs2(x: Any) -> Expr:
    """The absolute value of each lane of x."""
    return _pairs("abs2", lambda a: Call("abs", (a,), a.dtype), x)


def _pairs(name: str, build: Callable[..., Expr], *operands: Any) -> Expr:
    values = [as_expr(v) for v in operands]
    wanted = values[0].dtype
    if wanted.name in _PAIRS and all(v.dtype is wanted for v in values):
        return build(*values)
    raise CompileError(
        "E-PACKED2",
        f"T.{name} takes pairs of one type, found {', '.join(str(v.dtype) for v in values)}",
        span=values[0].span,
        facts=[f"allowed: {', '.join(_PAIRS)}"],
        help="make a pair with T.float32x2(a, b), or view a buffer as pairs: T.view(A, dtype='float32x2')",
    )


def get_tvm_dtype(value: Any) -> DType:
    """The element type that `value` names: a string, a torch or numpy dtype, a Python type, an element type."""
    return as_dtype(value)


def is_float4(value: Any) -> bool:
    """Whether `value`, an element type or what names one, is a four-bit float, or a vector of them."""
    return as_dtype(value).is_float4()


def is_float4_e2m1fn(value: Any) -> bool:
    """Whether `value`, an element type or what names one, is float4_e2m1fn, or a vector of them."""
    return as_dtype(value).is_float4_e2m1fn()


def is_f8f6f4_family(value: Any) -> bool:
    """Whether `value`, an element type, is one of those that matrix instructions of kind f8f6f4 mix: e4m3fn, e5m2,
    e2m3fn, e3m2fn, e2m1fn."""
    return as_dtype(value).scalar.name in _F8F6F4
