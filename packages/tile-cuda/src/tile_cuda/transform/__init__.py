"""Passes of the CUDA backend."""

from .asynchronous_nests import AsynchronousNests
from .bind_threads import BindThreads, thread_index
from .choose_vectors import ChooseVectors
from .lower_parallel_nests import LowerParallelNests
from .order_blocks import OrderBlocks
from .require_alignment import RequireAlignment
from .thread_placement import ThreadPlacement, nest_constraints
from .vectorize_atomics import VectorizeAtomics
from .version_alignment import VersionAlignment

__all__ = [
    "AsynchronousNests",
    "BindThreads",
    "ChooseVectors",
    "LowerParallelNests",
    "OrderBlocks",
    "ThreadPlacement",
    "VectorizeAtomics",
    "RequireAlignment",
    "VersionAlignment",
    "nest_constraints",
    "thread_index",
]
