"""Errors of what stands outside of kernels, such as annotations of parameters: they get the line of the caller."""

from __future__ import annotations

import functools
import os
import re
import sys
from collections.abc import Callable
from typing import Any

from ..errors import CompileError, TileError
from ..source import Span, source_line
from .builder import _current

__all__ = ["CALL_ERROR", "placed"]

CALL_ERROR = re.compile(r"missing \d+ required|unexpected keyword|positional argument|multiple values for argument")
"""What Python says of a call with arguments that a function does not take."""

_package = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep


def placed(function: Callable[..., Any]) -> Callable[..., Any]:
    """Decorator of a function that kernels' authors call outside of kernels: its errors tell their line."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except TileError as error:
            if error.span is None and _current.get() is None:
                error.span = _place()
            raise
        except TypeError as error:
            here = error.__traceback__
            if here is None or here.tb_next is not None or not CALL_ERROR.search(str(error)):
                raise
            raise CompileError(
                "E-CALL", str(error), span=_place(), help="see its signature with help(T.<name>)"
            ) from None

    return call


def _place() -> Span | None:
    """The innermost line outside of this package whose text is known."""
    frame = sys._getframe(2)
    while frame is not None:
        source, line = frame.f_code.co_filename, frame.f_lineno
        text = None if source.startswith(_package) else source_line(source, line)
        if text is not None:
            return Span(source, line, len(text) - len(text.lstrip()), len(text))
        frame = frame.f_back
    return None
