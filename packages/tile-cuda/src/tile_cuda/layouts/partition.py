"""Which warps own which part of a gemm's product."""

from __future__ import annotations

from fractions import Fraction

__all__ = ["ATOM_M", "ATOM_N", "WARP", "elements_a_register", "warp_partition"]

WARP = 32
ATOM_M, ATOM_N = 16, 8


def warp_partition(m: int, n: int, warps: int, policy: str, rows_an_atom: int = ATOM_M) -> tuple[int, int] | None:
    """(warps along M, warps along N) for a product of m × n, or None where no split gives whole instructions.

    Square takes the split whose atoms a warp are nearest to the product's shape, the fewest warps along M on a tie;
    FullRow the most warps along M, FullCol the most along N.
    """
    splits = [
        (rows, warps // rows)
        for rows in range(1, warps + 1)
        if warps % rows == 0 and m % (rows_an_atom * rows) == 0 and n % (ATOM_N * (warps // rows)) == 0
    ]
    if not splits:
        return None
    if policy == "FullRow":
        return splits[-1]
    if policy == "FullCol":
        return splits[0]
    wanted = Fraction(m, n)
    return min(splits, key=lambda s: abs(Fraction(m * ATOM_N * s[1], rows_an_atom * s[0] * n) - wanted))


def elements_a_register(bits: int) -> int:
    """Elements of `bits` in one register of a matrix instruction: 32 bits, 64 for fp64."""
    return max(1, 32 // bits)
