"""NVRTC or nvcc for device code, the system's C compiler for the launcher."""

from .nvrtc import COMPILER_OPTION, DeviceCode, compile_device
from .toolchain import TOOLCHAIN, CudaToolchain

__all__ = ["COMPILER_OPTION", "TOOLCHAIN", "CudaToolchain", "DeviceCode", "compile_device"]
