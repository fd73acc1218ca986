"""Random kernels as source text: `random_kernel(seed)`.

What a kernel means is defined and exact, so that three ways of running it must agree to the last bit: no race, no read
of memory that nobody wrote, sums of small integers, one rounding where a value is narrowed. The axes are those along
which compilers of this kind went wrong before (`tools.fuzz.coverage` lists them). Kernels come in families, a file
each: tiles and vectors of them, products, code of single threads, launches, element types.
"""

from __future__ import annotations

import random

from .launches import Launches
from .maker import Maker
from .products import Products
from .program import Program
from .sparse import SparseProducts
from .threads import Threads
from .tiles import Tiles
from .types import Types

__all__ = ["FAMILIES", "Program", "family_of", "random_kernel"]

FAMILIES: dict[type[Maker], float] = {
    Tiles: 0.36,
    Products: 0.2,
    SparseProducts: 0.04,
    Threads: 0.16,
    Launches: 0.11,
    Types: 0.13,
}
"""Families of kernels and their shares."""


def random_kernel(seed: int) -> Program:
    """A kernel made from `seed`; the same for the same seed everywhere."""
    return _family(seed)(seed).program()


def family_of(seed: int) -> str:
    """The name of the family that a seed's kernel belongs to."""
    return _family(seed).__name__


def _family(seed: int) -> type[Maker]:
    return random.Random(seed).choices(list(FAMILIES), list(FAMILIES.values()))[0]
