"""Pipeline: an ordered list of passes, checked against the forms when it is defined."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any

from ..errors import InternalError, TileError, declare_codes
from ..ir import IRModule, check_form, form_index
from ..ir.node import DEBUG
from .base import Pass, PassContext

__all__ = ["Pipeline"]

declare_codes(
    {"E-PIPELINE": "a pass list whose forms do not fit each other", "E-PASS": "a pass failed on a legal module"}
)


class Pipeline:
    """Runs passes in order.

    Args:
        name: for reports.
        passes: pass classes or instances.
        start: the form of the module that comes in.

    Raises:
        InternalError: a pass needs a form that the one before does not leave.
    """

    def __init__(self, name: str, passes: Iterable[type[Pass] | Pass], start: str = "TILE") -> None:
        self.name = name
        self.start = start
        self.passes = tuple(p() if isinstance(p, type) else p for p in passes)
        self.forms: list[str] = []
        form = start
        for pass_ in self.passes:
            low, _, high = pass_.needs.partition("..")
            if not form_index(low) <= form_index(form) <= form_index(high or low):
                raise InternalError(
                    "E-PIPELINE", f"pipeline {name}: {pass_.name} needs form {pass_.needs}, but {form} comes in"
                )
            form = form if pass_.leaves == "same" else pass_.leaves
            self.forms.append(form)

    @property
    def end(self) -> str:
        """The form of the module that comes out."""
        return self.forms[-1] if self.forms else self.start

    def run(
        self,
        module: IRModule,
        context: PassContext,
        observe: Callable[[Pass, IRModule, str, float], Any] | None = None,
        until: str | None = None,
    ) -> IRModule:
        """The module after all passes (up to and with `until`, a pass name); `observe(pass, module, form, seconds)`
        is called after each one.

        Raises:
            UserError: what a pass finds wrong in the kernel.
            InternalError: a pass failed otherwise; it names the pass.
        """
        for pass_, form in zip(self.passes, self.forms):
            for instrument in context.instruments:
                before = getattr(instrument, "before_pass", None)
                if before is not None:
                    before(pass_, module)
            started = time.perf_counter()
            try:
                module = pass_.apply(module, context)
            except TileError:
                raise
            except Exception as error:
                raise InternalError(
                    "E-PASS",
                    f"pass {pass_.name} of pipeline {self.name} failed: {type(error).__name__}: {error}",
                    help="this is a fault of Tile; please report it with the kernel's source",
                ) from error
            seconds = time.perf_counter() - started
            if DEBUG:
                check_form(module, form)
            for instrument in context.instruments:
                after = getattr(instrument, "after_pass", None)
                if after is not None:
                    after(pass_, module, seconds)
            if observe is not None:
                observe(pass_, module, form, seconds)
            if until is not None and pass_.name == until:
                break
        return module
