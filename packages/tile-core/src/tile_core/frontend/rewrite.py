"""The rewrite of a kernel function: Python statements become calls of the tracer, line numbers and columns stay.

`rewrite_function` takes the syntax tree of one function and returns the tree of another with the same signature, plus
the table of spans that the calls refer to. The new function uses three names of its own: ``__tile__`` (the tracer),
``__spans__`` (the table) and ``__scope__`` (made at each call). What runs under a Python condition or over a Python
iterable runs as Python did; `trace` decides when the function is called.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import Any

from ..errors import CompileError, declare_codes
from ..source import Span
from . import syntax as make
from .names import assigned, binding_sites, exposed, untracked
from .operators import BUILTIN_NAMES

__all__ = ["rewrite_function"]

declare_codes({"E-SYNTAX": "Python syntax that has no meaning in a kernel"})

_BINARY: dict[type, str] = {
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
    ast.Pow: "pow",
    ast.MatMult: "matmul",
}
_COMPARE: dict[type, str] = {ast.Lt: "lt", ast.LtE: "le", ast.Gt: "gt", ast.GtE: "ge", ast.Eq: "eq", ast.NotEq: "ne"}
_LONG_CHAIN = 50
_UNARY: dict[type, str] = {ast.USub: "neg", ast.Invert: "bitnot", ast.UAdd: "pos"}


def rewrite_function(node: ast.FunctionDef, source: str) -> tuple[ast.FunctionDef, list[Span]]:
    """The rewritten function and its spans.

    Args:
        node: the function, with line numbers of the file.
        source: source id of the spans.

    Raises:
        CompileError: syntax without meaning in a kernel (E-SYNTAX).
    """
    spans: list[Span] = []
    new = _Function(source, spans, None).function(node, outermost=True)
    return new, spans


class _Function(ast.NodeTransformer):
    """Rewrites one function; nested ones get an instance each."""

    def __init__(self, source: str, spans: list[Span], parent: _Function | None) -> None:
        self.source = source
        self.spans = spans
        self.counter = parent.counter if parent is not None else [0]
        self.loops: list[str | None] = []
        self.deferred = 0
        self.sites: dict[str, list[ast.AST]] = {}
        self.parameters: set[str] = set()
        self.foreign: set[str] = set()
        self.tracked: dict[str, None] = {}

    # -- functions -----------------------------------------------------------------------------------------------------

    def function(self, node: ast.FunctionDef, outermost: bool = False) -> ast.FunctionDef:
        """The rewritten function; the outermost one loses its decorators, defaults and annotations (the caller has
        them)."""
        arguments = node.args
        every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
        every += [a for a in (arguments.vararg, arguments.kwarg) if a is not None]
        self.parameters = {a.arg for a in every}
        self.sites = binding_sites(node.body)
        self.foreign = untracked(node.body)
        body = self.block(node.body)
        start = [make.assign("__scope__", self.tile("enter"))]
        if not outermost:
            start += [make.assign(a.arg, self.tile("kept", make.name(a.arg), make.constant(a.arg))) for a in every]
        for name in self.tracked:
            if name not in self.parameters:
                start.append(make.assign(name, make.call("__scope__", "unset", make.constant(name))))
        docstring = [node.body[0]] if ast.get_docstring(node, clean=False) is not None else []
        if outermost:
            for argument in every:
                argument.annotation = None
            arguments.defaults = [make.constant(None)] * len(arguments.defaults)
            arguments.kw_defaults = [None if d is None else make.constant(None) for d in arguments.kw_defaults]
        new = ast.FunctionDef(
            name=node.name,
            args=arguments,
            body=[*docstring, *start, *body],
            decorator_list=[] if outermost else node.decorator_list,
            returns=None if outermost else node.returns,
            type_comment=None,
        )
        new.type_params = []  # type: ignore[attr-defined]
        return ast.copy_location(new, node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> list[ast.stmt]:
        node.decorator_list = [self.visit(d) for d in node.decorator_list]
        node.args.defaults = [self.visit(d) for d in node.args.defaults]
        node.args.kw_defaults = [None if d is None else self.visit(d) for d in node.args.kw_defaults]
        return [_Function(self.source, self.spans, self).function(node)]

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> Any:
        raise self.refuse(node, "an async function", "define it with `def`")

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        return node

    def visit_Lambda(self, node: ast.Lambda) -> ast.AST:
        self.deferred += 1
        node.body = self.visit(node.body)
        self.deferred -= 1
        return node

    # -- statements ----------------------------------------------------------------------------------------------------

    def block(self, stmts: Sequence[ast.stmt]) -> list[ast.stmt]:
        """Rewritten statements."""
        new: list[ast.stmt] = []
        for stmt in stmts:
            result = self.visit(stmt)
            for item in result if isinstance(result, list) else [result]:
                ast.copy_location(item, stmt)
                new.append(item)
        return new

    def visit_Expr(self, node: ast.Expr) -> list[ast.stmt]:
        if isinstance(node.value, ast.Constant):
            return []
        place = node.value.func if isinstance(node.value, ast.Call) else node.value
        return [self.at(place), make.statement(self.tile("evaluate", self.visit(node.value)))]

    def visit_Assign(self, node: ast.Assign) -> list[ast.stmt]:
        begin = self.at(node, self.hints(node.targets[0], node.value))
        value = self.visit(node.value)
        if len(node.targets) == 1:
            return [begin, *self.bind(node.targets[0], value, node)]
        temporary = self.fresh("value")
        name = next((t.id for t in node.targets if isinstance(t, ast.Name)), "value")
        once = make.call("__scope__", "assign", make.constant(name), value, make.constant(None), self.span(node))
        new = [begin, make.assign(temporary, once)]
        for target in node.targets:
            new += self.bind(target, make.name(temporary), node)
        return new

    def bind(self, target: ast.expr, value: ast.expr, node: ast.AST) -> list[ast.stmt]:
        """Statements for ``target = value``."""
        if isinstance(target, ast.Name):
            return [make.assign(target.id, self.assignment(target.id, value, node))]
        if isinstance(target, ast.Subscript):
            index = self.index(target.slice)
            return [make.statement(self.tile("store", self.visit(target.value), index, value, self.span(target)))]
        if isinstance(target, ast.Attribute):
            owner, name = self.visit(target.value), make.constant(target.attr)
            return [make.statement(self.tile("set_attribute", owner, name, value, self.span(target)))]
        if isinstance(target, (ast.Tuple, ast.List)):
            if any(isinstance(element, ast.Starred) for element in target.elts):
                return [ast.Assign([target], value)]
            temporary = self.fresh("values")
            names = [e.id if isinstance(e, ast.Name) else None for e in target.elts]
            olds = [make.constant(None) if name is None else self.old(name) for name in names]
            unpacked = make.call(
                "__scope__", "unpack", value, make.constants(names), make.tuple_of(olds), self.span(node)
            )
            new: list[ast.stmt] = [make.assign(temporary, unpacked)]
            for i, element in enumerate(target.elts):
                item = ast.Subscript(make.name(temporary), make.constant(i), ast.Load())
                new += self.bind(element, item, element)
            return new
        raise self.refuse(node, "this assignment", "assign to a name, an element or an attribute")

    def assignment(self, name: str, value: ast.expr, node: ast.AST) -> ast.expr:
        """The expression for what `name` holds after it is assigned `value`."""
        return make.call("__scope__", "assign", make.constant(name), value, self.old(name), self.span(node))

    def old(self, name: str) -> ast.expr:
        """What a name holds before it is assigned, where that may matter."""
        count = len(self.sites.get(name, ())) + (name in self.parameters)
        if name in self.foreign:
            return make.name(name) if name not in self.parameters else make.constant(None)
        if count < 2:
            return make.constant(None)
        self.tracked.setdefault(name)
        return make.name(name)

    def visit_AugAssign(self, node: ast.AugAssign) -> list[ast.stmt]:
        op = make.constant(_BINARY[type(node.op)])
        value = self.visit(node.value)
        target, begin, span = node.target, self.at(node), self.span(node)
        if isinstance(target, ast.Name):
            if target.id not in self.foreign and target.id not in self.parameters and len(self.sites[target.id]) > 1:
                self.tracked.setdefault(target.id)
            new = self.tile("augment", op, make.name(target.id), value, span)
            assignment = make.call("__scope__", "assign", make.constant(target.id), new, make.name(target.id), span)
            return [begin, make.assign(target.id, assignment)]
        if isinstance(target, ast.Subscript):
            index = self.index(target.slice)
            return [begin, make.statement(self.tile("augment_item", self.visit(target.value), index, op, value, span))]
        if isinstance(target, ast.Attribute):
            temporary = self.fresh("object")
            old = ast.Attribute(make.name(temporary), target.attr, ast.Load())
            new = self.tile("augment", op, old, value, span)
            store = self.tile("set_attribute", make.name(temporary), make.constant(target.attr), new, span)
            return [begin, make.assign(temporary, self.visit(target.value)), make.statement(store)]
        raise self.refuse(node, "this assignment", "assign to a name, an element or an attribute")

    def visit_AnnAssign(self, node: ast.AnnAssign) -> list[ast.stmt]:
        if not isinstance(node.target, ast.Name):
            if node.value is None:
                return []
            return [self.at(node), *self.bind(node.target, self.visit(node.value), node)]
        name = node.target.id
        annotation = make.function(self.deferring(node.annotation))
        if node.value is None:
            if name not in self.parameters:
                return []
            declared = make.call(
                "__scope__", "declare", make.constant(name), annotation, make.name(name), self.span(node)
            )
            return [self.at(node), make.assign(name, declared)]
        begin = self.at(node, self.hints(node.target, node.value))
        value = self.visit(node.value)
        new = make.call(
            "__scope__", "annotated", make.constant(name), value, annotation, self.old(name), self.span(node)
        )
        return [begin, make.assign(name, new)]

    def visit_If(self, node: ast.If) -> list[ast.stmt]:
        branch = self.fresh("if")
        new = [self.at(node.test), make.assign(branch, self.tile("if_", self.visit(node.test), self.span(node.test)))]
        names = self.track(assigned([*node.body, *node.orelse]))
        saved, between = self.fresh("saved"), self.fresh("then")
        if names:
            new.append(make.assign(saved, make.tuple_of([make.name(n) for n in names])))
        new.append(ast.If(make.call(branch, "then"), self.block(node.body) or [ast.Pass()], []))
        if node.orelse:
            start: list[ast.stmt] = []
            if names:
                restore = ast.Tuple([ast.Name(n, ast.Store()) for n in names], ast.Store())
                start = [
                    make.assign(between, make.tuple_of([make.name(n) for n in names])),
                    ast.Assign([restore], make.name(saved)),
                ]
            new.append(ast.If(make.call(branch, "otherwise"), [*start, *self.block(node.orelse)] or [ast.Pass()], []))
        after = self.ended(names, saved, between if node.orelse else saved, "the `if`", node.test)
        return [*new, self.finish(branch, after)]

    def visit_For(self, node: ast.For) -> list[ast.stmt]:
        if node.orelse:
            raise self.refuse(
                node.orelse[0], "`else` after a for loop", "put the statements after the loop, guarded by a flag"
            )
        loop = self.fresh("loop")
        names = make.target_names(node.target)
        header = self.header(node, node.iter)
        iterable = self.iterable(node.iter, header)
        new = [self.at_span(header), make.assign(loop, self.tile("loop", iterable, make.constants(names), header))]
        return [
            *new,
            *self.repeat(loop, node, node.body, lambda body: ast.For(node.target, make.name(loop), body, []), header),
        ]

    def visit_While(self, node: ast.While) -> list[ast.stmt]:
        if node.orelse:
            raise self.refuse(
                node.orelse[0], "`else` after a while loop", "put the statements after the loop, guarded by a flag"
            )
        loop = self.fresh("loop")
        header = self.header(node, node.test)
        always = isinstance(node.test, ast.Constant) and node.test.value is True
        test = make.function(self.deferring(node.test))
        new = [self.at_span(header), make.assign(loop, self.tile("while_", make.constant(always), header))]
        return [
            *new,
            *self.repeat(
                loop, node, node.body, lambda body: ast.While(make.call(loop, "next", test), body, []), header
            ),
        ]

    def repeat(
        self,
        loop: str,
        node: ast.For | ast.While,
        stmts: list[ast.stmt],
        build: Callable[[list[ast.stmt]], ast.stmt],
        header: ast.expr,
    ) -> list[ast.stmt]:
        """The loop statement itself, with what its names are after it."""
        own = set(assigned([ast.Expr(node.target)])) if isinstance(node, ast.For) else set()
        names = self.track([*own, *(n for n in assigned(stmts) if n not in own)])
        saved = self.fresh("saved")
        # Looked at before the statements are rewritten, some of them in place.
        reads = exposed(stmts, own) | (exposed([ast.Expr(node.test)]) if isinstance(node, ast.While) else set())
        sites = binding_sites(stmts)
        new: list[ast.stmt] = []
        if names:
            new.append(make.assign(saved, make.tuple_of([make.name(n) for n in names])))
        self.loops.append(loop)
        new.append(build(self.block(stmts) or [ast.Pass()]))
        self.loops.pop()
        carried = [n for n in names if n in reads and n not in own]
        after: list[ast.stmt] = []
        if carried:
            after.append(
                make.statement(
                    make.call(
                        "__scope__",
                        "carried",
                        make.constants(carried),
                        make.tuple_of(
                            [
                                ast.Subscript(make.name(saved), make.constant(names.index(n)), ast.Load())
                                for n in carried
                            ]
                        ),
                        make.tuple_of([make.name(n) for n in carried]),
                        make.tuple_of([self.span(sites[n][-1]) for n in carried]),
                    )
                )
            )
        what = "the loop" if isinstance(node, ast.For) else "the `while` loop"
        after += self.ended(names, saved, saved, what, node.iter if isinstance(node, ast.For) else node.test)
        return [*new, self.finish(loop, after)]

    def ended(self, names: list[str], saved: str, between: str, what: str, place: ast.AST) -> list[ast.stmt]:
        """Statements that take the values away from names which a staged construct assigned."""
        new: list[ast.stmt] = []
        for i, name in enumerate(names):
            before, other = (ast.Subscript(make.name(t), make.constant(i), ast.Load()) for t in (saved, between))
            value = make.call(
                "__scope__",
                "ended",
                make.constant(name),
                make.name(name),
                before,
                other,
                self.span(place),
                make.constant(what),
            )
            new.append(make.assign(name, value))
        return new

    def finish(self, construct: str, after: list[ast.stmt]) -> ast.stmt:
        """``if construct.done(): after``."""
        done = make.call(construct, "done")
        return ast.If(done, after, []) if after else make.statement(done)

    def track(self, names: list[str]) -> list[str]:
        """Those of the names whose values may be looked at; they get a value at the start of the function."""
        kept = [n for n in names if n not in self.foreign]
        for name in kept:
            self.tracked.setdefault(name)
        return kept

    def visit_Break(self, node: ast.Break) -> ast.stmt:
        return self.jump(node, "leave", ast.Break())

    def visit_Continue(self, node: ast.Continue) -> ast.stmt:
        return self.jump(node, "skip", ast.Continue())

    def jump(self, node: ast.stmt, method: str, python: ast.stmt) -> ast.stmt:
        """``if loop.method(): python``."""
        return ast.If(make.call(str(self.loops[-1]), method, self.span(node)), [python], [])

    def visit_Return(self, node: ast.Return) -> list[ast.stmt]:
        value = make.constant(None) if node.value is None else self.visit(node.value)
        return [self.at(node), ast.Return(make.call("__scope__", "returned", value, self.span(node)))]

    def visit_With(self, node: ast.With) -> list[ast.stmt]:
        begin = self.at(node.items[0].context_expr)
        for item in node.items:
            names = None if item.optional_vars is None else make.target_names(item.optional_vars)
            span = self.span(item.context_expr)
            item.context_expr = self.tile("entering", self.visit(item.context_expr), make.constants(names), span)
        node.body = self.block(node.body) or [ast.Pass()]
        return [begin, node]

    def visit_Try(self, node: ast.Try) -> list[ast.stmt]:
        depth = self.fresh("depth")
        node.body = self.block(node.body) or [ast.Pass()]
        for handler in node.handlers:
            unwind = make.statement(self.tile("unwind", make.name(depth)))
            handler.body = [ast.copy_location(unwind, handler), *self.block(handler.body)]
        node.orelse = self.block(node.orelse)
        node.finalbody = self.block(node.finalbody)
        return [make.assign(depth, self.tile("depth")), node]

    def visit_Match(self, node: Any) -> ast.AST:
        node.subject = self.visit(node.subject)
        for case in node.cases:
            if case.guard is not None:
                case.guard = self.visit(case.guard)
            case.body = self.block(case.body) or [ast.Pass()]
        return node

    def visit_Assert(self, node: ast.Assert) -> list[ast.stmt]:
        node.test = self.tile("asserted", self.visit(node.test), self.span(node.test))
        if node.msg is not None:
            node.msg = self.visit(node.msg)
        return [self.at(node), node]

    # -- expressions ---------------------------------------------------------------------------------------------------

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        spine = [node]
        while isinstance(spine[-1].left, ast.BinOp):
            spine.append(spine[-1].left)
        if len(spine) > _LONG_CHAIN:
            # One flat call: nested ones would exhaust the recursion of Python's compiler.
            spine.reverse()
            ops = make.constants([_BINARY[type(item.op)] for item in spine])
            values = [self.visit(spine[0].left), *(self.visit(item.right) for item in spine)]
            return self.tile("chain", ops, make.tuple_of(values), self.span(node))
        left: ast.expr = self.visit(spine[-1].left)
        for item in reversed(spine):
            op = make.constant(_BINARY[type(item.op)])
            left = self.tile("binary", op, left, self.visit(item.right), self.span(item))
        return left

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.expr:
        if isinstance(node.operand, ast.Constant):
            return node
        if isinstance(node.op, ast.Not):
            return self.tile("not_", self.visit(node.operand), self.span(node))
        return self.tile("unary", make.constant(_UNARY[type(node.op)]), self.visit(node.operand), self.span(node))

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.expr:
        operands = [make.function(self.deferring(value)) for value in node.values]
        return self.tile("all_" if isinstance(node.op, ast.And) else "any_", make.tuple_of(operands), self.span(node))

    def visit_Compare(self, node: ast.Compare) -> ast.expr:
        if not all(type(op) in _COMPARE for op in node.ops):
            return self.generic_visit(node)  # type: ignore[return-value]
        ops = make.constants([_COMPARE[type(op)] for op in node.ops])
        values = make.tuple_of([self.visit(node.left), *(self.visit(c) for c in node.comparators)])
        return self.tile("compare", ops, values, self.span(node))

    def visit_IfExp(self, node: ast.IfExp) -> ast.expr:
        then, otherwise = (make.function(self.deferring(branch)) for branch in (node.body, node.orelse))
        return self.tile("ternary", self.visit(node.test), then, otherwise, self.span(node))

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        if not isinstance(node.ctx, ast.Load):
            return self.generic_visit(node)  # type: ignore[return-value]
        return self.tile("item", self.visit(node.value), self.index(node.slice), self.span(node))

    def visit_Call(self, node: ast.Call) -> ast.expr:
        builtin = isinstance(node.func, ast.Name) and node.func.id in BUILTIN_NAMES
        self.generic_visit(node)
        if isinstance(node.func, ast.Attribute) and node.func.attr in ("append", "insert", "add"):
            node.args = [self.keep(a) for a in node.args]
        if builtin:
            node.func = self.tile("builtin", node.func, self.span(node))
        return node

    def visit_NamedExpr(self, node: ast.NamedExpr) -> ast.expr:
        if self.deferred:
            raise self.refuse(
                node, "`:=` inside a condition, a branch of a ternary or a lambda", "assign in a statement before"
            )
        node.value = self.assignment(node.target.id, self.visit(node.value), node)
        return node

    def visit_Yield(self, node: ast.Yield) -> Any:
        raise self.refuse(node, "yield", "return a value, or append to a list")

    def visit_YieldFrom(self, node: ast.YieldFrom) -> Any:
        raise self.refuse(node, "yield", "return a value, or append to a list")

    def visit_Await(self, node: ast.Await) -> Any:
        raise self.refuse(node, "await", "kernels have no coroutines")

    def visit_List(self, node: ast.List) -> ast.expr:
        self.generic_visit(node)
        if isinstance(node.ctx, ast.Load):
            node.elts = [self.keep(e) for e in node.elts]
        return node

    def visit_ListComp(self, node: ast.ListComp) -> ast.expr:
        self.generic_visit(node)
        node.elt = self.keep(node.elt)
        return node

    def visit_Dict(self, node: ast.Dict) -> ast.expr:
        self.generic_visit(node)
        node.values = [value if key is None else self.keep(value) for key, value in zip(node.keys, node.values)]
        return node

    def keep(self, node: ast.expr) -> ast.expr:
        """What a Python container is given: the value at that time, not an expression that a later store changes."""
        if isinstance(node, (ast.Constant, ast.Name, ast.Starred)):
            return node
        return self.tile("kept", node)

    def iterable(self, node: ast.expr, span: ast.expr) -> ast.expr:
        """What a `for` statement iterates over; ``range`` is the language's serial loop there."""
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "range":
            if not node.keywords and not any(isinstance(a, ast.Starred) for a in node.args):
                return self.tile("range", node.func, make.tuple_of([self.visit(a) for a in node.args]), span)
        return self.visit(node)

    def index(self, node: ast.expr) -> ast.expr:
        """What stands in brackets, slices as objects."""
        if isinstance(node, ast.Tuple):
            return ast.Tuple([self.index(e) for e in node.elts], ast.Load())
        if isinstance(node, ast.Slice):
            parts = [make.constant(None) if p is None else self.visit(p) for p in (node.lower, node.upper, node.step)]
            return self.tile("slice", *parts)
        return self.visit(node)

    def deferring(self, node: ast.expr) -> ast.expr:
        """An expression that goes into a lambda."""
        self.deferred += 1
        new = self.visit(node)
        self.deferred -= 1
        return new

    # -- places and small things ---------------------------------------------------------------------------------------

    def tile(self, method: str, *args: ast.expr) -> ast.expr:
        """``__tile__.method(args)``."""
        return make.call("__tile__", method, *args)

    def at(self, node: ast.AST, hints: tuple[str, ...] = ()) -> ast.stmt:
        """The statement that says where the trace is."""
        return self.at_span(self.span(node), hints)

    def at_span(self, span: ast.expr, hints: tuple[str, ...] = ()) -> ast.stmt:
        """The same for a span that is there already."""
        return make.statement(self.tile("at", span, *([make.constants(hints)] if hints else [])))

    def span(self, node: ast.AST) -> ast.expr:
        """``__spans__[k]`` for the place of a node."""
        return self._new_span(node, getattr(node, "end_lineno", None), getattr(node, "end_col_offset", None))

    def header(self, node: ast.stmt, last: ast.expr) -> ast.expr:
        """The span of a compound statement's first line, up to and with `last`."""
        return self._new_span(node, last.end_lineno, last.end_col_offset)

    def _new_span(self, node: Any, end_line: int | None, end_column: int | None) -> ast.expr:
        line, column = node.lineno, make.characters(self.source, node.lineno, node.col_offset)
        end = make.characters(self.source, line, end_column) if end_line == line and end_column is not None else 0
        self.spans.append(Span(self.source, line, column, end))
        return ast.Subscript(make.name("__spans__"), make.constant(len(self.spans) - 1), ast.Load())

    def fresh(self, what: str) -> str:
        """A local name of the rewrite's own."""
        self.counter[0] += 1
        return f"__{what}{self.counter[0]}"

    def hints(self, target: ast.expr, value: ast.expr) -> tuple[str, ...]:
        """Names for what the right-hand side allocates."""
        if isinstance(target, ast.Name) and isinstance(value, ast.Call):
            return (target.id,)
        if isinstance(target, ast.Tuple) and all(isinstance(e, ast.Name) for e in target.elts):
            if isinstance(value, (ast.Tuple, ast.Call)):
                return tuple(e.id for e in target.elts)  # type: ignore[attr-defined]
        return ()

    def refuse(self, node: ast.AST, what: str, help: str) -> CompileError:
        """The error for syntax without meaning in a kernel."""
        span = self.spans[self.span(node).slice.value]  # type: ignore[attr-defined]
        return CompileError("E-SYNTAX", f"{what} has no meaning in a kernel", span=span, help=help)
