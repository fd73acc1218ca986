"""Acme's toolchain, the system's C++ compiler, and its execution backend.

The runtime's `tvm_ffi` loads what the toolchain makes, too, and explains wrong arguments; ours is the least that works.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tile_core.errors import ToolchainError, declare_codes
from tile_core.ffi import include_directories, load_module
from tile_core.plugin import Artifact, Ok, Reason
from tile_core.target import Target

__all__ = ["TOOLCHAIN", "available", "build"]

declare_codes({"E-ACME-CC": "acme's compiler is missing or failed"})


class Toolchain:
    """``acme.cpp`` → ``kernel.so``."""

    def identity(self, target: Target) -> str:
        """The compiler and its version."""
        return subprocess.run([_compiler(), "--version"], capture_output=True, text=True).stdout.splitlines()[0]

    def build(self, artifact: Artifact) -> dict[str, bytes]:
        """The shared library's bytes.

        Raises:
            ToolchainError: there is no compiler, or it failed.
        """
        with tempfile.TemporaryDirectory() as folder:
            source, library = Path(folder, "acme.cpp"), Path(folder, "kernel.so")
            source.write_text(artifact.sources["acme.cpp"])
            flags = ["-std=c++17", "-O1", "-fwrapv", "-fPIC", "-shared", "-w"]
            includes = [f"-I{d}" for d in include_directories()]
            run = subprocess.run(
                [_compiler(), *flags, *includes, source, "-o", library], capture_output=True, text=True
            )
            if run.returncode != 0:
                raise ToolchainError("E-ACME-CC", f"the compiler failed on {artifact.name}", facts=[run.stderr[:2000]])
            return {"kernel.so": library.read_bytes()}


TOOLCHAIN = Toolchain()


def available() -> Ok | Reason:
    """Whether there is a compiler."""
    return Ok("c++") if shutil.which("c++") else Reason("there is no c++ on PATH", "install a C++ compiler")


def build(artifact: Artifact) -> Callable[..., Any]:
    """The kernel's entry; it takes torch tensors and raises RuntimeError for wrong ones."""
    library = artifact.binaries["kernel.so"]
    if not isinstance(library, bytes):
        return load_module(library).get_function(artifact.entry)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "kernel.so")
        path.write_bytes(library)
        return load_module(path).get_function(artifact.entry)


def _compiler() -> str:
    found = shutil.which("c++")
    if found is None:
        raise ToolchainError("E-ACME-CC", "there is no c++ on PATH", help="install a C++ compiler")
    return found
