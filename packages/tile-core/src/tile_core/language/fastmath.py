"""Mathematics with a say about speed and rounding: approximate functions, operations with a rounding mode, dot products
of bytes, single bits of words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..dtypes import DType, promote
from ..errors import CompileError
from ..frontend.builder import ScalarRef, known, require_builder
from ..frontend.operators import is_expression
from ..ir import Buffer, BufferLoad, BufferRegion, BufferStore, Call, Expr, StringImm, as_expr, const, select
from ..ir import Shuffle as _Shuffle
from ..ir import binary as _binary
from ..ir import cast as _cast
from .checks import floating, integer
from .operands import operand_error, require_option, tile_region

__all__ = [
    "__cos",
    "__exp",
    "__exp10",
    "__ffs",
    "__fns",
    "__log",
    "__log2",
    "__log10",
    "__sin",
    "__tan",
    "dp4a",
    "fast_rcp",
    "fmul",
    "ieee_add",
    "ieee_fdiv",
    "ieee_fmaf",
    "ieee_frcp",
    "ieee_frsqrt",
    "ieee_fsqrt",
    "ieee_mul",
    "ieee_sub",
    "index_to_coordinates",
]

_ROUNDING = ("rn", "rz", "ru", "rd")
FLOAT32, INT32, UINT32 = DType("float32"), DType("int32"), DType("uint32")


def __exp(x: Any) -> Expr:
    """e to the power x, approximate where the target has a faster way; computed in float32."""
    return _fast("exp", x)


def __exp10(x: Any) -> Expr:
    """10 to the power x, approximate; see `__exp`."""
    return _fast("exp10", x)


def __log(x: Any) -> Expr:
    """Natural logarithm, approximate; see `__exp`."""
    return _fast("log", x)


def __log2(x: Any) -> Expr:
    """Logarithm to base 2, approximate; see `__exp`."""
    return _fast("log2", x)


def __log10(x: Any) -> Expr:
    """Logarithm to base 10, approximate; see `__exp`."""
    return _fast("log10", x)


def __sin(x: Any) -> Expr:
    """Sine of x in radians, approximate; see `__exp`."""
    return _fast("sin", x)


def __cos(x: Any) -> Expr:
    """Cosine of x in radians, approximate; see `__exp`."""
    return _fast("cos", x)


def __tan(x: Any) -> Expr:
    """Tangent of x in radians, approximate; see `__exp`."""
    return _fast("tan", x)


def fast_rcp(x: Any) -> Expr:
    """1 / x, approximate; see `__exp`."""
    return _fast("rcp", x)


def fmul(x: Any, y: Any) -> Expr:
    """x · y of float32, rounded on its own: no sum that follows is fused with it."""
    return _rounded("fmul", "ieee_mul", (x, y), "rn")


def ieee_add(x: Any, y: Any, rounding_mode: str = "rn") -> Expr:
    """x + y of float32 with a rounding mode.

    Args:
        x: a float32; other floats convert.
        y: a float32.
        rounding_mode: rn to nearest even, rz towards zero, ru upwards, rd downwards.
    """
    return _rounded("ieee_add", "ieee_add", (x, y), rounding_mode)


def ieee_sub(x: Any, y: Any, rounding_mode: str = "rn") -> Expr:
    """x - y of float32 with a rounding mode; see `ieee_add`."""
    return _rounded("ieee_sub", "ieee_sub", (x, y), rounding_mode)


def ieee_mul(x: Any, y: Any, rounding_mode: str = "rn") -> Expr:
    """x · y of float32 with a rounding mode; see `ieee_add`."""
    return _rounded("ieee_mul", "ieee_mul", (x, y), rounding_mode)


def ieee_fmaf(x: Any, y: Any, z: Any, rounding_mode: str = "rn") -> Expr:
    """x · y + z of float32, rounded once with a rounding mode; see `ieee_add`."""
    return _rounded("ieee_fmaf", "ieee_fma", (x, y, z), rounding_mode)


def ieee_frcp(x: Any, rounding_mode: str = "rn") -> Expr:
    """1 / x of float32 with a rounding mode; see `ieee_add`."""
    return _rounded("ieee_frcp", "ieee_div", (1.0, x), rounding_mode)


def ieee_fsqrt(x: Any, rounding_mode: str = "rn") -> Expr:
    """Square root of a float32 with a rounding mode; see `ieee_add`."""
    return _rounded("ieee_fsqrt", "ieee_sqrt", (x,), rounding_mode)


def ieee_frsqrt(x: Any) -> Expr:
    """1 / sqrt(x) of a float32, rounded to nearest even."""
    return _rounded("ieee_frsqrt", "ieee_rsqrt", (x,), "rn")


def ieee_fdiv(x: Any, y: Any, rounding_mode: str = "rn") -> Expr:
    """x / y of float32 with a rounding mode; see `ieee_add`."""
    return _rounded("ieee_fdiv", "ieee_div", (x, y), rounding_mode)


def dp4a(A: Any, B: Any, C: Any) -> None:
    """``C += A[0] B[0] + … + A[3] B[3]`` for bytes A and B and a 32-bit integer C.

    Args:
        A: the first of four int8 or uint8 elements that follow each other, or a buffer or slice of four.
        B: likewise, of the same type.
        C: an element of int32 (uint32 for uint8), which is updated.
    """
    op = "T.dp4a"
    builder = require_builder(op)
    builder.require_kernel(op)
    left, right = _four(op, "A", A), _four(op, "B", B)
    if isinstance(C, ScalarRef):
        C = C.__tile_expr__()
    target = tile_region(op, "C", C)
    dtype = left.dtype.scalar
    wanted = {"int8": "int32", "uint8": "uint32"}.get(dtype.name)
    if right.dtype is not left.dtype or wanted is None or target.dtype.name != wanted:
        raise CompileError(
            "E-OP-DTYPE",
            f"{op} multiplies bytes into a 32-bit integer",
            facts=[f"A is {dtype}, B is {right.dtype.scalar}, C is {target.dtype}"],
            help="use int8 with int32, or uint8 with uint32",
        )
    if set(target.static_extents() or (0,)) != {1}:
        raise operand_error(op, "C", C)
    held = BufferLoad(target.buffer, target.mins)
    builder.emit(BufferStore(target.buffer, Call("dp4a", (left, right, held), target.dtype), target.mins))


def __ffs(value: Any) -> Expr:
    """The place of the lowest set bit of `value`, an integer, from 1; 0 for 0. int32."""
    x = integer("__ffs", value)
    one = const(1, x.dtype)
    lowest = _binary("bitand", x, _binary("sub", const(0, x.dtype), x))
    place = _cast(_binary("add", Call("popcount", (_binary("sub", lowest, one),), x.dtype), one), INT32)
    return select(_binary("eq", x, const(0, x.dtype)), const(0, INT32), place)


def __fns(mask: Any, base: Any, offset: Any) -> Expr:
    """The place of the offset-th set bit of a 32-bit mask, counted from bit `base` upwards; downwards for negative
    offsets; with offset 0, `base` itself where it is set. 0xffffffff where there is none. uint32."""
    values = (
        _cast(integer("__fns", mask), UINT32),
        _cast(integer("__fns", base), UINT32),
        _cast(integer("__fns", offset), INT32),
    )
    return Call("fns", values, UINT32)


def index_to_coordinates(index: Any, shape: Sequence[Any]) -> list[Any]:
    """The coordinates of an element from its number in row-major order.

    Args:
        index: the number.
        shape: extents.
    """
    if not isinstance(shape, (list, tuple)) or not shape:
        raise operand_error("T.index_to_coordinates", "shape", shape)
    rest, found = index, []
    for extent in reversed(shape[1:]):
        found.append(rest % extent)
        rest = rest // extent
    return [rest, *reversed(found)]


def _fast(name: str, x: Any) -> Expr:
    value = floating(f"__{name}" if name != "rcp" else "fast_rcp", x)
    wide = FLOAT32.with_lanes(value.dtype.lanes)
    if value.dtype.bits > 32:
        raise CompileError(
            "E-MATH-TYPE",
            f"the approximate {name} is computed in float32",
            span=value.span,
            facts=[f"found {value!r}, which is {value.dtype}"],
            help=f"use {'1 / x' if name == 'rcp' else f'T.{name}'}, or cast to float32",
        )
    return _cast(Call(f"fast_{name}", (_cast(value, wide),), wide), value.dtype)


def _rounded(public: str, name: str, operands: tuple[Any, ...], mode: str) -> Expr:
    require_option(f"T.{public}", "rounding_mode", mode, _ROUNDING)
    values = [floating(public, v) if is_expression(v) else as_expr(float(known(v)), FLOAT32) for v in operands]
    dtype = values[0].dtype
    for value in values[1:]:
        dtype = promote(dtype, value.dtype)
    if dtype.bits > 32:
        raise CompileError(
            "E-MATH-TYPE",
            f"T.{public} computes in float32",
            span=values[0].span,
            facts=[f"found {', '.join(str(v.dtype) for v in values)}"],
            help="cast the operands to float32",
        )
    wide = FLOAT32.with_lanes(dtype.lanes)
    return Call(name, (*(_cast(v, wide) for v in values), StringImm(mode)), wide)


def _four(op: str, label: str, value: Any) -> Expr:
    """Four neighbours as a vector."""
    region = tile_region(op, label, value)
    extents = region.static_extents()
    single = extents is not None and set(extents) <= {1} and not isinstance(value, (Buffer, BufferRegion))
    if not single and not (extents is not None and extents[-1] == 4 and set(extents[:-1]) <= {1}):
        raise CompileError(
            "E-OPERAND-EXTENT",
            f"{op}: {label} is not four neighbours along the last axis",
            facts=[f"{label} = {region!r}"],
            help="pass the first of the four elements, such as A[i, 0], or a slice of four",
        )
    *before, first = region.mins
    elements = [BufferLoad(region.buffer, (*before, _binary("add", first, i) if i else first)) for i in range(4)]
    return _Shuffle(tuple(elements), (0, 1, 2, 3))
