"""Builds the C++ checks of the device headers, once for each instruction set that this machine can run."""

from __future__ import annotations

import ctypes
import functools
import os
import platform
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
HEADERS = HERE.parents[1] / "src" / "tile_cpu" / "device"
FLAGS = [
    "-std=c++17", "-O2", "-ffp-contract=fast", "-fno-math-errno", "-fno-trapping-math", "-fwrapv", "-fno-exceptions",
    "-fno-rtti", "-fPIC", "-shared", "-w", f"-I{HEADERS}",
]  # fmt: skip


def _instruction_sets() -> list[Any]:
    """The machine's own, and on x86 the older ones whose code paths differ: SSE2 and, where it runs, AVX2 (slow: each
    compiles every check anew)."""
    if platform.machine() not in ("x86_64", "AMD64"):
        return ["native"]
    cpuinfo = Path("/proc/cpuinfo")
    has_avx2 = cpuinfo.exists() and " avx2 " in cpuinfo.read_text()
    older = ["x86-64"] + (["haswell"] if has_avx2 else [])
    return ["native", *(pytest.param(name, marks=pytest.mark.slow) for name in older)]


@pytest.fixture(scope="session", params=_instruction_sets())
def march(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(scope="session")
def build(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., ctypes.CDLL]:
    """build("name.cpp", march, *flags): the loaded library; each combination is compiled once a session."""
    folder = tmp_path_factory.mktemp("device")

    @functools.cache
    def compile_and_load(source: str, march: str, *flags: str) -> ctypes.CDLL:
        compiler = os.environ.get("CXX") or shutil.which("g++") or shutil.which("clang++") or shutil.which("c++")
        assert compiler, "these tests need a C++ compiler"
        library = folder / f"{Path(source).stem}-{march}{''.join(flags)}.so"
        command = [
            compiler,
            *FLAGS,
            f"-march={march}",
            *(flags or ("-fopenmp",)),
            str(HERE / source),
            "-o",
            str(library),
        ]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr
        return ctypes.CDLL(str(library))

    return compile_and_load
