"""The execution backend ``cython``: the same library, called by a small extension with the stream as an argument.

    kernel(a, b, stream=torch.cuda.Stream())     or an address, or nothing for torch's current one

The extension is written in Cython and compiled on first use, so it needs Cython, a C compiler and Python's headers; it
is kept in the cache beside the device binaries. It takes torch tensors only.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib.util
import os
import platform
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import threading
from collections.abc import Callable
from importlib.machinery import ExtensionFileLoader
from pathlib import Path
from types import ModuleType
from typing import Any

from tile_core.errors import ToolchainError, declare_codes
from tile_core.ffi import include_directories, tvm_ffi_module
from tile_core.plugin.api import Artifact, ExecutionBackend, Ok, Reason
from tile_core.settings import settings

from ..arguments import lazily_negatable, lazy_argument, refused_argument
from ..signature import Signature
from .tvm_ffi import LIBRARY, explained, library_of

__all__ = ["CYTHON", "available", "build"]

CYTHON = ExecutionBackend(
    name="cython",
    api=(1, 0),
    targets=("*",),  # any backend whose toolchain gives a library with the entry
    available="tile_runtime.backends.cython:available",
    build="tile_runtime.backends.cython:build",
    files=(LIBRARY,),
    callee_allocates=True,
    stream="pass",
)

declare_codes({"E-CYTHON": "the extension that calls kernels cannot be compiled"})

_NAME = "cython_call"
_SOURCE = Path(__file__).with_name(f"{_NAME}.pyx")
_DEVICE_TYPES = {"cuda": 2}
_lock = threading.Lock()
_loaded: list[ModuleType] = []


def available() -> Ok | Reason:
    """Whether Cython, a C compiler and Python's headers are here."""
    if importlib.util.find_spec("Cython") is None:
        return Reason("Cython is not installed", "install it: pip install 'tile-runtime[cython]'")
    if _compiler() is None:
        return Reason("there is no C compiler", "install one (Debian: apt-get install gcc), or name one in TILE_CC")
    if not (Path(sysconfig.get_paths()["include"]) / "Python.h").is_file():
        return Reason("Python's headers are missing", "install them (Debian: apt-get install python3-dev)")
    return Ok("an extension compiled on first use")


def build(artifact: Artifact) -> Callable[..., Any]:
    """The artifact's entry as a callable: inputs in, outputs out, ``stream=`` besides.

    Raises:
        ToolchainError: the extension cannot be compiled, or the library not be loaded.
    """
    import torch

    tvm_ffi_module()  # its library has what the kernel's calls
    extension, signature = _extension(), Signature(artifact.function)
    library = library_of(artifact, ctypes.CDLL)
    address = ctypes.cast(getattr(library, f"__tvm_ffi_{artifact.entry}"), ctypes.c_void_p).value
    device_type = _DEVICE_TYPES.get(artifact.target.kind, 1)
    entry = extension.Entry(address, len(signature.outputs), device_type, torch)
    return _Call(entry, signature, library, extension)


class _Call:
    """An entry whose failures are typed errors."""

    takes_stream = True

    def __init__(self, entry: Callable[..., Any], signature: Signature, library: Any, extension: Any) -> None:
        self._entry, self._signature, self._library = entry, signature, library
        self._refused, self._unreadable = extension.Refused, extension.Unreadable
        self._lazy = lazily_negatable(signature)

    def __call__(self, *args: Any, stream: Any = None) -> Any:
        if self._lazy:
            problem = lazy_argument(self._signature, args)
            if problem is not None:
                raise problem
        try:
            return self._entry(*args, stream=stream)
        except self._refused as error:
            kind, message, context = error.args
            raise explained(kind, message, context, self._signature) or RuntimeError(f"{kind}: {message}") from None
        except self._unreadable as error:
            raise refused_argument(BufferError(str(error)), args, self._signature) or error from None


def _extension() -> ModuleType:
    with _lock:
        if not _loaded:
            _loaded.append(_imported(_compiled()))
        return _loaded[0]


def _compiled() -> bytes:
    """The extension's library, from the cache or made now."""
    from ..compiler import binary_store

    compiler = _compiler() or ()
    import Cython
    import tvm_ffi

    parts = {
        "source": _SOURCE.read_text(encoding="utf-8"),
        "cython": Cython.__version__,
        "python": f"{sys.implementation.cache_tag}-{platform.machine()}",
        "tvm_ffi": tvm_ffi.__version__,
        "compiler": subprocess.run([*compiler, "--version"], capture_output=True, text=True).stdout,
    }
    store = binary_store()
    found = store.find("extension", parts) if store is not None else None
    if found is not None:
        return found["extension.so"]
    with tempfile.TemporaryDirectory(prefix="tile-cython-") as folder:
        library = _build(Path(folder), compiler)
    if store is not None:
        store.keep("extension", parts, {"extension.so": library})
    return library


def _build(folder: Path, compiler: tuple[str, ...]) -> bytes:
    source, text, library = folder / _SOURCE.name, folder / f"{_NAME}.c", folder / f"{_NAME}.so"
    shutil.copy(_SOURCE, source)
    _run([sys.executable, "-m", "cython", "-3", str(source), "-o", str(text)])
    (include,) = include_directories()
    libraries = include.parent / "lib"
    words = [*compiler, "-x", "c", "-O2", "-fPIC", "-shared", "-w", f"-I{sysconfig.get_paths()['include']}"]
    words += [f"-I{include}", str(text), "-o", str(library), f"-L{libraries}", "-ltvm_ffi", f"-Wl,-rpath,{libraries}"]
    _run(words)
    return library.read_bytes()


def _run(words: list[str]) -> None:
    run = subprocess.run(words, capture_output=True, text=True)
    if run.returncode:
        raise ToolchainError(
            "E-CYTHON",
            f"{Path(words[0]).name} failed on the extension that calls kernels",
            facts=(run.stderr or run.stdout).splitlines()[:12],
            help="use execution_backend='tvm_ffi', which needs no extension",
        )


def _imported(library: bytes) -> ModuleType:
    descriptor, path = tempfile.mkstemp(prefix="tile-", suffix=".so")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(library)
        loader = ExtensionFileLoader(_NAME, path)
        spec = importlib.util.spec_from_file_location(_NAME, path, loader=loader)
        assert spec is not None
        module = importlib.util.module_from_spec(spec)
        loader.exec_module(module)
        return module
    finally:
        with contextlib.suppress(OSError):
            os.unlink(path)


def _compiler() -> tuple[str, ...] | None:
    for words in (tuple(shlex.split(settings.cc or "")), ("cc",), ("gcc",), ("clang",)):
        if words and shutil.which(words[0]):
            return words
    return None
