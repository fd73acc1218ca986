"""Which names statements assign and which they read first: the analysis behind loop-carried names and names that end
with a branch."""

from __future__ import annotations

import ast
from collections.abc import Iterable

__all__ = ["assigned", "binding_sites", "exposed", "untracked"]

_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def binding_sites(stmts: Iterable[ast.stmt]) -> dict[str, list[ast.AST]]:
    """Each name that the statements give a value to, with the nodes that do so, in order; nested functions are scopes
    of their own."""
    found: dict[str, list[ast.AST]] = {}
    stack: list[ast.AST] = list(reversed(list(stmts)))
    while stack:
        node = stack.pop()
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.setdefault(node.id, []).append(node)
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            found.setdefault(node.name, []).append(node)
            stack.extend(reversed(node.decorator_list))
            continue
        elif isinstance(node, ast.Lambda):
            continue
        elif isinstance(node, _COMPREHENSIONS):
            # Their targets are their own; only `:=` reaches outside.
            for inner in ast.walk(node):
                if isinstance(inner, ast.NamedExpr):
                    found.setdefault(inner.target.id, []).append(inner.target)
            continue
        elif isinstance(node, ast.AnnAssign) and node.value is None:
            continue
        stack.extend(reversed(list(ast.iter_child_nodes(node))))
    return found


def assigned(stmts: Iterable[ast.stmt]) -> list[str]:
    """The names that the statements give a value to, in order of appearance."""
    return list(binding_sites(stmts))


def untracked(stmts: Iterable[ast.stmt]) -> set[str]:
    """Names that belong to other scopes or that are deleted: what they hold may not be looked at."""
    found: set[str] = set()
    stack: list[ast.AST] = list(stmts)
    while stack:
        node = stack.pop()
        if isinstance(node, (ast.Global, ast.Nonlocal)):
            found.update(node.names)
        elif isinstance(node, ast.ExceptHandler) and node.name:
            found.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Del):
            found.add(node.id)
        elif isinstance(node, _SCOPES):
            continue
        stack.extend(ast.iter_child_nodes(node))
    return found


def exposed(stmts: Iterable[ast.stmt], known: set[str] | None = None) -> set[str]:
    """Names that the statements may read before they have certainly assigned them."""
    found: set[str] = set()
    _scan(list(stmts), set() if known is None else set(known), found)
    return found


def _scan(stmts: list[ast.stmt], known: set[str], found: set[str]) -> None:
    """Adds exposed reads to `found` and certain assignments to `known`."""
    for stmt in stmts:
        if isinstance(stmt, ast.If):
            _read(stmt.test, known, found)
            branches = [set(known), set(known)]
            _scan(stmt.body, branches[0], found)
            _scan(stmt.orelse, branches[1], found)
            known |= branches[0] & branches[1]
        elif isinstance(stmt, (ast.For, ast.While)):
            inner = set(known)
            if isinstance(stmt, ast.For):
                _read(stmt.iter, known, found)
                inner |= set(assigned([ast.Expr(stmt.target)]))
            else:
                _read(stmt.test, known, found)
            _scan(stmt.body, inner, found)
        elif isinstance(stmt, ast.With):
            for item in stmt.items:
                _read(item.context_expr, known, found)
                if item.optional_vars is not None:
                    known |= set(assigned([ast.Expr(item.optional_vars)]))
            _scan(stmt.body, known, found)
        elif isinstance(stmt, ast.Try):
            _scan(stmt.body, set(known), found)
            for handler in stmt.handlers:
                _scan(handler.body, set(known), found)
            _scan(stmt.orelse, set(known), found)
            _scan(stmt.finalbody, known, found)
        elif isinstance(stmt, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            _read(stmt, known, found)
            known.add(stmt.name)
        else:
            if isinstance(stmt, ast.AugAssign) and isinstance(stmt.target, ast.Name) and stmt.target.id not in known:
                found.add(stmt.target.id)
            _read(stmt, known, found)
            known |= set(assigned([stmt]))


def _read(node: ast.AST, known: set[str], found: set[str]) -> None:
    for inner in ast.walk(node):
        if isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Load) and inner.id not in known:
            found.add(inner.id)
