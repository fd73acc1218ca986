"""From generated device source to a library: the host's compiler, the instrumented kernels, the engine.

The engine is compiled once for a compiler and a version of its source; a kernel's library is kept by the digest of
everything that goes into it. Both lie under ``emulator`` in ``TILE_CACHE_DIR``.
"""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from tile_core.errors import InternalError, ToolchainError
from tile_core.ffi import HEADERS, include_directories
from tile_core.settings import settings

from . import errors as _codes  # declares the codes

__all__ = ["ENGINE", "KERNEL", "build_library", "find_tool", "source_lines"]

ENGINE = Path(__file__).parent / "engine"
KERNEL = "kernel.cu"
"""Name of the generated source; findings lead to its lines."""

assert _codes is not None

_COMMON = (
    "-std=c++17",
    "-fPIC",
    "-fvisibility=hidden",
    "-fno-exceptions",
    "-fno-rtti",
    "-fwrapv",
    "-fno-strict-aliasing",
)
_ENGINE_FLAGS = (*_COMMON, "-O3", "-fvisibility-inlines-hidden")
# -O1 keeps the source's accesses apart and compiles fast; -g1 gives lines and inlined calls, which binutils 2.40 reads
# rightly from DWARF 4 only. The linker doesn't see -fsanitize=thread, so no sanitizer library is linked: the engine
# defines what the instrumentation calls.
_KERNEL_FLAGS = (*_COMMON, "-O1", "-g1", "-gdwarf-4", "-w", "-fsanitize=thread", "-ffp-contract=off")
# A load stays where the source has it: no sinking behind a branch that may not use its value, and no hoisting out of a
# loop in which only some threads come to it (they alone have written what it reads).
_GCC_ONLY = ("--param=tsan-instrument-func-entry-exit=0", "-fno-tree-sink", "-fno-tree-loop-im")
_HOST_FLAGS = (*_COMMON, "-O1", "-w")
_EXPORTS = "{ global: tile_emu_*; __tvm_ffi_*; local: *; };\n"


def find_tool(*names: str) -> tuple[str, ...]:
    """The first of some programs that is on PATH, as a command.

    Raises:
        ToolchainError: none is.
    """
    for name in names:
        words = tuple(shlex.split(name))
        if words and shutil.which(words[0]):
            return words
    raise ToolchainError(
        "E-EMU-TOOL",
        f"the emulator needs {' or '.join(n for n in names if n)}, and none was found",
        facts=[f"PATH is {os.environ.get('PATH', '')}"],
        help="install g++ and binutils (Debian: apt-get install g++ binutils), or name a compiler in TILE_CC",
    )


def compiler() -> tuple[str, ...]:
    """TILE_CC, else the first C++ compiler on PATH."""
    return find_tool(*([settings.cc] if settings.cc else ["g++", "clang++", "c++"]))


def build_library(kernel: str, entries: Sequence[str], includes: Sequence[Path], host: str = "") -> Path:
    """The shared library with emulated kernels.

    Args:
        kernel: generated device source; includes what it needs by name.
        entries: names of its kernels; each becomes ``tile_emu_launch_<name>``.
        includes: folders with the backend's emulation headers.
        host: C++ text with packed host functions; "" for none.

    Raises:
        ToolchainError: no compiler.
        InternalError: the compiler rejected the source; the sources are kept and named.
    """
    command = compiler()
    glue = "\n".join([f'#include "{KERNEL}"', '#include "launch.h"', *(f"TILE_EMU_ENTRY({e})" for e in entries), ""])
    sources = {KERNEL: kernel, "glue.cc": glue, "host.cc": host, "exports.map": _EXPORTS}
    key = _digest(
        _version(command),
        _engine_digest(),
        *_KERNEL_FLAGS,
        *_GCC_ONLY,
        *sources.values(),
        *(_folder_digest(i) for i in includes),
    )
    folder = settings.cache_dir / "emulator" / key
    library = folder / "kernel.so"
    if library.is_file():
        return library
    engine = _engine_object(command)
    folder.parent.mkdir(parents=True, exist_ok=True)
    made = Path(tempfile.mkdtemp(prefix="making-", dir=folder.parent))
    for name, text in sources.items():
        (made / name).write_text(text, encoding="utf-8")
    paths = [f"-I{made}", f"-I{ENGINE}", f"-I{HEADERS}", *(f"-I{i}" for i in includes)]
    gcc = _GCC_ONLY if _is_gcc(command) else ()
    _run([*command, *_KERNEL_FLAGS, *gcc, *paths, "-c", str(made / "glue.cc"), "-o", str(made / "glue.o")], made)
    objects = [made / "glue.o"]
    if host:
        ffi = [f"-I{d}" for d in include_directories()]
        _run([*command, *_HOST_FLAGS, *paths, *ffi, "-c", str(made / "host.cc"), "-o", str(made / "host.o")], made)
        objects.append(made / "host.o")
    script = f"-Wl,--version-script={made / 'exports.map'}"
    link = [*command, "-shared", "-Wl,-Bsymbolic", script, *map(str, objects), str(engine), "-ldl", "-lrt"]
    _run([*link, "-o", str(made / "kernel.so")], made)
    for path in objects:
        path.unlink()
    return _publish(made, folder) / "kernel.so"


