"""A device is present when the kernel driver shows one and the user-space driver library can be loaded."""

from __future__ import annotations

import ctypes
from pathlib import Path

from tile_core.plugin import Ok, Reason

__all__ = ["detect"]

_LIBRARY = "libascend_hal.so"


def detect(devices: Path = Path("/dev"), library: str = _LIBRARY) -> Ok | Reason:
    """Whether an Ascend driver with a device is present.

    Args:
        devices: the folder where the kernel driver shows its devices.
        library: the user-space driver library.
    """
    shown = sorted(p.name for p in devices.glob("davinci[0-9]*"))
    if not shown:
        return Reason(f"no Ascend device: {devices}/davinci* does not exist", "install the Ascend driver and firmware")
    try:
        ctypes.CDLL(library)
    except OSError:
        return Reason(
            f"{', '.join(shown)} found, but the driver library {library} cannot be loaded",
            "add the driver's library folder to LD_LIBRARY_PATH",
        )
    return Ok(", ".join(shown))
