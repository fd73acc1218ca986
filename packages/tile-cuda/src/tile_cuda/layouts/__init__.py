"""How tiles are spread over the threads and registers of a block."""

from .fragments import coalesced, operand_a, operand_b, product, reduced, replicated
from .partition import WARP, elements_a_register, warp_partition
from .places import Places, digit_expression
from .shared import matrix_tile

__all__ = [
    "WARP",
    "Places",
    "coalesced",
    "digit_expression",
    "elements_a_register",
    "matrix_tile",
    "operand_a",
    "operand_b",
    "product",
    "reduced",
    "replicated",
    "warp_partition",
]
