"""A numpy interpreter for the IR, from TILE to FLAT: what a kernel means, without compiling it.

Tests run a function before and after each pass; a backend is compared with it. Importing this room imports numpy and
ml_dtypes.
"""

from . import debugging, warps  # noqa: F401  (what threads do together)
from .effects import register_effect
from .faults import ExecutionFault
from .operators import register_reference
from .run import interpret
from .values import convert, numpy_type

__all__ = ["ExecutionFault", "convert", "interpret", "numpy_type", "register_effect", "register_reference"]
