"""Interval arithmetic on integer expressions.

An `Interval` holds every value that an expression can take; its ends are Python ints or ±infinity. Arithmetic on
indices (int32 and int64 variables and constants) is taken not to overflow; a value that comes from memory, or of a
narrow or unsigned type, wraps, so where the computed interval does not fit the type it becomes the type's whole
range.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import inf
from typing import Any

from ..dtypes import DType
from ..ir import (
    Binary,
    Broadcast,
    BufferLoad,
    Call,
    Cast,
    Expr,
    FloatImm,
    IntImm,
    Let,
    Ramp,
    Select,
    Shuffle,
    SizeVar,
    Unary,
    Var,
)

__all__ = ["BOOL_INTERVAL", "FULL", "Interval", "as_interval", "bounds_of", "dtype_interval", "wraps_silently"]

Bound = Any  # int | float('inf') | float('-inf'); ints are compared with floats exactly


class Interval:
    """The values from `lo` to `hi`, both included."""

    __slots__ = ("hi", "lo")

    def __init__(self, lo: Bound, hi: Bound) -> None:
        self.lo = lo
        self.hi = hi

    @staticmethod
    def point(value: int) -> Interval:
        """The interval of one value."""
        return Interval(value, value)

    @staticmethod
    def full() -> Interval:
        """Every integer."""
        return FULL

    def __repr__(self) -> str:
        return f"[{self.lo}, {self.hi}]"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Interval) and self.lo == other.lo and self.hi == other.hi

    def __hash__(self) -> int:
        return hash((self.lo, self.hi))

    @property
    def is_point(self) -> bool:
        return self.lo == self.hi

    @property
    def bounded(self) -> bool:
        """Whether both ends are finite."""
        return self.lo != -inf and self.hi != inf

    @property
    def empty(self) -> bool:
        """Whether no value is in it."""
        return self.lo > self.hi

    def contains(self, value: int) -> bool:
        """Whether `value` is in it."""
        return self.lo <= value <= self.hi

    def within(self, lo: Bound, hi: Bound) -> bool:
        """Whether every value of it lies in [lo, hi]."""
        return lo <= self.lo and self.hi <= hi

    def join(self, other: Interval) -> Interval:
        """The smallest interval that holds both."""
        return Interval(min(self.lo, other.lo), max(self.hi, other.hi))

    def meet(self, other: Interval) -> Interval:
        """The values in both."""
        return Interval(max(self.lo, other.lo), min(self.hi, other.hi))

    def __add__(self, other: Interval) -> Interval:
        return Interval(self.lo + other.lo, self.hi + other.hi)

    def __neg__(self) -> Interval:
        return Interval(-self.hi, -self.lo)

    def __sub__(self, other: Interval) -> Interval:
        return Interval(self.lo - other.hi, self.hi - other.lo)

    def scale(self, factor: int) -> Interval:
        """Each value times a constant."""
        if factor == 0:
            return Interval(0, 0)
        return (
            Interval(self.lo * factor, self.hi * factor) if factor > 0 else Interval(self.hi * factor, self.lo * factor)
        )

    def __mul__(self, other: Interval) -> Interval:
        if other.lo == other.hi and other.lo not in (inf, -inf):
            return self.scale(other.lo)
        corners = [_times(a, b) for a in (self.lo, self.hi) for b in (other.lo, other.hi)]
        return Interval(min(corners), max(corners))

    def floordiv(self, other: Interval) -> Interval:
        """Each value divided, rounded down; a divisor 0 has no value and is left out."""
        return self._by_sign(other, _floordiv_by_positive)

    def floormod(self, other: Interval) -> Interval:
        """The remainder of floordiv: it has the sign of the divisor."""
        return self._by_sign(other, _floormod_by_positive, mirrored=True)

    def _by_sign(
        self, other: Interval, positive: Callable[[Interval, Interval], Interval], mirrored: bool = False
    ) -> Interval:
        found: list[Interval] = []
        if other.hi >= 1:
            found.append(positive(self, Interval(max(other.lo, 1), other.hi)))
        if other.lo <= -1:
            # x // -c = (-x) // c and x % -c = -((-x) % c).
            part = positive(-self, Interval(max(-other.hi, 1), -other.lo))
            found.append(-part if mirrored else part)
        if not found:
            return FULL
        return found[0] if len(found) == 1 else found[0].join(found[1])

    def truncdiv(self, other: Interval) -> Interval:
        """Each value divided, rounded to zero."""
        found: list[Interval] = []
        for sign, part in ((1, self.meet(_NATURAL)), (-1, (-self).meet(_NATURAL))):
            if part.empty:
                continue
            for divisor_sign, divisor in ((1, other.meet(_POSITIVE)), (-1, (-other).meet(_POSITIVE))):
                if not divisor.empty:
                    quotient = _floordiv_by_positive(part, divisor)
                    found.append(quotient if sign == divisor_sign else -quotient)
        return _join_all(found)

    def truncmod(self, other: Interval) -> Interval:
        """The remainder of truncdiv: it has the sign of the dividend."""
        largest = max(abs(other.lo), abs(other.hi)) - 1
        found: list[Interval] = []
        divisor = Interval(0 if other.lo <= 0 <= other.hi else min(abs(other.lo), abs(other.hi)), largest + 1)
        for sign, part in ((1, self.meet(_NATURAL)), (-1, (-self).meet(_NATURAL))):
            if part.empty:
                continue
            remainder = _floormod_by_positive(part, Interval(max(divisor.lo, 1), divisor.hi))
            found.append(remainder if sign > 0 else -remainder)
        return _join_all(found)

    def minimum(self, other: Interval) -> Interval:
        """The smaller of each pair."""
        return Interval(min(self.lo, other.lo), min(self.hi, other.hi))

    def maximum(self, other: Interval) -> Interval:
        """The larger of each pair."""
        return Interval(max(self.lo, other.lo), max(self.hi, other.hi))

    def shl(self, other: Interval) -> Interval:
        """Each value times two to the power of each value of `other`."""
        if other.lo < 0 or other.hi > _LARGEST_SHIFT:
            return Interval(0, inf) if self.lo >= 0 and other.lo >= 0 else FULL
        return self * Interval(1 << other.lo, 1 << other.hi)

    def shr(self, other: Interval) -> Interval:
        """Arithmetic shift right: division by a power of two, rounded down."""
        if other.lo < 0 or other.hi > _LARGEST_SHIFT:
            return Interval(min(self.lo, 0), max(self.hi, 0))
        return _floordiv_by_positive(self, Interval(1 << other.lo, 1 << other.hi))

    def bitand(self, other: Interval) -> Interval:
        """Bitwise and, on two's complement."""
        if self.lo >= 0 and other.lo >= 0:
            return Interval(0, min(self.hi, other.hi))
        if self.lo >= 0:
            return Interval(0, self.hi)
        if other.lo >= 0:
            return Interval(0, other.hi)
        return Interval(_mirror_bits(min(self.lo, other.lo)), max(self.hi, other.hi, -1))

    def bitor(self, other: Interval) -> Interval:
        """Bitwise or, on two's complement."""
        if self.lo >= 0 and other.lo >= 0:
            return Interval(max(self.lo, other.lo), _all_ones(max(self.hi, other.hi)))
        return Interval(
            min(self.lo, other.lo), max(_all_ones(max(self.hi, other.hi)), -1) if max(self.hi, other.hi) >= 0 else -1
        )

    def bitxor(self, other: Interval) -> Interval:
        """Bitwise exclusive or, on two's complement."""
        if self.lo >= 0 and other.lo >= 0:
            return Interval(0, _all_ones(max(self.hi, other.hi)))
        largest = _all_ones(max(abs(self.lo), abs(self.hi), abs(other.lo), abs(other.hi)))
        return Interval(-largest - 1, largest)


