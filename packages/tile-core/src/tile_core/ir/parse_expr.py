"""The part of the parser that reads expressions, regions and values of attribute fields."""

from __future__ import annotations

import ast
import difflib
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NoReturn

from ..dtypes import DType, as_dtype
from ..errors import CompileError, TileError, declare_codes
from ..source import Span
from .buffer import Buffer, BufferRegion, full_region
from .expr import (
    BINARY_OPERATORS,
    AccessPtr,
    Binary,
    Broadcast,
    BufferLoad,
    Call,
    Cast,
    Expr,
    IntImm,
    Let,
    Ramp,
    Select,
    Shuffle,
    StringImm,
    Unary,
    Var,
    const,
)
from .intrinsics import intrinsics
from .node import Node
from .text import call_dtype, is_number, literal_dtype, text_dtype
from .values import IndexMap, find_value_name, node_class

__all__ = ["ExprParser"]

declare_codes(
    {
        "E-PARSE-SYNTAX": "a text of the IR that cannot be read",
        "E-PARSE-NAME": "a name that a text of the IR does not declare",
        "E-PARSE-CALL": "a T.… call in a text of the IR with arguments that it does not take",
    }
)

_BINARY: dict[type[ast.AST], str] = {
    ast.Add: "add",
    ast.Sub: "sub",
    ast.Mult: "mul",
    ast.Div: "div",
    ast.FloorDiv: "floordiv",
    ast.Mod: "floormod",
    ast.BitAnd: "bitand",
    ast.BitOr: "bitor",
    ast.BitXor: "bitxor",
    ast.LShift: "shl",
    ast.RShift: "shr",
    ast.Eq: "eq",
    ast.NotEq: "ne",
    ast.Lt: "lt",
    ast.LtE: "le",
    ast.Gt: "gt",
    ast.GtE: "ge",
    ast.And: "and",
    ast.Or: "or",
}
_UNARY: dict[type[ast.AST], str] = {ast.USub: "neg", ast.Not: "not", ast.Invert: "bitnot"}
_BY_SYMBOL = {symbol: op for op, (symbol, _) in BINARY_OPERATORS.items()}


