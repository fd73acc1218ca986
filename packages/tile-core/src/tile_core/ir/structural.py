"""Structural equality, and keys that are equal exactly where structure is.

Names of variables and buffers, and spans, take no part. A variable or buffer is known by where it is bound; a function
is closed, so what it uses without binding (shape variables, views) counts as bound where it is first met. Sequences of
statements are compared flattened.
"""

from __future__ import annotations

import enum
from typing import Any

from ..dtypes import DType
from .buffer import Buffer, BufferRegion
from .expr import Expr, FloatImm, IntImm, Var
from .function import IRModule, PrimFunc
from .node import Field, Node
from .stmt import Seq, Stmt
from .text import flatten
from .values import find_value_form, refuse_value

__all__ = ["assert_structural_equal", "first_mismatch", "structural_equal", "structural_key"]


def structural_equal(a: Any, b: Any, map_free_vars: bool = False) -> bool:
    """Whether two trees are the same up to names and spans.

    Args:
        a, b: nodes, or values of attribute fields.
        map_free_vars: whether variables and buffers that neither tree binds may differ, one for one; without it they
            must be the same objects.
    """
    return a is b or _Comparison(map_free_vars).run(a, b) is None


def first_mismatch(a: Any, b: Any, map_free_vars: bool = False) -> str | None:
    """Where two trees first differ, such as ``main.body.stmts[2].value.b: 3 is not 4``; None where they are equal."""
    return None if a is b else _Comparison(map_free_vars).run(a, b)


def assert_structural_equal(a: Any, b: Any, map_free_vars: bool = False) -> None:
    """Raises AssertionError with the path of the first difference and both texts unless the trees are equal."""
    mismatch = first_mismatch(a, b, map_free_vars)
    if mismatch is not None:
        raise AssertionError(f"{mismatch}\n--- left\n{_text(a)}\n--- right\n{_text(b)}")


def structural_key(node: Any) -> str:
    """A digest (64 hex digits) that two trees share exactly if ``structural_equal(a, b, map_free_vars=True)``.

    The same in every process and on every machine.

    Raises:
        InternalError: an attribute holds a value that was not registered with `register_value`.
    """
    import hashlib

    return hashlib.sha256("\x1f".join(_tokens(node)).encode()).hexdigest()


_Path = Any  # None, or a pair (parent path, label)


