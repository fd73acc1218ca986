"""What a function reads from outside: globals and closure variables, its own and those of the functions that it calls.

Their values are burned into a kernel when it is traced, so they are compared on each call: in a notebook
``BLOCK = 256`` takes effect, ``CONFIG["block"] = 256`` and ``config.block = 256`` too, and so does a helper or macro
that is defined anew. Numbers, texts, element types and tuples of these are compared by value, lists, dicts and sets by
content, everything else by identity. Modules are taken to stay what they are.
"""

from __future__ import annotations

import builtins
import dis
import sys
import types
from collections.abc import Callable
from typing import Any

from tile_core.dtypes import DType

__all__ = ["Captures"]

_PLAIN = (int, float, complex, str, bytes, bool, type(None), DType)
_MISSING = object()
_MOST_ITEMS = 256
"""A larger container is compared by identity: its content would cost each call too much."""


class Captures:
    """What `function`, the functions defined inside it and those that it calls can see from outside."""

    __slots__ = ("_cells", "_contents", "_function", "_names")

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self.read()

    def read(self) -> None:
        """Takes the present values as those that count."""
        found: list[tuple[dict[str, Any], str, Any]] = []
        cells: list[tuple[types.CellType, Any]] = []
        contents: list[tuple[Any, Any]] = []
        seen: set[int] = set()
        waiting: list[Any] = [self._function]
        while waiting:
            function = waiting.pop()
            if id(function) in seen:
                continue
            seen.add(id(function))
            names, attributes = _names(function.__code__)
            values: list[Any] = []
            for name in sorted(names):
                value = function.__globals__.get(name, _MISSING)
                if not isinstance(value, types.ModuleType) and not (value is _MISSING and hasattr(builtins, name)):
                    found.append((function.__globals__, name, value))
                    values.append(value)
            for cell in function.__closure__ or ():
                values.append(_content(cell))
                cells.append((cell, values[-1]))
            for value in values:
                called = _called(value)
                if called is not None:
                    waiting.append(called)
                elif isinstance(value, (list, dict, set)):
                    if len(value) <= _MOST_ITEMS:
                        contents.append((value, _frozen(value)))
                elif not isinstance(value, type) and isinstance(held := getattr(value, "__dict__", None), dict):
                    found += [(held, name, held[name]) for name in sorted(attributes & held.keys())]
        self._names, self._cells, self._contents = tuple(found), tuple(cells), tuple(contents)

    def unchanged(self) -> bool:
        """Whether every value is what it was."""
        for scope, name, value in self._names:
            now = scope.get(name, _MISSING)
            if now is not value and not _equal(now, value):
                return False
        for cell, value in self._cells:
            now = _content(cell)
            if now is not value and not _equal(now, value):
                return False
        return not self._contents or all(_frozen(container) == content for container, content in self._contents)


def _names(code: types.CodeType) -> tuple[set[str], set[str]]:
    """(names that the code reads as globals, names of attributes that it reads)."""
    names: set[str] = set()
    attributes: set[str] = set()
    for step in dis.get_instructions(code):
        if step.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
            names.add(step.argval)
        elif step.opname in ("LOAD_ATTR", "LOAD_METHOD"):
            attributes.add(step.argval)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            inner = _names(constant)
            names |= inner[0]
            attributes |= inner[1]
    return names, attributes


def _called(value: Any) -> types.FunctionType | None:
    """The Python function behind a function, method or macro; None for what is none or is installed, which nobody
    edits: a library's functions would be followed through half of it."""
    for _ in range(4):
        if isinstance(value, types.FunctionType):
            return None if _is_installed(value) else value
        held = getattr(value, "__dict__", {})
        value = getattr(value, "__func__", None) or held.get("__wrapped__") or held.get("function")
        if value is None:
            return None
    return None


def _is_installed(function: types.FunctionType) -> bool:
    top = (function.__module__ or "").partition(".")[0]
    return top.startswith("tile_") or top in sys.stdlib_module_names or "-packages" in function.__code__.co_filename


def _content(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not assigned yet
        return _MISSING


def _equal(now: Any, value: Any) -> bool:
    """Whether two objects are the same plain value."""
    return type(now) is type(value) and _plain(value) and _plain(now) and _frozen(now) == _frozen(value)


def _plain(value: Any) -> bool:
    return isinstance(value, _PLAIN) or (isinstance(value, tuple) and all(map(_plain, value)))


def _frozen(value: Any) -> Any:
    """Plain values with their types (1, 1.0 and True trace differently), containers by content, others as they are."""
    if isinstance(value, (list, tuple)):
        return type(value), tuple(map(_frozen, value))
    if isinstance(value, dict):
        return dict, tuple((_frozen(name), _frozen(item)) for name, item in value.items())
    if isinstance(value, (set, frozenset)):
        return set, frozenset(map(_frozen, value))
    return (type(value), value) if isinstance(value, _PLAIN) else _Same(value)


class _Same:
    """An object that equals itself only; held, so that its id cannot be taken over."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and other.value is self.value

    def __hash__(self) -> int:
        return id(self.value)
