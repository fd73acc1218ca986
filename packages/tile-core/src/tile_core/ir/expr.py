"""Expressions: the value-producing nodes.

Python operators on expressions build nodes; `==` does too, and asking an expression for its truth is an error with
its line. Inside tile_core,
compare nodes with `is`, `structural_equal` or `structural_key`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from ..casts import round_constant
from ..dtypes import DType, as_dtype, promote
from ..errors import CompileError, declare_codes
from ..source import Span
from .fold import fold_int, wrap
from .node import Node, attr, binder, child, children, derived, node

if TYPE_CHECKING:
    from .buffer import Buffer

__all__ = [
    "BINARY_OPERATORS",
    "UNARY_OPERATORS",
    "AccessPtr",
    "Binary",
    "Broadcast",
    "BufferLoad",
    "Call",
    "Cast",
    "Expr",
    "FloatImm",
    "IntImm",
    "Let",
    "Ramp",
    "Select",
    "Shuffle",
    "SizeVar",
    "StringImm",
    "Unary",
    "Var",
    "as_expr",
    "binary",
    "cast",
    "const",
    "is_one",
    "is_zero",
    "select",
    "unary",
]

declare_codes(
    {
        "E-EXPR-BOOL": "the truth of an expression was asked for while tracing",
        "E-EXPR-VALUE": "a Python value that has no meaning as an expression",
        "E-EXPR-TYPE": "an operator does not take operands of these types",
    }
)

BOOL = DType("bool")
INT32 = DType("int32")
INT64 = DType("int64")
FLOAT32 = DType("float32")
HANDLE = DType("handle")

# name: (printed form, result is bool). Integer division: floordiv/floormod round to minus infinity,
# truncdiv/truncmod to zero; `div` is for floats.
BINARY_OPERATORS: dict[str, tuple[str, bool]] = {
    "add": ("+", False),
    "sub": ("-", False),
    "mul": ("*", False),
    "div": ("/", False),
    "floordiv": ("//", False),
    "floormod": ("%", False),
    "truncdiv": ("truncdiv", False),
    "truncmod": ("truncmod", False),
    "min": ("min", False),
    "max": ("max", False),
    "eq": ("==", True),
    "ne": ("!=", True),
    "lt": ("<", True),
    "le": ("<=", True),
    "gt": (">", True),
    "ge": (">=", True),
    "and": ("and", True),
    "or": ("or", True),
    "bitand": ("&", False),
    "bitor": ("|", False),
    "bitxor": ("^", False),
    "shl": ("<<", False),
    "shr": (">>", False),
}
UNARY_OPERATORS: dict[str, str] = {"neg": "-", "not": "not", "bitnot": "~"}


class Expr(Node):
    """Base of expressions. `dtype` is the type of the value, with lanes for vectors."""

    __slots__ = ()
    dtype: DType

    def __bool__(self) -> bool:
        raise CompileError(
            "E-EXPR-BOOL",
            "the truth of an expression is not known while the kernel is traced",
            span=getattr(self, "span", None),
            facts=[f"the expression is {self!r}"],
            help="use it as a condition of `if` or `while` inside the kernel, or T.if_then_else / T.Select; "
            "combine conditions with & and |",
        )

    def __add__(self, other: Any) -> Expr:
        return binary("add", self, other)

    def __radd__(self, other: Any) -> Expr:
        return binary("add", other, self)

    def __sub__(self, other: Any) -> Expr:
        return binary("sub", self, other)

    def __rsub__(self, other: Any) -> Expr:
        return binary("sub", other, self)

    def __mul__(self, other: Any) -> Expr:
        return binary("mul", self, other)

    def __rmul__(self, other: Any) -> Expr:
        return binary("mul", other, self)

    def __truediv__(self, other: Any) -> Expr:
        return _divide(self, other)

    def __rtruediv__(self, other: Any) -> Expr:
        return _divide(other, self)

    def __floordiv__(self, other: Any) -> Expr:
        return binary("floordiv", self, other)

    def __rfloordiv__(self, other: Any) -> Expr:
        return binary("floordiv", other, self)

    def __mod__(self, other: Any) -> Expr:
        return binary("floormod", self, other)

    def __rmod__(self, other: Any) -> Expr:
        return binary("floormod", other, self)

    def __and__(self, other: Any) -> Expr:
        return _logical_or_bitwise("and", "bitand", self, other)

    def __rand__(self, other: Any) -> Expr:
        return _logical_or_bitwise("and", "bitand", other, self)

    def __or__(self, other: Any) -> Expr:
        return _logical_or_bitwise("or", "bitor", self, other)

    def __ror__(self, other: Any) -> Expr:
        return _logical_or_bitwise("or", "bitor", other, self)

    def __xor__(self, other: Any) -> Expr:
        return binary("bitxor", self, other)

    def __rxor__(self, other: Any) -> Expr:
        return binary("bitxor", other, self)

    def __lshift__(self, other: Any) -> Expr:
        return binary("shl", self, other)

    def __rlshift__(self, other: Any) -> Expr:
        return binary("shl", other, self)

    def __rshift__(self, other: Any) -> Expr:
        return binary("shr", self, other)

    def __rrshift__(self, other: Any) -> Expr:
        return binary("shr", other, self)

    def __neg__(self) -> Expr:
        return unary("neg", self)

    def __pos__(self) -> Expr:
        return self

    def __invert__(self) -> Expr:
        return unary("not" if self.dtype.is_bool else "bitnot", self)

    def __lt__(self, other: Any) -> Expr:
        return binary("lt", self, other)

    def __le__(self, other: Any) -> Expr:
        return binary("le", self, other)

    def __gt__(self, other: Any) -> Expr:
        return binary("gt", self, other)

    def __ge__(self, other: Any) -> Expr:
        return binary("ge", self, other)

    def __eq__(self, other: Any) -> Any:
        return binary("eq", self, other)

    def __ne__(self, other: Any) -> Any:
        return binary("ne", self, other)

    # Identity: two live nodes never share a hash, so dictionaries keyed by node stay right although == builds a node.
    __hash__ = object.__hash__

    def __repr__(self) -> str:
        from .printer import expr_text

        return expr_text(self)

    def astype(self, dtype: Any) -> Expr:
        """The value converted to `dtype`."""
        return cast(self, as_dtype(dtype))


@node
class Var(Expr):
    """A named value, bound once: a parameter, a loop index, a Bind or Let. Identity is the variable; the name is for
    people."""

    name: str = attr()
    dtype: DType = attr(default=INT32)


@node
class SizeVar(Var):
    """A shape variable: an integer ≥ 0 that the first input mentioning it owns."""


@node
class IntImm(Expr):
    """An integer (or bool) constant."""

    value: int = attr()
    dtype: DType = attr(default=INT32)


@node
class FloatImm(Expr):
    """A floating-point constant; `value` is a Python float, rounded to `dtype` by whoever prints or evaluates it."""

    value: float = attr()
    dtype: DType = attr(default=FLOAT32)


@node
class StringImm(Expr):
    """A string constant, for intrinsics that take one."""

    value: str = attr()
    dtype: DType = attr(default=HANDLE)


@node
class Binary(Expr):
    """`a op b`, with `op` a key of BINARY_OPERATORS and both operands of one type (shifts excepted)."""

    op: str = attr()
    a: Expr = child()
    b: Expr = child()
    dtype: DType = derived()

    def __post_init__(self) -> None:
        self.dtype = BOOL.with_lanes(self.a.dtype.lanes) if BINARY_OPERATORS[self.op][1] else self.a.dtype  # pyright: ignore[reportAttributeAccessIssue]


@node
class Unary(Expr):
    """`op a`, with `op` a key of UNARY_OPERATORS."""

    op: str = attr()
    a: Expr = child()
    dtype: DType = derived()

    def __post_init__(self) -> None:
        self.dtype = self.a.dtype  # pyright: ignore[reportAttributeAccessIssue]


@node
class Cast(Expr):
    """`value` converted to `dtype`: floats round to nearest even, float → int truncates, int → narrower int wraps."""

    dtype: DType = attr()
    value: Expr = child()


@node
class Select(Expr):
    """`true_value` where `condition`, else `false_value`. `lazy` ones evaluate only the branch taken
    (T.if_then_else)."""

    condition: Expr = child()
    true_value: Expr = child()
    false_value: Expr = child()
    lazy: bool = attr(default=False)
    dtype: DType = derived()

    def __post_init__(self) -> None:
        self.dtype = self.true_value.dtype  # pyright: ignore[reportAttributeAccessIssue]


@node
class Let(Expr):
    """`body` with `var` standing for `value`."""

    var: Var = binder()
    value: Expr = child()
    body: Expr = child()
    dtype: DType = derived()

    def __post_init__(self) -> None:
        self.dtype = self.body.dtype  # pyright: ignore[reportAttributeAccessIssue]


@node
class Call(Expr):
    """An intrinsic by name; `ir.intrinsics` holds each one's signature and effects. `annotations` is a tuple of (key,
    value) pairs."""

    op: str = attr()
    args: tuple[Expr, ...] = children()
    dtype: DType = attr(default=FLOAT32)
    annotations: tuple[tuple[str, Any], ...] = attr(default=())


@node
class BufferLoad(Expr):
    """An element of a buffer, or a vector of them when the last index is a Ramp. Lanes where `predicate` is false
    read as `fill` (0)."""

    buffer: Buffer = attr()
    indices: tuple[Expr, ...] = children()
    predicate: Expr | None = child(default=None)
    dtype: DType = derived()

    def __post_init__(self) -> None:
        lanes = 1
        for index in self.indices:
            lanes = max(lanes, index.dtype.lanes)
        dtype = self.buffer.dtype
        self.dtype = dtype if lanes == 1 else dtype.with_lanes(lanes * dtype.lanes)  # pyright: ignore[reportAttributeAccessIssue]


@node
class Ramp(Expr):
    """The vector base, base + stride, …, `lanes` long."""

    base: Expr = child()
    stride: Expr = child()
    lanes: int = attr()
    dtype: DType = derived()

    def __post_init__(self) -> None:
        self.dtype = self.base.dtype.with_lanes(self.lanes)  # pyright: ignore[reportAttributeAccessIssue]


@node
class Broadcast(Expr):
    """The vector of `lanes` copies of `value`."""

    value: Expr = child()
    lanes: int = attr()
    dtype: DType = derived()

    def __post_init__(self) -> None:
        self.dtype = self.value.dtype.with_lanes(self.lanes * self.value.dtype.lanes)  # pyright: ignore[reportAttributeAccessIssue]


@node
class Shuffle(Expr):
    """A vector made of chosen lanes (`indices`, constants) of the concatenated `vectors`."""

    vectors: tuple[Expr, ...] = children()
    indices: tuple[int, ...] = attr()
    dtype: DType = derived()

    def __post_init__(self) -> None:
        self.dtype = self.vectors[0].dtype.scalar.with_lanes(len(self.indices))  # pyright: ignore[reportAttributeAccessIssue]


@node
class AccessPtr(Expr):
    """The address of an element of a buffer, with what is done through it: `mode` is r, w or rw over `extent`
    elements."""

    buffer: Buffer = attr()
    indices: tuple[Expr, ...] = children()
    extent: Expr = child()
    mode: str = attr(default="rw")
    dtype: DType = attr(default=HANDLE)


def const(value: int | float | bool, dtype: DType | str, span: Span | None = None) -> Expr:
    """A constant of a scalar type, or a Broadcast of one for a vector type."""
    dtype = as_dtype(dtype)
    scalar = dtype.scalar
    if scalar.is_float:
        node: Expr = FloatImm(float(value), scalar, span=span)
    else:
        node = IntImm(int(value), scalar, span=span)
    return node if dtype.lanes == 1 else Broadcast(node, dtype.lanes, span=span)


def as_expr(value: Any, like: DType | None = None, span: Span | None = None) -> Expr:
    """An expression for a Python number (typed after `like` when that loses nothing), or the expression itself.

    Raises:
        CompileError: `value` is neither a number, a string nor an expression.
    """
    if isinstance(value, Expr):
        return value
    if isinstance(value, bool):
        return IntImm(int(value), BOOL, span=span)
    if isinstance(value, int):
        if like is not None and not like.is_bool and like.kind in "iuf":
            return const(value, like, span)
        return IntImm(value, INT32 if INT32.min_value <= value <= INT32.max_value else INT64, span=span)
    if isinstance(value, float):
        return const(value, like if like is not None and like.is_float else FLOAT32, span)
    if isinstance(value, str):
        return StringImm(value, span=span)
    to_expr = getattr(value, "__tile_expr__", None)
    if to_expr is not None:
        return to_expr()
    index = getattr(value, "item", None)
    if index is not None and getattr(value, "ndim", None) == 0:
        return as_expr(value.item(), like, span)
    raise CompileError(
        "E-EXPR-VALUE",
        f"{value!r} cannot be used as a value in a kernel",
        span=span,
        facts=[f"it is a {type(value).__name__}"],
        help="use a number, an expression, an element of a buffer such as A[i, j], or T.cast(…)",
    )


def cast(value: Any, dtype: DType | str) -> Expr:
    """`value` converted to `dtype`; constants are converted at once, and a cast to the same type is the value
    itself."""
    dtype = as_dtype(dtype)
    value = as_expr(value)
    if value.dtype is dtype:
        return value
    if isinstance(value, IntImm) and dtype.lanes == 1 and not dtype.is_bool:
        if dtype.is_float:
            return FloatImm(float(value.value), dtype, span=value.span)
        if dtype.is_int:
            return IntImm(wrap(value.value, dtype), dtype, span=value.span)
    if isinstance(value, FloatImm) and dtype.lanes == 1 and dtype.is_float:
        return FloatImm(round_constant(value.value, value.dtype), dtype, span=value.span)
    if dtype.lanes == 1 and value.dtype.lanes > 1:
        dtype = dtype.with_lanes(value.dtype.lanes)
    if value.dtype.lanes == 1 and dtype.lanes > 1:
        return Broadcast(cast(value, dtype.scalar), dtype.lanes, span=value.span)
    return Cast(dtype, value, span=value.span)


def unify(a: Any, b: Any, span: Span | None = None) -> tuple[Expr, Expr]:
    """Both operands as expressions of one type: Python numbers take the other's type, else the wider wins; scalars
    are broadcast."""
    if not isinstance(a, Expr):
        b = as_expr(b, span=span)
        a = _literal(a, b.dtype, span)
    elif not isinstance(b, Expr):
        b = _literal(b, a.dtype, span)
    if a.dtype is b.dtype:
        return a, b
    dtype = promote(a.dtype, b.dtype)
    return cast(a, dtype), cast(b, dtype)


def binary(op: str, a: Any, b: Any, span: Span | None = None) -> Expr:
    """`a op b` with operands brought to one type and integer constants folded.

    Raises:
        CompileError: an operand has no meaning as a value, or the operator does not take its type.
    """
    a, b = unify(a, b, span)
    if op in ("and", "or"):
        a, b = _truth(a), _truth(b)
    elif op in ("bitand", "bitor", "bitxor", "shl", "shr") and a.dtype.is_float:
        raise CompileError(
            "E-EXPR-TYPE",
            f"operator {BINARY_OPERATORS[op][0]} needs integers",
            span=span or a.span or b.span,
            facts=[f"left: {a!r} is {a.dtype}", f"right: {b!r} is {b.dtype}"],
            help="cast to an integer type with T.cast, or to its bits with T.reinterpret",
        )
    if a.dtype.is_bool and op in ("add", "sub", "mul", "floordiv", "floormod", "truncdiv", "truncmod", "shl", "shr"):
        a, b = cast(a, INT32.with_lanes(a.dtype.lanes)), cast(b, INT32.with_lanes(b.dtype.lanes))
    if isinstance(a, IntImm) and isinstance(b, IntImm):
        folded = fold_int(op, a.value, b.value, a.dtype)
        if folded is not None:
            return IntImm(folded, BOOL if BINARY_OPERATORS[op][1] else a.dtype, span=span)
    return Binary(op, a, b, span=span)


def unary(op: str, a: Any, span: Span | None = None) -> Expr:
    """`op a` with integer constants folded."""
    a = as_expr(a, span=span)
    if op == "not":
        a = _truth(a)
    if isinstance(a, IntImm):
        if op == "neg" and not a.dtype.is_bool:
            return IntImm(wrap(-a.value, a.dtype), a.dtype, span=span)
        if op == "not":
            return IntImm(int(not a.value), BOOL, span=span)
        if op == "bitnot":
            return IntImm(wrap(~a.value, a.dtype), a.dtype, span=span)
    if isinstance(a, FloatImm) and op == "neg":
        return FloatImm(-a.value, a.dtype, span=span)
    return Unary(op, a, span=span)


def select(condition: Any, true_value: Any, false_value: Any, *, lazy: bool = False, span: Span | None = None) -> Expr:
    """Select with its values brought to one type and a bool condition."""
    true_value, false_value = unify(true_value, false_value, span)
    return Select(_truth(as_expr(condition)), true_value, false_value, lazy, span=span)


def _literal(value: Any, like: DType, span: Span | None) -> Expr:
    if (
        isinstance(value, int)
        and not isinstance(value, bool)
        and like.is_int
        and not like.min_value <= value <= like.max_value
    ):
        return as_expr(value, span=span)
    if isinstance(value, int) and like.is_bool and not isinstance(value, bool):
        return as_expr(value, span=span)
    return as_expr(value, like, span)


def _truth(value: Expr) -> Expr:
    return value if value.dtype.is_bool else binary("ne", value, const(0, value.dtype))


def _divide(a: Any, b: Any) -> Expr:
    a, b = unify(a, b)
    if not a.dtype.is_float:
        a, b = cast(a, FLOAT32.with_lanes(a.dtype.lanes)), cast(b, FLOAT32.with_lanes(b.dtype.lanes))
    return Binary("div", a, b)


def _logical_or_bitwise(logical: str, bitwise: str, a: Any, b: Any) -> Expr:
    a, b = unify(a, b)
    return binary(logical if a.dtype.is_bool else bitwise, a, b)


def is_zero(node: Expr) -> bool:
    """Whether an expression is the integer constant 0."""
    return isinstance(node, IntImm) and node.value == 0


def is_one(node: Expr) -> bool:
    """Whether an expression is the integer constant 1."""
    return isinstance(node, IntImm) and node.value == 1


def sum_of(terms: Iterable[Expr], dtype: DType = INT32) -> Expr:
    """The left-deep sum of `terms`; 0 for none."""
    total: Expr | None = None
    for term in terms:
        total = term if total is None else binary("add", total, term)
    return const(0, dtype) if total is None else total
