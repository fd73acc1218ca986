"""C++ source for the CPU: one translation unit with the kernels and the packed host stub."""

from .cpp import CpuKernelPrinter
from .unit import generate

__all__ = ["CpuKernelPrinter", "generate"]
