"""Hand-written kernels of the shape of generated ones, run by the emulator."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tile_emulator.build import build_library
from tile_emulator.library import EmulatedLibrary
from tile_emulator.linemap import BufferView, LineMap
from tile_emulator.report import Report
from tile_emulator.session import Session

INCLUDE = Path(__file__).parent / "include"
SCHEDULES = [("in_order", 0), ("latest", 0), *(("random", seed) for seed in range(4))]


class HandWritten:
    """A kernel's source with the arena's views; ``// @name`` in it marks a line that tests speak of."""

    def __init__(self, source: str, views: dict[str, tuple[int, int]], includes: Path = INCLUDE) -> None:
        text = '#include "tile_cuda.h"\n' + source
        self.marks = {
            mark: number for number, line in enumerate(text.splitlines(), 1) for mark in re.findall(r"// @(\w+)", line)
        }
        names = re.findall(r"__global__ void (?:__launch_bounds__\(\d+\) )?(\w+)\(", text)
        lines = LineMap(views=[BufferView(name, *place) for name, place in views.items()], source=text)
        self.library = EmulatedLibrary(build_library(text, names, [includes]), lines)
        self.kernel = names[0]

    def run(
        self,
        grid: int | tuple[int, ...],
        block: int,
        shared: int,
        schedule: str = "in_order",
        seed: int = 0,
        **more: Any,
    ) -> Report:
        arguments = {k: v for k, v in more.items() if k not in ("fresh", "off", "explore", "delay")}
        session = Session(schedule, seed, tuple(more.get("off", ())), more.get("explore", 0), more.get("delay", 0))
        grid = (grid,) if isinstance(grid, int) else grid
        return self.library.launch(self.kernel, grid, (block,), shared, arguments, session, more.get("fresh", ()))

    def lines(self, *marks: str) -> tuple[int, ...]:
        return tuple(self.marks[m] for m in marks)


@pytest.fixture(scope="session")
def hand_written() -> Callable[..., HandWritten]:
    made: dict[Any, HandWritten] = {}

    def make(source: str, **views: tuple[int, int]) -> HandWritten:
        key = (source, tuple(views.items()))
        if key not in made:
            made[key] = HandWritten(source, views)
        return made[key]

    return make
