"""Reads the text that `printer` writes (and a person may write) into nodes.

The text is Python's syntax, read with `ast` and never executed. Nodes are built as written: no folding, no conversion,
so that ``parse(script(f))`` equals `f`.
"""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Callable, Mapping
from typing import Any

from ..errors import CompileError
from ..source import Span, add_source
from .buffer import Buffer
from .expr import INT32, Expr, SizeVar, Var, const
from .function import IRModule, PrimFunc
from .node import Node
from .parse_expr import ExprParser, bare_number, t_name
from .stmt import (
    Assert,
    Attr,
    Bind,
    Block,
    Break,
    BufferStore,
    Continue,
    Evaluate,
    For,
    If,
    KernelLaunch,
    Return,
    Seq,
    Stmt,
    TileOpStmt,
    While,
)
from .text import LOOP_NAMES, load_vocabulary, op_class

__all__ = ["parse", "parse_expr", "parse_stmt"]


def parse(text: str, source: str = "<text>") -> IRModule | PrimFunc:
    """The function in `text`, or the module if there is a module or more than one function.

    Raises:
        CompileError: the text cannot be read; with line and column in `source`.
    """
    body = [node for node in _syntax(text, source).body if not isinstance(node, (ast.Import, ast.ImportFrom))]
    if len(body) == 1 and isinstance(body[0], ast.ClassDef):
        module = body[0]
        functions = [node for node in module.body if not isinstance(node, ast.Pass)]
        return IRModule(tuple(_Parser(source).function(node) for node in functions))
    functions = [_Parser(source).function(node) for node in body]
    if not functions:
        raise CompileError("E-PARSE-SYNTAX", "the text holds no function", span=Span(source, 1))
    return functions[0] if len(functions) == 1 else IRModule(tuple(functions))


def parse_stmt(
    text: str,
    names: Mapping[str, Node] | None = None,
    source: str = "<text>",
    unknown: Callable[[str], Node | None] | None = None,
) -> Stmt:
    """The statements in `text` as one statement.

    Args:
        text: statements, indented as a whole or not.
        names: variables and buffers that the text may mention without declaring them.
        source: id of the text in spans.
        unknown: makes a variable or buffer for any other name, or returns None to refuse it.
    """
    return _Parser(source, names, unknown).suite(_syntax(text, source).body)


def parse_expr(
    text: str,
    names: Mapping[str, Node] | None = None,
    source: str = "<text>",
    unknown: Callable[[str], Node | None] | None = None,
) -> Expr:
    """The expression in `text`; see `parse_stmt` for the arguments."""
    body = _syntax(text.strip(), source).body
    if len(body) != 1 or not isinstance(body[0], ast.Expr):
        raise CompileError("E-PARSE-SYNTAX", "the text is not one expression", span=Span(source, 1))
    return ExprParser(source, names, unknown).expr(body[0].value)


_LOOP_KINDS = {name: kind for kind, name in LOOP_NAMES.items()}
_DECLARATIONS = ("size_var", "var", "buffer")


