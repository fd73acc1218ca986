"""CUDA source for device functions, C source for the host stub that launches them."""

from .cuda import CudaKernelPrinter
from .unit import LINES, generate, generate_kernels, preludes

__all__ = ["LINES", "CudaKernelPrinter", "generate", "generate_kernels", "preludes"]
