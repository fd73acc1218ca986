"""The extension through which Python calls kernels (`packed_call.cpp`): compiled on first use, kept in the cache.

It takes a call from the interpreter straight to the library's entry. Without it (no C++ compiler, no headers of Python)
kernels are called through tvm-ffi's own functions, which does the same more slowly.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import platform
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import threading
from collections.abc import Callable
from importlib.machinery import ExtensionFileLoader
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

from tile_core.errors import ToolchainError, declare_codes
from tile_core.ffi import include_directories, tvm_ffi_module
from tile_core.plugin.api import Artifact, Ok, Reason

from ..diagnostics import say
from ..signature import Signature

__all__ = ["available", "entry", "extension"]

declare_codes({"E-EXTENSION": "the extension that calls kernels cannot be compiled or does not work"})

_SOURCE = Path(__file__).with_name("packed_call.cpp")
_NAME = _SOURCE.stem
_DEVICE_TYPES = {"cuda": 2}
_lock = threading.Lock()
_loaded: list[ModuleType | ToolchainError] = []


def available() -> Ok | Reason:
    """Whether a C++ compiler and Python's headers are here."""
    if _compiler() is None:
        return Reason("there is no C++ compiler", "install one (Debian: apt-get install g++)")
    if not (Path(sysconfig.get_paths()["include"]) / "Python.h").is_file():
        return Reason("Python's headers are missing", "install them (Debian: apt-get install python3-dev)")
    return Ok("an extension compiled on first use")


def extension() -> ModuleType:
    """The extension, ready for use; asked for again, the same one or the same error.

    Raises:
        ToolchainError: it cannot be compiled, or does not work here.
    """
    with _lock:
        if not _loaded:
            try:
                _loaded.append(_started(_imported(_compiled())))
            except ToolchainError as error:
                _loaded.append(error)
                if available():
                    say(
                        f"{error.summary}; they are called through tvm-ffi, some µs slower. {' '.join(error.facts[:1])}"
                    )
        found = _loaded[0]
    if isinstance(found, ToolchainError):
        raise found
    return found


def entry(
    artifact: Artifact,
    library: ctypes.CDLL,
    explain: Callable[..., Exception],
    *,
    other: Callable[..., Any] | None = None,
    lazy: tuple[int, ...] = (),
    takes_stream: bool = False,
) -> Callable[..., Any]:
    """The artifact's entry as a callable of the extension.

    Args:
        artifact: gives the name, the number of outputs and the kind of device.
        library: where the entry is; it stays loaded.
        explain: gives the exception for (kind, message, context, args): what the entry raised, kind ``BufferError`` for
            a tensor that torch would not hand over, ``lazy`` for one with the negative bit.
        other: called in its place with arguments that are not torch tensors, numbers or None.
        lazy: places of arguments whose negative bit is asked for.
        takes_stream: whether `stream` may be given by name.

    Raises:
        ToolchainError: there is no extension.
    """
    address = ctypes.cast(getattr(library, f"__tvm_ffi_{artifact.entry}"), ctypes.c_void_p).value
    outputs, device_type = len(Signature(artifact.function).outputs), _DEVICE_TYPES.get(artifact.target.kind, 1)
    return extension().Entry(address, outputs, device_type, takes_stream, lazy, explain, other, library)


def _started(module: ModuleType) -> ModuleType:
    """The module, after it has found what it uses of torch; the samples are what it checks that with."""
    import torch

    from ..kernel import Kernel

    parameter = torch.nn.Parameter(torch.zeros(2, 0, 3, dtype=torch.bfloat16), requires_grad=False)
    samples = (
        torch.zeros(4, 6)[1:, ::2],
        torch.zeros(3, dtype=torch.int64),
        torch.zeros((), dtype=torch.bool),
        parameter,
    )
    try:
        module.start(torch, samples)
        module.hasten(Kernel)
    except Exception as error:
        raise ToolchainError(
            "E-EXTENSION", "the extension that calls kernels does not work with this torch", facts=(f"found: {error}",)
        ) from error
    return module


def _compiled() -> bytes:
    """The extension's library, from the cache or made now."""
    import torch

    from ..compiler import binary_store

    parts = {
        "torch": f"{torch.__version__} {torch.version.git_version}",  # its headers are used
        "sources": [path.read_text(encoding="utf-8") for path in (_SOURCE, _SOURCE.with_name("torch_tensors.h"))],
        "python": f"{sys.implementation.cache_tag}-{platform.machine()}",
        "tvm_ffi": tvm_ffi_module().__version__,
    }
    store = binary_store()
    found = store.find("extension", parts) if store is not None else None
    if found is not None:
        return found["extension.so"]
    outcome = available()
    if isinstance(outcome, Reason):
        raise ToolchainError("E-EXTENSION", outcome.text, help=outcome.help)
    with tempfile.TemporaryDirectory(prefix="tile-extension-") as folder:
        library = _build(Path(folder), _compiler() or "")
    if store is not None:
        store.keep("extension", parts, {"extension.so": library})
    return library


def _build(folder: Path, compiler: str) -> bytes:
    """Compiled with torch's headers where that goes, else without: tensors are then read through DLPack."""
    import torch

    library = folder / f"{_NAME}.so"
    (include,) = include_directories()
    libraries, home = include.parent / "lib", Path(torch.__file__).parent
    words = [compiler, "-O2", "-fPIC", "-shared", "-w", f"-I{sysconfig.get_paths()['include']}", f"-I{include}"]
    words += [str(_SOURCE), "-o", str(library), f"-L{libraries}", "-ltvm_ffi", f"-Wl,-rpath,{libraries}", "-ldl"]
    with_torch = ["-std=c++20", "-DTILE_TORCH_HEADERS", f"-I{home / 'include'}", f"-L{home / 'lib'}", "-lc10"]
    run = subprocess.run([*words, *with_torch, f"-Wl,-rpath,{home / 'lib'}"], capture_output=True, text=True)
    if run.returncode:
        run = subprocess.run([*words, "-std=c++17"], capture_output=True, text=True)
    if run.returncode:
        raise ToolchainError(
            "E-EXTENSION",
            f"{Path(compiler).name} failed on the extension that calls kernels",
            facts=(run.stderr or run.stdout).splitlines()[:12],
        )
    return library.read_bytes()


def _imported(library: bytes) -> ModuleType:
    descriptor, path = tempfile.mkstemp(prefix="tile-", suffix=".so")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(library)
        loader = ExtensionFileLoader(_NAME, path)
        spec = spec_from_file_location(_NAME, path, loader=loader)
        assert spec is not None
        module = module_from_spec(spec)
        loader.exec_module(module)
        return module
    except ImportError as error:
        raise ToolchainError(
            "E-EXTENSION", "the extension that calls kernels cannot be loaded", facts=(f"found: {error}",)
        ) from error
    finally:
        with contextlib.suppress(OSError):
            os.unlink(path)


def _compiler() -> str | None:
    return next((name for name in ("c++", "g++", "clang++") if shutil.which(name)), None)
