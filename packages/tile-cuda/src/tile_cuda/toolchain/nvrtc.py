"""CUDA source → machine code, by NVRTC (a library, no process) or by nvcc, which must be asked for.

Both give a cubin for the target's architecture and the PTX that goes with it, which the driver of a newer device can
compile. A text that was compiled in this process before is not compiled again.
"""

from __future__ import annotations

import hashlib
import importlib
import os
import shutil
import subprocess
import tempfile
import threading
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from tile_core.codegen.includes import include_digests
from tile_core.errors import InternalError, ToolchainError, declare_codes
from tile_core.plugin import BinaryStore
from tile_core.settings import settings

from ..device import HEADER_NAME, device_header, include_dir
from .inspect import assembler_report

__all__ = ["COMPILERS", "COMPILER_OPTION", "DeviceCode", "compile_device", "compiler_version"]

declare_codes(
    {
        "E-NVRTC-MISSING": "NVRTC is not installed, or cannot be loaded",
        "E-NVCC-MISSING": "nvcc was asked for and not found",
        "E-NVRTC-FAILED": "the device compiler rejected generated code",
        "E-NVRTC-TIMEOUT": "the device compiler took too long",
    }
)

COMPILERS = ("nvrtc", "nvcc")
COMPILER_OPTION = "tl.cuda_compiler"
"""The pass option that chooses among them; tile_core.transform.peer_options declares it."""

_HELP = "install them with: pip install 'nvidia-cuda-nvrtc>=13,<14' 'cuda-python>=13,<14'"
# Generated code trips over "loop is not reachable" and its like in branches that if constexpr left out.
# No -lineinfo: it makes machine code three times as large; compile_flags=["-lineinfo"] is for who profiles.
# -v: the assembler tells registers and spills; it costs nothing.
_NVRTC_FLAGS = ("--std=c++17", "--disable-warnings", "--ptxas-options=-v")
_NVCC_FLAGS = ("-std=c++17", "-w", "-Xptxas=-v")


@dataclass(frozen=True)
class DeviceCode:
    """What a compile gives: machine code for one architecture, and PTX text."""

    cubin: bytes
    ptx: bytes
    report: str = ""  # the assembler's: registers, spills


_FILES = ("kernel.cubin", "kernel.ptx", "ptxas.txt")
_done: dict[str, DeviceCode] = {}
_lock = threading.Lock()


def compile_device(
    source: str,
    arch: str,
    compiler: str = "nvrtc",
    flags: tuple[str, ...] = (),
    name: str = "kernel",
    users_text: bool = False,
    store: BinaryStore | None = None,
) -> DeviceCode:
    """The machine code of a translation unit for an architecture such as ``sm_80``.

    Args:
        source: the text; it includes the device header by name.
        arch: for which architecture.
        compiler: one of COMPILERS.
        flags: the user's further flags.
        name: of the kernel, for messages.
        users_text: whether text of the user's is part of the source (T.import_source).
        store: asked before compiling, and told the result.

    Raises:
        ToolchainError: the compiler is missing, or nvcc ran past TILE_COMPILE_TIMEOUT_SECONDS.
        InternalError: it rejected the source, which is kept and named; a ToolchainError when flags or text of the
            user's are part of it.
    """
    included = include_digests(source, flags) if users_text or flags else []
    words = (compiler_version(compiler), arch, *flags, device_header(), source, *included)
    key = hashlib.sha256("\0".join(words).encode()).hexdigest()
    with _lock:
        found = _done.get(key)
    if found is None:
        parts = {
            "compiler": compiler_version(compiler),
            "options": [*(_NVRTC_FLAGS if compiler == "nvrtc" else _NVCC_FLAGS), *flags],
            "arch": arch,
            "header": device_header(),
            "source": source,
            "includes": included,
        }
        kept = store.find("cuda", parts) if store is not None else None
        if kept is not None and set(_FILES) <= set(kept):
            found = DeviceCode(kept["kernel.cubin"], kept["kernel.ptx"], kept["ptxas.txt"].decode())
        else:
            found = _COMPILE[compiler](source, arch, flags, name, users_text)
            if store is not None:
                store.keep("cuda", parts, dict(zip(_FILES, (found.cubin, found.ptx, found.report.encode()))))
        with _lock:
            _done[key] = found
    return found


def compiler_version(compiler: str = "nvrtc") -> str:
    """Which compiler it is, exactly.

    Raises:
        ToolchainError: it is missing.
    """
    return _nvrtc_version() if compiler == "nvrtc" else _nvcc_version()


# NVRTC.


@cache
def _nvrtc() -> Any:
    try:
        nvrtc = importlib.import_module("cuda.bindings.nvrtc")
    except ImportError as error:
        raise _missing("the package cuda.bindings cannot be imported", error) from error
    try:
        nvrtc.nvrtcVersion()
    except Exception as error:
        raise _missing("the NVRTC library cannot be loaded", error) from error
    return nvrtc


def _missing(what: str, error: Exception) -> ToolchainError:
    lines = str(error).splitlines() or [""]
    return ToolchainError(
        "E-NVRTC-MISSING",
        f"compiling for CUDA needs NVRTC 13: {what}",
        facts=[f"found: {type(error).__name__}: {lines[0]}"],
        help=_HELP,
    )


