"""The execution backend ``emulate``: a kernel for a device, called with CPU tensors and watched while it runs."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from tile_core import api
from tile_core.errors import PluginError, ToolchainError
from tile_core.plugin import Artifact, Ok, Reason, registry, resolve

from .build import KERNEL, build_library, compiler, find_tool
from .errors import EmulationError
from .host import device_functions, host_source
from .library import EmulatedLibrary
from .linemap import LineMap
from .report import Report
from .session import current_session

__all__ = ["EmulatedKernel", "available", "build"]

LINES = "lines.json"


def available() -> Ok | Reason:
    """Whether this machine has a C++ compiler and addr2line."""
    try:
        command = compiler()
        find_tool("addr2line", "llvm-addr2line")
    except ToolchainError as error:
        return Reason(error.summary, error.help or "")
    return Ok(f"compiles with {command[0]}")


def build(artifact: Artifact) -> EmulatedKernel:
    """The artifact as a callable for CPU tensors.

    Raises:
        PluginError: the target's backend has no emulation.
        EmulationError: the source has inline PTX, which can't be run.
        ToolchainError: no compiler.
        InternalError: the compiler rejected generated source.
    """
    backend = registry.backend_for(artifact.target.kind)
    if backend.emulation is None or KERNEL not in artifact.sources:
        raise PluginError(
            "E-EMU-SOURCE",
            f"kernels for {artifact.target.kind} can't be emulated",
            facts=[
                f"backend {backend.name} has {'no emulation header' if backend.emulation is None else f'no {KERNEL}'}"
            ],
            help="use a target whose backend has one, such as cuda",
        )
    _refuse_assembly(artifact)
    module = artifact.module
    if not device_functions(module):  # it comes from the disk cache, which keeps sources only
        module = api.lower(artifact.function, artifact.target).module
    lines = artifact.sources.get(LINES, "{}")
    names = [f.name for f in device_functions(module)]
    includes = [resolve(backend.emulation)()]
    path = build_library(artifact.sources[KERNEL], names, includes, host_source(module, lines))
    # What loads any library with a packed entry; it also turns failed checks into errors with the parameter's line.
    loader = registry.current().get("tile.execution_backends", "tvm_ffi")
    entry = resolve(loader.build)(replace(artifact, binaries={"kernel.so": path}))
    # Opened after the loader has it: that brings the tvm-ffi library which it needs.
    return EmulatedKernel(
        artifact.name, entry, EmulatedLibrary(path, LineMap.from_text(lines, artifact.sources[KERNEL]))
    )


def _refuse_assembly(artifact: Artifact) -> None:
    """Generated source keeps assembly in the device header; where there is some, a user wrote it."""
    for number, line in enumerate(artifact.sources[KERNEL].splitlines(), 1):
        if re.search(r"\b(asm|__asm__)\b", line.partition("//")[0]):
            raise EmulationError(
                "E-EMU-UNCHECKED",
                f"{artifact.name}: inline PTX can't be emulated",
                facts=[f"line {number} of its {KERNEL}: {line.strip()}"],
                help="use functions of the device header instead, or check this kernel on a device",
            )


class EmulatedKernel:
    """Calls run in the emulator, as the innermost ``with emulation(…)`` block says.

    Args:
        name: the kernel's.
        entry: the packed function.
        library: where it lives.
    """

    def __init__(self, name: str, entry: Callable[..., Any], library: EmulatedLibrary) -> None:
        self.name = name
        self.entry = entry
        self.library = library

    def __call__(self, *args: Any) -> Any:
        """Runs the kernel.

        Raises:
            ArgumentError: arguments that don't fit.
            EmulationError: the run found something, or could not run all of the source.
        """
        session = current_session()
        with self.library.lock:
            self.library.begin(session)
            result = self.entry(*args)
            report = self.library.report()
        session.reports.append(report)
        if session.raises and not report.clean:
            raise self._error(report)
        return result

    def _error(self, report: Report) -> EmulationError:
        if not report.findings:
            return EmulationError(
                "E-EMU-UNCHECKED",
                f"{self.name}: the emulator could not run all of its source",
                facts=report.unchecked,
                help="such source is checked on a device only",
                report=report,
            )
        first = report.findings[0]
        places = [(f"thread {a.thread} of block {a.block} {a.verb} here", a.span) for a in first.accesses]
        facts = [line for finding in report.findings[1:] for line in finding.render().splitlines()]
        if not any(span for _, span in places):
            facts = [*first.render().splitlines()[1:], *facts]
        waiting = [f"{group.verb} ({group.place})" for group in first.waiting]
        return EmulationError(
            "E-EMU-FINDING",
            f"{self.name}: {first.summary}",
            spans=places,
            facts=[*waiting, *facts],
            report=report,
        )
