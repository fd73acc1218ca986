"""The Ascend driver of this machine: is it there, and does it show a device."""

from .detect import detect

__all__ = ["detect"]
