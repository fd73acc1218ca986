"""CUDA source for device functions, C source for the host stub that launches them."""

from .cuda import CudaKernelPrinter
from .unit import LAUNCH, LINES, generate, generate_kernels, preludes

__all__ = ["LAUNCH", "LINES", "CudaKernelPrinter", "generate", "generate_kernels", "preludes"]
