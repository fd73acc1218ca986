"""``--update``: expected texts rewritten to what came out. A person reads the diff."""

from __future__ import annotations

import ast
import difflib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

__all__ = ["Edits", "GoldenFiles"]


@dataclass
class Edits:
    """Replacements of string literals in test files, applied together at the end so that line numbers stay right."""

    pending: dict[Path, list[tuple[int, int, str]]] = field(default_factory=dict)

    def replace_argument(self, path: Path, line: int, keyword: str, text: str) -> bool:
        """Plans the replacement of the literal that the call around `line` passes as `keyword`; False where there is
        none."""
        source = path.read_text(encoding="utf-8")
        literal = _literal(source, line, keyword)
        if literal is None:
            return False
        start, end = (
            _offset(source, literal.lineno, literal.col_offset),
            _offset(source, literal.end_lineno or 0, literal.end_col_offset or 0),
        )
        margin = source.splitlines()[literal.lineno - 1]
        indent = " " * (len(margin) - len(margin.lstrip()))
        body = "\n".join(f"{indent}    {row}" if row else "" for row in text.strip("\n").splitlines())
        self.pending.setdefault(path, []).append((start, end, f'"""\n{body}\n{indent}"""'))
        return True

    def apply(self) -> list[Path]:
        """Writes the planned replacements; returns the files changed."""
        for path, edits in self.pending.items():
            data = path.read_text(encoding="utf-8")
            for start, end, text in sorted(set(edits), reverse=True):
                data = data[:start] + text + data[end:]
            path.write_text(data, encoding="utf-8")
        changed = list(self.pending)
        self.pending.clear()
        return changed


class GoldenFiles:
    """Texts in the folder ``golden`` beside a test file: called with a name and a text, asserts that the file holds
    it."""

    def __init__(self, folder: Path, update: bool) -> None:
        self.folder = folder
        self.update = update

    def __call__(self, name: str, text: Any) -> None:
        """Compares `text` with the file `name`; with --update writes it instead."""
        path = self.folder / name
        text = str(text).rstrip("\n") + "\n"
        if self.update:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            return
        if not path.exists():
            raise AssertionError(f"there is no golden file {name}; run with --update and read what it writes")
        known = path.read_text(encoding="utf-8")
        if known != text:
            rows = difflib.unified_diff(known.splitlines(), text.splitlines(), "golden", "now", lineterm="")
            raise AssertionError(f"{name} differs; run with --update if that is meant\n" + "\n".join(rows))


def _literal(source: str, line: int, keyword: str) -> ast.Constant | None:
    best: ast.Call | None = None
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and node.lineno <= line <= (node.end_lineno or 0):
            if any(k.arg == keyword for k in node.keywords) and (best is None or node.lineno >= best.lineno):
                best = node
    if best is None:
        return None
    value = next(k.value for k in best.keywords if k.arg == keyword)
    return value if isinstance(value, ast.Constant) and isinstance(value.value, str) else None


def _offset(source: str, line: int, column: int) -> int:
    """Position in `source` of a line (from 1) and a column in UTF-8 bytes (from 0), as `ast` counts them."""
    rows = source.splitlines(keepends=True)
    return sum(len(row) for row in rows[: line - 1]) + len(rows[line - 1].encode()[:column].decode())
