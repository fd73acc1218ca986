"""Text of the IR: deterministic, readable as Python, and parsed back by `parser` to an equal tree.

Names come from the order of traversal, made unique within a function (``A``, ``A_1``); nothing iterates over a set.
What a function uses without declaring it (shape variables, views, stray variables) is declared by a line before the
statement that first mentions it.

A bare number takes the type of the other operand, of the buffer stored to or of the variable bound, when that one is
not a number itself; else ``1`` is int32 and ``1.0`` float32. Where this rule would not give the constant's type, the
type is written: ``T.int64(1)``.
"""

from __future__ import annotations

import enum
import keyword
import math
from collections.abc import Callable
from typing import Any

from ..dtypes import DType
from ..source import source_name
from . import expr as e
from . import stmt as s
from .buffer import Buffer, BufferRegion
from .expr import BINARY_OPERATORS, Expr, FloatImm, IntImm, SizeVar, StringImm, Var
from .function import IRModule, PrimFunc
from .node import Node
from .stmt import Stmt
from .text import LOOP_NAMES, call_dtype, flatten, is_number, literal_dtype, op_class, pair_types, plain_call, quote
from .values import IndexMap, find_value_form
from .visit import walk

__all__ = ["Printer", "expr_text", "region_text", "script", "stmt_text"]


def script(node: IRModule | PrimFunc, spans: bool = False) -> str:
    """A module or function as text that `tile_core.ir.parse` reads back to an equal one.

    Args:
        node: what is printed.
        spans: adds a comment with file and line to each statement that knows its place.
    """
    lines: list[str] = []
    if isinstance(node, PrimFunc):
        lines = Printer(spans=spans).function(node)
    else:
        lines = ["@T.module", "class Module:"]
        for i, function in enumerate(node.functions):
            lines += [""] if i else []
            lines += ["    " + line if line else "" for line in Printer(spans=spans).function(function)]
        if not node.functions:
            lines.append("    pass")
    return "\n".join(lines) + "\n"


def expr_text(expr: Expr) -> str:
    """An expression as text; free names are not declared."""
    return Printer(declare=False).expr(expr)


def stmt_text(stmt: Stmt, spans: bool = False) -> str:
    """A statement as text; free names are not declared."""
    printer = Printer(spans=spans, declare=False)
    printer.suite(stmt)
    return "\n".join(printer.lines)


def region_text(region: BufferRegion) -> str:
    """A region as text, such as ``A[0:128, k]``."""
    return Printer(declare=False).region(region, whole=False)


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
_LOOP_KEYWORDS = ("min", "step", "dtype", "annotations")
_KERNEL_KEYWORDS = ("threads", "cluster", "dtypes", "annotations")


