"""Twelve kernels, each right without ``PLANTED`` and with one mistake with it: every mistake is found in every schedule
and named with its buffer and lines; the right kernels are clean and double their input.

They use the device header's functions, so that they also compile for a device.
"""

from __future__ import annotations

import ctypes
import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from tile_cuda.device import emulation_include_dir
from tile_cuda.toolchain import compile_device
from tile_emulator.build import build_library
from tile_emulator.library import EmulatedLibrary
from tile_emulator.linemap import BufferView, LineMap
from tile_emulator.session import Session

FOLDER = Path(__file__).parent / "planted"
SCHEDULES = [("in_order", 0), ("latest", 0), ("random", 0), ("random", 1), ("random", 2)]
TILES = 5


@dataclass(frozen=True)
class Planted:
    """What is to be found: kind, buffer, the lines' marks; how the kernel is launched."""

    kind: str
    buffer: str
    marks: tuple[str, ...]
    views: tuple[tuple[str, int, int], ...] = ()
    grid: int = 1
    threads: int = 64
    shared: int = 3072


BUGS = {
    "wait_group_off_by_one": Planted("missing-wait", "ring", ("copy", "use"), (("ring", 0, 3072),)),
    "missing_wait": Planted("missing-wait", "tile_", ("copy", "use"), (("tile_", 0, 1024),)),
    "partial_barrier_count": Planted("deadlock", "", ("barrier",), (("half", 0, 256),), threads=128),
    "aliased_arena": Planted("aliased", "left", ("overwrite", "use"), (("left", 0, 256), ("right", 128, 256))),
    "divergent_collective": Planted("divergent-collective", "", ("shuffle",)),
    "uninitialised_tail": Planted("never-written", "row", ("use",), (("row", 0, 320),)),
    "flag_without_release": Planted("race", "handed", ("write", "use"), grid=2),
    "missing_fence": Planted("race", "handed", ("write", "use"), grid=2),
    "double_arrive": Planted("double-arrive", "", ("arrive", "again"), (("slots", 0, 256),)),
    "early_release": Planted("race", "slots", ("fill", "use"), (("slots", 0, 256),)),
    "missing_barrier": Planted("race", "turned", ("write", "use"), (("turned", 0, 256),)),
    "out_of_bounds": Planted("out-of-bounds", "A", ("copy",), (("rows", 0, 1280),)),
}


class Kernel:
    """One of the sources, with its mistake or without."""

    def __init__(self, name: str, planted: bool) -> None:
        bug = BUGS[name]
        text = (
            f'#include "tile_cuda.h"\n{"#define PLANTED 1" if planted else ""}\n' + (FOLDER / f"{name}.cu").read_text()
        )
        self.marks = {
            mark: number for number, line in enumerate(text.splitlines(), 1) for mark in re.findall(r"// @(\w+)", line)
        }
        views = [BufferView(*view) for view in bug.views] if planted else []
        library = build_library(text, [name], [emulation_include_dir()])
        self.library = EmulatedLibrary(library, LineMap(views=views, source=text))
        self.name, self.bug = name, bug

    def run(self, schedule: str, seed: int):
        """The report, and whether the numbers are right."""
        a = np.random.default_rng(3).standard_normal(TILES * 256).astype("f4")
        b = np.zeros_like(a)
        arguments = {"A": a, "B": b, "tiles": ctypes.c_int(TILES)}
        if self.bug.grid > 1:
            arguments |= {"handed": np.zeros_like(a), "flag": np.zeros(1, "i4")}
        shape = (self.bug.grid,), (self.bug.threads,), self.bug.shared
        report = self.library.launch(self.name, *shape, arguments, Session(schedule, seed), ("B",))
        return report, np.allclose(b, 2 * a, rtol=1e-5)


@pytest.fixture(scope="module")
def kernels():
    return {}


def kernel(kernels, name: str, planted: bool) -> Kernel:
    if (name, planted) not in kernels:
        kernels[name, planted] = Kernel(name, planted)
    return kernels[name, planted]


@pytest.mark.parametrize("schedule, seed", SCHEDULES)
@pytest.mark.parametrize("name", BUGS)
def test_the_right_kernel_is_clean(kernels, name, schedule, seed):
    report, right = kernel(kernels, name, False).run(schedule, seed)
    assert report.clean, report.render()
    assert right


@pytest.mark.parametrize("schedule, seed", SCHEDULES)
@pytest.mark.parametrize("name", BUGS)
def test_the_mistake_is_named(kernels, name, schedule, seed):
    made, bug = kernel(kernels, name, True), BUGS[name]
    report, _ = made.run(schedule, seed)
    wanted = (bug.kind, bug.buffer, frozenset(made.marks[mark] for mark in bug.marks))
    found = {(f.kind, f.buffer, frozenset(f.lines)) for f in report.findings}
    assert wanted in found, report.render()
    assert {f.buffer for f in report.findings} == {bug.buffer}, report.render()


@pytest.mark.layer("nvrtc")
@pytest.mark.parametrize("name", BUGS)
def test_the_sources_are_cuda(name):
    source = f'#include "tile_cuda.h"\n#define PLANTED 1\n{(FOLDER / f"{name}.cu").read_text()}'
    assert compile_device(source, "sm_80", name=name).cubin


def test_every_source_is_tried():
    assert sorted(BUGS) == sorted(path.stem for path in FOLDER.glob("*.cu"))
