"""Macros: functions inlined where they are called.

A macro's names are its own (it is a Python function). Its statements carry the place of the call behind theirs, so
that an error shows both.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from types import MethodType
from typing import Any

from ..errors import CompileError, TileError, declare_codes
from ..ir import BufferLoad, Expr, as_expr
from .builder import Builder, ScalarRef, require_builder
from .function import error_place
from .operators import is_expression
from .staging import function_span, staged
from .trace import _FIXED

__all__ = ["Macro", "Ref", "macro"]

declare_codes(
    {
        "E-MACRO-RECURSION": "a macro that calls itself without end",
        "E-MACRO-REF": "an argument for a T.Ref parameter that is no scalar in memory",
    }
)

_MAX_DEPTH = 64


class Ref:
    """Annotation of a macro parameter that is passed by reference: assigning to it stores to the caller's T.alloc_var
    or element."""

    def __new__(cls, element: Any) -> Any:
        """``T.Ref(A[i])`` is a reference to an element, for passing on."""
        return _reference("T.Ref", element)


class Macro:
    """A function that is inlined at each call."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self.__name__ = function.__name__
        self.__doc__ = function.__doc__
        self.__wrapped__ = function
        self._twin = staged(function)
        self._signature = inspect.signature(function)
        self._by_reference = {
            name for name, p in self._signature.parameters.items() if p.annotation is Ref or _names_ref(p.annotation)
        }

    def __repr__(self) -> str:
        return f"<T.macro {self.__name__}>"

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else MethodType(self, instance)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        builder = require_builder(f"the macro {self.__name__}")
        try:
            bound = self._signature.bind(*args, **kwargs)
        except TypeError as error:
            raise CompileError(
                "E-CALL",
                f"the macro {self.__name__} is called with arguments that it does not take: {error}",
                span=builder.span,
                facts=[f"it takes {self._signature}"],
                help="pass a value for each parameter",
            ) from None
        for name, value in bound.arguments.items():
            bound.arguments[name] = self._argument(builder, name, value)
        caller, span = builder.caller, builder.span
        self._require_end(builder)
        builder.caller = span
        try:
            return self._twin(*bound.args, **bound.kwargs)
        except TileError as error:
            if error.span is None:
                # Here the place inside the macro is still known, with the calls that led to it.
                error.span = error_place(builder, error.__traceback__)
            raise
        finally:
            builder.caller, builder.span = caller, span

    def _argument(self, builder: Builder, name: str, value: Any) -> Any:
        if name in self._by_reference:
            return _reference(f"parameter {name} of the macro {self.__name__}", value)
        if is_expression(value):
            value = as_expr(value)
            if not isinstance(value, _FIXED) and builder.kernel is not None:
                # Evaluated once, before the macro's body, as a function's argument would be.
                return builder.hold(name, value)
        return value

    def _require_end(self, builder: Builder) -> None:
        depth, span = 0, builder.caller
        while span is not None:
            depth, span = depth + 1, span.caller
        if depth >= _MAX_DEPTH:
            raise CompileError(
                "E-MACRO-RECURSION",
                f"the macro {self.__name__} is inlined {_MAX_DEPTH} levels deep",
                span=function_span(self.function),
                help="end the recursion with a condition on Python values",
            )


def macro(function: Callable[..., Any] | None = None) -> Any:
    """Decorator: makes a function whose body is inlined at each call in a kernel.

    Arguments may be values, buffers, regions and Python objects; an expression is evaluated once, before the body.
    Parameters annotated ``T.Ref`` are passed by
    reference. The macro may return a value, but not from inside a loop or branch that is decided when the kernel runs.
    """
    if function is None:
        return Macro
    return Macro(function)


def _reference(what: str, value: Any) -> ScalarRef:
    if isinstance(value, ScalarRef):
        return value
    if isinstance(value, BufferLoad):
        ref = ScalarRef(value.buffer, value.indices)
        ref.named = True
        return ref
    raise CompileError(
        "E-MACRO-REF",
        f"{what} needs a scalar in memory",
        facts=[f"found {value!r}" if isinstance(value, Expr) else f"found a {type(value).__name__}"],
        help="pass a T.alloc_var or an element such as A[i]",
    )


def _names_ref(annotation: Any) -> bool:
    return isinstance(annotation, str) and annotation.rpartition(".")[2] == "Ref"
