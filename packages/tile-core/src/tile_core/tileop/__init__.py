"""Tile operations: what they mean, and the candidates that carry them out.

Importing this package registers the core ops: copy, gemm, gemm_sp, reduce, fill, scan, atomic_update.
"""

from .atomic import ATOMIC_KINDS, MEMORY_ORDERS, AtomicUpdate
from .base import TileOp, register_tile_op, tile_op_class, tile_ops
from .candidate import Candidate, Choice, Constraint, Declined, Facts, LowerContext, Ok
from .checks import normal_axis
from .copy import Copy
from .fill import Fill
from .gemm import GEMM_DTYPES, GEMM_POLICIES, Gemm, MatrixProduct
from .gemm_sparse import PLACE_DTYPES, SparseGemm, elements_a_group
from .numerics import accumulator_type, identity_value
from .reduce import REDUCE_KINDS, Reduce
from .scan import SCAN_KINDS, Scan

__all__ = [
    "ATOMIC_KINDS",
    "GEMM_DTYPES",
    "GEMM_POLICIES",
    "MEMORY_ORDERS",
    "PLACE_DTYPES",
    "REDUCE_KINDS",
    "SCAN_KINDS",
    "AtomicUpdate",
    "Candidate",
    "Choice",
    "Constraint",
    "Copy",
    "Declined",
    "Facts",
    "Fill",
    "Gemm",
    "LowerContext",
    "MatrixProduct",
    "Ok",
    "Reduce",
    "Scan",
    "SparseGemm",
    "TileOp",
    "accumulator_type",
    "elements_a_group",
    "identity_value",
    "normal_axis",
    "register_tile_op",
    "tile_op_class",
    "tile_ops",
]
