"""Files for people who look inside: the IR after each pass, the generated sources."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tile_core.ir import IRModule, PrimFunc
from tile_core.plugin.api import Artifact
from tile_core.settings import settings

__all__ = ["dump_ir", "write_sources"]


@contextmanager
def dump_ir(function: PrimFunc) -> Iterator[Callable[[Any, IRModule, str], None]]:
    """A function ``(pass, module, form)`` to call after each pass: with ``TILE_DUMP_IR_DIR`` it writes
    ``<folder>/<kernel>/NN-<pass>.txt``, starting with the traced function as ``00-traced.txt``; without, nothing."""
    root = settings.dump_ir_dir
    if root is None:
        yield lambda pass_, module, form: None
        return
    folder = root / function.name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "00-traced.txt").write_text(function.script(spans=True))
    count = 0

    def write(pass_: Any, module: IRModule, form: str) -> None:
        nonlocal count
        count += 1
        (folder / f"{count:02d}-{pass_.name}.txt").write_text(f"# form {form}\n{module.script(spans=True)}")

    yield write


def write_sources(artifact: Artifact, root: Path) -> None:
    """Writes each generated source to ``<root>/<kernel>/``."""
    folder = root / artifact.name
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in artifact.sources.items():
        (folder / name).write_text(text)
