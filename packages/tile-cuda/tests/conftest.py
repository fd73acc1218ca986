"""Generated and hand-written kernels, run by the emulator through the emulation header."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from tile_core.ir import IRModule, PrimFunc
from tile_core.plugin import Artifact
from tile_core.target import parse_target
from tile_core.transform import MakePackedAPI, SplitHostDevice
from tile_core.transform.base import PassContext
from tile_cuda.codegen import LINES, generate
from tile_cuda.device import emulation_include_dir
from tile_cuda.target import resolve_target
from tile_cuda.toolchain import TOOLCHAIN
from tile_emulator.build import build_library
from tile_emulator.library import EmulatedLibrary
from tile_emulator.linemap import LineMap
from tile_emulator.session import Session


class Emulated:
    """A translation unit for the emulator: kernels by name."""

    def __init__(self, source: str, names: list[str], lines: str = "{}") -> None:
        library = build_library(source, names, [emulation_include_dir()])
        self.library = EmulatedLibrary(library, LineMap.from_text(lines))

    def run(
        self,
        kernel: str,
        arguments: Mapping[str, Any],
        grid: tuple[int, ...] = (1,),
        threads: int = 32,
        shared: int = 0,
        schedule: str = "latest",
    ) -> None:
        """One launch, which must be clean; arrays are updated in place."""
        report = self.library.launch(kernel, grid, (threads,), shared, arguments, Session(schedule))
        assert not report.findings, "\n".join(f.render() for f in report.findings)


class Flat:
    """A function in form FLAT taken to sources, to binaries and through the emulator."""

    def __init__(self, function: PrimFunc, arch: str = "sm_80") -> None:
        self.function, self.target = function, resolve_target(parse_target(f"cuda -arch={arch}"))
        context = PassContext(self.target)
        module = SplitHostDevice().apply(IRModule((function,)), context)
        self.module = MakePackedAPI("cuda").apply(module, context)
        self.sources = generate(self.module, self.target)

    @property
    def kernel(self) -> str:
        return self.sources["kernel.cu"]

    def build(self) -> dict[str, bytes]:
        artifact = Artifact(self.target, self.function.name, self.function, self.module, self.sources)
        return TOOLCHAIN.build(artifact)

    def emulate(self, *arrays: Any, grid: tuple[int, ...] = (1,), threads: int = 32, shared: int = 0) -> None:
        """Runs its one kernel; `arrays` in the order of the device function's parameters."""
        device = next(f for f in self.module.functions if f.attr("calling_convention") == "device")
        arguments = {param.name: array for param, array in zip(device.params, arrays)}
        emulated = Emulated(self.kernel, [device.name], self.sources[LINES])
        emulated.run(device.name, arguments, grid, threads, shared)


@pytest.fixture(scope="session")
def emulated():
    """(source, kernel names) → Emulated."""
    return Emulated


@pytest.fixture(scope="session")
def flat():
    """(function, arch) → Flat."""
    return Flat