def source_lines(library: Path, offsets: Sequence[int]) -> dict[int, int]:
    """For return addresses in a library, the lines of the generated source that they belong to."""
    if not offsets:
        return {}
    # One byte before the return address lies in the call. -i lists inlined calls from the inside out.
    words = [*find_tool("addr2line", "llvm-addr2line"), "-a", "-i", "-e", str(library)]
    text = subprocess.run([*words, *(hex(offset - 1) for offset in offsets)], capture_output=True, text=True).stdout
    found: dict[int, int] = {}
    current = 0
    for line in text.splitlines():
        if line.startswith("0x"):
            current = int(line, 16) + 1
            continue
        place = re.match(r"(.*):(\d+)", line)
        if place and current not in found and Path(place[1]).name == KERNEL:
            found[current] = int(place[2])
    return found


def _engine_object(command: tuple[str, ...]) -> Path:
    key = _digest(_version(command), _engine_digest(), *_ENGINE_FLAGS)
    folder = settings.cache_dir / "emulator" / f"engine-{key}"
    target = folder / "engine.o"
    if target.is_file():
        return target
    folder.parent.mkdir(parents=True, exist_ok=True)
    made = Path(tempfile.mkdtemp(prefix="making-", dir=folder.parent))
    _run(
        [*command, *_ENGINE_FLAGS, f"-I{HEADERS}", "-c", str(ENGINE / "engine.cc"), "-o", str(made / "engine.o")], made
    )
    return _publish(made, folder) / "engine.o"


def _publish(made: Path, folder: Path) -> Path:
    """Gives a finished folder its name; when another process was faster, takes that one's."""
    try:
        made.rename(folder)
    except OSError:
        if not folder.is_dir():
            raise
        shutil.rmtree(made, ignore_errors=True)
    return folder


def _run(words: list[str], kept: Path) -> None:
    limit = settings.compile_timeout_seconds
    try:
        run = subprocess.run(words, capture_output=True, text=True, timeout=limit or None)
    except subprocess.TimeoutExpired:
        raise ToolchainError(
            "E-EMU-BUILD",
            f"compiling a kernel for the emulator took longer than {limit} s",
            help="raise TILE_COMPILE_TIMEOUT_SECONDS, or make the kernel's unrolled loops smaller",
        ) from None
    if run.returncode != 0:
        raise InternalError(
            "E-EMU-BUILD",
            f"{words[0]} rejected source that the emulator compiles",
            facts=[f"the sources are kept in {kept}", *run.stderr.splitlines()[:12]],
            help="g++ 11 or later compiles generated source; source of your own may use nothing but C++17 and the "
            "functions of the device header",
        )


def _digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]


@cache
def _engine_digest() -> str:
    return _digest(_folder_digest(ENGINE), _folder_digest(HEADERS))


def _folder_digest(folder: Path) -> str:
    files: Mapping[str, str] = {
        str(p.relative_to(folder)): p.read_text(encoding="utf-8") for p in sorted(folder.rglob("*")) if p.is_file()
    }
    return _digest(*(f"{name}\n{text}" for name, text in files.items()))


@cache
def _version(command: tuple[str, ...]) -> str:
    run = subprocess.run([*command, "--version"], capture_output=True, text=True)
    return " ".join([*command, *run.stdout.splitlines()[:1]])


def _is_gcc(command: tuple[str, ...]) -> bool:
    return "clang" not in _version(command).lower()
