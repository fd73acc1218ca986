"""Arithmetic on Python integers that factories of kernels use."""

from __future__ import annotations

__all__ = ["cdiv", "next_power_of_2"]


def cdiv(a: int, b: int) -> int:
    """The quotient of two integers, rounded up; `b` > 0."""
    return -(-a // b)


def next_power_of_2(n: int) -> int:
    """The smallest power of two that is at least `n`; 1 for n ≤ 1."""
    return 1 << max(0, n - 1).bit_length()
