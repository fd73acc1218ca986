"""Places: a fragment read backwards, from a thread and a register to the element that lies there.

The expressions are closed forms found from the tables, and equal to them everywhere by comparison: sums over digits of
thread and register, where rows may end before their last registers, or the row-major count of a coalesced tile whose
last round is not full, some axes of which may lie whole in each thread's registers (a tile's loop that is laid out like
a row of it).
"""

from __future__ import annotations

from itertools import combinations
from math import prod
from typing import Any

import numpy as np

from tile_core.errors import CompileError, declare_codes
from tile_core.ir import Expr, as_expr, binary, const
from tile_core.layout import Fragment
from tile_core.layout.invert import digit_sums
from tile_core.layout.maps import unflatten

from .fragments import padded

__all__ = ["Places", "digit_expression"]

declare_codes({"E-FRAGMENT-INVERSE": "a fragment whose elements cannot be computed from thread and register"})

# 32 elements of four bits are 16 bytes.
_VECTORS = (1, 2, 4, 8, 16, 32)


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
        self._whole: tuple[int, ...] = ()
        self._copies: Any = None
        self._padded = False
        self._find()
        if not self._padded:
            self._copies = digit_sums(self.replica[: self._busy])

    def indices(self, thread: Expr, register: Expr) -> tuple[Expr, ...]:
        """The element's indices."""
        if self._digits is not None:
            return tuple(digit_expression(d, (thread, register)) for d in self._digits)
        return tuple(as_expr(i) for i in self._coalesced(thread, register))

    def valid(self, thread: Expr, register: Expr) -> Expr | None:
        """The condition for an element to lie there, or None where one always does."""
        if self._digits is None:
            return binary("lt", as_expr(self._offset(thread, register)), self._spread_size())
        found = binary("lt", thread, self._busy) if self._busy < self.fragment.threads else None
        if not self._padded:
            return found
        inside = binary("lt", self.indices(thread, register)[-1], self.fragment.domain[-1])
        return inside if found is None else binary("and", found, inside)

    def first(self, thread: Expr, register: Expr) -> Expr | None:
        """The condition for being the first copy of the element, or None where there is one."""
        if self.fragment.replicas == 1:
            return None
        if self._copies is None:
            raise _no_form(self.fragment)
        return binary("eq", digit_expression(self._copies, (thread, register)), const(0, "int32"))

    def _find(self) -> None:
        if self._by_digits(self.table, self.fragment.domain):
            return
        threads, regs = np.ix_(np.arange(self.fragment.threads), np.arange(self.fragment.regs))
        rank = len(self.fragment.domain)
        for count in range(rank):
            for self._whole in combinations(range(rank), count):
                for self._vector in _VECTORS:
                    if self.fragment.regs % self._held() == 0 and self._fits(threads, regs):
                        return
        self._whole = ()
        full = padded(self.fragment)
        self._padded = full is not None
        whole = None if full is None else Places(full)
        if whole is None or not self._by_digits(whole.table, whole.fragment.domain):
            raise _no_form(self.fragment)
        self._copies = whole._copies

    def _by_digits(self, table: np.ndarray, domain: tuple[int, ...]) -> bool:
        """Whether the first threads hold something in every register, at indices that are sums over digits."""
        held = np.any(table >= 0, axis=1)
        busy = int(held.sum())
        if not np.all(held[:busy]) or (table[:busy] < 0).any():
            return False
        digits = [digit_sums(np.asarray(p, dtype=np.int64)) for p in np.unravel_index(table[:busy], domain)]
        if any(d is None for d in digits):
            return False
        self._busy, self._digits = busy, digits
        return True

    def _fits(self, threads: Any, regs: Any) -> bool:
        """Whether the coalesced form gives the table."""
        places = np.broadcast_arrays(*self._coalesced(threads, regs), threads)[:-1]
        elements = np.zeros_like(self.table)
        for place, extent in zip(places, self.fragment.domain):
            elements = elements * extent + place
        valid = np.broadcast_to(self._offset(threads, regs) < self._spread_size(), self.table.shape)
        return np.array_equal(np.where(valid, elements, -1), self.table)

    def _coalesced(self, thread: Any, register: Any) -> tuple[Any, ...]:
        """Indices where the axes in `_whole` lie in registers, and the others are counted over threads and registers
        in pieces of `_vector`."""
        domain = self.fragment.domain
        spread = [axis for axis in range(len(domain)) if axis not in self._whole]
        inner = unflatten(register % self._held(), tuple(domain[axis] for axis in self._whole)) if self._whole else ()
        outer = unflatten(self._offset(thread, register), tuple(domain[axis] for axis in spread))
        return tuple(i for _, i in sorted(zip((*self._whole, *spread), (*inner, *outer)), key=lambda pair: pair[0]))

    def _offset(self, thread: Any, register: Any) -> Any:
        v = self._vector
        outer = register // self._held() if self._whole else register
        return outer // v * (v * self.fragment.threads) + thread * v + outer % v

    def _held(self) -> int:
        """How many registers the axes that lie whole in them take."""
        return prod(self.fragment.domain[axis] for axis in self._whole)

    def _spread_size(self) -> int:
        return prod(self.fragment.domain) // self._held()


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