class _Comparison:
    """One comparison: the binders met so far, and an explicit stack in place of recursion."""

    def __init__(self, map_free: bool) -> None:
        self._map_free = map_free
        self._to_right: dict[Node, Node] = {}
        self._to_left: dict[Node, Node] = {}
        self._stack: list[tuple[Any, Any, _Path]] = []

    def run(self, a: Any, b: Any) -> str | None:
        """The first mismatch as text, or None."""
        root = (None, a.name if isinstance(a, PrimFunc) else type(a).__name__)
        self._stack.append((a, b, root))
        while self._stack:
            left, right, path = self._stack.pop()
            reason = self._compare(left, right, path)
            if reason is not None:
                return f"{_render(path)}: {reason}"
        return None

    def _compare(self, a: Any, b: Any, path: _Path) -> str | None:
        if type(a) is _Reason:
            return a.text
        if type(a) is _Binder:
            return self._binders(a.names, b.names, path)
        if type(a) is Seq or type(b) is Seq:
            return self._statements(a, b, path)
        if type(a) is not type(b):
            return _is_not(a, b)
        if isinstance(a, Node):
            return self._nodes(a, b, path)
        if isinstance(a, (tuple, list)):
            return self._sequences(a, b, path)
        if isinstance(a, dict):
            if a.keys() != b.keys():
                return _is_not(a, b)
            self._stack += [(a[key], b[key], (path, f"[{key!r}]")) for key in reversed(list(a))]
            return None
        if isinstance(a, float):
            return None if a.hex() == b.hex() else _is_not(a, b)
        form = None if isinstance(a, _PLAIN) else find_value_form(a)
        if form is not None:
            self._fields(form.fields(a), form.fields(b), path)
            return None
        return None if a == b else _is_not(a, b)

    def _nodes(self, a: Any, b: Any, path: _Path) -> str | None:
        if isinstance(a, (Var, Buffer)):
            return self._name(a, b, path)
        if type(a) is IntImm:
            same = int(a.value) == int(b.value) and a.dtype is b.dtype
            return None if same else _is_not(a, b)
        if type(a) is FloatImm:
            same = float(a.value).hex() == float(b.value).hex() and a.dtype is b.dtype
            return None if same else _is_not(a, b)
        if isinstance(a, BufferRegion):
            if _squeezed(a) != _squeezed(b):
                return f"squeezed axes {_squeezed(a)} are not {_squeezed(b)}"
        elif isinstance(a, IRModule):
            return self._functions(a, b, path)
        elif isinstance(a, PrimFunc):
            # Functions are closed, and share no names with their neighbours in a module.
            self._map_free = True
            self._to_right, self._to_left = {}, {}
        for field in reversed(_compared(a)):
            if field.name == "squeezed" and isinstance(a, BufferRegion):
                continue
            left, right = getattr(a, field.name), getattr(b, field.name)
            if field.kind == "binder":
                left, right = _Binder(left), _Binder(right)
            self._stack.append((left, right, (path, f".{field.name}")))
        return None

    def _binders(self, a: Any, b: Any, path: _Path) -> str | None:
        if not isinstance(a, tuple) or not isinstance(b, tuple):
            return self._bind(a, b, path)
        if len(a) != len(b):
            return f"{len(a)} names are not {len(b)}"
        for i in reversed(range(len(a))):
            self._stack.append((_Binder(a[i]), _Binder(b[i]), (path, f"[{i}]")))
        return None

    def _functions(self, a: IRModule, b: IRModule, path: _Path) -> str | None:
        names = [f.name for f in a.functions], [f.name for f in b.functions]
        if names[0] != names[1]:
            return f"functions {', '.join(names[0])} are not {', '.join(names[1])}"
        for left, right in reversed(list(zip(a.functions, b.functions))):
            self._stack.append((left, right, (None, left.name)))
        return None

    def _statements(self, a: Any, b: Any, path: _Path) -> str | None:
        if not (isinstance(a, Stmt) and isinstance(b, Stmt)):
            return _is_not(a, b)
        left, right = list(flatten(a)), list(flatten(b))
        return self._items(left, right, (path, ".stmts"), "statements")

    def _sequences(self, a: Any, b: Any, path: _Path) -> str | None:
        return self._items(a, b, path, "items")

    def _items(self, a: Any, b: Any, path: _Path, word: str) -> str | None:
        if len(a) != len(b):
            # After the common part: the first item that differs says more than the lengths.
            longer = a if len(a) > len(b) else b
            extra = f"; the first extra one is {_short(longer[min(len(a), len(b))])}"
            self._stack.append((_Reason(f"{len(a)} {word} are not {len(b)}{extra}"), None, path))
        for i in reversed(range(min(len(a), len(b)))):
            self._stack.append((a[i], b[i], (path, f"[{i}]")))
        return None

    def _fields(self, a: tuple[tuple[str, Any], ...], b: tuple[tuple[str, Any], ...], path: _Path) -> None:
        for (name, left), (_, right) in reversed(list(zip(a, b))):
            self._stack.append((left, right, (path, f".{name}")))

    def _name(self, a: Any, b: Any, path: _Path) -> str | None:
        right, left = self._to_right.get(a), self._to_left.get(b)
        if right is None and left is None:
            if self._map_free:
                return self._bind(a, b, path)
            if a is b:
                return None
        elif right is b and left is a:
            return None
        kind = "buffer" if isinstance(a, Buffer) else "variable"
        other = f"another {kind} of that name" if a.name == b.name else f"{kind} {b.name}"
        return f"{kind} {a.name} is not {other}"

    def _bind(self, a: Any, b: Any, path: _Path) -> str | None:
        if a is None or b is None or type(a) is not type(b):
            return None if a is b else _is_not(a, b)
        if a.dtype is not b.dtype:
            return f"{a.name} of type {a.dtype} is not {b.name} of type {b.dtype}"
        self._to_right[a] = b
        self._to_left[b] = a
        if isinstance(a, Buffer):
            for field in reversed(_compared(a)):
                if field.name not in _NAMED:
                    pair = getattr(a, field.name), getattr(b, field.name)
                    self._stack.append((*pair, (path, f".{field.name}")))
        return None


class _Binder:
    """Marks names that are bound where they stand; comparing two binds them to each other."""

    __slots__ = ("names",)

    def __init__(self, names: Any) -> None:
        self.names = names


