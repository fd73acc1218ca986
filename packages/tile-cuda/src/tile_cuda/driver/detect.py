"""Asks the driver library itself, without cuda-python: a machine without a driver has neither."""

from __future__ import annotations

import ctypes
import sys
from dataclasses import dataclass
from functools import cache
from typing import Any

from tile_core.plugin import Ok, Reason

__all__ = ["Device", "detect", "device"]

# cuda.h, CUresult and CUdevice_attribute.
_NO_DEVICE = 100
_CAPABILITY_MAJOR, _CAPABILITY_MINOR = 75, 76


@dataclass(frozen=True)
class Device:
    """The first device: its name and compute capability times ten."""

    name: str
    capability: int


def detect() -> Ok | Reason:
    """Whether an NVIDIA driver with a device is present."""
    found = _probe()
    return Ok(f"{found.name}, compute capability {found.capability / 10}") if isinstance(found, Device) else found


def device() -> Device | None:
    """The first device, or None."""
    found = _probe()
    return found if isinstance(found, Device) else None


@cache
def _probe() -> Device | Reason:
    name = "nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1"
    try:
        driver = ctypes.CDLL(name)
    except OSError:
        return Reason(f"no NVIDIA driver: {name} cannot be loaded", "install the NVIDIA driver")
    return ask(driver)


def ask(driver: Any) -> Device | Reason:
    """What a loaded driver library says of its first device."""
    status = driver.cuInit(0)
    if status == _NO_DEVICE:
        return Reason("the NVIDIA driver shows no device")
    if status != 0:
        return Reason(f"the NVIDIA driver does not start: cuInit gives error {status}", "see nvidia-smi")
    count, handle = ctypes.c_int(), ctypes.c_int()
    if driver.cuDeviceGetCount(ctypes.byref(count)) != 0 or count.value == 0:
        return Reason("the NVIDIA driver shows no device")
    text = ctypes.create_string_buffer(256)
    major, minor = ctypes.c_int(), ctypes.c_int()
    failed = (
        driver.cuDeviceGet(ctypes.byref(handle), 0)
        or driver.cuDeviceGetName(text, len(text), handle)
        or driver.cuDeviceGetAttribute(ctypes.byref(major), _CAPABILITY_MAJOR, handle)
        or driver.cuDeviceGetAttribute(ctypes.byref(minor), _CAPABILITY_MINOR, handle)
    )
    if failed:
        return Reason(f"the NVIDIA driver does not describe its device: error {failed}", "see nvidia-smi")
    return Device(text.value.decode(errors="replace"), major.value * 10 + minor.value)
