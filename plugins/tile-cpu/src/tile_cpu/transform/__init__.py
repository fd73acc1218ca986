"""Passes of the CPU backend."""

from .fuse_parallel_loops import FuseParallelLoops
from .lower_parallel_loops import LowerParallelLoops

__all__ = ["FuseParallelLoops", "LowerParallelLoops"]
