"""The part of the printer that writes expressions, regions and values of attribute fields."""

from __future__ import annotations

import enum
import keyword
import math
from collections.abc import Callable
from typing import Any

from ..dtypes import DType
from . import expr as e
from .buffer import Buffer, BufferRegion
from .expr import BINARY_OPERATORS, Expr, FloatImm, IntImm, SizeVar, StringImm, Var
from .node import Node
from .text import call_dtype, is_number, literal_dtype, pair_types, plain_call, quote
from .values import IndexMap, find_value_form

__all__ = ["ExprPrinter"]

_PRECEDENCE = {
    **dict.fromkeys(["or"], 1),
    **dict.fromkeys(["and"], 2),
    **dict.fromkeys(["eq", "ne", "lt", "le", "gt", "ge"], 4),
    "bitor": 5,
    "bitxor": 6,
    "bitand": 7,
    **dict.fromkeys(["shl", "shr"], 8),
    **dict.fromkeys(["add", "sub"], 9),
    **dict.fromkeys(["mul", "div", "floordiv", "floormod"], 10),
}
_COMPARE, _NOT, _UNARY, _ATOM = 4, 3, 11, 12
# Python's own parser is recursive in the depth of a chain, so a longer one is printed flat, as T.chain(a, "+", b, …).
_CHAIN_LIMIT = 100


