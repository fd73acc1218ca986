"""Text of the IR: deterministic, readable as Python, and parsed back by `parser` to an equal tree.

Names come from the order of traversal, made unique within a function (``A``, ``A_1``); nothing iterates over a set.
What a function uses without declaring it (shape variables, views, stray variables) is declared by a line before the
statement that first mentions it.

A bare number takes the type of the other operand, of the buffer stored to or of the variable bound, when that one is
not a number itself; else ``1`` is int32 and ``1.0`` float32. Where this rule would not give the constant's type, the
type is written: ``T.int64(1)``.
"""

from __future__ import annotations

import keyword
from collections.abc import Callable
from typing import Any

from ..source import source_name
from . import expr as e
from . import stmt as s
from .buffer import Buffer, BufferRegion
from .expr import Expr, IntImm, SizeVar, Var
from .function import IRModule, PrimFunc
from .node import Node
from .print_expr import ExprPrinter, dtype_text, identifier, size_var_text
from .stmt import Stmt
from .text import LOOP_NAMES, flatten, only, op_class, plain_call, quote
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
    return _shallow(lambda: ExprPrinter(declare=False).expr(expr))


def stmt_text(stmt: Stmt, spans: bool = False) -> str:
    """A statement as text; free names are not declared."""
    printer = Printer(spans=spans, declare=False)

    def write() -> str:
        printer.suite(stmt)
        return "\n".join(printer.lines)

    return _shallow(write)


def region_text(region: BufferRegion) -> str:
    """A region as text, such as ``A[0:128, k]``."""
    return _shallow(lambda: ExprPrinter(declare=False).region(region, whole=False))


def _shallow(write: Callable[[], str]) -> str:
    # These texts stand in error messages, where an error of their own would hide the one to tell.
    try:
        return write()
    except RecursionError:
        return "<nested too deeply to print>"


_LOOP_KEYWORDS = ("min", "step", "dtype", "annotations")
_KERNEL_KEYWORDS = ("threads", "cluster", "dtypes", "annotations")


class Printer(ExprPrinter):
    """Prints one function or statement.

    Args:
        spans: whether statements get a comment with their place.
        declare: whether names that nothing binds get a declaring line.
    """

    def __init__(self, spans: bool = False, declare: bool = True) -> None:
        super().__init__(declare)
        self.lines: list[str] = []
        self._spans = spans
        self._indent = 0

    # -- functions and statements --------------------------------------------------------------------------------------

    def function(self, node: PrimFunc) -> list[str]:
        """The lines of a function."""
        for param in node.params:
            self.bind(param)
        params = []
        for param in node.params:
            if isinstance(param, Buffer):
                text = f"T.Buffer({self.buffer_arguments(param)})"
            else:
                text = size_var_text(param) if isinstance(param, SizeVar) else dtype_text(param.dtype)
            params.append(f"{self.names[param]}: {text}")
        self._indent = 1
        self._flush()
        for key, value in node.attrs:
            text = f"T.func_attr({quote(key)}, {self.value(value)})"
            self._line(text)
        self._suite_body(node.body)
        name = identifier(node.name)
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
        pending, self.pending = self.pending, []
        self.lines += ["    " * self._indent + line for line in pending]

    def _line(self, text: str, at: Stmt | None = None) -> None:
        self._flush()
        if self._spans and at is not None and at.span is not None:
            text += f"  # {source_name(at.span.source)}:{at.span.line}"
        self.lines.append("    " * self._indent + text)

    def _block_head(self, node: s.Block) -> None:
        for buffer in node.allocations:
            arguments = self.buffer_arguments(buffer)
            self._line(f"{self.bind(buffer)} = T.alloc_buffer({arguments})", node)
        for key, value in node.annotations:
            self._line(f"T.annotate({quote(key)}, {self.value(value)})")

    def _statement(self, node: Stmt) -> None:
        writer = _STATEMENTS.get(type(node))
        if writer is None:
            self._line(self.node(node), node)
        else:
            writer(self, node)

    def _write_BufferStore(self, node: s.BufferStore) -> None:
        target = self.indexed(node.buffer, node.indices)
        value = self.expr(node.value, expected=node.buffer.dtype)
        if node.predicate is None:
            self._line(f"{target} = {value}", node)
        else:
            self._line(f"T.store({target}, {value}, predicate={self.expr(node.predicate)})", node)

    def _write_For(self, node: s.For) -> None:
        loops = _parallel_nest(node)
        words = [self.expr(loop.extent) for loop in loops]
        if not (e.is_zero(node.min) and node.min.dtype is node.extent.dtype):
            words.append(f"min={self.expr(node.min)}")
        if node.step is not None:
            words.append(f"step={self.expr(node.step)}")
        if node.var.dtype is not node.extent.dtype:
            words.append(f"dtype={dtype_text(node.var.dtype)}")
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
            following = None if current.else_body is None else only(current.else_body)
            if following is None:
                return
            if type(following) is not s.If or self._needs_declaration(following.condition):
                self._indented("else:", following)
                return
            word, current = "elif", following

    def _needs_declaration(self, expr: Expr) -> bool:
        if not self.declare:
            return False
        for item in walk(expr):
            name = item if isinstance(item, Var) else getattr(item, "buffer", None)
            if name is not None and name not in self.names:
                return True
        return False

    def _write_Bind(self, node: s.Bind) -> None:
        value = self.expr(node.value, expected=node.var.dtype)
        kind = size_var_text(node.var) if isinstance(node.var, SizeVar) else dtype_text(node.var.dtype)
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
            words.append(f"threads={self.tuple([self.expr(x) for x in node.threads])}")
        if node.cluster:
            words.append(f"cluster={self.value(node.cluster)}")
        variables = (*node.grid_vars, *node.thread_vars)
        if any(v.dtype is not e.INT32 for v in variables):
            words.append(f"dtypes={self.tuple([dtype_text(v.dtype) for v in variables])}")
        words += self._annotations(node.annotations, _KERNEL_KEYWORDS)
        names = [self.bind(v) for v in variables]
        grid, threads = names[: len(node.grid_vars)], names[len(node.grid_vars) :]
        if len(grid) != len(node.grid) or len(threads) != len(node.threads):
            bound = f" as ({self.tuple(grid)}, {self.tuple(threads)})"
        else:
            bound = f" as {names[0] if len(names) == 1 else self.tuple(names)}" if names else ""
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


def _parallel_nest(node: s.For) -> list[s.For]:
    """The loops that ``for i, j in T.Parallel(n, m)`` covers: nested parallel ones whose extents are constants."""
    loops = [node]
    if node.kind != "parallel" or node.step is not None or not e.is_zero(node.min) or node.var.dtype is not e.INT32:
        return loops
    while True:
        last = loops[-1]
        inner = only(last.body)
        if (
            type(inner) is not s.For
            or inner.kind != "parallel"
            or inner.annotations
            or inner.step is not None
            or not e.is_zero(inner.min)
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


_STATEMENTS: dict[type, Callable[[Printer, Any], None]] = {
    getattr(s, name): vars(Printer)[f"_write_{name}"] for name in s.__all__ if f"_write_{name}" in vars(Printer)
}