class _Reason:
    """A mismatch that is reported when its turn comes."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text


def _tokens(root: Any) -> list[str]:
    """What a tree says, as a list of words that determines it; names become numbers in the order of first mention."""
    words: list[str] = []
    numbers: dict[Node, int] = {}
    count = 0
    stack: list[Any] = [root]
    while stack:
        item = stack.pop()
        if type(item) is _Binder:
            names = item.names if isinstance(item.names, tuple) else (item.names,)
            words.append(f"bind {len(names)}")
            for name in names:
                numbers.pop(name, None)
            stack.extend(reversed(names))
        elif isinstance(item, (Var, Buffer)):
            known = numbers.get(item)
            if known is not None:
                words.append(f"#{known}")
                continue
            numbers[item] = count
            words.append(f"new {count} {type(item).__name__} {item.dtype}")
            count += 1
            if isinstance(item, Buffer):
                stack.extend(reversed([getattr(item, f.name) for f in _compared(item) if f.name not in _NAMED]))
        elif isinstance(item, Node):
            if isinstance(item, PrimFunc):
                numbers.clear()
                count = 0
            _node_words(item, words, stack)
        else:
            _value_words(item, words, stack)
    return words


def _node_words(item: Any, words: list[str], stack: list[Any]) -> None:
    kind = type(item)
    if kind is Seq:
        stmts = list(flatten(item))
        if len(stmts) != 1:
            words.append(f"Seq {len(stmts)}")
        stack.extend(reversed(stmts))
    elif kind is IntImm:
        words.append(f"{int(item.value)} {item.dtype}")
    elif kind is FloatImm:
        words.append(f"{float(item.value).hex()} {item.dtype}")
    elif isinstance(item, IRModule):
        words.append(f"IRModule {len(item.functions)}")
        stack.extend(reversed(item.functions))
    else:
        words.append(kind.__name__)
        for field in reversed(_compared(item)):
            value = getattr(item, field.name)
            if isinstance(item, BufferRegion) and field.name == "squeezed":
                value = _squeezed(item)
            stack.append(_Binder(value) if field.kind == "binder" else value)


def _value_words(item: Any, words: list[str], stack: list[Any]) -> None:
    if isinstance(item, (tuple, list)):
        words.append(f"{type(item).__name__} {len(item)}")
        stack.extend(reversed(item))
    elif isinstance(item, dict):
        words.append(f"dict {len(item)}")
        for key in sorted(item, key=repr, reverse=True):
            stack += [item[key], key]
    elif isinstance(item, float):
        words.append(f"float {item.hex()}")
    elif isinstance(item, enum.Enum):
        words.append(f"enum {type(item).__qualname__} {item.name}")
    elif isinstance(item, (str, bytes)):
        words.append(f"{type(item).__name__} {len(item)} {item!r}")
    elif isinstance(item, _PLAIN):
        words.append(f"{type(item).__name__} {item!r}")
    else:
        form = find_value_form(item)
        if form is None:
            raise refuse_value(item)
        fields = form.fields(item)
        words.append(f"value {form.name} {len(fields)}")
        stack.extend(reversed([value for _, value in fields]))


_PLAIN = (type(None), bool, int, str, bytes, DType)
_NAMED = ("name", "dtype")


def _compared(item: Node) -> list[Field]:
    return [f for f in item.FIELDS if f.kind not in ("span", "derived")]


def _squeezed(region: BufferRegion) -> tuple[bool, ...]:
    return region.squeezed if any(region.squeezed) else (False,) * len(region.mins)


def _is_not(a: Any, b: Any) -> str:
    left, right = _short(a), _short(b)
    if left == right:
        left, right = f"{left} ({_kind(a)})", f"{right} ({_kind(b)})"
    return f"{left} is not {right}"


def _kind(value: Any) -> str:
    return f"{type(value).__name__} {value.dtype}" if isinstance(value, Expr) else type(value).__name__


def _short(value: Any) -> str:
    if isinstance(value, _Binder):
        value = value.names
    lines = repr(value).splitlines()
    text = lines[0] + (" …" if len(lines) > 1 else "") if lines else "nothing"
    return text if len(text) <= 80 else text[:77] + "…"


def _text(value: Any) -> str:
    return value.script() if isinstance(value, (PrimFunc, IRModule)) else repr(value)


def _render(path: _Path) -> str:
    labels = []
    while path is not None:
        path, label = path
        labels.append(label)
    return "".join(reversed(labels))