class ExprParser:
    """Reads expressions in an environment of names.

    Args:
        source: id of the text, for spans.
        names: what the text may mention without declaring it.
        unknown: makes a Var or Buffer for a name that is not declared, or None to refuse it.
    """

    def __init__(
        self,
        source: str,
        names: Mapping[str, Node] | None = None,
        unknown: Callable[[str], Node | None] | None = None,
    ) -> None:
        self.source = source
        self.names: dict[str, Node] = dict(names or {})
        self._unknown = unknown
        self._pending: dict[str, Callable[[], Node]] = {}

    def span(self, node: ast.AST) -> Span:
        """The place of a piece of syntax."""
        line, column = getattr(node, "lineno", 1), getattr(node, "col_offset", 0)
        end = getattr(node, "end_col_offset", 0) if getattr(node, "end_lineno", line) == line else 0
        return Span(self.source, line, column, end or 0)

    def fail(
        self,
        node: ast.AST,
        summary: str,
        code: str = "E-PARSE-SYNTAX",
        facts: Iterable[str] = (),
        help: str | None = None,
    ) -> NoReturn:
        """Raises the error for a piece of syntax."""
        raise CompileError(code, summary, span=self.span(node), facts=facts, help=help)

    # -- names ---------------------------------------------------------------------------------------------------------

    def lookup(self, node: ast.AST) -> Node:
        """What a name stands for."""
        if not isinstance(node, ast.Name):
            self.fail(node, "a name is needed here", facts=[f"found {ast.unparse(node)}"])
        found = self.names.get(node.id)
        if found is not None:
            return found
        pending = self._pending.pop(node.id, None)
        if pending is not None:
            return pending()
        made = self._unknown(node.id) if self._unknown is not None else None
        if made is None:
            near = difflib.get_close_matches(node.id, self.names, n=3)
            self.fail(
                node,
                f"{node.id!r} is not declared",
                "E-PARSE-NAME",
                [f"nearest declared: {', '.join(near)}"] if near else (),
                f"declare it first: {node.id} = T.var(T.int32), T.size_var(T.int32) or T.buffer((…), T.float32)",
            )
        self.names[node.id] = made
        return made

    def buffer(self, node: ast.AST) -> Buffer:
        """The buffer that a name stands for."""
        found = self.lookup(node)
        if not isinstance(found, Buffer):
            self.fail(node, f"{ast.unparse(node)} is not a buffer", facts=[f"it is a {type(found).__name__}"])
        return found

    def dtype(self, node: ast.AST) -> DType:
        """An element type, written ``T.float16`` or ``"float16"``."""
        name = node.value if isinstance(node, ast.Constant) else t_name(node)
        try:
            return as_dtype(name)
        except TileError as error:
            self.fail(node, f"{ast.unparse(node)} is not an element type", help=error.help)

    # -- expressions ---------------------------------------------------------------------------------------------------

    def expr(self, node: ast.AST, expected: DType | None = None) -> Expr:
        """An expression; `expected` is the type that the place suggests for a bare number."""
        number = bare_number(node)
        if number is not None:
            return const(number, literal_dtype(number, expected), self.span(node))
        if isinstance(node, ast.BinOp):
            return self._operators(node)
        if isinstance(node, ast.Name):
            found = self.lookup(node)
            if isinstance(found, Var):
                return found
            self.fail(node, f"{node.id} is a {type(found).__name__}, not a value", help=f"index it: {node.id}[…]")
        if isinstance(node, ast.Subscript):
            buffer = self.buffer(node.value)
            return BufferLoad(buffer, tuple(self.expr(i) for i in index_nodes(node)), span=self.span(node))
        if isinstance(node, ast.Call):
            return self._call(node)
        if isinstance(node, ast.UnaryOp) and type(node.op) in _UNARY:
            return Unary(_UNARY[type(node.op)], self.expr(node.operand), span=self.span(node))
        if isinstance(node, ast.BoolOp):
            op = _BINARY[type(node.op)]
            a, b = self.pair(node.values[0], node.values[1])
            result: Expr = Binary(op, a, b, span=self.span(node))
            for value in node.values[2:]:
                result = Binary(op, result, self._after(result, value), span=self.span(node))
            return result
        if isinstance(node, ast.Compare):
            if len(node.ops) != 1 or type(node.ops[0]) not in _BINARY:
                self.fail(node, "this comparison has no meaning", help="write chains as (a < b) and (b < c)")
            a, b = self.pair(node.left, node.comparators[0])
            return Binary(_BINARY[type(node.ops[0])], a, b, span=self.span(node))
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            return StringImm(node.value, span=self.span(node))
        if isinstance(node, ast.IfExp):
            a, b = self.pair(node.body, node.orelse)
            return Select(self.expr(node.test), a, b, True, span=self.span(node))
        self.fail(node, f"{ast.unparse(node)} is not an expression of the IR")

    def pair(self, a: ast.AST, b: ast.AST) -> tuple[Expr, Expr]:
        """Two operands, where a bare number takes the other's type."""
        if bare_number(a) is None:
            left = self.expr(a)
            return left, self._after(left, b)
        right = self.expr(b)
        return self.expr(a, None if is_number(right) else right.dtype), right

    def _after(self, left: Expr, right: ast.AST) -> Expr:
        return self.expr(right, None if is_number(left) else left.dtype)

    def _operators(self, node: ast.BinOp) -> Expr:
        spine = [node]
        while isinstance(spine[-1].left, ast.BinOp):
            spine.append(spine[-1].left)
        left: Expr | None = None
        for item in reversed(spine):
            op = _BINARY.get(type(item.op))
            if op is None:
                self.fail(item, f"{ast.unparse(item)}: the IR has no such operator")
            if left is None:
                left, right = self.pair(item.left, item.right)
            else:
                right = self._after(left, item.right)
            left = Binary(op, left, right, span=self.span(item))
        assert left is not None
        return left

    def _call(self, node: ast.Call) -> Expr:
        name = t_name(node.func)
        if name is None:
            self.fail(node, f"{ast.unparse(node.func)}(…) is not a call of the IR", help="calls are written T.name(…)")
        reader = _READERS.get(name)
        if reader is not None:
            return self.checked(node, lambda: reader(self, node))
        dtype = text_dtype(name)
        if dtype is not None:
            return self._typed(node, dtype)
        kind = node_class(name)
        if kind is not None:
            return self.generic(node, kind)
        return self.intrinsic(node, name, node.args)

    def checked(self, node: ast.AST, build: Callable[[], Any]) -> Any:
        """What `build` makes; a wrong number or kind of arguments becomes an error at the call."""
        try:
            return build()
        except (TypeError, ValueError, IndexError, KeyError, AttributeError) as error:
            if isinstance(error, TileError):
                raise
            raise CompileError(
                "E-PARSE-CALL",
                f"{ast.unparse(node)} does not take these arguments",
                span=self.span(node),
                facts=[f"{type(error).__name__}: {error}"],
            ) from error

    def _typed(self, node: ast.Call, dtype: DType) -> Expr:
        if len(node.args) != 1 or node.keywords:
            self.fail(node, f"T.{dtype}(…) takes one value", "E-PARSE-CALL")
        argument = node.args[0]
        number = bare_number(argument)
        if number is None and isinstance(argument, ast.Constant) and argument.value in ("inf", "-inf", "nan"):
            number = float(argument.value)
        if number is None:
            return Cast(dtype, self.expr(argument), span=self.span(node))
        return const(number, dtype, self.span(node))

    def intrinsic(self, node: ast.Call, op: str, args: list[ast.expr]) -> Call:
        """A call of an intrinsic by name."""
        known = {"dtype", "annotations"}
        keywords = {k.arg: k.value for k in node.keywords}
        if keywords.keys() - known:
            self.fail(node, f"T.{op} takes no {', '.join(sorted(map(str, keywords.keys() - known)))}", "E-PARSE-CALL")
        values = tuple(self.expr(a) for a in args)
        dtype = self.dtype(keywords["dtype"]) if "dtype" in keywords else call_dtype(op, values)
        if dtype is None:
            near = difflib.get_close_matches(op, intrinsics(), n=3)
            self.fail(
                node,
                f"T.{op}: the result type is not known" if op in intrinsics() else f"T.{op} is not known here",
                "E-PARSE-CALL",
                [f"nearest known: {', '.join(near)}"] if near else (),
                "give dtype=…; tile ops stand as statements of their own",
            )
        annotations = self.value(keywords["annotations"]) if "annotations" in keywords else ()
        row = intrinsics().get(op)
        if row is not None and row.arity is not None and row.arity != len(values):
            self.fail(node, f"T.{op} takes {row.arity} arguments, not {len(values)}", "E-PARSE-CALL")
        return Call(op, values, dtype, annotations, span=self.span(node))

    def generic(self, node: ast.Call, kind: type[Node]) -> Any:
        """A node written field by field: ``T.ClassName(field=value, …)``."""
        values = {str(k.arg): self.value(k.value) for k in node.keywords}
        for field, argument in zip([f for f in kind.FIELDS if f.kind not in ("span", "derived")], node.args):
            values[field.name] = self.value(argument)
        return self.checked(node, lambda: kind(**values, span=self.span(node)))

    def _read_min(self, node: ast.Call) -> Expr:
        a, b = self.pair(*node.args)
        return Binary(str(t_name(node.func)), a, b, span=self.span(node))

    def _read_neg(self, node: ast.Call) -> Expr:
        (a,) = node.args
        return Unary("neg", self.expr(a), span=self.span(node))

    def _read_chain(self, node: ast.Call) -> Expr:
        first, _, second = node.args[:3]
        left: Expr | None = None
        for symbol, term in zip(node.args[1::2], node.args[2::2]):
            op = _BY_SYMBOL[self.string(symbol)]
            if left is None:
                left, right = self.pair(first, second)
            else:
                right = self._after(left, term)
            left = Binary(op, left, right, span=self.span(node))
        assert left is not None
        return left

    def _read_cast(self, node: ast.Call) -> Expr:
        value, dtype = node.args
        return Cast(self.dtype(dtype), self.expr(value), span=self.span(node))

    def _read_select(self, node: ast.Call) -> Expr:
        condition, a, b = node.args
        lazy = t_name(node.func) == "if_then_else"
        return Select(self.expr(condition), *self.pair(a, b), lazy, span=self.span(node))

    def _read_let(self, node: ast.Call) -> Expr:
        name, value, body = node.args
        if not isinstance(name, ast.Name):
            self.fail(name, "T.let needs a name first")
        bound = self.expr(value)
        keywords = {k.arg: k.value for k in node.keywords}
        dtype = self.dtype(keywords["dtype"]) if "dtype" in keywords else bound.dtype
        var = Var(name.id, dtype)
        self.names[name.id] = var
        return Let(var, bound, self.expr(body), span=self.span(node))

    def _read_call(self, node: ast.Call) -> Expr:
        return self.intrinsic(node, self.string(node.args[0]), node.args[1:])

    def _read_load(self, node: ast.Call) -> Expr:
        (place,) = node.args
        (predicate,) = node.keywords
        load = self.place(place)
        return load.with_(predicate=self.expr(predicate.value), span=self.span(node))

    def _read_ramp(self, node: ast.Call) -> Expr:
        base, stride, lanes = node.args
        first = self.expr(base)
        return Ramp(first, self._after(first, stride), self.integer(lanes), span=self.span(node))

    def _read_broadcast(self, node: ast.Call) -> Expr:
        value, lanes = node.args
        return Broadcast(self.expr(value), self.integer(lanes), span=self.span(node))

    def _read_shuffle(self, node: ast.Call) -> Expr:
        vectors, indices = node.args
        return Shuffle(self.exprs(vectors), self.value(indices), span=self.span(node))

    def _read_access_ptr(self, node: ast.Call) -> Expr:
        place, mode, extent = node.args
        load = self.place(place)
        more = {str(k.arg): self.dtype(k.value) for k in node.keywords}
        count = self.expr(extent)
        return AccessPtr(load.buffer, load.indices, count, self.string(mode), **more, span=self.span(node))

    def _read_string(self, node: ast.Call) -> Expr:
        value, dtype = node.args
        return StringImm(self.string(value), self.dtype(dtype), span=self.span(node))

    def _read_opaque(self, node: ast.Call) -> Expr:
        self.fail(node, "this value was printed without a text form and cannot be read back")

    def place(self, node: ast.AST) -> BufferLoad:
        """An element ``A[i, j]``."""
        found = self.expr(node)
        if not isinstance(found, BufferLoad):
            self.fail(node, "an element such as A[i, j] is needed here")
        return found

    def exprs(self, node: ast.AST) -> tuple[Expr, ...]:
        """A tuple of expressions."""
        if not isinstance(node, (ast.Tuple, ast.List)):
            self.fail(node, "a tuple is needed here")
        return tuple(self.expr(item) for item in node.elts)

    def string(self, node: ast.AST) -> str:
        """A string literal."""
        if not isinstance(node, ast.Constant) or not isinstance(node.value, str):
            self.fail(node, "a string is needed here")
        return node.value

    def integer(self, node: ast.AST) -> int:
        """An integer literal."""
        value = bare_number(node)
        if type(value) is not int:
            self.fail(node, "an integer is needed here")
        return value

    # -- regions and other values --------------------------------------------------------------------------------------

    def operand(self, node: ast.AST) -> BufferRegion | Expr:
        """An operand of a tile op: a region ``A[0:4, k]``, a whole buffer, or a value."""
        if isinstance(node, ast.Subscript) or (isinstance(node, ast.Name) and isinstance(self.lookup(node), Buffer)):
            return self.region(node)
        if isinstance(node, ast.Call) and t_name(node.func) == "value":
            return self.expr(node.args[0])
        return self.expr(node)

    def region(self, node: ast.AST) -> BufferRegion:
        """A region; an axis with a plain index is squeezed."""
        if not isinstance(node, ast.Subscript):
            return full_region(self.buffer(node), self.span(node))
        buffer = self.buffer(node.value)
        axes = [self._axis(buffer, i, axis) for i, axis in enumerate(index_nodes(node))]
        if len(axes) != buffer.ndim:
            self.fail(
                node,
                f"{buffer.name} has {buffer.ndim} dimensions and is indexed with {len(axes)}",
                facts=[f"found {ast.unparse(node)}", f"buffer {buffer!r}"],
            )
        mins, extents, squeezed = zip(*axes) if axes else ((), (), ())
        return BufferRegion(buffer, tuple(mins), tuple(extents), tuple(squeezed), span=self.span(node))

    def _axis(self, buffer: Buffer, position: int, node: ast.AST) -> tuple[Expr, Expr, bool]:
        if isinstance(node, ast.Call) and t_name(node.func) == "box":
            low, extent = node.args
            return self.expr(low), self.expr(extent), True
        if not isinstance(node, ast.Slice):
            return self.expr(node), const(1, "int32"), True
        if node.step is not None:
            self.fail(node.step, "a region has no step")
        low = const(0, "int32") if node.lower is None else self.expr(node.lower)
        if node.upper is None:
            if position >= buffer.ndim:
                self.fail(node, f"{buffer.name} has {buffer.ndim} dimensions")
            return low, _minus(buffer.shape[position], low), False
        upper = node.upper
        if (
            node.lower is not None
            and isinstance(upper, ast.BinOp)
            and isinstance(upper.op, ast.Add)
            and ast.dump(upper.left) == ast.dump(node.lower)
        ):
            return low, self.expr(upper.right), False
        return low, _minus(self.expr(upper), low), False

    def value(self, node: ast.AST) -> Any:
        """A value of an attribute field: plain Python, a type, a name, a region, a registered value, an expression."""
        number = bare_number(node)
        if number is not None:
            return number
        if isinstance(node, ast.Constant):
            return node.value
        if isinstance(node, ast.Tuple):
            return tuple(self.value(item) for item in node.elts)
        if isinstance(node, ast.List):
            return [self.value(item) for item in node.elts]
        if isinstance(node, ast.Dict):
            keys = [self.value(k) if k is not None else self.fail(node, "** is not read here") for k in node.keys]
            return {k: self.value(v) for k, v in zip(keys, node.values)}
        if isinstance(node, ast.Name):
            return self.lookup(node)
        if isinstance(node, ast.Attribute):
            return self.dtype(node)
        if isinstance(node, ast.Lambda):
            return self._lambda(node)
        if isinstance(node, ast.Call):
            if isinstance(node.func, ast.Name) and node.func.id == "float" and len(node.args) == 1:
                return float(self.string(node.args[0]))
            name = t_name(node.func)
            if name == "region":
                return self.region(node.args[0])
            form = find_value_name(name) if name is not None else None
            if form is not None:
                keywords = {str(k.arg): self.value(k.value) for k in node.keywords}
                return self.checked(node, lambda: form.build(*map(self.value, node.args), **keywords))
        return self.expr(node)

    def _lambda(self, node: ast.Lambda) -> IndexMap:
        saved = dict(self.names)
        variables = tuple(Var(a.arg) for a in node.args.args)
        self.names.update(zip([a.arg for a in node.args.args], variables))
        results = self.exprs(node.body) if isinstance(node.body, ast.Tuple) else (self.expr(node.body),)
        self.names = saved
        return IndexMap(variables, results, span=self.span(node))


