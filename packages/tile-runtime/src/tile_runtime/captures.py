"""What a function reads from outside: globals and closure variables.

Their values are burned into a kernel when it is traced. Plain ones (numbers, texts, element types, tuples of these)
are compared on
each call, so that ``BLOCK = 256`` in a notebook cell takes effect; everything else is code or modules, which Python
itself reloads
as new objects.
"""

from __future__ import annotations

import dis
import types
from collections.abc import Callable
from typing import Any

from tile_core.dtypes import DType

__all__ = ["Captures"]

_PLAIN = (int, float, complex, str, bytes, bool, type(None), DType)
_MISSING = object()


class Captures:
    """The plain values that `function` and the functions defined inside it can see from outside."""

    __slots__ = ("_cells", "_code", "_globals", "_names", "_values")

    def __init__(self, function: Callable[..., Any]) -> None:
        self._code = function.__code__
        self._globals = function.__globals__
        self._names = tuple(sorted(_names(self._code)))
        self._cells = function.__closure__ or ()
        self._values: tuple[tuple[str | int, Any], ...] = ()
        self.read()

    def read(self) -> None:
        """Takes the present values as those that count."""
        seen: list[tuple[str | int, Any]] = [(name, self._globals.get(name, _MISSING)) for name in self._names]
        seen += enumerate(map(_content, self._cells))
        self._values = tuple((place, value) for place, value in seen if _plain(value))

    def unchanged(self) -> bool:
        """Whether every value is what it was."""
        names = self._globals
        for place, value in self._values:
            now = names.get(place, _MISSING) if isinstance(place, str) else _content(self._cells[place])
            if now is not value and (type(now) is not type(value) or now != value):
                return False
        return True


def _names(code: types.CodeType) -> set[str]:
    """Names that the code reads as globals (its attribute names are in co_names too, and are none)."""
    found = {step.argval for step in dis.get_instructions(code) if step.opname in ("LOAD_GLOBAL", "LOAD_NAME")}
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            found |= _names(constant)
    return found


def _content(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not assigned yet
        return _MISSING


def _plain(value: Any) -> bool:
    return isinstance(value, _PLAIN) or (isinstance(value, tuple) and all(map(_plain, value)))
