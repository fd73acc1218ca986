"""Source text and places in it.

A `Span` is a place: source id, line and columns (1-based lines, 0-based columns, end exclusive), and the chain of
    macro calls through which it was
reached. Source texts live in one map keyed by id, so that a span stays four integers and an error can show the line
later.
"""

from __future__ import annotations

import linecache
import os

__all__ = ["Span", "add_source", "render_snippet", "source_line", "source_name"]


class Span:
    """A place in a source text. Spans take no part in equality of IR or in cache keys."""

    __slots__ = ("caller", "column", "end_column", "line", "source")

    def __init__(
        self, source: str, line: int, column: int = 0, end_column: int = 0, caller: Span | None = None
    ) -> None:
        self.source = source
        self.line = line
        self.column = column
        self.end_column = end_column
        self.caller = caller

    def __repr__(self) -> str:
        return f"{source_name(self.source)}:{self.line}:{self.column + 1}"

    def __reduce__(self):
        return Span, (self.source, self.line, self.column, self.end_column, self.caller)

    def with_caller(self, caller: Span | None) -> Span:
        """The same place, reached through a macro call at `caller`."""
        return Span(self.source, self.line, self.column, self.end_column, caller)


_texts: dict[str, list[str]] = {}


def add_source(source: str, text: str) -> str:
    """Keeps `text` under the id `source` (a file name or a made-up one such as ``<string>``) and returns the id."""
    _texts[source] = text.splitlines()
    return source


def source_name(source: str) -> str:
    """The short name shown to people: the file's base name, or the id itself."""
    return source if source.startswith("<") else os.path.basename(source)


def source_line(source: str, line: int) -> str | None:
    """The text of a line, or None where the source is not known."""
    lines = _texts.get(source)
    if lines is not None:
        return lines[line - 1] if 0 < line <= len(lines) else None
    text = linecache.getline(source, line)
    return text.rstrip("\n") if text else None


def render_snippet(span: Span) -> list[str]:
    """Lines such as ``  --> attention.py:31:9`` with the source line and carets below it, followed by the macro
    callers."""
    lines = [f"  --> {span!r}"]
    text = source_line(span.source, span.line)
    if text is not None:
        number = f"{span.line:5d}"
        lines.append(f"{number} | {text}")
        end = span.end_column if span.end_column > span.column else len(text)
        width = max(1, min(end, len(text)) - span.column)
        lines.append(f"{' ' * len(number)} | {' ' * span.column}{'^' * width}")
    caller = span.caller
    while caller is not None:
        lines.append(f"   called from {caller!r}")
        caller = caller.caller
    return lines
