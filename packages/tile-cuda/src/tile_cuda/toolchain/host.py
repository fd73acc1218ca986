"""The host stub: C source and machine code → a shared library, by the system's C compiler.

The stub is compiled while the device compiler works and linked with the machine code afterwards.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from functools import cache
from pathlib import Path

from tile_core.errors import InternalError, ToolchainError, declare_codes
from tile_core.ffi import include_directories
from tile_core.settings import settings

from .nvrtc import DeviceCode

__all__ = ["HostCompile", "find_c_compiler", "host_identity"]

declare_codes(
    {
        "E-CC-MISSING": "no C++ compiler was found",
        "E-CC-FAILED": "the C++ compiler rejected generated code",
    }
)

_CANDIDATES = ("cc", "gcc", "clang")
_FLAGS = ("-std=gnu11", "-O2", "-fPIC", "-w", "-fvisibility=hidden")
_EMBED = """\
  .section .rodata
  .globl tile_cubin
  .hidden tile_cubin
  .balign 64
tile_cubin:
  .incbin "kernel.cubin"
  .byte 0
  .globl tile_ptx
  .hidden tile_ptx
tile_ptx:
  .incbin "kernel.ptx"
  .byte 0
  .section .note.GNU-stack,"",%progbits
"""


def find_c_compiler() -> tuple[str, ...]:
    """The compiler's command: TILE_CC (told that the text is C), else the first of cc, gcc, clang on PATH.

    Raises:
        ToolchainError: there is none.
    """
    if settings.cc:
        words = tuple(shlex.split(settings.cc))
        if shutil.which(words[0]):
            return words
        raise ToolchainError(
            "E-CC-MISSING",
            f"the compiler {words[0]!r} that TILE_CC names was not found",
            help="correct TILE_CC, or unset it to use cc, gcc or clang from PATH",
        )
    for name in _CANDIDATES:
        if shutil.which(name):
            return (name,)
    raise ToolchainError(
        "E-CC-MISSING",
        "the launcher of a CUDA kernel needs a C compiler, and none was found",
        facts=[f"looked for {', '.join(_CANDIDATES)} on PATH"],
        help='install one (Debian: apt-get install gcc), name one in TILE_CC, or use execution_backend="nvrtc"',
    )


def host_identity() -> str:
    """Compiler, version and flags."""
    return " ".join([_version(find_c_compiler()), *_FLAGS])


class HostCompile:
    """One stub under way: started by the constructor, finished by `link`."""

    def __init__(self, source: str, name: str, folder: Path) -> None:
        self.name, self.folder, self.source = name, folder, source
        self.command = find_c_compiler()
        (folder / "host.c").write_text(source, encoding="utf-8")
        includes = [f"-I{d}" for d in include_directories()]
        self.words = [*self.command, "-x", "c", *_FLAGS, *includes, "-c", "host.c", "-o", "host.o"]
        self.process = subprocess.Popen(
            self.words, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )

    def link(self, code: DeviceCode) -> bytes:
        """The library with `code` inside.

        Raises:
            InternalError: the compiler rejected the stub; its source is kept and named.
        """
        (self.folder / "kernel.cubin").write_bytes(code.cubin)
        (self.folder / "kernel.ptx").write_bytes(code.ptx)
        (self.folder / "binaries.s").write_text(_EMBED, encoding="utf-8")
        output, _ = self.process.communicate()
        if self.process.returncode:
            raise self._rejected(self.words, output)
        words = [*self.command, "-x", "assembler", "binaries.s", "-x", "none", "host.o"]
        words += ["-shared", "-o", "kernel.so", "-ldl", "-pthread"]
        run = subprocess.run(words, cwd=self.folder, capture_output=True, text=True)
        if run.returncode:
            raise self._rejected(words, run.stderr)
        return (self.folder / "kernel.so").read_bytes()

    def abandon(self) -> None:
        """Ends the compiler, when the device code failed."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()

    def _rejected(self, words: list[str], text: str) -> InternalError:
        descriptor, kept = _keep(self.name)
        with os.fdopen(descriptor, "w") as file:
            file.write(self.source)
        return InternalError(
            "E-CC-FAILED",
            f"{words[0]} rejected the launcher generated for {self.name}",
            facts=[f"the source is kept in {kept}", *text.splitlines()[:12]],
            help="this is a fault of Tile; please report it with that file",
        )


def _keep(name: str) -> tuple[int, str]:
    import tempfile

    return tempfile.mkstemp(suffix=".c", prefix=f"tile-{name}-")


@cache
def _version(command: tuple[str, ...]) -> str:
    run = subprocess.run([*command, "--version"], capture_output=True, text=True)
    return (run.stdout or run.stderr or command[0]).splitlines()[0]
