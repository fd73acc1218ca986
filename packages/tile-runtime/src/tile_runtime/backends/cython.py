"""The execution backend ``cython``: the same library, called with the stream as an argument.

    kernel(a, b, stream=torch.cuda.Stream())     or an address, or nothing for torch's current one

It calls through the extension (`packed_call.cpp`) alone, so it needs a C++ compiler and Python's headers, and takes
torch tensors only. The name is the one by which such a backend is known; Cython itself is not needed.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

from tile_core.ffi import tvm_ffi_module
from tile_core.plugin.api import Artifact, ExecutionBackend, Ok, Reason

from ..arguments import lazily_negatable
from ..signature import Signature
from . import extension
from .tvm_ffi import LIBRARY, explainer, library_of

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


def available() -> Ok | Reason:
    """Whether the extension can be compiled here."""
    return extension.available()


def build(artifact: Artifact) -> Callable[..., Any]:
    """The artifact's entry as a callable: inputs in, outputs out, ``stream=`` besides.

    Raises:
        ToolchainError: the extension cannot be compiled, or the library not be loaded.
    """
    tvm_ffi_module()  # its library has what the kernel's calls
    signature = Signature(artifact.function)
    library = library_of(artifact, ctypes.CDLL)
    return extension.entry(artifact, library, explainer(signature), lazy=lazily_negatable(signature), takes_stream=True)