class Printer:
    """Prints one function, statement or expression.

    Args:
        spans: whether statements get a comment with their place.
        declare: whether names that nothing binds get a declaring line.
    """

    def __init__(self, spans: bool = False, declare: bool = True) -> None:
        self.lines: list[str] = []
        self._spans = spans
        self._declare = declare
        self._indent = 0
        self._names: dict[Node, str] = {}
        self._counts: dict[str, int] = {"T": 1}
        self._pending: list[str] = []

    # -- names ---------------------------------------------------------------------------------------------------------

    def bind(self, item: Node) -> str:
        """The name of a Var or Buffer that is introduced here."""
        known = self._names.get(item)
        if known is not None:
            return known
        base = _identifier(item.name)  # type: ignore[attr-defined]
        name, count = base, self._counts.get(base, 0)
        while name in self._counts:
            name = f"{base}_{count or 1}"
            count = (count or 1) + 1
        self._counts[base] = max(count, 1)
        self._counts.setdefault(name, 1)
        self._names[item] = name
        return name

    def _use(self, item: Node) -> str:
        known = self._names.get(item)
        if known is not None:
            return known
        if not self._declare:
            return self.bind(item)
        if isinstance(item, Buffer):
            text = f"T.buffer({self._buffer_arguments(item)})"
        elif isinstance(item, SizeVar):
            text = _size_var(item)
        else:
            text = f"T.var({_dtype(item.dtype)})"  # type: ignore[attr-defined]
        name = self.bind(item)
        self._pending.append(f"{name} = {text}")
        return name

    def _buffer_arguments(self, buffer: Buffer) -> str:
        words = [self._tuple([self.expr(x) for x in buffer.shape]), _dtype(buffer.dtype)]
        if buffer.scope != "global":
            words.append(f"scope={quote(buffer.scope)}")
        if buffer.strides:
            words.append(f"strides={self._tuple([self.expr(x) for x in buffer.strides])}")
        if buffer.data is not None:
            words.append(f"data={self._use(buffer.data)}")
        if buffer.offset is not None:
            words.append(f"offset={self.expr(buffer.offset)}")
        if buffer.align:
            words.append(f"align={buffer.align}")
        return ", ".join(words)

    # -- functions and statements --------------------------------------------------------------------------------------

    def function(self, node: PrimFunc) -> list[str]:
        """The lines of a function."""
        for param in node.params:
            self.bind(param)
        params = []
        for param in node.params:
            if isinstance(param, Buffer):
                text = f"T.Buffer({self._buffer_arguments(param)})"
            else:
                text = _size_var(param) if isinstance(param, SizeVar) else _dtype(param.dtype)
            params.append(f"{self._names[param]}: {text}")
        self._indent = 1
        self._flush()
        for key, value in node.attrs:
            text = f"T.func_attr({quote(key)}, {self.value(value)})"
            self._line(text)
        self._suite_body(node.body)
        name = _identifier(node.name)
        head = ["@T.prim_func" if name == node.name else f"@T.prim_func(name={quote(node.name)})"]
        signature = f"def {name}({', '.join(params)}):"
        if len(signature) > 110:
            head += [f"def {name}(", *(f"    {p}," for p in params), "):"]
        else:
            head.append(signature)
        return head + self.lines

    def suite(self, stmt: Stmt) -> None:
        """Appends the lines of a statement; an empty sequence is `pass`."""
        stmts = list(flatten(stmt))
        if not stmts:
            self._line("pass")
        while stmts:
            for item in stmts[:-1]:
                self._statement(item)
            last = stmts[-1]
            stmts = []
            # A block or an assumption at the end of a suite needs no indentation: it holds for the rest of it.
            if type(last) is s.Block and (last.allocations or last.annotations):
                self._block_head(last)
                stmts = list(flatten(last.body))
                if stmts and type(stmts[0]) is s.Block:
                    # Its allocations would join those above, so it gets a suite of its own.
                    self._write_Block(stmts[0])
                    stmts = stmts[1:]
            elif type(last) is s.Attr and last.key == "assume" and last.subject is None and last.value is not None:
                self._line(f"T.assume({self.expr(last.value)})", last)
                stmts = list(flatten(last.body))
            else:
                self._statement(last)

    def _suite_body(self, stmt: Stmt) -> None:
        before = len(self.lines)
        self.suite(stmt)
        if len(self.lines) == before:
            self._line("pass")

    def _indented(self, head: str, body: Stmt, at: Stmt | None = None) -> None:
        self._line(head, at)
        self._indent += 1
        self._suite_body(body)
        self._indent -= 1

    def _flush(self) -> None:
        pending, self._pending = self._pending, []
        self.lines += ["    " * self._indent + line for line in pending]

    def _line(self, text: str, at: Stmt | None = None) -> None:
        self._flush()
        if self._spans and at is not None and at.span is not None:
            text += f"  # {source_name(at.span.source)}:{at.span.line}"
        self.lines.append("    " * self._indent + text)

    def _block_head(self, node: s.Block) -> None:
        for buffer in node.allocations:
            arguments = self._buffer_arguments(buffer)
            self._line(f"{self.bind(buffer)} = T.alloc_buffer({arguments})", node)
        for key, value in node.annotations:
            self._line(f"T.annotate({quote(key)}, {self.value(value)})")

    def _statement(self, node: Stmt) -> None:
        writer = _STATEMENTS.get(type(node))
        if writer is None:
            self._line(self._node(node), node)
        else:
            writer(self, node)

    def _write_BufferStore(self, node: s.BufferStore) -> None:
        target = self._indexed(node.buffer, node.indices)
        value = self.expr(node.value, expected=node.buffer.dtype)
        if node.predicate is None:
            self._line(f"{target} = {value}", node)
        else:
            self._line(f"T.store({target}, {value}, predicate={self.expr(node.predicate)})", node)

    def _write_For(self, node: s.For) -> None:
        loops = _parallel_nest(node)
        words = [self.expr(loop.extent) for loop in loops]
        if not (_is_zero(node.min) and node.min.dtype is node.extent.dtype):
            words.append(f"min={self.expr(node.min)}")
        if node.step is not None:
            words.append(f"step={self.expr(node.step)}")
        if node.var.dtype is not node.extent.dtype:
            words.append(f"dtype={_dtype(node.var.dtype)}")
        words += self._annotations(node.annotations, _LOOP_KEYWORDS)
        names = ", ".join(self.bind(loop.var) for loop in loops)
        self._indented(f"for {names} in T.{LOOP_NAMES[node.kind]}({', '.join(words)}):", loops[-1].body, node)

    def _write_While(self, node: s.While) -> None:
        self._indented(f"while {self.expr(node.condition)}:", node.body, node)

    def _write_Break(self, node: s.Break) -> None:
        self._line("break", node)

    def _write_Continue(self, node: s.Continue) -> None:
        self._line("continue", node)

    def _write_If(self, node: s.If) -> None:
        word = "if"
        current = node
        while True:
            self._indented(f"{word} {self.expr(current.condition)}:", current.then_body, current)
            following = current.else_body
            if following is None:
                return
            if type(following) is not s.If or self._needs_declaration(following.condition):
                self._indented("else:", following)
                return
            word, current = "elif", following

    def _needs_declaration(self, expr: Expr) -> bool:
        if not self._declare:
            return False
        for item in walk(expr):
            name = item if isinstance(item, Var) else getattr(item, "buffer", None)
            if name is not None and name not in self._names:
                return True
        return False

    def _write_Bind(self, node: s.Bind) -> None:
        value = self.expr(node.value, expected=node.var.dtype)
        kind = _size_var(node.var) if isinstance(node.var, SizeVar) else _dtype(node.var.dtype)
        self._line(f"{self.bind(node.var)}: {kind} = {value}", node)

    def _write_Evaluate(self, node: s.Evaluate) -> None:
        text = self.expr(node.value)
        plain = type(node.value) is e.Call and plain_call(node.value.op) and op_class(node.value.op) is None
        self._line(text if plain else f"T.evaluate({text})", node)

    def _write_Block(self, node: s.Block) -> None:
        self._line("with T.block():", node)
        self._indent += 1
        before = len(self.lines)
        self._block_head(node)
        stmts = list(flatten(node.body))
        if stmts and type(stmts[0]) is s.Block:
            self._write_Block(stmts[0])
            stmts = stmts[1:]
        if stmts:
            self.suite(s.Seq(tuple(stmts)))
        if len(self.lines) == before:
            self._line("pass")
        self._indent -= 1

    def _write_Assert(self, node: s.Assert) -> None:
        self._line(f"assert {self.expr(node.condition)}, {quote(node.message)}", node)

    def _write_Attr(self, node: s.Attr) -> None:
        value = "None" if node.value is None else self.expr(node.value)
        self._indented(f"with T.attr({quote(node.key)}, {self.value(node.subject)}, {value}):", node.body, node)

    def _write_KernelLaunch(self, node: s.KernelLaunch) -> None:
        words = [self.expr(x) for x in node.grid]
        if node.threads:
            words.append(f"threads={self._tuple([self.expr(x) for x in node.threads])}")
        if node.cluster:
            words.append(f"cluster={self.value(node.cluster)}")
        variables = (*node.grid_vars, *node.thread_vars)
        if any(v.dtype is not e.INT32 for v in variables):
            words.append(f"dtypes={self._tuple([_dtype(v.dtype) for v in variables])}")
        words += self._annotations(node.annotations, _KERNEL_KEYWORDS)
        names = [self.bind(v) for v in variables]
        grid, threads = names[: len(node.grid_vars)], names[len(node.grid_vars) :]
        if len(grid) != len(node.grid) or len(threads) != len(node.threads):
            bound = f" as ({self._tuple(grid)}, {self._tuple(threads)})"
        else:
            bound = f" as {names[0] if len(names) == 1 else self._tuple(names)}" if names else ""
        self._indented(f"with T.Kernel({', '.join(words)}){bound}:", node.body, node)

    def _write_Return(self, node: s.Return) -> None:
        self._line("return" if node.value is None else f"return {self.expr(node.value)}", node)

    def _write_TileOpStmt(self, node: s.TileOpStmt) -> None:
        op = node.op
        words: list[str] = []
        positional = True
        for field in op.FIELDS:
            if field.role is None:
                continue
            region = getattr(op, field.name)
            positional = positional and region is not None
            if region is not None:
                words.append(("" if positional else f"{field.name}=") + self._operand(region))
        for field in op.FIELDS:
            if field.role is not None or field.kind in ("span", "derived"):
                continue
            value = getattr(op, field.name)
            if field.has_default and _same_plain(value, field.default):
                continue
            text = self.expr(value) if field.kind == "child" and isinstance(value, Expr) else self.value(value)
            words.append(f"{field.name}={text}")
        if node.candidate is not None:
            words.append(f"candidate={quote(node.candidate)}")
        self._line(f"T.{op.name}({', '.join(words)})", node)

    def _operand(self, value: BufferRegion | Expr) -> str:
        if isinstance(value, BufferRegion):
            return self.region(value)
        text = self.expr(value)
        return f"T.value({text})" if isinstance(value, e.BufferLoad) else text

    def _annotations(self, pairs: tuple[tuple[str, Any], ...], taken: tuple[str, ...]) -> list[str]:
        keys = [key for key, _ in pairs]
        plain = len(set(keys)) == len(keys) and all(
            key.isidentifier() and not keyword.iskeyword(key) and key not in taken for key in keys
        )
        if plain:
            return [f"{key}={self.value(value)}" for key, value in pairs]
        return [f"annotations={self.value(pairs)}"]

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
            return self._use(node), _ATOM
        return self._node(node), _ATOM

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
        return quote(node.value) if node.dtype is e.HANDLE else f"T.string({quote(node.value)}, {_dtype(node.dtype)})"

    def _write_Cast(self, node: e.Cast) -> str:
        return f"T.cast({self.expr(node.value)}, {_dtype(node.dtype)})"

    def _write_Select(self, node: e.Select) -> str:
        first, second = pair_types(node.true_value, node.false_value)
        name = "if_then_else" if node.lazy else "Select"
        values = f"{self.expr(node.true_value, expected=first)}, {self.expr(node.false_value, expected=second)}"
        return f"T.{name}({self.expr(node.condition)}, {values})"

    def _write_Let(self, node: e.Let) -> str:
        value = self.expr(node.value)
        name = self.bind(node.var)
        more = "" if node.var.dtype is node.value.dtype else f", dtype={_dtype(node.var.dtype)}"
        return f"T.let({name}, {value}, {self.expr(node.body)}{more})"

    def _write_Call(self, node: e.Call) -> str:
        words = [self.expr(x) for x in node.args]
        plain = plain_call(node.op)
        if not plain:
            words.insert(0, quote(node.op))
        if call_dtype(node.op, node.args) is not node.dtype:
            words.append(f"dtype={_dtype(node.dtype)}")
        if node.annotations:
            words.append(f"annotations={self.value(node.annotations)}")
        return f"T.{node.op if plain else 'call'}({', '.join(words)})"

    def _write_BufferLoad(self, node: e.BufferLoad) -> str:
        text = self._indexed(node.buffer, node.indices)
        return text if node.predicate is None else f"T.load({text}, predicate={self.expr(node.predicate)})"

    def _write_Ramp(self, node: e.Ramp) -> str:
        stride = self.expr(node.stride, expected=pair_types(node.base, node.stride)[1])
        return f"T.ramp({self.expr(node.base)}, {stride}, {node.lanes})"

    def _write_Broadcast(self, node: e.Broadcast) -> str:
        return f"T.broadcast({self.expr(node.value)}, {node.lanes})"

    def _write_Shuffle(self, node: e.Shuffle) -> str:
        return f"T.shuffle({self._tuple([self.expr(v) for v in node.vectors])}, {self.value(tuple(node.indices))})"

    def _write_AccessPtr(self, node: e.AccessPtr) -> str:
        place = self._indexed(node.buffer, node.indices)
        more = "" if node.dtype is e.HANDLE else f", dtype={_dtype(node.dtype)}"
        return f"T.access_ptr({place}, {quote(node.mode)}, {self.expr(node.extent)}{more})"

    def _indexed(self, buffer: Buffer, indices: tuple[Expr, ...]) -> str:
        inside = ", ".join([self.expr(i) for i in indices]) or "()"
        return f"{self._use(buffer)}[{inside}]"

    # -- regions and other values --------------------------------------------------------------------------------------

    def region(self, node: BufferRegion, whole: bool = True) -> str:
        """The text of a region; with `whole`, a region that is all of its buffer is printed as the buffer."""
        squeezed = node.squeezed or (False,) * len(node.mins)
        if whole and node.mins and not any(squeezed) and _is_whole(node):
            return self._use(node.buffer)
        axes = [self._axis(low, n, s) for low, n, s in zip(node.mins, node.extents, squeezed)]
        return f"{self._use(node.buffer)}[{', '.join(axes) or '()'}]"

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
            return self._tuple([self.value(v) for v in value])
        if isinstance(value, list):
            return f"[{', '.join([self.value(v) for v in value])}]"
        if isinstance(value, dict):
            return "{" + ", ".join([f"{self.value(k)}: {self.value(v)}" for k, v in value.items()]) + "}"
        if isinstance(value, DType):
            return _dtype(value)
        if is_number(value):
            return self._number(value, None, typed=True)
        if isinstance(value, StringImm):
            return f"T.string({quote(value.value)}, {_dtype(value.dtype)})"
        if isinstance(value, Expr):
            return self.expr(value)
        if isinstance(value, Buffer):
            return self._use(value)
        if isinstance(value, BufferRegion):
            return f"T.region({self.region(value)})"
        if isinstance(value, IndexMap):
            names = [self.bind(v) for v in value.vars]
            return f"lambda {', '.join(names)}: {self._tuple([self.expr(x) for x in value.results])}"
        return self._registered(value)

    def _registered(self, value: Any) -> str:
        form = find_value_form(value)
        if form is not None:
            return f"T.{form.name}({', '.join([f'{k}={self.value(v)}' for k, v in form.fields(value)])})"
        if isinstance(value, Node):
            return self._node(value)
        return f"T.opaque({repr(value)!r})"

    def _node(self, node: Node) -> str:
        words = [
            f"{f.name}={self.value(getattr(node, f.name))}" for f in node.FIELDS if f.kind not in ("span", "derived")
        ]
        return f"T.{type(node).__name__}({', '.join(words)})"

    @staticmethod
    def _tuple(items: list[str]) -> str:
        return f"({items[0]},)" if len(items) == 1 else f"({', '.join(items)})"


