"""The execution backend ``tvm_ffi``: a shared library whose entry checks its own arguments, called as directly as can
be.

The library's entry is a packed function of the tvm-ffi C ABI. The extension (`packed_call.cpp`) hands it torch's
tensors, numbers and None, tells it torch's current stream and lends it torch's allocator. Arguments of any other kind,
and all where there is no extension, go through tvm-ffi's own functions, which do the same. The entry does the checks,
so nothing is left to do in Python but to turn a failed check into an `ArgumentError` that shows the parameter's line.
"""

from __future__ import annotations

import builtins
import contextlib
import ctypes
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tile_core.errors import DeviceAssertError, InternalError, ToolchainError, declare_codes
from tile_core.ffi import load_module
from tile_core.plugin.api import Artifact, ExecutionBackend, Ok, Reason

from ..arguments import argument_error, lazily_negatable, lazy_argument, refused_argument
from ..signature import Signature

__all__ = ["LIBRARY", "TVM_FFI", "available", "build", "explained", "library_of"]

LIBRARY = "kernel.so"
"""The file of an artifact that this backend loads."""

TVM_FFI = ExecutionBackend(
    name="tvm_ffi",
    api=(1, 0),  # what this was built for, not what the installed core has
    targets=("*",),  # any backend whose toolchain gives a library with the entry
    available="tile_runtime.backends.tvm_ffi:available",
    build="tile_runtime.backends.tvm_ffi:build",
    files=(LIBRARY,),
    callee_allocates=True,
    stream="ask",
)

declare_codes(
    {
        "E-DEVICE-ASSERT": "a condition that a kernel checks while it runs does not hold",
        "E-LAUNCH": "a kernel's arguments were right and its launch failed",
        "E-LIBRARY": "a compiled kernel's library cannot be loaded",
    }
)


def available() -> Ok | Reason:
    """Whether tvm-ffi is installed (found, not imported: that would load torch)."""
    import importlib.util

    from . import extension

    if importlib.util.find_spec("tvm_ffi") is None:
        return Reason("tvm_ffi is not installed", "install apache-tvm-ffi")
    compiled = extension.available()
    if isinstance(compiled, Reason):
        return Ok(f"tvm-ffi; a call costs some µs more than it could: {compiled.text}; {compiled.help}")
    return Ok("tvm-ffi")


def build(artifact: Artifact) -> Callable[..., Any]:
    """The artifact's entry as a callable: inputs in, outputs out (one tensor, or a list of several, or None).

    Raises:
        ToolchainError: the library cannot be loaded.
        InternalError: the artifact has no library, or the library no such entry.
    """
    from . import extension

    signature = Signature(artifact.function)
    module, library = library_of(artifact, _modules)
    try:
        function = module.get_function(artifact.entry)
    except AttributeError:
        raise InternalError("E-INTERNAL", f"{artifact.name}: {LIBRARY} has no entry {artifact.entry!r}") from None
    other, lazy = through_tvm_ffi(function, signature), lazily_negatable(signature)
    try:
        return extension.entry(artifact, library, explainer(signature), other=other, lazy=lazy)
    except ToolchainError:
        return other  # `tile info` says why


def through_tvm_ffi(function: Callable[..., Any], signature: Signature) -> Callable[..., Any]:
    """A callable that goes through tvm-ffi's own function; takes whatever that takes."""
    if len(signature.outputs) > 1:
        function = _listing(function, len(signature.outputs))
    call = _allocating(function, signature) if signature.outputs else _calling(function, signature)
    places = lazily_negatable(signature)
    return _refusing_lazy(call, places, signature) if places else call


def explainer(signature: Signature) -> Callable[..., Exception]:
    """What `extension.entry` wants for `explain`."""

    def explain(kind: str, message: str, context: str, args: tuple[Any, ...]) -> Exception:
        if kind == "lazy":
            return lazy_argument(signature, args) or ValueError("a tensor has the negative bit")
        if kind == "BufferError":
            error = BufferError(message)
            return refused_argument(error, args, signature) or error
        known = explained(kind, message, context, signature)
        return known or getattr(builtins, kind, RuntimeError)(message)

    return explain


def _modules(path: str) -> tuple[Any, ctypes.CDLL]:
    return load_module(path), ctypes.CDLL(path)


def _calling(entry: Callable[..., Any], signature: Signature) -> Callable[..., Any]:
    def call(*args: Any) -> Any:
        try:
            return entry(*args)
        except Exception as error:
            raise _explained(error, args, signature) from None

    return call


