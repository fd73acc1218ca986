"""`minimise(program, fails)`: the smallest kernel found that still fails in the same way.

It works on Python's syntax tree: drop a statement, put a loop's or a branch's body in its place, put a part of an
expression in its place, make numbers smaller, fix a dynamic size. What no longer traces does not fail in the same way,
so nothing here knows the language.
"""

from __future__ import annotations

import ast
import copy
import time
from collections.abc import Callable, Iterator
from dataclasses import replace

from .kernels import Program

__all__ = ["minimise"]


def minimise(program: Program, fails: Callable[[Program], bool], seconds: float = 300) -> Program:
    """Shrinks a program while `fails` holds, for at most so many seconds."""
    end = time.monotonic() + seconds
    changed = True
    while changed:
        changed = False
        for candidate in _candidates(program):
            if time.monotonic() > end:
                return program
            if len(candidate.source) < len(program.source) + 1 and candidate != program and fails(candidate):
                program, changed = candidate, True
                break
    return program


def _candidates(program: Program) -> Iterator[Program]:
    """Smaller programs, the boldest first."""
    if program.special:
        yield replace(program, special=False)
    for name, value in program.sizes.items():
        sizes = {n: v for n, v in program.sizes.items() if n != name}
        yield Program(_fixed(program.source, name, value), sizes, program.special, program.seed)
    tree = ast.parse(program.source)
    for edit in _edits(tree):
        changed = copy.deepcopy(tree)
        edit(changed)
        try:
            source = ast.unparse(ast.fix_missing_locations(changed)) + "\n"
        except ValueError:
            continue
        yield replace(program, source=source)


def _fixed(source: str, name: str, value: int) -> str:
    """The source with a dynamic size as a number."""
    tree = ast.parse(source)
    tree.body = [s for s in tree.body if not (isinstance(s, ast.Assign) and ast.unparse(s.targets[0]) == name)]

    class Fix(ast.NodeTransformer):
        def visit_Name(self, node: ast.Name) -> ast.AST:
            return ast.Constant(value) if node.id == name else node

    return ast.unparse(ast.fix_missing_locations(Fix().visit(tree))) + "\n"


Edit = Callable[[ast.AST], None]


def _edits(tree: ast.AST) -> Iterator[Edit]:
    """Changes to make in a copy of the tree; a node is found there by its number in the walk."""
    nodes = list(ast.walk(tree))
    for number, node in enumerate(nodes):
        for field in ("body", "orelse"):
            stmts = getattr(node, field, None)
            if not isinstance(stmts, list) or isinstance(node, (ast.Module,)):
                continue
            for index, stmt in enumerate(stmts):
                yield _drop(number, field, index)
                if isinstance(stmt, (ast.For, ast.If, ast.While)):
                    yield _unwrap(number, field, index, "body")
                    if stmt.orelse:
                        yield _unwrap(number, field, index, "orelse")
    for number, node in enumerate(nodes):
        if isinstance(node, ast.arguments):
            for index in range(len(node.args)):
                yield _drop(number, "args", index)
    for number, node in enumerate(nodes):
        for field, value in ast.iter_fields(node):
            parts = value if isinstance(value, list) else [value]
            for index, part in enumerate(parts):
                if isinstance(part, ast.expr):
                    for smaller in _smaller(part):
                        yield _put(number, field, index if isinstance(value, list) else None, smaller)


def _smaller(node: ast.expr) -> Iterator[ast.expr]:
    if isinstance(node, ast.Constant) and isinstance(node.value, int) and not isinstance(node.value, bool):
        for value in (0, 1, 2, 8, 16, 32, node.value // 2, node.value - 1):
            if 0 <= value < node.value:
                yield ast.Constant(value)
        return
    if isinstance(node, ast.BinOp):
        yield node.left
        yield node.right
    elif isinstance(node, ast.UnaryOp):
        yield node.operand
    elif isinstance(node, ast.Compare):
        yield ast.Constant(True)
    elif isinstance(node, ast.Call):
        if node.keywords:
            for index in range(len(node.keywords)):
                shorter = copy.deepcopy(node)
                del shorter.keywords[index]
                yield shorter
        text = ast.unparse(node.func)
        if text in ("T.min", "T.max", "T.cast", "T.if_then_else", "T.abs", "T.floor", "T.truncdiv"):
            yield from (
                a for a in reversed(node.args) if not (isinstance(a, ast.Constant) and isinstance(a.value, str))
            )


def _drop(number: int, field: str, index: int) -> Edit:
    def edit(tree: ast.AST) -> None:
        stmts = getattr(_node(tree, number), field)
        del stmts[index]
        if not stmts and field == "body":
            stmts.append(ast.Pass())

    return edit


def _unwrap(number: int, field: str, index: int, part: str) -> Edit:
    def edit(tree: ast.AST) -> None:
        stmts = getattr(_node(tree, number), field)
        stmts[index : index + 1] = getattr(stmts[index], part)

    return edit


def _put(number: int, field: str, index: int | None, value: ast.expr) -> Edit:
    def edit(tree: ast.AST) -> None:
        node = _node(tree, number)
        if index is None:
            setattr(node, field, copy.deepcopy(value))
        else:
            getattr(node, field)[index] = copy.deepcopy(value)

    return edit


def _node(tree: ast.AST, number: int) -> ast.AST:
    return list(ast.walk(tree))[number]