FULL = Interval(-inf, inf)
BOOL_INTERVAL = Interval(0, 1)
_NATURAL = Interval(0, inf)
_POSITIVE = Interval(1, inf)
_LARGEST_SHIFT = 128


def as_interval(value: Any) -> Interval:
    """An interval from an Interval, a (min, extent) pair, a Python range or one integer."""
    if isinstance(value, Interval):
        return value
    if isinstance(value, range):
        if not value:
            return Interval(value.start, value.start - 1)
        return Interval(min(value[0], value[-1]), max(value[0], value[-1]))
    if isinstance(value, tuple):
        low, extent = value
        return Interval(low, low + extent - 1)
    return Interval(value, value)


def dtype_interval(dtype: DType) -> Interval:
    """The values of an integer or bool type."""
    scalar = dtype.scalar
    if scalar.is_bool:
        return BOOL_INTERVAL
    if not scalar.is_int:
        return FULL
    return Interval(scalar.min_value, scalar.max_value)


def wraps_silently(dtype: DType) -> bool:
    """Whether arithmetic in `dtype` may wrap even on indices: all integer types but int32 and int64, which indices
    have."""
    return dtype.scalar.name not in ("int32", "int64")


def bounds_of(expr: Expr, ranges: Mapping[Var, Any] | None = None) -> Interval:
    """An interval that holds every value of an integer or bool expression (every lane of a vector).

    Args:
        expr: the expression; a float one gives every number.
        ranges: what is known of variables: Interval, (min, extent), range or int. Shape variables are ≥ 0 without
            being named.
    """
    known = {var: as_interval(value) for var, value in (ranges or {}).items()}
    return _Bounds(known).of(expr)


