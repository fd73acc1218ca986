"""The execution backend ``nvrtc``: kernels launched from Python, where no host compiler is.

The host function is the same as the C stub's, printed as Python; launches go through `DriverModule`. A call costs tens
of microseconds more than through ``tvm_ffi``.
"""

from __future__ import annotations

import ctypes
import json
import math
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tile_core.dtypes import DType
from tile_core.errors import ArgumentError, declare_codes
from tile_core.ir import PrimFunc
from tile_core.ir.host import dtype_word
from tile_core.plugin import Artifact, Ok, Reason

from .module import DriverModule

__all__ = ["HostCall", "available", "build"]

declare_codes(
    {
        "E-ARG-COUNT": "a kernel was called with the wrong number of arguments",
        "E-ARG-NONE": "None was passed for a tensor that the kernel uses",
        "E-ARG-TYPE": "an argument is of the wrong kind (tensor, number, …)",
        "E-ARG-NDIM": "a tensor has the wrong number of dimensions",
        "E-ARG-DTYPE": "a tensor has the wrong element type",
        "E-ARG-SHAPE": "a tensor has the wrong shape",
        "E-ARG-STRIDE": "a tensor has strides that the kernel does not take",
        "E-ARG-DEVICE": "a tensor is on the wrong device",
        "E-ARG-STORAGE": "a tensor has no memory (fake, meta or functional)",
        "E-ARG-CONDITION": "the arguments break a condition that the kernel states",
    }
)

_CODES = {
    "argument count": "E-ARG-COUNT",
    "type": "E-ARG-TYPE",
    "ndim": "E-ARG-NDIM",
    "dtype": "E-ARG-DTYPE",
    "shape": "E-ARG-SHAPE",
    "strides": "E-ARG-STRIDE",
    "device": "E-ARG-DEVICE",
    "storage": "E-ARG-STORAGE",
}
_DEVICE_TYPES = {"cpu": 1, "cuda": 2}
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
    return HostCall(
        artifact.function, artifact.sources["launch.py"], DriverModule(cubin, ptx, artifact.target.get("arch")), shared
    )


def _content(binary: Any) -> bytes:
    if isinstance(binary, os.PathLike):
        with open(binary, "rb") as file:
            return file.read()
    return binary