class ExprPrinter:
    """Prints expressions and values, and keeps the names given so far.

    Args:
        declare: whether names that nothing binds are collected in `pending` as declaring lines.
    """

    def __init__(self, declare: bool = True) -> None:
        self.declare = declare
        self.pending: list[str] = []
        self.names: dict[Node, str] = {}
        self._counts: dict[str, int] = {"T": 1}

    # -- names ---------------------------------------------------------------------------------------------------------

    def bind(self, item: Node) -> str:
        """The name of a Var or Buffer that is introduced here."""
        known = self.names.get(item)
        if known is not None:
            return known
        base = identifier(item.name)  # type: ignore[attr-defined]
        name, count = base, self._counts.get(base, 0)
        while name in self._counts:
            name = f"{base}_{count or 1}"
            count = (count or 1) + 1
        self._counts[base] = max(count, 1)
        self._counts.setdefault(name, 1)
        self.names[item] = name
        return name

    def use(self, item: Node) -> str:
        """The name of a Var or Buffer, declared now if nothing bound it."""
        known = self.names.get(item)
        if known is not None:
            return known
        if not self.declare:
            return self.bind(item)
        if isinstance(item, Buffer):
            text = f"T.buffer({self.buffer_arguments(item)})"
        elif isinstance(item, SizeVar):
            text = size_var_text(item)
        else:
            text = f"T.var({dtype_text(item.dtype)})"  # type: ignore[attr-defined]
        name = self.bind(item)
        self.pending.append(f"{name} = {text}")
        return name

    def buffer_arguments(self, buffer: Buffer) -> str:
        """What stands between the parentheses of a buffer's declaration."""
        words = [self.tuple([self.expr(x) for x in buffer.shape]), dtype_text(buffer.dtype)]
        if buffer.scope != "global":
            words.append(f"scope={quote(buffer.scope)}")
        if buffer.strides:
            words.append(f"strides={self.tuple([self.expr(x) for x in buffer.strides])}")
        if buffer.data is not None:
            words.append(f"data={self.use(buffer.data)}")
        if buffer.offset is not None:
            words.append(f"offset={self.expr(buffer.offset)}")
        if buffer.align:
            words.append(f"align={buffer.align}")
        return ", ".join(words)

    # -- expressions ---------------------------------------------------------------------------------------------------

    def expr(self, node: Expr, level: int = 0, expected: DType | None = None) -> str:
        """The text of an expression, in parentheses where it binds more loosely than `level`.

        `expected` is the type that the place gives a bare number.
        """
        if type(node) is e.Binary:
            text, own = self._binary(node)
        else:
            text, own = self._single(node, expected)
        return f"({text})" if own < level else text

    def _single(self, node: Expr, expected: DType | None) -> tuple[str, int]:
        writer = _EXPRESSIONS.get(type(node))
        if writer is not None:
            text = writer(self, node)
            return text if isinstance(text, tuple) else (text, _ATOM)
        if is_number(node):
            return self._number(node, expected), _ATOM
        if isinstance(node, Var):
            return self.use(node), _ATOM
        return self.node(node), _ATOM

    def _number(self, node: Any, expected: DType | None, typed: bool = False) -> str:
        dtype = node.dtype
        if type(node) is FloatImm:
            value: Any = float(node.value)
            if not math.isfinite(value):
                return f'T.{dtype}("{value}")'
        else:
            value = bool(node.value) if dtype.is_bool and node.value in (0, 1) else int(node.value)
        plain = not typed and literal_dtype(value, expected) is dtype
        return repr(value) if plain else f"T.{dtype}({value!r})"

    def _binary(self, node: e.Binary) -> tuple[str, int]:
        spine: list[e.Binary] = []
        left: Expr = node
        while type(left) is e.Binary:
            spine.append(left)
            left = left.a
        spine.reverse()
        text, own = self._single(left, pair_types(left, spine[0].b)[0])
        if len(spine) > _CHAIN_LIMIT:
            words = [text]
            for item in spine:
                words.append(f'"{BINARY_OPERATORS[item.op][0]}"')
                words.append(self.expr(item.b, expected=pair_types(item.a, item.b)[1]))
            return f"T.chain({', '.join(words)})", _ATOM
        for item in spine:
            symbol = BINARY_OPERATORS[item.op][0]
            expected = pair_types(item.a, item.b)[1]
            level = _PRECEDENCE.get(item.op)
            if level is None:
                text, own = f"T.{symbol}({text}, {self.expr(item.b, expected=expected)})", _ATOM
                continue
            # Comparisons chain in Python, so a comparison inside one is always in parentheses.
            needed = level + 1 if level == _COMPARE else level
            left_text = f"({text})" if own < needed else text
            text, own = f"{left_text} {symbol} {self.expr(item.b, level + 1, expected)}", level
        return text, own

    def _write_Unary(self, node: e.Unary) -> tuple[str, int] | str:
        if node.op == "not":
            return f"not {self.expr(node.a, _NOT)}", _NOT
        if node.op == "neg" and is_number(node.a):
            return f"T.neg({self.expr(node.a)})"
        return f"{e.UNARY_OPERATORS[node.op]}{self.expr(node.a, _UNARY)}", _UNARY

    def _write_StringImm(self, node: StringImm) -> str:
        return (
            quote(node.value) if node.dtype is e.HANDLE else f"T.string({quote(node.value)}, {dtype_text(node.dtype)})"
        )

    def _write_Cast(self, node: e.Cast) -> str:
        return f"T.cast({self.expr(node.value)}, {dtype_text(node.dtype)})"

    def _write_Select(self, node: e.Select) -> str:
        first, second = pair_types(node.true_value, node.false_value)
        name = "if_then_else" if node.lazy else "Select"
        values = f"{self.expr(node.true_value, expected=first)}, {self.expr(node.false_value, expected=second)}"
        return f"T.{name}({self.expr(node.condition)}, {values})"

    def _write_Let(self, node: e.Let) -> str:
        value = self.expr(node.value)
        name = self.bind(node.var)
        more = "" if node.var.dtype is node.value.dtype else f", dtype={dtype_text(node.var.dtype)}"
        return f"T.let({name}, {value}, {self.expr(node.body)}{more})"

    def _write_Call(self, node: e.Call) -> str:
        words = [self.expr(x) for x in node.args]
        plain = plain_call(node.op)
        if not plain:
            words.insert(0, quote(node.op))
        if call_dtype(node.op, node.args) is not node.dtype:
            words.append(f"dtype={dtype_text(node.dtype)}")
        if node.annotations:
            words.append(f"annotations={self.value(node.annotations)}")
        return f"T.{node.op if plain else 'call'}({', '.join(words)})"

    def _write_BufferLoad(self, node: e.BufferLoad) -> str:
        text = self.indexed(node.buffer, node.indices)
        return text if node.predicate is None else f"T.load({text}, predicate={self.expr(node.predicate)})"

    def _write_Ramp(self, node: e.Ramp) -> str:
        stride = self.expr(node.stride, expected=pair_types(node.base, node.stride)[1])
        return f"T.ramp({self.expr(node.base)}, {stride}, {node.lanes})"

    def _write_Broadcast(self, node: e.Broadcast) -> str:
        return f"T.broadcast({self.expr(node.value)}, {node.lanes})"

    def _write_Shuffle(self, node: e.Shuffle) -> str:
        return f"T.shuffle({self.tuple([self.expr(v) for v in node.vectors])}, {self.value(tuple(node.indices))})"

    def _write_AccessPtr(self, node: e.AccessPtr) -> str:
        place = self.indexed(node.buffer, node.indices)
        more = "" if node.dtype is e.HANDLE else f", dtype={dtype_text(node.dtype)}"
        return f"T.access_ptr({place}, {quote(node.mode)}, {self.expr(node.extent)}{more})"

    def indexed(self, buffer: Buffer, indices: tuple[Expr, ...]) -> str:
        """An element of a buffer."""
        inside = ", ".join([self.expr(i) for i in indices]) or "()"
        return f"{self.use(buffer)}[{inside}]"

    # -- regions and other values --------------------------------------------------------------------------------------

    def region(self, node: BufferRegion, whole: bool = True) -> str:
        """The text of a region; with `whole`, a region that is all of its buffer is printed as the buffer."""
        squeezed = node.squeezed or (False,) * len(node.mins)
        if whole and node.mins and not any(squeezed) and _is_whole(node):
            return self.use(node.buffer)
        axes = [self._axis(low, n, s) for low, n, s in zip(node.mins, node.extents, squeezed)]
        return f"{self.use(node.buffer)}[{', '.join(axes) or '()'}]"

    def _axis(self, low: Expr, extent: Expr, squeezed: bool) -> str:
        if squeezed:
            if type(extent) is IntImm and extent.value == 1 and extent.dtype is e.INT32:
                return self.expr(low)
            return f"T.box({self.expr(low)}, {self.expr(extent)})"
        start = self.expr(low)
        if type(low) is IntImm and low.dtype is e.INT32:
            if low.value == 0:
                return f"0:{self.expr(extent)}"
            if type(extent) is IntImm and extent.dtype is e.INT32:
                return f"{start}:{low.value + extent.value}"
        return f"{start}:{self.expr(low, 9)} + {self.expr(extent, 10)}"

    def value(self, value: Any) -> str:
        """The text of a value in an attribute field.

        Constants of the IR are always typed here: a bare number is Python's.
        """
        if type(value) is str:
            return quote(value)
        if value is None or type(value) in (bool, bytes, int):
            return repr(value)
        if isinstance(value, float):
            return repr(value) if math.isfinite(value) else f'float("{value}")'
        if isinstance(value, enum.Enum):
            return self._registered(value)
        if isinstance(value, tuple):
            return self.tuple([self.value(v) for v in value])
        if isinstance(value, list):
            return f"[{', '.join([self.value(v) for v in value])}]"
        if isinstance(value, dict):
            return "{" + ", ".join([f"{self.value(k)}: {self.value(v)}" for k, v in value.items()]) + "}"
        if isinstance(value, DType):
            return dtype_text(value)
        if is_number(value):
            return self._number(value, None, typed=True)
        if isinstance(value, StringImm):
            return f"T.string({quote(value.value)}, {dtype_text(value.dtype)})"
        if isinstance(value, Expr):
            return self.expr(value)
        if isinstance(value, Buffer):
            return self.use(value)
        if isinstance(value, BufferRegion):
            return f"T.region({self.region(value)})"
        if isinstance(value, IndexMap):
            # Its variables are Python's parameters, so they take no names from the function, unless it mentions some.
            inner = ExprPrinter(declare=False)
            text = inner._index_map(value)
            return text if len(inner.names) == len(value.vars) else self._index_map(value)
        return self._registered(value)

    def _index_map(self, value: IndexMap) -> str:
        names = [self.bind(v) for v in value.vars]
        return f"lambda {', '.join(names)}: {self.tuple([self.expr(x) for x in value.results])}"

    def _registered(self, value: Any) -> str:
        form = find_value_form(value)
        if form is not None:
            return f"T.{form.name}({', '.join([f'{k}={self.value(v)}' for k, v in form.fields(value)])})"
        if isinstance(value, Node):
            return self.node(value)
        return f"T.opaque({repr(value)!r})"

    def node(self, node: Node) -> str:
        """A node field by field, for classes that have no text of their own."""
        words = [
            f"{f.name}={self.value(getattr(node, f.name))}" for f in node.FIELDS if f.kind not in ("span", "derived")
        ]
        return f"T.{type(node).__name__}({', '.join(words)})"

    @staticmethod
    def tuple(items: list[str]) -> str:
        """A tuple of texts."""
        return f"({items[0]},)" if len(items) == 1 else f"({', '.join(items)})"


def identifier(name: str) -> str:
    clean = "".join(c if c.isalnum() or c == "_" else "_" for c in name) or "_"
    if not clean.isidentifier():
        clean = f"_{clean}"
    return f"{clean}_" if keyword.iskeyword(clean) or clean == "T" else clean


def dtype_text(dtype: DType) -> str:
    return f"T.{dtype}"


def size_var_text(var: Var) -> str:
    return f"T.size_var({dtype_text(var.dtype)})"


def _is_whole(region: BufferRegion) -> bool:
    if len(region.mins) != region.buffer.ndim:
        return False
    for low, extent, size in zip(region.mins, region.extents, region.buffer.shape):
        if not e.is_zero(low) or low.dtype is not e.INT32:
            return False
        same = extent is size or (
            type(extent) is IntImm
            and type(size) is IntImm
            and extent.value == size.value
            and extent.dtype is size.dtype
        )
        if not same:
            return False
    return True


_EXPRESSIONS: dict[type, Callable[[ExprPrinter, Any], str | tuple[str, int]]] = {
    getattr(e, name): vars(ExprPrinter)[f"_write_{name}"] for name in e.__all__ if f"_write_{name}" in vars(ExprPrinter)
}