class _Bounds:
    """One evaluation; memoises shared nodes."""

    def __init__(self, ranges: dict[Var, Interval]) -> None:
        self.ranges = ranges
        self.memo: dict[int, Interval] = {}
        self.data: set[int] = set()

    def of(self, expr: Expr) -> Interval:
        # An explicit stack: sums of thousands of terms are one deep chain.
        memo = self.memo
        stack = [expr]
        while stack:
            node = stack[-1]
            if id(node) in memo:
                stack.pop()
                continue
            if isinstance(node, Let):
                self.ranges[node.var] = self.of(node.value)
            waiting = [c for c in _operands(node) if id(c) not in memo]
            if waiting:
                stack.extend(waiting)
                continue
            stack.pop()
            if is_data(node) or any(id(c) in self.data for c in _operands(node)):
                self.data.add(id(node))
            memo[id(node)] = self._clamped(node, self._node(node))
        return memo[id(expr)]

    def _clamped(self, node: Expr, found: Interval) -> Interval:
        scalar = node.dtype.scalar
        if not scalar.is_int or isinstance(node, (Var, IntImm)):
            return found
        if found.within(scalar.min_value, scalar.max_value):
            return found
        if wraps_silently(scalar) or id(node) in self.data:
            return dtype_interval(scalar)
        return found

    def _node(self, node: Any) -> Interval:
        kind = type(node)
        of = self.memo
        if kind is IntImm:
            return Interval(node.value, node.value)
        if isinstance(node, Var):
            return var_interval(node, self.ranges)
        if kind is Binary:
            a, b = of[id(node.a)], of[id(node.b)]
            return binary_interval(node.op, a, b) if not node.a.dtype.is_float else dtype_interval(node.dtype)
        if kind is Unary:
            return unary_interval(node.op, of[id(node.a)], node.dtype)
        if kind is Cast:
            return cast_interval(of[id(node.value)], node.value.dtype, node.dtype)
        if kind is Select:
            condition = of[id(node.condition)]
            if condition.is_point:
                return of[id(node.true_value if condition.lo else node.false_value)]
            return of[id(node.true_value)].join(of[id(node.false_value)])
        if kind is Let:
            return of[id(node.body)]
        if kind is Ramp:
            base, stride = of[id(node.base)], of[id(node.stride)]
            return base + stride * Interval(0, node.lanes - 1)
        if kind is Broadcast:
            return of[id(node.value)]
        if kind is Shuffle:
            return _join_all([of[id(v)] for v in node.vectors])
        if kind is Call and node.op == "likely":
            return of[id(node.args[0])]
        return dtype_interval(node.dtype)


def is_data(node: Any) -> bool:
    """Whether a node's own value comes from memory, a call, a float or a type that wraps: its arithmetic may
    overflow."""
    if isinstance(node, (BufferLoad, Shuffle, FloatImm)):
        return True
    if isinstance(node, Call):
        return node.op != "likely"
    if isinstance(node, Cast):
        return wraps_silently(node.dtype)
    return isinstance(node, Var) and not node.dtype.is_bool and wraps_silently(node.dtype)


def var_interval(var: Var, ranges: Mapping[Var, Interval]) -> Interval:
    """What is known of a variable."""
    found = ranges.get(var)
    if found is not None:
        return found
    if isinstance(var, SizeVar):
        return _NATURAL
    return dtype_interval(var.dtype) if wraps_silently(var.dtype) else FULL


_BINARY: dict[str, Callable[[Interval, Interval], Interval]] = {
    "add": Interval.__add__,
    "sub": Interval.__sub__,
    "mul": Interval.__mul__,
    "floordiv": Interval.floordiv,
    "floormod": Interval.floormod,
    "truncdiv": Interval.truncdiv,
    "truncmod": Interval.truncmod,
    "min": Interval.minimum,
    "max": Interval.maximum,
    "bitand": Interval.bitand,
    "bitor": Interval.bitor,
    "bitxor": Interval.bitxor,
    "shl": Interval.shl,
    "shr": Interval.shr,
}