def _refusing_lazy(call: Callable[..., Any], places: tuple[int, ...], signature: Signature) -> Callable[..., Any]:
    """A callable that looks for torch's negative bit first: DLPack drops it. Only where a tensor that has it would pass
    the other checks, since asking costs 70 ns a tensor (measured)."""

    def checked(*args: Any) -> Any:
        try:
            for place in places:
                if args[place].is_neg():
                    break
            else:
                return call(*args)
        except (AttributeError, IndexError):
            pass  # no torch tensor there: the entry says what is wrong, if anything
        problem = lazy_argument(signature, args)
        if problem is not None:
            raise problem
        return call(*args)

    return checked


def _allocating(entry: Callable[..., Any], signature: Signature) -> Callable[..., Any]:
    """A callable for a kernel that allocates. tvm-ffi lends torch's allocator when a torch tensor is among the
    arguments; without one
    (scalars only, numpy arrays) it is lent here."""

    def call(*args: Any) -> Any:
        try:
            return entry(*args)
        except Exception as error:
            problem = error
        if not _needs_allocator(problem):
            raise _explained(problem, args, signature) from None
        from .allocator import torch_allocator

        try:
            with torch_allocator():
                return _as_torch(entry(*args))
        except Exception as error:
            raise _explained(error, args, signature) from None

    return call


def _listing(entry: Callable[..., Any], count: int) -> Callable[..., Any]:
    """tvm-ffi returns several tensors as its own array, slow to iterate (2.8 µs for two, 1.1 µs by item, measured)."""
    from tile_core.ffi import tvm_ffi_module

    item = tvm_ffi_module().get_global_func("ffi.ArrayGetItem")
    places = range(count)

    def call(*args: Any) -> list[Any]:
        outputs = entry(*args)
        return [item(outputs, place) for place in places]

    return call


def library_of(artifact: Artifact, load: Callable[[str], Any]) -> Any:
    """What `load` makes of the artifact's library.

    Raises:
        ToolchainError: the library cannot be loaded.
        InternalError: the artifact has none.
    """
    library = artifact.binaries.get(LIBRARY)
    if library is None:
        raise InternalError("E-INTERNAL", f"{artifact.name}: the artifact for {artifact.target} holds no {LIBRARY}")
    if isinstance(library, os.PathLike):
        return _opened(Path(library), artifact, load)
    # A file of its own until it is open: loaded libraries need no name any more (where the system lets
    # us remove it).
    descriptor, name = tempfile.mkstemp(prefix="tile-", suffix=".so")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(library)
        return _opened(Path(name), artifact, load)
    finally:
        with contextlib.suppress(OSError):
            os.unlink(name)


def _opened(path: Path, artifact: Artifact, load: Callable[[str], Any]) -> Any:
    try:
        return load(str(path))
    except Exception as error:
        raise ToolchainError(
            "E-LIBRARY",
            f"{artifact.name}: the compiled library cannot be loaded",
            facts=(f"library: {path.name}", f"found: {str(error).splitlines()[0]}"),
            help="a missing runtime library of the compiler (such as libgomp) is the usual cause",
        ) from error


def _explained(error: Exception, args: tuple[Any, ...], signature: Signature) -> Exception:
    """The typed error for what the library raised."""
    raised: Any = getattr(error, "__tvm_ffi_error__", None)
    kind = getattr(raised, "kind", "")
    typed = explained(kind, raised.message, str(raised.extra_context), signature) if kind.startswith("tile.") else None
    return typed or refused_argument(error, args, signature) or error


def explained(kind: str, message: str, context: str, signature: Signature) -> Exception | None:
    """The typed error for what an entry raised; None where it is none of ours."""
    if kind == "tile.ArgumentError":
        _, _, argument, field, expected, got = context.split("\x1f")
        return argument_error(signature, argument, field, expected, got)
    if kind == "tile.DeviceAssertError":
        _, _, _, _, found, _ = context.split("\x1f")
        return DeviceAssertError("E-DEVICE-ASSERT", f"{signature.name}: {found}")
    if kind == "tile.LaunchError":
        return ToolchainError("E-LAUNCH", f"{signature.name}: the launch failed", facts=(message,))
    return None


def _needs_allocator(error: Exception) -> bool:
    return "DLPackManagedTensorAllocator" in str(error)


def _as_torch(outputs: Any) -> Any:
    import torch

    if isinstance(outputs, list):
        return [_as_torch(output) for output in outputs]
    return outputs if isinstance(outputs, torch.Tensor) else torch.from_dlpack(outputs)
