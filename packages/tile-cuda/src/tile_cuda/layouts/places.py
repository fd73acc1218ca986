"""Places: a fragment read backwards, from a thread and a register to the element that lies there.

The expressions are closed forms found from the tables, and equal to them everywhere by comparison: sums over digits of
thread and register, or the row-major count of a coalesced tile whose last round is not full.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from tile_core.errors import CompileError, declare_codes
from tile_core.ir import Expr, as_expr, binary, const
from tile_core.layout import Fragment
from tile_core.layout.invert import digit_sums
from tile_core.layout.maps import unflatten

__all__ = ["Places", "digit_expression"]

declare_codes({"E-FRAGMENT-INVERSE": "a fragment whose elements cannot be computed from thread and register"})

_VECTORS = (1, 2, 4, 8, 16)


class Places:
    """The elements of a fragment by thread and register.

    Attributes:
        table: (threads, regs) row-major element numbers, -1 where nothing lies.
        replica: (threads, regs) which copy of the element it is.

    Raises:
        CompileError: no closed form gives the elements.
    """

    def __init__(self, fragment: Fragment) -> None:
        self.fragment = fragment
        owners, registers = fragment.tables()
        size = prod(fragment.domain)
        self.table = np.full((fragment.threads, fragment.regs), -1, dtype=np.int64)
        self.replica = np.zeros_like(self.table)
        elements = np.broadcast_to(np.arange(size).reshape(*fragment.domain, 1), owners.shape)
        copies = np.broadcast_to(np.arange(fragment.replicas), owners.shape)
        # Backwards, so that of two copies in one place the first counts.
        at = owners.ravel()[::-1], registers.ravel()[::-1]
        self.table[at] = elements.ravel()[::-1]
        self.replica[at] = copies.ravel()[::-1]
        self._busy = fragment.threads
        self._digits: list[Any] | None = None
        self._vector = 0
        self._find()
        self._copies = digit_sums(self.replica[: self._busy])

    def indices(self, thread: Expr, register: Expr) -> tuple[Expr, ...]:
        """The element's indices."""
        if self._digits is not None:
            return tuple(digit_expression(d, (thread, register)) for d in self._digits)
        return tuple(as_expr(i) for i in unflatten(self._offset(thread, register), self.fragment.domain))

    def valid(self, thread: Expr, register: Expr) -> Expr | None:
        """The condition for an element to lie there, or None where one always does."""
        if self._digits is None:
            return binary("lt", self._offset(thread, register), prod(self.fragment.domain))
        return binary("lt", thread, self._busy) if self._busy < self.fragment.threads else None

    def first(self, thread: Expr, register: Expr) -> Expr | None:
        """The condition for being the first copy of the element, or None where there is one."""
        if self.fragment.replicas == 1:
            return None
        if self._copies is None:
            raise _no_form(self.fragment)
        return binary("eq", digit_expression(self._copies, (thread, register)), const(0, "int32"))

    def _find(self) -> None:
        held = np.any(self.table >= 0, axis=1)
        busy = int(held.sum())
        if np.all(held[:busy]) and (self.table[:busy] >= 0).all():
            parts = np.unravel_index(self.table[:busy], self.fragment.domain)
            digits = [digit_sums(np.asarray(p, dtype=np.int64)) for p in parts]
            if all(d is not None for d in digits):
                self._busy, self._digits = busy, digits
                return
        threads, regs = np.ix_(np.arange(self.fragment.threads), np.arange(self.fragment.regs))
        for vector in _VECTORS:
            offset = regs // vector * (vector * self.fragment.threads) + threads * vector + regs % vector
            if np.array_equal(np.where(offset < prod(self.fragment.domain), offset, -1), self.table):
                self._vector = vector
                return
        raise _no_form(self.fragment)

    def _offset(self, thread: Expr, register: Expr) -> Expr:
        v = self._vector
        return as_expr(register // v * (v * self.fragment.threads) + thread * v + register % v)


def digit_expression(digits: list[list[tuple[int, int, int]]], values: tuple[Expr, ...]) -> Expr:
    """The sum over the digits of `values` of (value // place) % count * stride, as `digit_sums` finds it."""
    total: Any = const(0, "int32")
    for value, own in zip(values, digits):
        for stride, count, place in own:
            if stride:
                total = total + value // place % count * stride
    return as_expr(total)


def _no_form(fragment: Fragment) -> CompileError:
    return CompileError(
        "E-FRAGMENT-INVERSE",
        "the elements of a fragment cannot be computed from thread and register",
        facts=[repr(fragment)],
        help="annotate a fragment made of + - * // % of its indices whose threads and registers are numbered without "
        "gaps, or leave the annotation out",
    )
