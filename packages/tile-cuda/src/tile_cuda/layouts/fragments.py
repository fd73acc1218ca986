"""Fragments: those of mma.sync (PTX ISA, "Warp-level Matrix Fragment for mma"), and those for loops and copies.

An mma atom is `height` × 8 in the product (16, fp64: 8), over `parts` registers along K. In all of them lane = 4 ·
group + place: group is the row (of A and of the product) or the column (of B) modulo 8.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import prod
from typing import Any

import numpy as np

from tile_core.errors import CompileError
from tile_core.layout import Fragment
from tile_core.layout.invert import digit_sums
from tile_core.layout.maps import flat_index

from .partition import ATOM_M, ATOM_N, WARP

__all__ = ["coalesced", "in_rows", "operand_a", "operand_b", "padded", "product", "reduced", "replicated"]


@lru_cache(maxsize=256)
def product(m: int, n: int, split: tuple[int, int], height: int = ATOM_M) -> Fragment:
    """The accumulator of a gemm: each warp owns a block of rows and columns, atoms row by row."""
    rows, columns = m // split[0], n // split[1]
    atoms, halves = columns // ATOM_N, height // 8

    def forward(i: Any, j: Any, _: Any) -> tuple[Any, Any]:
        warp = i // rows + j // columns * split[0]
        lane = i % 8 * 4 + j % 8 // 2
        atom = i % rows // height * atoms + j % columns // ATOM_N
        return warp * WARP + lane, (atom * halves + i // 8 % halves) * 2 + j % 2

    return Fragment((m, n), split[0] * split[1] * WARP, (rows // height) * atoms * halves * 2, 1, forward)


@lru_cache(maxsize=256)
def operand_a(
    m: int,
    k: int,
    split: tuple[int, int],
    packed: int,
    transposed: bool = False,
    height: int = ATOM_M,
    parts: int = 2,
) -> Fragment:
    """A in registers, `packed` elements a register; the warps of one row of the split hold the same.

    With one warp along N it is the product's fragment, so that a product can be the next gemm's A.
    """
    rows, depth, halves = m // split[0], 4 * packed * parts, height // 8
    regs = rows // height * (k // depth) * halves * parts * packed

    def forward(*given: Any) -> tuple[Any, Any]:
        i, c = (given[1], given[0]) if transposed else given[:2]
        warp = i // rows + given[2] * split[0]
        lane = i % 8 * 4 + c % (4 * packed) // packed
        atom = i % rows // height * (k // depth) + c // depth
        register = (atom * parts + c % depth // (4 * packed)) * halves + i // 8 % halves
        return warp * WARP + lane, register * packed + c % packed

    return Fragment((k, m) if transposed else (m, k), split[0] * split[1] * WARP, regs, split[1], forward)


@lru_cache(maxsize=256)
def operand_b(
    k: int, n: int, split: tuple[int, int], packed: int, transposed: bool = False, parts: int = 2
) -> Fragment:
    """B in registers, `packed` elements a register; the warps of one column of the split hold the same."""
    columns, depth = n // split[1], 4 * packed * parts
    regs = columns // ATOM_N * (k // depth) * parts * packed

    def forward(*given: Any) -> tuple[Any, Any]:
        c, j = (given[1], given[0]) if transposed else given[:2]
        warp = given[2] + j // columns * split[0]
        lane = j % 8 * 4 + c % (4 * packed) // packed
        atom = j % columns // ATOM_N * (k // depth) + c // depth
        return warp * WARP + lane, (atom * parts + c % depth // (4 * packed)) * packed + c % packed

    return Fragment((n, k) if transposed else (k, n), split[0] * split[1] * WARP, regs, split[0], forward)


@lru_cache(maxsize=1024)
def coalesced(extents: tuple[int, ...], threads: int, vector: int) -> Fragment:
    """Elements in row-major order, `vector` neighbours a thread, thread after thread, round after round.

    Any extents and thread counts: the last round may leave threads without elements.
    """
    rounds = -(-prod(extents) // (threads * vector))

    def forward(*indices: Any) -> tuple[Any, Any]:
        offset = flat_index(indices[:-1], extents)
        return offset // vector % threads, offset // (vector * threads) * vector + offset % vector

    return Fragment(extents, threads, rounds * vector, 1, forward)


@lru_cache(maxsize=1024)
def in_rows(extents: tuple[int, ...], threads: int, vector: int) -> Fragment:
    """`coalesced`, or rows apart from each other where threads would hold parts of several rows without any order: each
    row is a power of two of threads', which may leave registers empty behind its end."""
    plain = coalesced(extents, threads, vector)
    rows, length = prod(extents[:-1]), extents[-1]
    if rows == 1 or None not in [digit_sums(t) for t in plain.tables()]:
        return plain

    def turns(group: int) -> tuple[int, int]:
        # Of equally few, rather a warp: its lanes read neighbours, and exchange without shared memory.
        return -(-rows // (threads // group)) * -(-length // (group * vector)), abs(
            group.bit_length() - WARP.bit_length()
        )

    # Threads that a row can have, so that all have as many rows or at most one.
    fitting = [g for g in (1 << e for e in range(threads.bit_length())) if threads % g == 0]
    fitting = [g for g in fitting if rows % (threads // g) == 0 or rows < threads // g]
    if not fitting:
        return plain
    group = min(fitting, key=turns)
    row_regs = -(-length // (group * vector)) * vector
    regs = -(-rows // (threads // group)) * row_regs
    # A quarter more turns cost less than a reduction through shared memory.
    if regs * 4 > plain.regs * 5:
        return plain

    def forward(*indices: Any) -> tuple[Any, Any]:
        row, column = flat_index(indices[:-2], extents[:-1]), indices[-2]
        thread = row % (threads // group) * group + column // vector % group
        register = column // (group * vector) * vector + column % vector
        return thread, row // (threads // group) * row_regs + register

    found = Fragment(extents, threads, regs, 1, forward)
    return found if prod(extents) == threads * regs or padded(found) is not None else plain


@lru_cache(maxsize=1024)
def padded(fragment: Fragment) -> Fragment | None:
    """The fragment of a tile with so many more columns that each register of a thread that holds any holds one, or None
    where there is none."""
    rows, columns = prod(fragment.domain[:-1]), fragment.domain[-1]
    # Rows share all threads, or each has a power of two of them and some threads have none.
    lengths = {
        fragment.threads * fragment.regs // rows // fragment.replicas,
        fragment.regs << (-(-columns // fragment.regs) - 1).bit_length(),
    }

    def forward(*indices: Any) -> Any:
        return fragment.place(indices[:-1], indices[-1])

    for length in sorted(lengths):
        domain = (*fragment.domain[:-1], length)
        if length <= columns:
            continue
        try:
            full = Fragment(domain, fragment.threads, fragment.regs, fragment.replicas, forward)
        except CompileError:
            continue
        owners, registers = full.tables()
        places = len(np.unique(owners * fragment.regs + registers))
        if places == prod(domain) * fragment.replicas == len(np.unique(owners)) * fragment.regs:
            return full
    return None


@lru_cache(maxsize=1024)
def replicated(extents: tuple[int, ...], threads: int) -> Fragment:
    """Every thread holds the whole tile."""
    return Fragment(extents, threads, prod(extents), threads, lambda *i: (i[-1], flat_index(i[:-1], extents)))


def reduced(fragment: Fragment, axes: Sequence[int]) -> Fragment | None:
    """The fragment of a tile without some axes: who held any of the elements that fall together holds the result.

    None where owners and registers are not sums over digits of the indices, so that no fragment of this form exists.
    """
    # Threads whose part of a row lies behind its end hold the row's result like the others.
    full = padded(fragment) if len(fragment.domain) - 1 in axes else None
    threads, regs = (digit_sums(t) for t in (full or fragment).tables())
    if threads is None or regs is None:
        return None
    rest = [a for a in range(len(fragment.domain)) if a not in axes]
    # What the removed axes and the replicas say about the thread becomes the replica.
    spread = [d for a in (*axes, len(fragment.domain)) for d in threads[a] if d[0]]
    registers = sorted((stride, count, place, a) for a in rest for stride, count, place in regs[a] if stride)
    replicas = prod(count for _, count, _ in spread)
    total = prod(count for _, count, _, _ in registers)
    domain = tuple(fragment.domain[a] for a in rest) or (1,)

    def forward(*given: Any) -> tuple[Any, Any]:
        index = dict(zip(rest, given[:-1]))
        thread: Any = given[-1] * 0
        for a in rest:
            for stride, count, place in threads[a]:
                thread = thread + index[a] // place % count * stride
        inner = 1
        for stride, count, _ in spread:
            thread = thread + given[-1] // inner % count * stride
            inner *= count
        slot: Any = given[-1] * 0
        inner = 1
        for _, count, place, a in registers:
            slot = slot + index[a] // place % count * inner
            inner *= count
        return thread, slot

    found = Fragment(domain, fragment.threads, total, replicas, forward)
    return found if found.slots_distinct else None
