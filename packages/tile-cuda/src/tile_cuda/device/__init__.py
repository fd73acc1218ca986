"""Device functions: one table, from which both headers, the intrinsics and their effects come."""

from .headers import HEADER_NAME, device_header, emulation_include_dir, include_dir
from .row import DeviceFunction, device_function, device_functions, find_device_function

__all__ = [
    "HEADER_NAME",
    "DeviceFunction",
    "device_function",
    "device_functions",
    "device_header",
    "emulation_include_dir",
    "find_device_function",
    "include_dir",
]