class HostCall:
    """A kernel's host function: called with arguments, and what its printed text works with.

    Args:
        function: the traced function, for the names and lines of its parameters.
        text: its host function in Python.
        module: the device code; anything with `DriverModule.launch`.
        shared_bytes: what each kernel needs.
    """

    def __init__(self, function: PrimFunc, text: str, module: Any, shared_bytes: Mapping[str, int]) -> None:
        self.name, self.module, self.shared_bytes = function.name, module, shared_bytes
        self.params = {p.name: p for p in function.params}
        scope: dict[str, Any] = {}
        exec(compile(text, f"<host of {function.name}>", "exec"), scope)
        self._entry = scope["entry"]
        self._device: int | None = None

    def __call__(self, *args: Any) -> Any:
        """Checks the arguments and launches.

        Raises:
            ArgumentError: an argument does not fit.
            ToolchainError: there is no driver, or it refuses the launch.
        """
        import torch

        self._device = next((a.device.index for a in args if _is_tensor(a) and a.device.type == "cuda"), None)
        if self._device is None:
            self._device = torch.cuda.current_device() if torch.cuda.is_available() else 0
        outputs = self._entry(self, args)
        return None if not outputs else outputs[0] if len(outputs) == 1 else outputs

    # What the printed text calls.

    def is_kind(self, value: Any, kind: str) -> bool:
        """Whether an argument is of a kind; bool counts as int, int as float."""
        if kind == "tensor":
            return _is_tensor(value)
        if kind == "none":
            return value is None
        if kind == "float":
            return isinstance(value, (float, int))
        if kind == "handle":
            return value is None or (isinstance(value, int) and not isinstance(value, bool))
        return isinstance(value, int)

    def scalar(self, value: Any, dtype: str) -> Any:
        """An argument as a number."""
        if dtype in ("float32", "float64"):
            return float(value)
        if DType(dtype).is_float:
            return _odd_float(float(value))
        return bool(value) if dtype == "bool" else int(value or 0)

    def field(self, tensor: Any, name: str, axis: int) -> int:
        """A field of a tensor, as `tile_core.ir.host` lists them."""
        if name == "ndim":
            return tensor.dim()
        if name == "dtype":
            return _words().get(tensor.dtype, 0)
        if name == "shape":
            return tensor.shape[axis]
        if name == "stride":
            return tensor.stride(axis)
        if name == "device_type":
            return _DEVICE_TYPES.get(tensor.device.type, 0)
        if name == "device_id":
            return tensor.device.index or 0
        return tensor.data_ptr()

    def same_device(self, a: Any, b: Any) -> bool:
        """Whether two tensors are on one device."""
        return a.device == b.device

    def allocate(self, like: Any, word: int, shape: Sequence[int]) -> Any:
        """A new tensor on the device of `like`, or on the current one."""
        import torch

        dtype = next(d for d, w in _words().items() if w == word)
        return torch.empty(
            tuple(shape), dtype=dtype, device=like.device if like is not None else f"cuda:{self._device}"
        )

    def launch(self, kernel: str, sizes: Sequence[int], arguments: Sequence[Any], types: Sequence[str]) -> None:
        """Launches a kernel on torch's current stream of the tensors' device."""
        import torch

        values = [_CTYPES[name](value) for name, value in zip(types, arguments)]
        stream = torch.cuda.current_stream(self._device).cuda_stream if torch.cuda.is_available() else 0
        shared = max(sizes[6], self.shared_bytes[kernel])
        self.module.launch(kernel, sizes[:3], sizes[3:6], shared, values, self._device, stream)

    @staticmethod
    def truncdiv(a: int, b: int) -> int:
        """C's a / b."""
        return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)

    @staticmethod
    def truncmod(a: int, b: int) -> int:
        """C's a % b."""
        return a - HostCall.truncdiv(a, b) * b

    def fail(self, argument: str, field: str, expected: Any, got: Any) -> ArgumentError:
        """The error of a failed check."""
        word = field.partition("[")[0]
        if word == "type":
            got = "None" if got is None else "a tensor" if _is_tensor(got) else type(got).__name__
        elif word == "dtype":
            got = str(got.dtype).removeprefix("torch.")
        elif word == "device":
            got = f"{got.device.type}:{got.device.index or 0}"
        code = "E-ARG-NONE" if word == "type" and got == "None" else _CODES.get(word, "E-ARG-CONDITION")
        param = self.params.get(argument)
        subject = f"argument {argument}: {field}" if argument else field
        return ArgumentError(
            code,
            f"{self.name}: {subject} must be {expected}, got {got}",
            span=param.span if param is not None else None,
            facts=[f"expected: {expected}", f"got:      {got}"],
        )


def _odd_float(value: float) -> float:
    """The fp32 number at or next to a value with an odd last bit where it is none itself (`tile_odd_float` in C)."""
    if not math.isfinite(value):
        return value
    near = ctypes.c_float(value)
    bits = ctypes.c_uint32.from_buffer(near)
    if near.value != value and not bits.value & 1:
        bits.value += -1 if (near.value > value) == (value > 0) else 1
    return near.value


def _is_tensor(value: Any) -> bool:
    import torch

    return isinstance(value, torch.Tensor)


def _words() -> dict[Any, int]:
    """torch's element types → DLPack types as one number."""
    if not _known:
        import torch

        from tile_core.dtypes import SCALAR_NAMES, DType

        for name in SCALAR_NAMES:
            found = getattr(torch, name, None)
            if isinstance(found, torch.dtype):
                _known[found] = dtype_word(DType(name))
    return _known


_known: dict[Any, int] = {}
