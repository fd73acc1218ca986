"""DriverModule: machine code loaded and launched from Python through the driver library itself.

What the C stub does for compiled kernels: for the execution backend ``nvrtc``, which needs no host compiler, and for
tests that launch kernels written by hand.
"""

from __future__ import annotations

import ctypes
import sys
import threading
from collections.abc import Sequence
from functools import cache
from typing import Any

from tile_core.errors import ToolchainError, declare_codes

__all__ = ["DriverModule"]

declare_codes(
    {
        "E-CUDA-DRIVER": "the NVIDIA driver is missing",
        "E-LAUNCH": "a kernel's arguments were right and its launch failed",
    }
)

# cuda.h: CUresult, CUfunction_attribute, CUstreamCaptureMode.
_NO_BINARY, _INVALID_IMAGE = 209, 200
_CAPABILITY_MAJOR, _CAPABILITY_MINOR = 75, 76
_MAX_DYNAMIC_SHARED = 8
_CAPTURE_RELAXED = 2
_PLAIN_SHARED_BYTES = 48 * 1024
_MOST_PERSISTING, _MOST_WINDOW, _LIMIT_PERSISTING = 108, 109, 6
_ATTRIBUTE_WINDOW, _ATTRIBUTE_COOPERATIVE = 1, 2
_STREAMING, _PERSISTING = 1, 2
_GRID_LIMITS = (2**31 - 1, 65535, 65535)


class DriverModule:
    """Kernels of one compile, on every device that asks.

    Args:
        cubin: machine code.
        ptx: text for devices of another architecture; b"" for none.
        arch: the architecture that they are for, for messages.
    """

    def __init__(self, cubin: bytes, ptx: bytes = b"", arch: str = "another architecture") -> None:
        self._arch = arch
        self._images = [image for image in (cubin, ptx + b"\0" if ptx else b"") if image]
        self._modules: dict[int, Any] = {}
        self._functions: dict[tuple[str, int], Any] = {}
        self._set_aside: dict[int, int] = {}
        self._lock = threading.Lock()

    def launch(
        self,
        kernel: str,
        grid: Sequence[int],
        threads: Sequence[int],
        shared_bytes: int,
        arguments: Sequence[Any],
        device: int,
        stream: int,
        cooperative: bool = False,
        window: tuple[int, int, float] | None = None,
    ) -> None:
        """Runs a kernel, all its blocks at once where it is `cooperative`; `arguments` are ctypes values, one for each
        parameter. `window`: address and bytes of what should stay in the second-level cache, and how much of it. A grid
        without blocks is nothing to do.

        Raises:
            ToolchainError: there is no driver, or it refuses; the error names kernel and configuration.
        """
        grid = (*grid, 1, 1)[:3]
        threads = (*threads, 1, 1)[:3]
        if min(grid) <= 0:
            return
        configuration = f"grid {tuple(grid)}, threads {tuple(threads)}, {shared_bytes} bytes of shared memory"
        if any(extent > limit for extent, limit in zip(grid, _GRID_LIMITS)):
            raise _refused(kernel, "launch", configuration, f"the grid must be within {_GRID_LIMITS}")
        driver = _driver()
        _check(driver.cuCtxPushCurrent_v2(_context(device)), kernel, "making the device current", "")
        try:
            function = self._function(kernel, device, shared_bytes)
            slots = (ctypes.c_void_p * max(1, len(arguments)))(*(ctypes.addressof(a) for a in arguments))
            launch = (function, *grid, *threads, shared_bytes, ctypes.c_void_p(stream), slots)
            if window is not None:
                config = self._windowed(grid, threads, shared_bytes, stream, device, cooperative, window)
                status = driver.cuLaunchKernelEx(ctypes.byref(config), function, slots, None)
            elif cooperative:
                status = driver.cuLaunchCooperativeKernel(*launch)
            else:
                status = driver.cuLaunchKernel(*launch, None)
            _check(status, kernel, "launch", configuration)
        finally:
            driver.cuCtxPopCurrent_v2(ctypes.byref(ctypes.c_void_p()))

    def _windowed(
        self,
        grid: Sequence[int],
        threads: Sequence[int],
        shared_bytes: int,
        stream: int,
        device: int,
        cooperative: bool,
        window: tuple[int, int, float],
    ) -> _Config:
        """A launch with a window. As much of the cache as it wants is set aside for such lines, up to the device's
        limit; the device may say no, since all this is about speed."""
        driver, handle, found = _driver(), ctypes.c_int(), ctypes.c_int()
        driver.cuDeviceGet(ctypes.byref(handle), device)
        driver.cuDeviceGetAttribute(ctypes.byref(found), _MOST_WINDOW, handle)
        address, bytes, ratio = window
        bytes = min(bytes, found.value)
        with self._lock:
            if bytes > self._set_aside.get(device, 0):
                now = ctypes.c_size_t()
                driver.cuDeviceGetAttribute(ctypes.byref(found), _MOST_PERSISTING, handle)
                wanted = min(bytes, found.value)
                if driver.cuCtxGetLimit(ctypes.byref(now), _LIMIT_PERSISTING) == 0 and wanted > now.value:
                    driver.cuCtxSetLimit(_LIMIT_PERSISTING, ctypes.c_size_t(wanted))
                self._set_aside[device] = bytes
        attributes: list[_Attribute] = []
        if bytes:
            value = _Value(window=_Window(address, bytes, ratio, _PERSISTING, _STREAMING))
            attributes.append(_Attribute(_ATTRIBUTE_WINDOW, 0, value))
        if cooperative:
            attributes.append(_Attribute(_ATTRIBUTE_COOPERATIVE, 0, _Value(cooperative=1)))
        array = (_Attribute * max(1, len(attributes)))(*attributes)
        return _Config((*grid,), (*threads,), shared_bytes, stream, array, len(attributes))

    def _function(self, kernel: str, device: int, shared_bytes: int) -> Any:
        with self._lock:
            found = self._functions.get((kernel, device))
            if found is None:
                found = self._functions[kernel, device] = self._load(kernel, device, shared_bytes)
            return found

    def _load(self, kernel: str, device: int, shared_bytes: int) -> Any:
        driver, mode = _driver(), ctypes.c_int(_CAPTURE_RELAXED)
        driver.cuThreadExchangeStreamCaptureMode(ctypes.byref(mode))  # loading is allowed while a graph is captured
        try:
            if device not in self._modules:
                module, status = ctypes.c_void_p(), 0
                for image in self._images:
                    status = driver.cuModuleLoadData(ctypes.byref(module), image)
                    if status not in (_NO_BINARY, _INVALID_IMAGE):
                        break
                if status:
                    raise self._wrong_device(kernel, device, status)
                self._modules[device] = module
            function = ctypes.c_void_p()
            status = driver.cuModuleGetFunction(ctypes.byref(function), self._modules[device], kernel.encode())
            _check(status, kernel, "finding the kernel", "")
            if shared_bytes > _PLAIN_SHARED_BYTES:
                status = driver.cuFuncSetAttribute(function, _MAX_DYNAMIC_SHARED, shared_bytes)
                _check(status, kernel, "setting the size of shared memory", f"{shared_bytes} bytes")
            return function
        finally:
            driver.cuThreadExchangeStreamCaptureMode(ctypes.byref(mode))

    def _wrong_device(self, kernel: str, device: int, status: int) -> ToolchainError:
        handle, major, minor = ctypes.c_int(), ctypes.c_int(), ctypes.c_int()
        _driver().cuDeviceGet(ctypes.byref(handle), device)
        _driver().cuDeviceGetAttribute(ctypes.byref(major), _CAPABILITY_MAJOR, handle)
        _driver().cuDeviceGetAttribute(ctypes.byref(minor), _CAPABILITY_MINOR, handle)
        found = f"code for {self._arch} on device {device} of compute capability {major.value}.{minor.value}"
        help = 'compile for target "cuda", which is the device, or update the driver'
        return _refused(kernel, "loading the machine code", found, _said(status), help)