class _Parser(ExprParser):
    """Reads one function or one suite of statements; names are flat, as the printer makes them unique."""

    def function(self, node: ast.stmt) -> PrimFunc:
        """A function definition."""
        if not isinstance(node, ast.FunctionDef):
            self.fail(node, "a function decorated with T.prim_func is needed here")
        name = node.name
        for decorator in node.decorator_list:
            if isinstance(decorator, ast.Call):
                name = next((self.string(k.value) for k in decorator.keywords if k.arg == "name"), name)
        head: list[ast.stmt] = []
        for item in node.body:
            if not _is_declaration(item) and self._statement_call(item) != "func_attr":
                break
            head.append(item)
            # Parameters' shapes mention what these lines declare, and these lines may mention parameters.
            if _is_declaration(item):
                self._postpone(item)
        for argument in node.args.args:
            self._pending[argument.arg] = lambda argument=argument: self._parameter(argument)
        params = tuple(self.lookup(ast.copy_location(ast.Name(a.arg), a)) for a in node.args.args)
        while self._pending:
            self._pending.pop(next(iter(self._pending)))()
        attrs = tuple(self._pair(item) for item in head if not _is_declaration(item))
        body = self.suite(node.body[len(head) :])
        return PrimFunc(name, params, body, attrs, span=self.span(node))  # type: ignore[arg-type]

    def _pair(self, node: ast.stmt) -> tuple[str, Any]:
        call = node.value  # type: ignore[attr-defined]
        if len(call.args) != 2 or call.keywords:
            self.fail(call, f"{ast.unparse(call)}: a key and a value are needed", "E-PARSE-CALL")
        return self.string(call.args[0]), self.value(call.args[1])

    def _parameter(self, node: ast.arg) -> Node:
        kind = node.annotation
        if kind is None:
            self.fail(node, f"parameter {node.arg} needs a type", help="T.Buffer((…), T.float32) or T.int32")
        found = self._declared(node.arg, kind)
        if found is None:
            found = Var(node.arg, self.dtype(kind), span=self.span(node))
        self.names[node.arg] = found
        return found

    def _declared(self, name: str, node: ast.AST) -> Var | Buffer | None:
        """What ``T.Buffer(…)``, ``T.size_var(…)`` and their like declare; None for anything else."""
        if not isinstance(node, ast.Call):
            return None
        kind = t_name(node.func)
        if kind in ("Buffer", "buffer", "alloc_buffer"):
            return self.checked(node, lambda: self._buffer(name, node))
        if kind in ("size_var", "var"):
            dtype = self.dtype(node.args[0]) if node.args else INT32
            return (SizeVar if kind == "size_var" else Var)(name, dtype, span=self.span(node))
        return None

    def _buffer(self, name: str, node: ast.Call) -> Buffer:
        shape, dtype = node.args
        values: dict[str, Any] = {}
        for keyword in node.keywords:
            key = str(keyword.arg)
            if key == "strides":
                values[key] = self.exprs(keyword.value)
            elif key == "data":
                values[key] = self.buffer(keyword.value)
            elif key == "offset":
                values[key] = self.expr(keyword.value)
            elif key == "align":
                values[key] = self.integer(keyword.value)
            else:
                values[key] = self.string(keyword.value)
        return Buffer(name, self.exprs(shape), self.dtype(dtype), **values, span=self.span(node))

    def _postpone(self, node: ast.stmt) -> None:
        name = node.targets[0].id  # type: ignore[attr-defined]

        def make() -> Node:
            self.names[name] = found = self._declared(name, node.value)  # type: ignore[attr-defined, assignment]
            return found  # type: ignore[return-value]

        self._pending[name] = make

    def _declare(self, node: ast.stmt) -> None:
        name = node.targets[0].id  # type: ignore[attr-defined]
        self.names[name] = self._declared(name, node.value)  # type: ignore[attr-defined, assignment]

    # -- statements --------------------------------------------------------------------------------------------------

    def suite(self, body: list[ast.stmt]) -> Stmt:
        """The statements of a suite; allocations and assumptions hold for what follows them."""
        stmts: list[Stmt] = []
        for position, node in enumerate(body):
            if isinstance(node, ast.Pass):
                continue
            if _is_declaration(node):
                self._declare(node)
            elif self._opens_block(node):
                stmts.append(self._block(body[position:], body[position]))
                break
            elif self._statement_call(node) == "assume":
                (fact,) = node.value.args  # type: ignore[attr-defined]
                value = self.expr(fact)
                stmts.append(Attr("assume", None, value, self.suite(body[position + 1 :]), span=self.span(node)))
                break
            else:
                stmts.append(self.statement(node))
        return stmts[0] if len(stmts) == 1 else Seq(tuple(stmts))

    def _opens_block(self, node: ast.stmt) -> bool:
        return self._statement_call(node) == "annotate" or _assigned_call(node) == "alloc_buffer"

    def _block(self, body: list[ast.stmt], at: ast.stmt) -> Block:
        allocations: list[Buffer] = []
        annotations: list[tuple[str, Any]] = []
        taken = 0
        for node in body:
            if _assigned_call(node) == "alloc_buffer":
                name = node.targets[0].id  # type: ignore[attr-defined]
                buffer = self._declared(name, node.value)  # type: ignore[attr-defined]
                assert isinstance(buffer, Buffer)
                self.names[name] = buffer
                allocations.append(buffer)
            elif self._statement_call(node) == "annotate":
                annotations.append(self._pair(node))
            elif _is_declaration(node):
                self._declare(node)
            else:
                break
            taken += 1
        rest = self.suite(body[taken:])
        return Block(tuple(allocations), rest, tuple(annotations), span=self.span(at))

    def statement(self, node: ast.stmt) -> Stmt:
        """One statement."""
        reader = _STATEMENTS.get(type(node))
        if reader is None:
            self.fail(node, f"{type(node).__name__} is not a statement of the IR")
        return reader(self, node)

    def _read_Assign(self, node: ast.Assign) -> Stmt:
        target = node.targets[0]
        if len(node.targets) != 1 or not isinstance(target, ast.Subscript):
            self.fail(
                node,
                f"{ast.unparse(target)} = … is not a statement of the IR",
                help="name a value with x: T.float32 = …, store with A[i] = …",
            )
        place = self.place(target)
        value = self.expr(node.value, place.buffer.dtype)
        return BufferStore(place.buffer, value, place.indices, span=self.span(node))

    def _read_AnnAssign(self, node: ast.AnnAssign) -> Stmt:
        if not isinstance(node.target, ast.Name) or node.value is None:
            self.fail(node, "a bind is written x: T.float32 = value")
        declared = self._declared(node.target.id, node.annotation)
        var = declared if isinstance(declared, Var) else Var(node.target.id, self.dtype(node.annotation))
        value = self.expr(node.value, var.dtype)
        self.names[node.target.id] = var
        return Bind(var, value, span=self.span(node))

    def _read_For(self, node: ast.For) -> Stmt:
        call = node.iter
        kind = _LOOP_KINDS.get(t_name(call.func) or "") if isinstance(call, ast.Call) else None
        if kind is None or not isinstance(call, ast.Call):
            self.fail(
                node.iter,
                f"{ast.unparse(node.iter)} is not a loop of the IR",
                facts=[f"loops: {', '.join(f'T.{name}' for name in _LOOP_KINDS)}"],
            )
        targets = node.target.elts if isinstance(node.target, ast.Tuple) else [node.target]
        if len(targets) != len(call.args) or not all(isinstance(t, ast.Name) for t in targets):
            self.fail(node.target, f"{len(call.args)} extents need {len(call.args)} loop variables")
        extents = [self.expr(a) for a in call.args]
        keywords = {str(k.arg): k.value for k in call.keywords}
        low = self.expr(keywords.pop("min")) if "min" in keywords else None
        step = self.expr(keywords.pop("step")) if "step" in keywords else None
        dtype = self.dtype(keywords.pop("dtype")) if "dtype" in keywords else None
        if len(extents) > 1 and (low is not None or step is not None or dtype is not None):
            self.fail(call, "min, step and dtype are for loops of one variable")
        annotations = self._annotations(keywords)
        variables = [Var(t.id, dtype or x.dtype) for t, x in zip(targets, extents)]  # type: ignore[attr-defined]
        self.names.update({v.name: v for v in variables})
        body = self.suite(node.body)
        for i in reversed(range(len(variables))):
            extent = extents[i]
            start = low if low is not None else const(0, extent.dtype)
            notes = annotations if i == 0 else ()
            body = For(variables[i], start, extent, kind, body, step, notes, span=self.span(node))
        return body

    def _annotations(self, keywords: dict[str, ast.expr]) -> tuple[tuple[str, Any], ...]:
        if "annotations" in keywords:
            return self.value(keywords["annotations"])
        return tuple((key, self.value(value)) for key, value in keywords.items())

    def _read_While(self, node: ast.While) -> Stmt:
        condition = self.expr(node.test)
        return While(condition, self.suite(node.body), span=self.span(node))

    def _read_Break(self, node: ast.Break) -> Stmt:
        return Break(span=self.span(node))

    def _read_Continue(self, node: ast.Continue) -> Stmt:
        return Continue(span=self.span(node))

    def _read_If(self, node: ast.If) -> Stmt:
        condition = self.expr(node.test)
        then_body = self.suite(node.body)
        else_body = self.suite(node.orelse) if node.orelse else None
        return If(condition, then_body, else_body, span=self.span(node))

    def _read_Assert(self, node: ast.Assert) -> Stmt:
        message = self.string(node.msg) if node.msg is not None else ""
        return Assert(self.expr(node.test), message, span=self.span(node))

    def _read_Return(self, node: ast.Return) -> Stmt:
        return Return(None if node.value is None else self.expr(node.value), span=self.span(node))

    def _read_With(self, node: ast.With) -> Stmt:
        item = node.items[0]
        call = item.context_expr
        name = t_name(call.func) if isinstance(call, ast.Call) else None
        if len(node.items) != 1 or not isinstance(call, ast.Call) or name not in ("block", "attr", "Kernel"):
            self.fail(node, "with is followed by T.Kernel(…), T.block() or T.attr(…)")
        if name == "block":
            return self._block(node.body, node)
        if name == "attr":
            return self.checked(call, lambda: self._attr(node, call))
        return self._kernel(node, call, item.optional_vars)

    def _attr(self, node: ast.With, call: ast.Call) -> Stmt:
        key, subject, fact = call.args
        value = None if isinstance(fact, ast.Constant) and fact.value is None else self.expr(fact)
        about = self.value(subject)
        return Attr(self.string(key), about, value, self.suite(node.body), span=self.span(node))

    def _kernel(self, node: ast.With, call: ast.Call, bound: ast.expr | None) -> Stmt:
        keywords = {str(k.arg): k.value for k in call.keywords}
        grid = tuple(self.expr(a) for a in call.args)
        threads = self.exprs(keywords.pop("threads")) if "threads" in keywords else ()
        cluster = self.value(keywords.pop("cluster")) if "cluster" in keywords else ()
        dtypes = [self.dtype(d) for d in keywords.pop("dtypes").elts] if "dtypes" in keywords else []  # type: ignore[attr-defined]
        annotations = self._annotations(keywords)
        groups = bound.elts if isinstance(bound, ast.Tuple) else [] if bound is None else [bound]
        if groups and all(isinstance(g, ast.Tuple) for g in groups):
            count = len(groups[0].elts)  # type: ignore[attr-defined]
            names = [item for group in groups for item in group.elts]  # type: ignore[attr-defined]
        else:
            names, count = list(groups), len(grid)
            if len(names) != len(grid) + len(threads):
                self.fail(
                    call,
                    f"T.Kernel binds {len(names)} names for {len(grid)} grid and {len(threads)} thread extents",
                    "E-PARSE-CALL",
                    help="give one name for each block index, then one for each thread index",
                )
        if not all(isinstance(n, ast.Name) for n in names):
            self.fail(call, "T.Kernel(…) as needs names")
        types = dtypes or [INT32] * len(names)
        variables = tuple(Var(n.id, t) for n, t in zip(names, types))  # type: ignore[attr-defined]
        self.names.update({v.name: v for v in variables})
        body = self.suite(node.body)
        return KernelLaunch(
            variables[:count], grid, variables[count:], threads, body, cluster, annotations, span=self.span(node)
        )

    def _read_Expr(self, node: ast.Expr) -> Stmt:
        call = node.value
        name = t_name(call.func) if isinstance(call, ast.Call) else None
        if name is None or not isinstance(call, ast.Call):
            self.fail(node, f"{ast.unparse(node)} is not a statement of the IR", help="use T.evaluate(…)")
        if name == "store":
            return self.checked(call, lambda: self._store(node, call))
        if name == "evaluate":
            if len(call.args) != 1 or call.keywords:
                self.fail(call, "T.evaluate takes one value", "E-PARSE-CALL")
            return Evaluate(self.expr(call.args[0]), span=self.span(node))
        kind = op_class(name)
        if kind is not None:
            return self._tile_op(node, call, kind)
        found: Any = self.expr(call)
        return found if isinstance(found, Stmt) else Evaluate(found, span=self.span(node))

    def _store(self, node: ast.Expr, call: ast.Call) -> Stmt:
        place, value = call.args
        (predicate,) = call.keywords
        load = self.place(place)
        stored = self.expr(value, load.buffer.dtype)
        return BufferStore(load.buffer, stored, load.indices, self.expr(predicate.value), span=self.span(node))

    def _tile_op(self, node: ast.Expr, call: ast.Call, kind: type[Node]) -> Stmt:
        fields = [f for f in kind.FIELDS if f.kind not in ("span", "derived")]
        ordered = [f for f in fields if f.role is not None] + [f for f in fields if f.role is None]
        by_name = {f.name: f for f in fields}
        if len(call.args) > len(ordered):
            self.fail(call, f"T.{t_name(call.func)} takes at most {len(ordered)} arguments", "E-PARSE-CALL")
        given = [(f, a) for f, a in zip(ordered, call.args)]
        candidate: str | None = None
        for keyword in call.keywords:
            key = str(keyword.arg)
            if key == "candidate" and key not in by_name:
                candidate = self.string(keyword.value)
            elif key in by_name:
                given.append((by_name[key], keyword.value))
            else:
                self.fail(
                    keyword.value,
                    f"T.{t_name(call.func)} takes no argument {key!r}",
                    "E-PARSE-CALL",
                    [f"arguments: {', '.join(by_name)}"],
                )
        values = {f.name: self._field(f.kind, f.role, argument) for f, argument in given}
        op = self.checked(call, lambda: kind(**values, span=self.span(call)))
        op.check()
        return TileOpStmt(op, candidate, span=self.span(node))

    def _field(self, kind: str, role: str | None, node: ast.expr) -> Any:
        if isinstance(node, ast.Constant) and node.value is None:
            return None
        if role is not None:
            return self.operand(node)
        if kind == "child" and (bare_number(node) is not None or isinstance(node, ast.Constant)):
            return self.expr(node)
        if kind == "children":
            return self.exprs(node)
        return self.value(node)

    @staticmethod
    def _statement_call(node: ast.stmt) -> str | None:
        """The name of the ``T.name(…)`` that a statement is."""
        return t_name(node.value.func) if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) else None


_STATEMENTS: dict[type[ast.stmt], Callable[[_Parser, Any], Stmt]] = {
    getattr(ast, name.removeprefix("_read_")): function
    for name, function in vars(_Parser).items()
    if name.startswith("_read_")
}


def _assigned_call(node: ast.stmt) -> str | None:
    """The name of the ``T.name(…)`` that is assigned to a name."""
    if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
        return t_name(node.value.func) if isinstance(node.value, ast.Call) else None
    return None


def _is_declaration(node: ast.stmt) -> bool:
    return _assigned_call(node) in _DECLARATIONS


def _syntax(text: str, source: str) -> ast.Module:
    load_vocabulary()
    text = textwrap.dedent(text)
    add_source(source, text)
    try:
        return ast.parse(text)
    except SyntaxError as error:
        place = Span(source, error.lineno or 1, max(0, (error.offset or 1) - 1))
        raise CompileError("E-PARSE-SYNTAX", f"not Python's syntax: {error.msg}", span=place) from None
    except (RecursionError, MemoryError):
        raise CompileError(
            "E-PARSE-SYNTAX",
            "the text is nested too deeply for Python's parser",
            span=Span(source, 1),
            help='write long sums as T.chain(a, "+", b, "+", c)',
        ) from None
