"""IRDump: writes the IR after each pass to a folder, for people who look inside."""

from __future__ import annotations

import itertools
import re
from pathlib import Path
from typing import Any

from ..ir import IRModule, PrimFunc
from ..settings import settings

__all__ = ["IRDump", "ir_dump"]


class IRDump:
    """An instrument that writes ``NN-<pass>.txt`` after each pass, and the traced function as ``00-traced.txt``.

    Args:
        folder: made when it does not exist; files of an earlier compile of the same kernel are removed.
        function: the function as it was traced.
    """

    def __init__(self, folder: Path, function: PrimFunc) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        for old in folder.glob("[0-9][0-9]-*.txt"):
            old.unlink()
        self._numbers = itertools.count(1)
        (folder / "00-traced.txt").write_text(function.script(spans=True), encoding="utf-8")

    def after_pass(self, pass_: Any, module: IRModule, seconds: float) -> None:
        """Writes the module that a pass made."""
        path = self.folder / f"{next(self._numbers):02d}-{pass_.name}.txt"
        path.write_text(f"# after {pass_.name}\n{module.script(spans=True)}", encoding="utf-8")


def ir_dump(function: PrimFunc) -> IRDump | None:
    """The dump that ``TILE_DUMP_IR_DIR`` asks for, in a folder with the kernel's name; None where it is not set."""
    root = settings.dump_ir_dir
    if root is None:
        return None
    return IRDump(root / re.sub(r"[^\w.-]", "_", function.name), function)