@cache
def _nvrtc_version() -> str:
    status, major, minor = _nvrtc().nvrtcVersion()
    if int(status) or major < 13:
        raise ToolchainError(
            "E-NVRTC-MISSING",
            "compiling for CUDA needs NVRTC 13",
            facts=[f"found: NVRTC {major}.{minor}"],
            help=_HELP,
        )
    return f"nvrtc {major}.{minor}"


def _compile_nvrtc(source: str, arch: str, flags: tuple[str, ...], name: str, users_text: bool) -> DeviceCode:
    nvrtc = _nvrtc()
    status, program = nvrtc.nvrtcCreateProgram(
        source.encode(), f"{name}.cu".encode(), 1, [device_header().encode()], [HEADER_NAME.encode()]
    )
    _check(nvrtc, status, "nvrtcCreateProgram")
    try:
        options = [f"--gpu-architecture={arch}".encode(), *(f.encode() for f in (*_NVRTC_FLAGS, *flags))]
        (status,) = nvrtc.nvrtcCompileProgram(program, len(options), options)
        log = _text(nvrtc, program, "ProgramLog").decode(errors="replace").strip()
        if int(status):
            raise _rejected("NVRTC", name, source, arch, log or str(status), flags, users_text)
        return DeviceCode(
            _text(nvrtc, program, "CUBIN"), _text(nvrtc, program, "PTX").rstrip(b"\0"), assembler_report(log)
        )
    finally:
        nvrtc.nvrtcDestroyProgram(program)


def _text(nvrtc: Any, program: Any, what: str) -> bytes:
    status, size = getattr(nvrtc, f"nvrtcGet{what}Size")(program)
    _check(nvrtc, status, f"nvrtcGet{what}Size")
    buffer = bytes(size)
    (status,) = getattr(nvrtc, f"nvrtcGet{what}")(program, buffer)
    _check(nvrtc, status, f"nvrtcGet{what}")
    return buffer.rstrip(b"\0") if what == "ProgramLog" else buffer


def _check(nvrtc: Any, status: Any, what: str) -> None:
    if int(status):
        raise ToolchainError("E-NVRTC-MISSING", f"{what} failed", facts=[f"found: {status}"], help=_HELP)


def _rejected(
    compiler: str, name: str, source: str, arch: str, log: str, flags: tuple[str, ...], users_text: bool
) -> InternalError | ToolchainError:
    with tempfile.NamedTemporaryFile("w", suffix=".cu", prefix=f"tile-{name}-", delete=False) as kept:
        kept.write(source)
    facts = [f"the source is kept in {kept.name}", f"architecture: {arch}", *log.splitlines()[:12]]
    if flags or users_text:
        advice = [f"compile_flags: {' '.join(flags)}"] if flags else []
        advice += ["the text given to T.import_source"] if users_text else []
        return ToolchainError(
            "E-NVRTC-FAILED", f"{compiler} failed on {name}", facts=facts, help=f"check {' and '.join(advice)}"
        )
    return InternalError(
        "E-NVRTC-FAILED",
        f"{compiler} rejected the code generated for {name}",
        facts=facts,
        help="this is a fault of Tile; please report it with that file",
    )


# nvcc.


@cache
def _nvcc() -> str:
    root = os.environ.get("CUDA_HOME") or os.environ.get("CUDA_PATH")
    inside = os.path.join(root, "bin", "nvcc") if root else ""
    found = (inside if inside and os.access(inside, os.X_OK) else None) or shutil.which("nvcc")
    if found is None:
        raise ToolchainError(
            "E-NVCC-MISSING",
            f"{COMPILER_OPTION} asks for nvcc, which was not found",
            facts=["looked on PATH and in CUDA_HOME/bin"],
            help=f"install the CUDA toolkit 13, or leave out {COMPILER_OPTION} to use NVRTC",
        )
    return found


@cache
def _nvcc_version() -> str:
    run = subprocess.run([_nvcc(), "--version"], capture_output=True, text=True)
    return run.stdout.strip().splitlines()[-1] if run.stdout.strip() else _nvcc()


def _compile_nvcc(source: str, arch: str, flags: tuple[str, ...], name: str, users_text: bool) -> DeviceCode:
    with tempfile.TemporaryDirectory(prefix="tile-cuda-") as folder:
        path = Path(folder) / f"{name}.cu"
        path.write_text(source, encoding="utf-8")
        outputs, log = [], ""
        for kind in ("cubin", "ptx"):
            output = Path(folder) / f"{name}.{kind}"
            words = [_nvcc(), f"-{kind}", f"-arch={arch}", *_NVCC_FLAGS, *flags, f"-I{include_dir()}"]
            limit = settings.compile_timeout_seconds
            try:
                run = subprocess.run(
                    [*words, str(path), "-o", str(output)], capture_output=True, text=True, timeout=limit or None
                )
            except subprocess.TimeoutExpired:
                raise ToolchainError(
                    "E-NVRTC-TIMEOUT",
                    f"compiling {name} took longer than {limit} s",
                    help="raise TILE_COMPILE_TIMEOUT_SECONDS, or make the kernel's unrolled loops smaller",
                ) from None
            if run.returncode:
                raise _rejected("nvcc", name, source, arch, run.stderr or run.stdout, flags, users_text)
            outputs.append(output.read_bytes())
            log += run.stderr
        return DeviceCode(outputs[0], outputs[1], assembler_report(log))


_COMPILE = {"nvrtc": _compile_nvrtc, "nvcc": _compile_nvcc}
