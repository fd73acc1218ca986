"""Pass, its context, and the registry of passes.

A pass maps a module to a module and knows nothing global: target, options, diagnostics, the analysis cache and
instruments come in the context.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, ClassVar, TypeVar

from ..errors import TileWarning
from ..ir import IRModule, PrimFunc, Rewriter, Seq, Stmt, form_index
from ..target import Target

__all__ = ["Pass", "PassContext", "Rewriter", "find_pass", "passes", "register_pass"]

_P = TypeVar("_P", bound="type[Pass]")


class PassContext:
    """What passes may read and where they report.

    Args:
        target: what is compiled for, with all attributes resolved.
        options: validated pass options (`transform.options.Options`); a pass reads those it declared.
        instruments: objects that may define ``before_pass(pass_, module)`` and ``after_pass(pass_, module, seconds)``.
    """

    def __init__(
        self, target: Target, options: Any = None, instruments: tuple[Any, ...] = (), backend: Any = None
    ) -> None:
        if options is None:
            from .options import Options

            options = Options({})
        self.target = target
        self.options = options
        self.instruments = instruments
        self.backend = backend
        self.diagnostics: list[str] = []
        self.choices: list[Any] = []
        self.reports: dict[str, list[Any]] = {}
        self.solver_queries = 0
        self._analyses: dict[tuple[str, int], tuple[Any, Any]] = {}

    def warn(self, text: str) -> None:
        """Records a diagnostic and warns once for each text."""
        if text not in self.diagnostics:
            self.diagnostics.append(text)
            warnings.warn(text, TileWarning, stacklevel=3)

    def analysis(self, name: str, node: Any, compute: Callable[[], Any]) -> Any:
        """The cached result of an analysis of `node`, computed when missing. Nodes are immutable, so results never go
        stale."""
        key = (name, id(node))
        found = self._analyses.get(key)
        if found is None:
            found = self._analyses[key] = (node, compute())
        return found[1]


class Pass:
    """Base of passes: override `apply`, or `function`, or `statement` (called for each statement that is not a
    sequence, innermost first)."""

    name: ClassVar[str] = ""
    needs: ClassVar[str] = ""
    leaves: ClassVar[str] = ""
    option_keys: ClassVar[tuple[str, ...]] = ()

    def apply(self, module: IRModule, context: PassContext) -> IRModule:
        """The transformed module; the same object when nothing changed."""
        self.context = context
        return module.map_functions(lambda f: self.function(f, context))

    def function(self, function: PrimFunc, context: PassContext) -> PrimFunc:
        """The transformed function."""
        if type(self).statement is Pass.statement:
            return function
        return _EachStatement(self).rewrite(function)

    def statement(self, stmt: Stmt) -> Stmt | None:
        """The replacement of one statement."""
        return stmt


class _EachStatement(Rewriter):
    def __init__(self, pass_: Pass) -> None:
        super().__init__()
        self.pass_ = pass_

    def rewrite_Stmt(self, node: Stmt) -> Stmt | None:
        new = self.rewrite_children(node)
        return new if new is None or isinstance(new, Seq) else self.pass_.statement(new)

    def rewrite_Seq(self, node: Seq) -> Stmt | None:
        return self._sequence(node)


_passes: dict[str, type[Pass]] = {}


def register_pass(name: str, *, needs: str, leaves: str, options: tuple[str, ...] = ()) -> Callable[[_P], _P]:
    """Class decorator: gives a pass its public name, the form that it needs (a form or ``A..B`` for a range) and
    leaves (``same`` keeps it)."""
    for form in (*needs.split(".."), *(() if leaves == "same" else (leaves,))):
        form_index(form)

    def decorate(cls: _P) -> _P:
        if name in _passes:
            raise ValueError(f"pass {name} is registered already")
        cls.name, cls.needs, cls.leaves, cls.option_keys = name, needs, leaves, options
        _passes[name] = cls
        return cls

    return decorate


def find_pass(name: str) -> type[Pass]:
    """The pass class called `name` (KeyError when there is none)."""
    return _passes[name]


def passes() -> dict[str, type[Pass]]:
    """All registered passes by name."""
    return dict(_passes)
