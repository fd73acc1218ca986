"""Operators and intrinsics on numpy values: one table each.

Operands come in the numpy type of their element type, a last axis holding the lanes of vector types; results leave in
the type of the result. What the language says and numpy does not: integers wrap, `floordiv` and `floormod` round
towards minus infinity, `max` and `min` give the number when one operand is NaN, `round` and `nearbyint` break ties to
even, functions of 16-bit floats are evaluated in float32 and rounded once.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..dtypes import DType
from ..ir.intrinsics import FAST_FUNCTIONS
from .values import compute_type, convert, numpy_type, wrap

__all__ = ["BINARY", "INTRINSICS", "apply_binary", "apply_intrinsic", "apply_unary", "divides", "register_reference"]


def apply_binary(op: str, a: Any, b: Any, operand: DType) -> Any:
    """`a op b` for operands of type `operand`."""
    if operand.is_float and operand.bits <= 8:
        # Computed in float32, rounded once by the rules of conversion: an overflow saturates.
        result = BINARY[op](np.asarray(a).astype(np.float32), np.asarray(b).astype(np.float32))
        return result if op in _COMPARISONS else convert(result, _FLOAT32, operand)
    result = BINARY[op](a, b)
    if op in _COMPARISONS:
        return result
    return wrap(result, operand) if operand.scalar.name in _WRAPPED else result


def apply_unary(op: str, a: Any, operand: DType) -> Any:
    """`op a`."""
    if op == "not" or (op == "bitnot" and operand.is_bool):
        return np.logical_not(a)
    if operand.is_float and operand.bits <= 8:
        return convert(np.negative(np.asarray(a).astype(np.float32)), _FLOAT32, operand)
    result = np.negative(a) if op == "neg" else np.invert(a)
    return wrap(result, operand) if operand.scalar.name in _WRAPPED else result


def divides(op: str) -> bool:
    """Whether the operator divides integers, so that a zero on its right has no result."""
    return op in ("floordiv", "floormod", "truncdiv", "truncmod")


def apply_intrinsic(name: str, args: list[Any], dtypes: list[DType], result: DType) -> Any:
    """The value of a pure intrinsic (KeyError when the table has no row)."""
    return INTRINSICS[name](args, dtypes, result)


def register_reference(name: str, function: Callable[[list[Any], list[DType], DType], Any]) -> None:
    """Adds a row for an intrinsic that a backend or third party registered: (values, their types, result type) →
    value."""
    if name in INTRINSICS:
        raise ValueError(f"intrinsic {name} has a reference already")
    INTRINSICS[name] = function


def _truncdiv(a: Any, b: Any) -> Any:
    quotient = np.floor_divide(a, b)
    # Rounding down went past the exact quotient where the signs differ and something is left.
    return quotient + ((np.remainder(a, b) != 0) & ((a < 0) != (b < 0))).astype(np.asarray(a).dtype)


def _shift(function: Any, a: Any, b: Any) -> Any:
    return function(a, np.asarray(b).astype(np.asarray(a).dtype))


_FLOAT32 = DType("float32")
_WRAPPED = ("int4", "uint4", "tfloat32")
_COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge", "and", "or")
BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: np.true_divide(a, b),
    "floordiv": lambda a, b: np.floor_divide(a, b),
    "floormod": lambda a, b: np.remainder(a, b),
    "truncdiv": _truncdiv,
    "truncmod": lambda a, b: np.fmod(a, b),
    "min": lambda a, b: np.fmin(a, b),
    "max": lambda a, b: np.fmax(a, b),
    "eq": lambda a, b: np.equal(a, b),
    "ne": lambda a, b: np.not_equal(a, b),
    "lt": lambda a, b: np.less(a, b),
    "le": lambda a, b: np.less_equal(a, b),
    "gt": lambda a, b: np.greater(a, b),
    "ge": lambda a, b: np.greater_equal(a, b),
    "and": lambda a, b: np.logical_and(a, b),
    "or": lambda a, b: np.logical_or(a, b),
    "bitand": lambda a, b: np.bitwise_and(a, b),
    "bitor": lambda a, b: np.bitwise_or(a, b),
    "bitxor": lambda a, b: np.bitwise_xor(a, b),
    "shl": lambda a, b: _shift(np.left_shift, a, b),
    "shr": lambda a, b: _shift(np.right_shift, a, b),
}

_erf = np.vectorize(math.erf, otypes=[np.float64])


def _sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


_FLOAT_UNARY: dict[str, Callable[[Any], Any]] = {
    "exp": np.exp,
    "exp2": np.exp2,
    "exp10": lambda x: np.power(np.asarray(x).dtype.type(10), x),
    "log": np.log,
    "log2": np.log2,
    "log10": np.log10,
    "log1p": np.log1p,
    "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "tanh": np.tanh,
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
    "erf": _erf,
    "sigmoid": _sigmoid,
    "floor": np.floor,
    "ceil": np.ceil,
    "trunc": np.trunc,
    "round": np.rint,
    "nearbyint": np.rint,
}
_FLOAT_BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "pow": np.power,
    "fmod": np.fmod,
    "atan2": np.arctan2,
    "hypot": np.hypot,
    "copysign": np.copysign,
    "nextafter": np.nextafter,
}


def _rounded(values: Any, result: DType) -> Any:
    if result.is_float and result.bits <= 8:
        return convert(np.asarray(values).astype(np.float32), _FLOAT32, result)
    values = np.asarray(values).astype(numpy_type(result))
    return wrap(values, result)


def _float_function(function: Callable[..., Any]) -> Callable[[list[Any], list[DType], DType], Any]:
    def evaluate(args: list[Any], dtypes: list[DType], result: DType) -> Any:
        if not dtypes[0].is_float:
            # Rounding an integer and raising it to a power stay in its type.
            return _rounded(function(*args), result)
        held = compute_type(dtypes[0])
        return _rounded(function(*(np.asarray(a).astype(held) for a in args)), result)

    return evaluate


def _nextafter(args: list[Any], dtypes: list[DType], result: DType) -> Any:
    return np.nextafter(args[0], args[1])


def _ldexp(args: list[Any], dtypes: list[DType], result: DType) -> Any:
    held = compute_type(dtypes[0])
    return _rounded(np.ldexp(np.asarray(args[0]).astype(held), np.asarray(args[1]).astype(np.int32)), result)


def _fma(args: list[Any], dtypes: list[DType], result: DType) -> Any:
    # float64 holds the product of two float32 exactly.
    a, b, c = (np.asarray(x).astype(np.float64) for x in args)
    return _rounded(a * b + c, result)


def _classify(function: Callable[[Any], Any]) -> Callable[[list[Any], list[DType], DType], Any]:
    return lambda args, dtypes, result: function(np.asarray(args[0]).astype(compute_type(dtypes[0])))


def _bits(values: Any) -> np.ndarray:
    array = np.asarray(values)
    return array.view(np.dtype(f"uint{array.dtype.itemsize * 8}"))


def _popcount(args: list[Any], dtypes: list[DType], result: DType) -> Any:
    bits = _bits(args[0]).astype(np.uint64)
    count = np.zeros(bits.shape, dtype=np.int64)
    for shift in range(dtypes[0].bits):
        count += ((bits >> np.uint64(shift)) & np.uint64(1)).astype(np.int64)
    return count.astype(numpy_type(result))


def _clz(args: list[Any], dtypes: list[DType], result: DType) -> Any:
    bits = _bits(args[0]).astype(np.uint64)
    count = np.full(bits.shape, dtypes[0].bits, dtype=np.int64)
    for shift in range(dtypes[0].bits):
        count = np.where((bits >> np.uint64(shift)) & np.uint64(1), dtypes[0].bits - 1 - shift, count)
    return count.astype(numpy_type(result))


def _reinterpret(args: list[Any], dtypes: list[DType], result: DType) -> Any:
    source = dtypes[0]
    array = np.ascontiguousarray(args[0]) if np.ndim(args[0]) else np.asarray(args[0])
    lanes = array if source.lanes > 1 else array[..., None]
    if source.bits == 4:
        halves = lanes.view(np.uint8) & np.uint8(15)
        data = halves if source.lanes == 1 else halves[..., 0::2] | (halves[..., 1::2] << np.uint8(4))
    else:
        data = np.ascontiguousarray(lanes).view(np.uint8)
    if result.bits == 4:
        if result.lanes > 1:
            data = np.stack([data & np.uint8(15), data >> np.uint8(4)], axis=-1).reshape(*data.shape[:-1], -1)
        found = wrap(data.view(numpy_type(result)), result)
    elif result.is_bool:
        found = data != 0
    else:
        found = np.ascontiguousarray(data).view(numpy_type(result))
    return found if result.lanes > 1 else found[..., 0]


def _convert(args: list[Any], dtypes: list[DType], result: DType) -> Any:
    mode, value, *random = args
    rounding, _, unsaturated = mode.partition("-")
    return convert(value, dtypes[1], result, rounding, not unsaturated, random[0] if random else None)


def _abs(args: list[Any], dtypes: list[DType], result: DType) -> Any:
    if result.is_float and result.bits <= 8:
        return _rounded(np.abs(np.asarray(args[0]).astype(np.float32)), result)
    return wrap(np.abs(args[0]), result)


def _vector_reduce(args: list[Any], dtypes: list[DType], result: DType) -> Any:
    kind, values = args
    functions = {
        "sum": np.sum,
        "add": np.sum,
        "max": np.fmax.reduce,
        "min": np.fmin.reduce,
        "bitand": np.bitwise_and.reduce,
        "bitor": np.bitwise_or.reduce,
        "bitxor": np.bitwise_xor.reduce,
    }
    return _rounded(functions[kind](np.asarray(values).astype(compute_type(result)), axis=-1), result)


def _ieee(name: str) -> Callable[[list[Any], list[DType], DType], Any]:
    """An operation on float32 with a rounding mode: the nearest value, moved by what was rounded away."""

    def evaluate(args: list[Any], dtypes: list[DType], result: DType) -> Any:
        mode, operands = args[-1], [np.asarray(a).astype(np.float32) for a in args[:-1]]
        wide = [a.astype(np.float64) for a in operands]
        if name in ("add", "sub"):
            a, b = wide[0], wide[1] if name == "add" else -wide[1]
            exact, rest = _two_sum(a, b)
            mixed = np.signbit(a) | np.signbit(b)
        elif name == "mul":
            exact, rest, mixed = wide[0] * wide[1], 0.0, False
        elif name == "fma":
            product = wide[0] * wide[1]
            exact, rest = _two_sum(product, wide[2])
            mixed = np.signbit(product) | np.signbit(wide[2])
        elif name == "div":
            nearest = (operands[0] / operands[1]).astype(np.float32)
            left = wide[0] - nearest.astype(np.float64) * wide[1]
            return _directed(nearest, left * np.where(np.signbit(wide[1]), -1.0, 1.0), mode)
        elif name == "sqrt":
            nearest = np.sqrt(operands[0])
            return _directed(nearest, wide[0] - nearest.astype(np.float64) ** 2, mode)
        else:
            return (1 / np.sqrt(wide[0])).astype(np.float32)
        # Rounded to odd first, the double gives the nearest float32 in one more step.
        nearest = _to_odd(exact, rest).astype(np.float32)
        found = _directed(nearest, (exact - nearest.astype(np.float64)) + rest, mode)
        if mode == "rd":
            found = np.where((exact == 0) & (rest == 0) & mixed & (found == 0), np.float32(-0.0), found)
        return found

    return evaluate


def _two_sum(a: Any, b: Any) -> tuple[Any, Any]:
    """a + b, and what rounding it took away (Knuth)."""
    total = a + b
    part = total - a
    return total, np.where(np.isfinite(total), (a - (total - part)) + (b - part), 0.0)


def _to_odd(value: Any, rest: Any) -> Any:
    """A double whose last bit says whether something is left of the exact value."""
    shape = np.broadcast_shapes(np.shape(value), np.shape(rest))
    value = np.ascontiguousarray(np.broadcast_to(value, shape or (1,)), dtype=np.float64)
    rest = np.broadcast_to(rest, value.shape)
    bits = value.view(np.int64)
    even = (bits & 1) == 0
    away = (rest > 0) == (value > 0)
    moved = np.where(away, bits + 1, bits - 1)
    usable = even & (rest != 0) & np.isfinite(value) & (value != 0)
    return np.where(usable, moved, bits).view(np.float64).reshape(shape)


def _directed(nearest: Any, rest: Any, mode: str) -> Any:
    """The neighbour that a rounding mode asks for; `rest` has the sign of the exact value minus the nearest."""
    nearest = np.asarray(nearest, dtype=np.float32)
    if mode == "rn":
        return nearest
    up, down = rest > 0, rest < 0
    if mode == "rz":
        up, down = up & (nearest < 0), down & (nearest > 0)
    up, down = up & (mode != "rd"), down & (mode != "ru")
    above = np.nextafter(nearest, np.float32(np.inf))
    below = np.nextafter(nearest, np.float32(-np.inf))
    return np.where(up, above, np.where(down, below, nearest)).astype(np.float32)


def _dp4a(args: list[Any], dtypes: list[DType], result: DType) -> Any:
    a, b = (np.asarray(x).astype(np.int64) for x in args[:2])
    return (np.asarray(args[2]).astype(np.int64) + (a * b).sum(axis=-1)).astype(numpy_type(result))


def _fns(args: list[Any], dtypes: list[DType], result: DType) -> Any:
    mask, base, offset = np.broadcast_arrays(*(np.asarray(a).astype(np.int64) for a in args))

    def place(mask: int, base: int, offset: int) -> int:
        if offset == 0:
            return base if mask >> base & 1 else 0xFFFFFFFF
        steps = range(base, 32) if offset > 0 else range(base, -1, -1)
        found = [bit for bit in steps if mask >> bit & 1]
        return found[abs(offset) - 1] if len(found) >= abs(offset) else 0xFFFFFFFF

    return np.vectorize(place, otypes=[np.uint32])(mask, base, offset)[()]


def philox_block(counter: tuple[Any, Any, Any, Any], key: tuple[Any, Any]) -> tuple[Any, Any, Any, Any]:
    """Philox4x32-10 (Salmon and others, "Parallel random numbers: as easy as 1, 2, 3", 2011): four words of 32 bits
    from a counter of four and a key of two, each in uint64 arrays."""
    low, shift = np.uint64(0xFFFFFFFF), np.uint64(32)
    (x0, x1, x2, x3), (k0, k1) = counter, key
    for _ in range(10):
        a, b = x0 * np.uint64(0xD2511F53), x2 * np.uint64(0xCD9E8D57)
        x0, x1, x2, x3 = (b >> shift) ^ x1 ^ k0, b & low, (a >> shift) ^ x3 ^ k1, a & low
        k0, k1 = (k0 + np.uint64(0x9E3779B9)) & low, (k1 + np.uint64(0xBB67AE85)) & low
    return x0, x1, x2, x3


def _philox(args: list[Any], dtypes: list[DType], result: DType) -> Any:
    seed, sequence, place = (np.asarray(a).astype(np.uint64) for a in np.broadcast_arrays(*args))
    low, shift = np.uint64(0xFFFFFFFF), np.uint64(32)
    block = place >> np.uint64(2)
    words = philox_block((block & low, block >> shift, sequence & low, sequence >> shift), (seed & low, seed >> shift))
    return np.choose((place & np.uint64(3)).astype(np.int64), list(words)).astype(np.uint32)[()]


INTRINSICS: dict[str, Callable[[list[Any], list[DType], DType], Any]] = {
    **{name: _float_function(function) for name, function in _FLOAT_UNARY.items()},
    **{name: _float_function(function) for name, function in _FLOAT_BINARY.items()},
    "nextafter": _nextafter,
    "ldexp": _ldexp,
    "fma": _fma,
    "abs": _abs,
    "isnan": _classify(np.isnan),
    "isinf": _classify(np.isinf),
    "isfinite": _classify(np.isfinite),
    "popcount": _popcount,
    "clz": _clz,
    "reinterpret": _reinterpret,
    "likely": lambda args, dtypes, result: args[0],
    "philox": _philox,
    "dp4a": _dp4a,
    "fns": _fns,
    **{f"ieee_{name}": _ieee(name) for name in ("add", "sub", "mul", "div", "fma", "sqrt", "rsqrt")},
    **{f"fast_{name}": _float_function(_FLOAT_UNARY[name]) for name in FAST_FUNCTIONS if name != "rcp"},
    "fast_rcp": _float_function(lambda x: 1 / x),
    "vector_reduce": _vector_reduce,
    "convert": _convert,
    "infinity": lambda args, dtypes, result: convert(np.float64(np.inf), DType("float64"), result),
}
