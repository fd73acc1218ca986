"""How CUDA carries out tile ops, in order of preference; the defaults of tile_core follow."""

from __future__ import annotations

from tile_core.tileop import Candidate

from .copy import AsyncCopy, ThreadCopy
from .gemm import MatrixInstructions
from .gemm_sparse import SparseMatrixInstructions
from .nests import ThreadAtomic, ThreadFill, ThreadGemm, ThreadReduce, ThreadScan, ThreadSparseGemm
from .reduce import ShuffleReduce
from .staged import StagedStore

__all__ = ["candidates"]


def candidates() -> tuple[Candidate, ...]:
    """The backend's candidates."""
    return (
        MatrixInstructions(),
        SparseMatrixInstructions(),
        AsyncCopy(),
        ShuffleReduce(),
        ThreadGemm(),
        ThreadSparseGemm(),
        StagedStore(),
        ThreadCopy(),
        ThreadFill(),
        ThreadReduce(),
        ThreadScan(),
        ThreadAtomic(),
    )
