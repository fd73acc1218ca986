"""Passes of the CPU backend."""

from .fuse_parallel_loops import FuseParallelLoops
from .lower_parallel_loops import LowerParallelLoops
from .widen_k_steps import WidenKSteps

__all__ = ["FuseParallelLoops", "LowerParallelLoops", "WidenKSteps"]
