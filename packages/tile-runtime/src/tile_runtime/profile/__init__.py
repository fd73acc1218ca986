"""Timing and checking kernels."""

from .bench import do_bench
from .compare import assert_tensors_close
from .profiler import Profiler
from .supply import TensorSupplyType

__all__ = ["Profiler", "TensorSupplyType", "assert_tensors_close", "do_bench"]
