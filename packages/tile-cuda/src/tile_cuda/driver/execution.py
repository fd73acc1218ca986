"""The execution backend ``nvrtc``: kernels launched from Python, where no host compiler is.

The host function is the same as the C stub's, printed as Python; launches go through `DriverModule`. A call costs tens
of microseconds more than through ``tvm_ffi``.
"""

from __future__ import annotations

import ctypes
import json
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tile_core.codegen import host_call
from tile_core.ir import PrimFunc
from tile_core.plugin import Artifact, Ok, Reason

from .module import DriverModule

__all__ = ["HostCall", "available", "build"]

_CTYPES = {
    "bool": ctypes.c_bool,
    "int8": ctypes.c_int8,
    "int16": ctypes.c_int16,
    "int32": ctypes.c_int32,
    "int64": ctypes.c_int64,
    "uint8": ctypes.c_uint8,
    "uint16": ctypes.c_uint16,
    "uint32": ctypes.c_uint32,
    "uint64": ctypes.c_uint64,
    "float32": ctypes.c_float,
    "float64": ctypes.c_double,
    "handle": ctypes.c_void_p,
}


def available() -> Ok | Reason:
    """Whether torch is installed; the driver is asked for at the first launch."""
    import importlib.util

    if importlib.util.find_spec("torch") is None:
        return Reason("torch is not installed", "install torch")
    return Ok("launches from Python")


def build(artifact: Artifact) -> Callable[..., Any]:
    """The artifact as a callable: inputs in, outputs out (one tensor, a list of several, or None)."""
    cubin, ptx = (_content(artifact.binaries.get(f"kernel.{kind}", b"")) for kind in ("cubin", "ptx"))
    found = json.loads(artifact.sources["lines.json"])["kernels"]
    shared = {kernel["name"]: kernel["shared_bytes"] for kernel in found}
    together = frozenset(kernel["name"] for kernel in found if kernel.get("cooperative"))
    module = DriverModule(cubin, ptx, artifact.target.get("arch"))
    windows = {kernel["name"]: tuple(kernel["l2_window"]) for kernel in found if "l2_window" in kernel}
    return HostCall(artifact.function, artifact.sources["launch.py"], module, shared, together, windows)


def _content(binary: Any) -> bytes:
    if isinstance(binary, os.PathLike):
        with open(binary, "rb") as file:
            return file.read()
    return binary


class HostCall(host_call.HostCall):
    """A kernel's host function in Python, launched through the driver on torch's current stream.

    Args:
        function: the traced function, for the names and lines of its parameters.
        text: its host function in Python.
        module: the device code; anything with `DriverModule.launch`.
        shared_bytes: what each kernel needs.
        cooperative: kernels all of whose blocks must run at once.
        windows: for kernels of which a tensor should stay in the second-level cache, which argument and how much of it;
            their launches end with the number of its bytes.
    """

    def __init__(
        self,
        function: PrimFunc,
        text: str,
        module: Any,
        shared_bytes: Mapping[str, int],
        cooperative: frozenset[str] = frozenset(),
        windows: Mapping[str, tuple[int, float]] | None = None,
    ) -> None:
        super().__init__(function, text, self._launch, "cuda")
        self.module, self.shared_bytes, self.cooperative = module, shared_bytes, cooperative
        self.windows = windows or {}

    def _launch(
        self, kernel: str, sizes: Sequence[int], arguments: Sequence[Any], types: Sequence[str], device: int
    ) -> None:
        import torch

        values = [_CTYPES[name](value) for name, value in zip(types, arguments)]
        stream = torch.cuda.current_stream(device).cuda_stream if torch.cuda.is_available() else 0
        shared = max(sizes[6], self.shared_bytes[kernel])
        options: dict[str, Any] = {"cooperative": True} if kernel in self.cooperative else {}
        if kernel in self.windows:
            place, ratio = self.windows[kernel]
            options["window"] = (arguments[place], values.pop().value, ratio)
        self.module.launch(kernel, sizes[:3], sizes[3:6], shared, values, device, stream, **options)
