"""The CUDA driver of this machine: is it there, and which device does it show first."""

from .detect import Device, detect, device

__all__ = ["Device", "detect", "device"]
