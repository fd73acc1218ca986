"""Walking and rewriting trees.

`Visitor` and `Rewriter` dispatch on `type(node)` through a table made when the subclass is defined; a method whose
name fits no node class is a
TypeError there. Sequences and left-deep chains of operators are walked without recursion, so ten thousand statements
or a sum of five thousand
terms are fine. Shared nodes are rewritten once; a node made without a span takes the span of the one it replaces.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, ClassVar

from .buffer import Buffer
from .expr import Binary, Expr, Var
from .function import PrimFunc
from .node import Node
from .stmt import Seq, Stmt

__all__ = ["Rewriter", "Visitor", "substitute", "walk"]


def _node_classes() -> dict[str, type[Node]]:
    found: dict[str, type[Node]] = {"Node": Node}
    stack: list[type[Node]] = [Node]
    while stack:
        for sub in stack.pop().__subclasses__():
            stack.append(sub)
            known = found.setdefault(sub.__name__, sub)
            # `node` makes a new class; the one it was given lives on, without FIELDS of its own, until it is collected.
            if "FIELDS" in sub.__dict__ and "FIELDS" not in known.__dict__:
                found[sub.__name__] = sub
    return found


def _method_table(cls: type, prefix: str, base: type) -> dict[type, str]:
    known = _node_classes()
    table: dict[type, str] = {}
    for name in dir(cls):
        if not name.startswith(prefix) or name in base.__dict__:
            continue
        class_name = name[len(prefix) :]
        if class_name not in known:
            raise TypeError(f"{cls.__qualname__}.{name}: there is no node class {class_name}")
        table[known[class_name]] = name
    return table


def _lookup(table: dict[type, str], kind: type) -> str | None:
    for base in kind.__mro__:
        if base in table:
            return table[base]
    return None


class Visitor:
    """Calls `visit_<Class>(node)` where defined (subclasses of a node class fall to their base's method), else visits
    the children.

    A method that wants the children visited calls `self.visit_children(node)`.
    """

    _table: ClassVar[dict[type, str]] = {}

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls._table = _method_table(cls, "visit_", Visitor)

    def __init__(self) -> None:
        self._methods: dict[type, Callable[[Any], Any] | None] = {}

    def visit(self, node: Any) -> Any:
        """Visits a node."""
        kind = type(node)
        try:
            method = self._methods[kind]
        except KeyError:
            name = _lookup(self._table, kind)
            method = self._methods[kind] = getattr(self, name) if name else None
        if method is not None:
            return method(node)
        return self.visit_children(node)

    __call__ = visit

    def visit_children(self, node: Any) -> None:
        """Visits the children in order; left-deep chains of one operator class are walked without recursion."""
        if type(node) is Binary and Binary not in self._table and Expr not in self._table:
            pending = [node.b]
            left = node.a
            while type(left) is Binary:
                pending.append(left.b)
                left = left.a
            self.visit(left)
            for item in reversed(pending):
                self.visit(item)
            return
        for item in node.child_nodes():
            self.visit(item)


class Rewriter:
    """Builds a changed tree: `rewrite_<Class>(node)` returns the replacement; without a method the children are
    rewritten.

    `buffers` and `vars` map declarations to their replacements; loads, stores, regions and pointers follow. Statement
    methods may return None to
    drop a statement inside a sequence, or a Seq that is spliced in. A `Rewriter` instance is for one tree.
    """

    _table: ClassVar[dict[type, str]] = {}

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls._table = _method_table(cls, "rewrite_", Rewriter)

    def __init__(self) -> None:
        self._methods: dict[type, Callable[[Any], Any] | None] = {}
        self._memo: dict[int, tuple[Any, Any]] = {}
        self.vars: dict[Var, Any] = {}
        self.buffers: dict[Buffer, Buffer] = {}

    def rewrite(self, node: Any) -> Any:
        """The rewritten node."""
        known = self._memo.get(id(node))
        if known is not None:
            return known[1]
        kind = type(node)
        try:
            method = self._methods[kind]
        except KeyError:
            name = _lookup(self._table, kind)
            method = self._methods[kind] = getattr(self, name) if name else None
        new = method(node) if method is not None else self.rewrite_children(node)
        if (
            new is not node
            and isinstance(new, Node)
            and new.span is None
            and node.span is not None
            and not isinstance(new, (Var, Buffer))
        ):
            new = new.with_(span=node.span)
        if isinstance(node, Expr):
            # Only expressions are shared in practice; the node is kept alive with its result so that
            # its id stays its own.
            self._memo[id(node)] = (node, new)
        return new

    __call__ = rewrite

    def rewrite_children(self, node: Any) -> Any:
        """The node with its children rewritten and its buffers and variables replaced."""
        kind = type(node)
        if isinstance(node, Var):
            return self.vars.get(node, node)
        if kind is Seq:
            return self._sequence(node)
        if kind is Binary and Binary not in self._table and Expr not in self._table:
            return self._chain(node)
        if isinstance(node, Buffer):
            return self.buffer(node)
        if isinstance(node, PrimFunc):
            return self._function(node)
        new = node.map_children(self._rewrite_child)
        return self._replace_references(new)

    def _rewrite_child(self, node: Any) -> Any:
        new = self.rewrite(node)
        return Seq((), span=node.span) if new is None else new

    def buffer(self, buffer: Buffer) -> Buffer:
        """The buffer that stands for `buffer` now: its replacement, or a copy when its shape mentions replaced
        variables."""
        found = self.buffers.get(buffer)
        if found is not None:
            return found
        new = buffer.map_children(self.rewrite)
        if buffer.data is not None:
            data = self.buffer(buffer.data)
            if data is not buffer.data:
                new = new.with_(data=data)
        self.buffers[buffer] = new
        return new

    def _replace_references(self, node: Any) -> Any:
        changes = {}
        for field in node.FIELDS:
            if field.kind in ("attr", "binder"):
                old = getattr(node, field.name)
                new = self.reference(old)
                if new is not old:
                    changes[field.name] = new
        return node.with_(**changes) if changes else node

    def reference(self, value: Any) -> Any:
        """A field value with the Vars and Buffers inside it replaced."""
        if isinstance(value, Buffer):
            return self.buffer(value)
        if isinstance(value, Var):
            new = self.vars.get(value, value)
            return new if isinstance(new, Var) else value
        if isinstance(value, tuple) and value:
            new = tuple([self.reference(v) for v in value])
            return new if any(a is not b for a, b in zip(new, value)) else value
        if isinstance(value, Node) and not isinstance(value, (PrimFunc,)):
            return self.rewrite(value)
        return value

    def _sequence(self, node: Seq) -> Stmt | None:
        new: list[Stmt] = []
        changed = False
        for stmt in node.stmts:
            result = self.rewrite(stmt)
            changed |= result is not stmt
            if result is None:
                continue
            if type(result) is Seq:
                new.extend(result.stmts)
            else:
                new.append(result)
        if not changed:
            return node
        return new[0] if len(new) == 1 else Seq(tuple(new), span=node.span)

    def _chain(self, node: Binary) -> Expr:
        spine = [node]
        while type(spine[-1].a) is Binary and id(spine[-1].a) not in self._memo:
            spine.append(spine[-1].a)  # type: ignore[arg-type]
        left = self.rewrite(spine[-1].a)
        for item in reversed(spine):
            right = self.rewrite(item.b)
            new = item if left is item.a and right is item.b else Binary(item.op, left, right, span=item.span)
            self._memo[id(item)] = (item, new)
            left = new
        return left

    def _function(self, node: PrimFunc) -> PrimFunc:
        body = self.rewrite(node.body)
        params = tuple(self.reference(p) for p in node.params)
        if body is node.body and all(a is b for a, b in zip(params, node.params)):
            return node
        return node.with_(params=params, body=Seq(()) if body is None else body)


def walk(node: Any) -> Iterator[Any]:
    """The node and everything below it, parents first, in order; without recursion. Buffers' shapes are not entered."""
    stack = [node]
    while stack:
        item = stack.pop()
        yield item
        stack.extend(reversed(item.child_nodes()))


class _Substitute(Rewriter):
    def __init__(self, vars: dict[Var, Expr], buffers: dict[Buffer, Buffer]) -> None:
        super().__init__()
        self.vars = dict(vars)
        self.buffers = dict(buffers)


def substitute(node: Any, vars: dict[Var, Any] | None = None, buffers: dict[Buffer, Buffer] | None = None) -> Any:
    """The tree with variables replaced by expressions and buffers by buffers."""
    return _Substitute(vars or {}, buffers or {}).rewrite(node)
