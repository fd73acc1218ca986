"""PassTrace: the module after each pass, as text that can be compared."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import Any

from ..ir import IRModule

__all__ = ["PassTrace", "Step"]


@dataclass(frozen=True)
class Step:
    """What one pass left.

    Args:
        number: 0 for the traced module, then the position of the pass in the pipeline.
        name: of the pass; ``traced`` for the first.
        form: the form that it leaves.
        text: the module.
        seconds: how long the pass took.
        changed: whether the text differs from the step before.
    """

    number: int
    name: str
    form: str
    text: str
    seconds: float
    changed: bool


class PassTrace:
    """An instrument that keeps a `Step` for each pass.

    Args:
        module: as it goes into the pipeline.
        form: its form.
        spans: whether the texts carry source lines as comments.
    """

    def __init__(self, module: IRModule, form: str = "TILE", spans: bool = False) -> None:
        self._spans = spans
        self.steps = [Step(0, "traced", form, module.script(spans=spans), 0.0, True)]

    def after_pass(self, pass_: Any, module: IRModule, seconds: float) -> None:
        """Keeps what a pass made."""
        last = self.steps[-1]
        text = module.script(spans=self._spans)
        form = last.form if pass_.leaves == "same" else pass_.leaves
        self.steps.append(Step(len(self.steps), pass_.name, form, text, seconds, text != last.text))

    def difference(self, number: int) -> list[str]:
        """Lines of a unified diff between a step and the one before, without the file header."""
        before, after = self.steps[number - 1], self.steps[number]
        lines = difflib.unified_diff(before.text.splitlines(), after.text.splitlines(), lineterm="", n=2)
        return list(lines)[2:]
