"""Atoms: the matrix instructions (mma.sync, mma.sp) that a gemm can be made of, and how each spreads its operands over
a warp.

PTX ISA, "Matrix Fragments for mma": in all of them lane = 4 · group + place. A register of 32 bits (fp64: 64) holds
`packed` neighbours along K; group is the row of A and of the product, or the column of B, modulo 8. What mma.sp takes
of a sparse A lies as a whole A of half the terms does.
"""

from __future__ import annotations

from dataclasses import dataclass

from tile_core.tileop import Facts, MatrixProduct
from tile_core.tileop.default_candidates import accumulator_dtype

from ..device.table import MMA_SHAPES, SPARSE_MMA_SHAPES
from ..layouts import elements_a_register
from ..target import architecture

__all__ = ["Atom", "atoms", "choose_atom", "oldest_architecture"]


@dataclass(frozen=True)
class Atom:
    """One instruction: m × 8 in the product, over k terms.

    Args:
        m: rows, 16 or 8.
        k: terms.
        packed: elements a register of A and B.
        share: A holds one of so many terms.
    """

    m: int
    k: int
    packed: int
    share: int = 1

    @property
    def shape(self) -> tuple[int, int, int]:
        """As the instruction's name has it."""
        return (self.m, 8, self.k)

    @property
    def row_parts(self) -> int:
        """How often a lane's row recurs, 8 rows further down."""
        return self.m // 8

    @property
    def a_depth(self) -> int:
        """Extent of A along K."""
        return self.k // self.share

    @property
    def a_parts(self) -> int:
        """Registers of A along K."""
        return self.a_depth // (4 * self.packed)

    @property
    def b_parts(self) -> int:
        """Registers of B along K."""
        return self.k // (4 * self.packed)

    @property
    def a(self) -> int:
        """Elements of A that a lane holds."""
        return self.row_parts * self.a_parts * self.packed

    @property
    def b(self) -> int:
        """Elements of B that a lane holds."""
        return self.b_parts * self.packed

    @property
    def c(self) -> int:
        """Elements of the product that a lane holds."""
        return 2 * self.row_parts


def atoms(op: MatrixProduct, facts: Facts) -> list[Atom]:
    """The instructions for the op's element types on the target, the longest first."""
    number = architecture(facts.target).number
    found = [
        Atom(shape[0], shape[2], elements_a_register(op.a.dtype.bits), op.share)
        for shape, minimum in _shapes(op)
        if number >= minimum
    ]
    return sorted(found, key=lambda atom: -atom.k)


def oldest_architecture(op: MatrixProduct) -> int | None:
    """The first architecture with an instruction for the op's element types, or None."""
    return min((minimum for _, minimum in _shapes(op)), default=None)


def _shapes(op: MatrixProduct) -> list[tuple[tuple[int, int, int], int]]:
    """Shape and oldest architecture of the instructions for the op's element types."""
    types = (op.a.dtype.name, op.b.dtype.name, accumulator_dtype(op.c.dtype).name)
    rows = MMA_SHAPES if op.share == 1 else SPARSE_MMA_SHAPES
    return [(shape, minimum) for shape, a, b, c, minimum in rows if (a, b, c) == types]


def choose_atom(op: MatrixProduct, facts: Facts) -> Atom | None:
    """The longest instruction that divides K, or None."""
    return next((atom for atom in atoms(op, facts) if op.k % atom.k == 0), None)