_READERS: dict[str, Callable[[ExprParser, ast.Call], Expr]] = {
    **dict.fromkeys(["min", "max", "truncdiv", "truncmod"], ExprParser._read_min),
    **dict.fromkeys(["Select", "if_then_else"], ExprParser._read_select),
    **{
        name.removeprefix("_read_"): function
        for name, function in vars(ExprParser).items()
        if name.startswith("_read_") and name not in ("_read_min", "_read_select")
    },
}


def t_name(node: ast.AST) -> str | None:
    """``a.b`` for ``T.a.b``, or None."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return ".".join(reversed(parts)) if parts and isinstance(node, ast.Name) and node.id == "T" else None


def bare_number(node: ast.AST) -> bool | int | float | None:
    """The value of a number literal with its sign, or None."""
    if isinstance(node, ast.Constant) and isinstance(node.value, (bool, int, float)):
        return node.value
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) and isinstance(node.operand, ast.Constant):
        value = node.operand.value
        return -value if type(value) in (int, float) else None  # type: ignore[operator]
    return None


def index_nodes(node: ast.Subscript) -> list[ast.expr]:
    """The indices of ``A[i, j]``."""
    return list(node.slice.elts) if isinstance(node.slice, ast.Tuple) else [node.slice]


def _minus(a: Expr, b: Expr) -> Expr:
    if isinstance(b, IntImm) and b.value == 0:
        return a
    if isinstance(a, IntImm) and isinstance(b, IntImm) and a.dtype is b.dtype:
        return IntImm(a.value - b.value, a.dtype)
    return Binary("sub", a, b)
