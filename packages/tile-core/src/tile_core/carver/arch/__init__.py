"""The machine's properties."""

from . import driver

__all__ = ["driver"]
