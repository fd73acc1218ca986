"""CudaToolchain: an artifact's sources → ``kernel.cubin``, ``kernel.ptx`` and ``kernel.so``."""

from __future__ import annotations

import json
import shlex
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from tile_core.plugin import Artifact
from tile_core.target import Target

from ..codegen import LINES, preludes
from ..target import architecture
from .host import HostCompile, host_identity
from .inspect import disassemble, resources
from .nvrtc import COMPILER_OPTION, DeviceCode, compile_device, compiler_version

__all__ = ["TOOLCHAIN", "CudaToolchain", "device_flags"]


LIBRARY = "kernel.so"
REPORT = "ptxas.txt"


class CudaToolchain:
    """Builds artifacts of the CUDA backend.

    Args:
        launcher: whether the library that launches from C is among what it builds; without it no C compiler is needed.
    """

    def __init__(self, launcher: bool = True) -> None:
        self.launcher = launcher

    def for_files(self, files: Iterable[str]) -> CudaToolchain:
        """The toolchain for an execution backend that loads these files."""
        return CudaToolchain(LIBRARY in files)

    def identity(self, target: Target) -> str:
        """What must change a cached kernel's key: device compiler, host compiler, flags.

        The option that chooses nvcc is part of the key by itself.
        """
        host = host_identity() if self.launcher else "no launcher"
        return f"{compiler_version('nvrtc')}; {host}"

    def build(self, artifact: Artifact) -> dict[str, bytes]:
        """The binaries of an artifact.

        Raises:
            ToolchainError: a compiler is missing.
            InternalError: a compiler rejected generated code; the source is kept and named. It is a ToolchainError when
                text or flags of the user's are part of it.
        """
        options = dict(artifact.function.attr("pass_configs", ()))
        compiler = options.get(COMPILER_OPTION, "nvrtc")
        flags = (*_words(artifact.notes.get("compile_flags")), *device_flags(options))
        arch = architecture(artifact.target).name
        theirs = bool(preludes(artifact.module.functions))
        text, name = artifact.sources["kernel.cu"], artifact.name
        if not self.launcher:
            code = compile_device(text, arch, compiler, flags, name, theirs, artifact.store)
            return _device_files(code)
        with tempfile.TemporaryDirectory(prefix="tile-cuda-") as folder:
            host = HostCompile(artifact.sources["host.c"], artifact.name, Path(folder))
            try:
                code = compile_device(text, arch, compiler, flags, name, theirs, artifact.store)
            except BaseException:
                host.abandon()
                raise
            library = host.link(code)
        return {**_device_files(code), LIBRARY: library}

    def resources(self, artifact: Artifact) -> list[dict[str, Any]]:
        """For each kernel its name, threads, shared_bytes, registers, spill_bytes and stack_bytes."""
        found = json.loads(artifact.sources[LINES])["kernels"]
        return resources(_content(artifact.binaries.get(REPORT, b"")).decode(), found)

    def disassemble(self, artifact: Artifact) -> str:
        """The machine code as text.

        Raises:
            ToolchainError: cuobjdump and nvdisasm are missing.
        """
        return disassemble(_content(artifact.binaries["kernel.cubin"]))


def _device_files(code: DeviceCode) -> dict[str, bytes]:
    return {"kernel.cubin": code.cubin, "kernel.ptx": code.ptx, REPORT: code.report.encode()}


def _content(binary: Any) -> bytes:
    return binary if isinstance(binary, bytes) else Path(binary).read_bytes()


def device_flags(options: Mapping[str, Any]) -> tuple[str, ...]:
    """Flags of the device compiler that pass options ask for."""
    flags = list(_words(options.get("tl.device_compile_flags")))
    if options.get("tl.enable_fast_math"):
        flags.append("--use_fast_math")
    level = options.get("tl.ptxas_register_usage_level")
    if level is not None:
        flags.append(f"--ptxas-options=--register-usage-level={level}")
    return tuple(flags)


def _words(flags: Any) -> tuple[str, ...]:
    if not flags:
        return ()
    return tuple(shlex.split(flags if isinstance(flags, str) else " ".join(flags)))


TOOLCHAIN = CudaToolchain()