class _Window(ctypes.Structure):
    """CUaccessPolicyWindow."""

    _fields_ = (
        ("base", ctypes.c_void_p),
        ("bytes", ctypes.c_size_t),
        ("hit_ratio", ctypes.c_float),
        ("hit", ctypes.c_int),
        ("miss", ctypes.c_int),
    )


class _Value(ctypes.Union):
    """CUlaunchAttributeValue."""

    _fields_ = (("room", ctypes.c_char * 64), ("window", _Window), ("cooperative", ctypes.c_int))


class _Attribute(ctypes.Structure):
    """CUlaunchAttribute."""

    _fields_ = (("id", ctypes.c_int), ("pad", ctypes.c_int), ("value", _Value))


class _Config(ctypes.Structure):
    """CUlaunchConfig."""

    _fields_ = (
        ("grid", ctypes.c_uint * 3),
        ("block", ctypes.c_uint * 3),
        ("shared_bytes", ctypes.c_uint),
        ("stream", ctypes.c_void_p),
        ("attributes", ctypes.POINTER(_Attribute)),
        ("attribute_count", ctypes.c_uint),
    )


@cache
def _driver() -> Any:
    name = "nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1"
    try:
        driver = ctypes.CDLL(name)
    except OSError as error:
        raise ToolchainError(
            "E-CUDA-DRIVER",
            "launching a CUDA kernel needs the NVIDIA driver",
            facts=[f"{name} cannot be loaded: {error}"],
            help='install the driver, or compile with execution_backend="emulate" to run on the CPU',
        ) from error
    _check(driver.cuInit(0), "", "cuInit", "")
    return driver


@cache
def _context(device: int) -> Any:
    """The device's primary context, which torch uses too."""
    handle, context = ctypes.c_int(), ctypes.c_void_p()
    _check(_driver().cuDeviceGet(ctypes.byref(handle), device), "", f"opening device {device}", "")
    _check(_driver().cuDevicePrimaryCtxRetain(ctypes.byref(context), handle), "", f"opening device {device}", "")
    return context


def _check(status: int, kernel: str, what: str, configuration: str) -> None:
    if status == 0:
        return
    raise _refused(kernel, what, configuration, _said(status))


def _said(status: int) -> str:
    """A result of the driver in its words."""
    driver = ctypes.CDLL("nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1")
    name, text = ctypes.c_char_p(), ctypes.c_char_p()
    driver.cuGetErrorName(status, ctypes.byref(name))
    driver.cuGetErrorString(status, ctypes.byref(text))
    return f"{(name.value or b'?').decode()} ({(text.value or b'?').decode()})"


def _refused(kernel: str, what: str, configuration: str, got: str, help: str | None = None) -> ToolchainError:
    facts = [f"configuration: {configuration}"] if configuration else []
    subject = f"{kernel}: {what} failed" if kernel else f"{what} failed"
    return ToolchainError("E-LAUNCH", subject, facts=[*facts, f"the driver says: {got}"], help=help)
