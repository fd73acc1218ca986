"""The CUDA driver of this machine: is it there, which device does it show first, and launching from Python."""

from .detect import Device, detect, device
from .module import DriverModule

__all__ = ["Device", "DriverModule", "detect", "device"]
