"""HostCall: a host function printed as Python, called with torch tensors.

It is what `HostPythonPrinter` prints for: the tensors' fields, the checks' errors, the outputs. A launch is handed to
the execution backend. Nothing is kept from call to call, so that threads may call one kernel on several devices.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Sequence
from typing import Any

from ..dtypes import SCALAR_NAMES, DType
from ..errors import ArgumentError
from ..ir import PrimFunc
from ..ir.host import carrier_words, dtype_word
from ..ir.signature import Signature
from .host_errors import argument_error, lazy_argument, refused_argument

__all__ = ["HostCall", "Launch"]

Launch = Callable[[str, Sequence[int], Sequence[Any], Sequence[str], int], None]
"""(kernel, sizes, arguments, names of their types, device): sizes as `HostPythonPrinter` says."""

_DEVICE_TYPES = {"cpu": 1, "cuda": 2}


class HostCall:
    """A kernel's host function.

    Args:
        function: the traced function, for the names and lines of its parameters.
        text: its host function in Python (`print_host_python`).
        launch: called for each launch.
        device: torch's name of the kind of device that outputs are made on when no argument is a tensor.
    """

    def __init__(self, function: PrimFunc, text: str, launch: Launch, device: str = "cpu") -> None:
        self.signature = Signature(function)
        self.launch, self.device = launch, device
        self.host_source = text
        scope: dict[str, Any] = {}
        exec(compile(text, f"<host of {function.name}>", "exec"), scope)
        self._entry = scope["entry"]

    def __call__(self, *args: Any) -> Any:
        """Checks the arguments and launches; gives one tensor, a list of several, or None.

        Raises:
            ArgumentError: an argument does not fit.
        """
        problem = lazy_argument(self.signature, args)
        if problem is not None:
            raise problem
        try:
            outputs = self._entry(_Call(self, args), args)
        except (ArgumentError, RuntimeError) as error:  # a sparse tensor has no strides to ask for
            problem = refused_argument(error, args, self.signature)
            if problem is None:
                raise
            raise problem from None
        return None if not outputs else outputs[0] if len(outputs) == 1 else outputs

    def current_device(self) -> int:
        """The number of the device that torch would use now."""
        import torch

        return torch.cuda.current_device() if self.device == "cuda" and torch.cuda.is_available() else 0


class _Call:
    """One call: what the printed text works with."""

    def __init__(self, host: HostCall, args: tuple[Any, ...]) -> None:
        self._host = host
        tensors = (a for a in args if _is_tensor(a) and a.device.type == host.device)
        device = next((a.device.index for a in tensors), None)
        self._device = host.current_device() if device is None else device

    @staticmethod
    def is_kind(value: Any, kind: str) -> bool:
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

    @staticmethod
    def scalar(value: Any, dtype: str) -> Any:
        """An argument as a number."""
        if dtype in ("float32", "float64"):
            return float(value)
        if DType(dtype).is_float:
            return odd_float(float(value))
        return bool(value) if dtype == "bool" else int(value or 0)

    @staticmethod
    def field(tensor: Any, name: str, axis: int) -> int:
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

    @staticmethod
    def same_device(a: Any, b: Any) -> bool:
        """Whether two tensors are on one device."""
        return a.device == b.device

    def allocate(self, like: Any, word: int, shape: Sequence[int]) -> Any:
        """A new tensor on the device of `like`, or on the current one."""
        import torch

        dtype = next(d for d, w in _words().items() if w == word)
        device = like.device if like is not None else torch.device(self._host.device, self._device)
        return torch.empty(tuple(shape), dtype=dtype, device=device)

    def launch(self, kernel: str, sizes: Sequence[int], arguments: Sequence[Any], types: Sequence[str]) -> None:
        """Hands a launch over."""
        self._host.launch(kernel, sizes, arguments, types, self._device)

    @staticmethod
    def truncdiv(a: int, b: int) -> int:
        """C's a / b."""
        return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)

    @staticmethod
    def truncmod(a: int, b: int) -> int:
        """C's a % b."""
        return a - _Call.truncdiv(a, b) * b

    def fail(self, argument: str, field: str, expected: Any, got: Any) -> ArgumentError:
        """The error of a failed check: that of the C stub, word for word."""
        word = field.partition("[")[0]
        if word == "type":
            got = _kind_text(got)
        elif word == "dtype":
            got = str(got.dtype).removeprefix("torch.")
        elif word == "device":
            got = f"{got.device.type}:{got.device.index or 0}"
        return argument_error(self._host.signature, argument, field, str(expected), str(got))


def odd_float(value: float) -> float:
    """The fp32 number at or next to a value with an odd last bit where it is none itself (`tile_odd_float` in C)."""
    if not math.isfinite(value):
        return value
    near = ctypes.c_float(value)
    bits = ctypes.c_uint32.from_buffer(near)
    if near.value != value and not bits.value & 1:
        bits.value += -1 if (near.value > value) == (value > 0) else 1
    return near.value


def _kind_text(value: Any) -> str:
    """As `tile_bad_type` of tile_abi.h names the kinds."""
    if value is None:
        return "None"
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        return "an int beyond 64 bits"
    if _is_tensor(value):
        return "a tensor"
    if type(value) in (int, bool, float, str):
        return type(value).__name__
    if isinstance(value, (list, tuple)):
        return "a list or tuple"
    return "a dict" if isinstance(value, dict) else "an object that is no tensor"


def _is_tensor(value: Any) -> bool:
    import torch

    return isinstance(value, torch.Tensor)


def _words() -> dict[Any, int]:
    """torch's element types → DLPack types as one number."""
    if not _known:
        import torch

        for name in SCALAR_NAMES:
            found = getattr(torch, name, None)
            if isinstance(found, torch.dtype):
                _known[found] = dtype_word(DType(name))
        pairs = getattr(torch, "float4_e2m1fn_x2", None)
        if pairs is not None:
            _known[pairs] = next(iter(carrier_words(DType("float4_e2m1fn")).values()))
    return _known


_known: dict[Any, int] = {}
