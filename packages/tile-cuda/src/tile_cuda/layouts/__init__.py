"""How tiles are spread over the threads and registers of a block."""

from .fragments import coalesced, in_rows, operand_a, operand_b, padded, product, reduced, replicated
from .partition import WARP, elements_a_register, warp_partition
from .places import Places, digit_expression
from .shared import matrix_tile

__all__ = [
    "WARP",
    "Places",
    "coalesced",
    "digit_expression",
    "elements_a_register",
    "in_rows",
    "matrix_tile",
    "operand_a",
    "operand_b",
    "padded",
    "product",
    "reduced",
    "replicated",
    "warp_partition",
]
