"""How the CPU carries out tile ops, in order of preference; the defaults of tile_core follow."""

from tile_core.tileop import Candidate

from .copy import TileCopy
from .gemm import MicroKernel, PackingMicroKernel
from .gemm_sparse import ExpandingMicroKernel
from .reduce import RowReduce

__all__ = ["candidates"]


def candidates() -> tuple[Candidate, ...]:
    """The backend's candidates."""
    return (MicroKernel(), PackingMicroKernel(), ExpandingMicroKernel(), TileCopy(), RowReduce())
