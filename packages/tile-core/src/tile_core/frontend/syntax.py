"""Small pieces of syntax tree that the rewrite puts together."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any

from ..source import source_line

__all__ = [
    "assign",
    "call",
    "characters",
    "constant",
    "constants",
    "function",
    "name",
    "statement",
    "target_names",
    "tuple_of",
]


def characters(source: str, line: int, column: int) -> int:
    """A column in characters for Python's column in bytes."""
    text = source_line(source, line)
    if text is None or text.isascii():
        return column
    return len(text.encode()[:column].decode(errors="ignore"))


def target_names(target: ast.expr) -> list[str] | None:
    """The plain names of a target: one, or those of a tuple; None when there are others."""
    if isinstance(target, ast.Name):
        return [target.id]
    if isinstance(target, (ast.Tuple, ast.List)) and all(isinstance(e, ast.Name) for e in target.elts):
        return [e.id for e in target.elts]  # type: ignore[attr-defined]
    return None


def name(identifier: str) -> ast.expr:
    """Reads a name."""
    return ast.Name(identifier, ast.Load())


def constant(value: Any) -> ast.expr:
    """A constant."""
    return ast.Constant(value)


def constants(values: Sequence[Any] | None) -> ast.expr:
    """A constant tuple, or None."""
    return constant(None if values is None else tuple(values))


def tuple_of(items: list[Any]) -> ast.expr:
    """A tuple display."""
    return ast.Tuple(items, ast.Load())


def call(owner: str, method: str, *args: ast.expr) -> ast.expr:
    """``name.method(args)``."""
    return ast.Call(ast.Attribute(name(owner), method, ast.Load()), list(args), [])


def function(body: ast.expr) -> ast.expr:
    """``lambda: body``."""
    return ast.Lambda(ast.arguments([], [], None, [], [], None, []), body)


def assign(target: str, value: ast.expr) -> ast.stmt:
    """``name = value``."""
    return ast.Assign([ast.Name(target, ast.Store())], value)


def statement(value: ast.expr) -> ast.stmt:
    """An expression as a statement."""
    return ast.Expr(value)
