"""Placeholders: objects that stand where a value is missing, and say so when they are used."""

from __future__ import annotations

from typing import Any

from ..errors import CompileError, declare_codes
from ..ir import Expr
from ..source import Span

__all__ = ["Placeholder", "Unset", "refuse_placeholder"]

declare_codes({"E-NAME-UNSET": "a name that has no value here"})


class Placeholder:
    """Stands for a value that cannot be used; every use raises `error`."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def error(self, span: Span | None = None) -> CompileError:
        """The error that a use raises."""
        raise TypeError(f"{type(self).__name__} does not say what is wrong")

    def __tile_expr__(self) -> Expr:
        raise self.error()

    def __bool__(self) -> bool:
        raise self.error()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise self.error()

    def __getitem__(self, index: Any) -> Any:
        raise self.error()

    def __setitem__(self, index: Any, value: Any) -> None:
        raise self.error()

    def __iter__(self) -> Any:
        raise self.error()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise self.error()

    def __repr__(self) -> str:
        return f"<{self.name} has no value>"


class Unset(Placeholder):
    """What a kernel's local name holds while the name has no value that may be used."""

    __slots__ = ("help", "spans", "summary")

    def __init__(self, name: str, summary: str, help: str, spans: tuple[tuple[str, Span | None], ...] = ()) -> None:
        super().__init__(name)
        self.summary = summary
        self.help = help
        self.spans = spans

    def error(self, span: Span | None = None) -> CompileError:
        """The error that a use raises."""
        return CompileError("E-NAME-UNSET", self.summary, span=span, help=self.help, spans=self.spans)


def refuse_placeholder(value: Any, span: Span | None = None) -> None:
    """Raises the error of a placeholder; other values pass."""
    if isinstance(value, Placeholder):
        raise value.error(span)