def _identifier(name: str) -> str:
    clean = "".join(c if c.isalnum() or c == "_" else "_" for c in name) or "_"
    if not clean.isidentifier():
        clean = f"_{clean}"
    return f"{clean}_" if keyword.iskeyword(clean) or clean == "T" else clean


def _dtype(dtype: DType) -> str:
    return f"T.{dtype}"


def _size_var(var: Var) -> str:
    return f"T.size_var({_dtype(var.dtype)})"


def _is_zero(node: Expr) -> bool:
    return type(node) is IntImm and node.value == 0


def _is_whole(region: BufferRegion) -> bool:
    if len(region.mins) != region.buffer.ndim:
        return False
    for low, extent, size in zip(region.mins, region.extents, region.buffer.shape):
        if not _is_zero(low) or low.dtype is not e.INT32:
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


def _parallel_nest(node: s.For) -> list[s.For]:
    """The loops that ``for i, j in T.Parallel(n, m)`` covers: nested parallel ones whose extents are constants."""
    loops = [node]
    if node.kind != "parallel" or node.step is not None or not _is_zero(node.min) or node.var.dtype is not e.INT32:
        return loops
    while True:
        last = loops[-1]
        inner = last.body
        if (
            type(inner) is not s.For
            or inner.kind != "parallel"
            or inner.annotations
            or inner.step is not None
            or not _is_zero(inner.min)
            or not all(
                type(loop.extent) is IntImm and loop.extent.dtype is e.INT32 and loop.min.dtype is e.INT32
                for loop in (*loops, inner)
            )
            or inner.var.dtype is not e.INT32
            or any(inner.var is loop.var for loop in loops)
        ):
            return loops
        loops.append(inner)


def _same_plain(value: Any, default: Any) -> bool:
    if isinstance(value, Node) or isinstance(default, Node):
        return value is default
    return type(value) is type(default) and value == default


def _writers(names: list[str], module: Any) -> dict[type, Callable[..., Any]]:
    written = vars(Printer)
    return {getattr(module, name): written[f"_write_{name}"] for name in names if f"_write_{name}" in written}


_STATEMENTS: dict[type, Callable[[Printer, Any], None]] = _writers(s.__all__, s)
_EXPRESSIONS: dict[type, Callable[[Printer, Any], str | tuple[str, int]]] = _writers(e.__all__, e)