def binary_interval(op: str, a: Interval, b: Interval) -> Interval:
    """The interval of `a op b` for an operator of BINARY_OPERATORS on integers or bools."""
    function = _BINARY.get(op)
    if function is not None:
        return function(a, b)
    truth = _truth(op, a, b)
    return BOOL_INTERVAL if truth is None else Interval(int(truth), int(truth))


def unary_interval(op: str, a: Interval, dtype: DType) -> Interval:
    """The interval of `op a`."""
    if dtype.is_float:
        return FULL
    if op == "neg":
        return -a
    if op == "not":
        return Interval(1 - a.hi, 1 - a.lo) if a.within(0, 1) else BOOL_INTERVAL
    if wraps_silently(dtype) and dtype.kind == "u":
        return Interval(dtype.max_value - a.hi, dtype.max_value - a.lo) if a.bounded else dtype_interval(dtype)
    return Interval(-a.hi - 1, -a.lo - 1)


def cast_interval(value: Interval, source: DType, target: DType) -> Interval:
    """The interval of a conversion; whatever does not fit wraps, so the whole type is possible."""
    if target.is_float:
        return FULL
    if source.is_float:
        return dtype_interval(target)
    if target.is_bool:
        if not value.contains(0):
            return Interval(1, 1)
        return Interval(0, 0) if value.is_point else BOOL_INTERVAL
    whole = dtype_interval(target)
    if value.within(whole.lo, whole.hi) or (
        not wraps_silently(target) and not wraps_silently(source) and target.bits >= source.bits
    ):
        return value
    return whole


def _truth(op: str, a: Interval, b: Interval) -> bool | None:
    if op == "and":
        if (a.lo == a.hi == 0) or (b.lo == b.hi == 0):
            return False
        return True if a.lo == 1 and b.lo == 1 else None
    if op == "or":
        if a.lo == 1 or b.lo == 1:
            return True
        return False if a.hi == 0 and b.hi == 0 else None
    if op in ("gt", "ge"):
        a, b, op = b, a, "lt" if op == "gt" else "le"
    if op == "lt":
        return True if a.hi < b.lo else False if a.lo >= b.hi else None
    if op == "le":
        return True if a.hi <= b.lo else False if a.lo > b.hi else None
    apart = a.hi < b.lo or b.hi < a.lo
    same = a.lo == a.hi == b.lo == b.hi
    if op == "eq":
        return False if apart else True if same else None
    return True if apart else False if same else None


def _operands(node: Expr) -> list[Expr]:
    """The children whose intervals `_node` needs: what lies behind a load, a call or a float does not matter."""
    if isinstance(node, (BufferLoad, Call)) and getattr(node, "op", "") != "likely":
        return []
    return node.child_nodes()


def _times(a: Bound, b: Bound) -> Bound:
    return 0 if a == 0 or b == 0 else a * b


def _floordiv_bound(a: Bound, b: Bound) -> Bound:
    """a // b for b ≥ 1, with infinities."""
    if a in (inf, -inf):
        return a
    if b == inf:
        return 0 if a >= 0 else -1
    return a // b


def _floordiv_by_positive(a: Interval, b: Interval) -> Interval:
    low = _floordiv_bound(a.lo, b.lo if a.lo < 0 else b.hi)
    high = _floordiv_bound(a.hi, b.hi if a.hi < 0 else b.lo)
    if a.lo == inf:
        low = 0
    if a.hi == -inf:
        high = -1
    return Interval(low, high)


def _floormod_by_positive(a: Interval, b: Interval) -> Interval:
    if a.lo >= 0 and a.hi < b.lo:
        return a
    if b.lo == b.hi and a.bounded:
        divisor = b.lo
        if a.lo // divisor == a.hi // divisor:
            return Interval(a.lo % divisor, a.hi % divisor)
    return Interval(0, min(b.hi - 1, a.hi) if a.lo >= 0 else b.hi - 1)


def _join_all(parts: list[Interval]) -> Interval:
    if not parts:
        return FULL
    found = parts[0]
    for part in parts[1:]:
        found = found.join(part)
    return found


def _all_ones(value: Bound) -> Bound:
    """The smallest 2^n - 1 ≥ value."""
    return inf if value == inf else (1 << int(value).bit_length()) - 1


def _mirror_bits(value: Bound) -> Bound:
    """The smallest -2^n ≤ value, for a negative value."""
    return -inf if value == -inf else -(1 << int(-value - 1).bit_length())
