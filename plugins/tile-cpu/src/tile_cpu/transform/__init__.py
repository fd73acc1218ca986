"""Passes of the CPU backend."""

from .lower_parallel_loops import LowerParallelLoops

__all__ = ["LowerParallelLoops"]
