"""Find the system's C++ compiler, say exactly which one it is, and turn a translation unit into a shared library."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

from tile_core.errors import InternalError, ToolchainError, declare_codes
from tile_core.ffi import HEADERS, include_directories
from tile_core.plugin.api import Artifact, Ok, Reason
from tile_core.settings import settings
from tile_core.target import Target

from ..machine import runnable

__all__ = ["TOOLCHAIN", "CompilerToolchain", "find_compiler"]

declare_codes(
    {
        "E-CC-MISSING": "no C++ compiler was found",
        "E-CC-FAILED": "the C++ compiler rejected generated code",
        "E-CC-TIMEOUT": "the C++ compiler took too long",
    }
)

# The first that exists is used when TILE_CC is not set.
_CANDIDATES = ("g++", "c++", "clang++")

# No -ffast-math: NaN and infinities keep their meaning. -fwrapv: integers wrap, as the language says.
_FLAGS = (
    "-std=c++17",
    # T.view shows memory as another type.
    "-fno-strict-aliasing",
    "-O3",
    "-ffp-contract=fast",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-fwrapv",
    "-fno-exceptions",
    "-fno-rtti",
    "-fPIC",
    "-shared",
    "-w",
    "-fvisibility=hidden",
)


def find_compiler() -> tuple[str, ...]:
    """The compiler's command: TILE_CC, else the first of g++, c++, clang++ on PATH.

    Raises:
        ToolchainError: there is none.
    """
    chosen = settings.cc
    if chosen:
        words = tuple(shlex.split(chosen))
        if shutil.which(words[0]):
            return words
        raise ToolchainError(
            "E-CC-MISSING",
            f"the compiler {words[0]!r} that TILE_CC names was not found",
            facts=[f"PATH is {os.environ.get('PATH', '')}"],
            help="correct TILE_CC, or unset it to use g++, c++ or clang++ from PATH",
        )
    for name in _CANDIDATES:
        if shutil.which(name):
            return (name,)
    raise ToolchainError(
        "E-CC-MISSING",
        "compiling for the CPU needs a C++17 compiler, and none was found",
        facts=[f"looked for {', '.join(_CANDIDATES)} on PATH"],
        help="install one (Debian: apt-get install g++; macOS: xcode-select --install), or name one in TILE_CC",
    )


class CompilerToolchain:
    """Builds artifacts of the CPU backend."""

    def identity(self, target: Target) -> str:
        """What must change a cached kernel's key: the compiler, its version and the flags."""
        command = find_compiler()
        return " ".join([_version(command), *self.flags(target, command)])

    def runnable(self, target: Target) -> Ok | Reason:
        """Whether this machine's processor executes code for the target.

        Raises:
            SettingError: TILE_NUM_THREADS is no number; kernels read it by themselves and could not say so.
        """
        _ = settings.num_threads
        return runnable(target)

    def flags(self, target: Target, command: tuple[str, ...]) -> list[str]:
        """Compiler flags for a target, without input, output and include folders."""
        flags = [*_FLAGS, *target_flags(target)]
        if _has_openmp(command):
            flags.append("-fopenmp")
        else:
            flags.append("-pthread")
        return flags

    def build(self, artifact: Artifact) -> dict[str, bytes]:
        """``kernel.so`` from the artifact's ``host.cpp``.

        Raises:
            ToolchainError: no compiler, or it ran past TILE_COMPILE_TIMEOUT_SECONDS.
            InternalError: the compiler rejected the generated code; the source is kept and named.
        """
        command = find_compiler()
        extra = shlex.split(" ".join(artifact.notes.get("compile_flags", ())))
        folders = (Path(__file__).parents[1] / "device", HEADERS, *include_directories())
        includes = [f"-I{folder}" for folder in folders]
        with tempfile.TemporaryDirectory(prefix="tile-cpu-") as folder:
            source, library = Path(folder) / f"{artifact.name}.cpp", Path(folder) / f"{artifact.name}.so"
            source.write_text(artifact.sources["host.cpp"], encoding="utf-8")
            words = [
                *command,
                *self.flags(artifact.target, command),
                *includes,
                *extra,
                str(source),
                "-o",
                str(library),
            ]
            run = self._run(words, artifact)
            if run.returncode != 0:
                raise self._rejected(artifact, words, run.stderr)
            return {"kernel.so": library.read_bytes()}

    @staticmethod
    def _run(words: list[str], artifact: Artifact) -> subprocess.CompletedProcess[str]:
        limit = settings.compile_timeout_seconds
        try:
            return subprocess.run(words, capture_output=True, text=True, timeout=limit or None)
        except subprocess.TimeoutExpired:
            raise ToolchainError(
                "E-CC-TIMEOUT",
                f"compiling {artifact.name} took longer than {limit} s",
                help="raise TILE_COMPILE_TIMEOUT_SECONDS, or make the kernel's unrolled loops smaller",
            ) from None

    @staticmethod
    def _rejected(artifact: Artifact, words: list[str], text: str) -> InternalError | ToolchainError:
        with tempfile.NamedTemporaryFile("w", suffix=".cpp", prefix=f"tile-{artifact.name}-", delete=False) as kept:
            kept.write(artifact.sources["host.cpp"])
        facts = [f"the source is kept in {kept.name}", f"command: {' '.join(words[:1])} …", *text.splitlines()[:12]]
        if ("unrecognized" in text and "option" in text) or artifact.notes.get("compile_flags"):
            return ToolchainError(
                "E-CC-FAILED",
                f"{words[0]} failed on {artifact.name}",
                facts=facts,
                help="check compile_flags and the target's -mcpu against this compiler",
            )
        return InternalError(
            "E-CC-FAILED",
            f"{words[0]} rejected the code generated for {artifact.name}",
            facts=facts,
            help="this is a fault of Tile unless the compiler is older than g++ 11; please report it with that file",
        )


def target_flags(target: Target) -> list[str]:
    """``-march`` and what goes with it."""
    flags = [f"-march={target.get('mcpu', 'native')}"]
    if int(target.get("vector_bits", 0) or 0) >= 512:
        flags.append("-mprefer-vector-width=512")
    return flags


@cache
def _version(command: tuple[str, ...]) -> str:
    run = subprocess.run([*command, "--version"], capture_output=True, text=True)
    return (run.stdout or run.stderr).splitlines()[0] if run.stdout or run.stderr else " ".join(command)


@cache
def _has_openmp(command: tuple[str, ...]) -> bool:
    run = subprocess.run(
        [*command, "-fopenmp", "-x", "c++", "-E", "-", "-o", os.devnull],
        input="#include <omp.h>\n",
        capture_output=True,
        text=True,
    )
    return run.returncode == 0


TOOLCHAIN = CompilerToolchain()
