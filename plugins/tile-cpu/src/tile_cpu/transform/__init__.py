"""Passes of the CPU backend."""

from .fuse_parallel_loops import FuseParallelLoops
from .group_blocks import GroupBlocks
from .inline_indices import InlineIndices
from .lower_parallel_loops import LowerParallelLoops
from .prefetch_next_rows import PrefetchNextRows
from .prefetch_next_tiles import PrefetchNextTiles
from .widen_k_steps import WidenKSteps

__all__ = [
    "FuseParallelLoops",
    "GroupBlocks",
    "InlineIndices",
    "LowerParallelLoops",
    "PrefetchNextRows",
    "PrefetchNextTiles",
    "WidenKSteps",
]
