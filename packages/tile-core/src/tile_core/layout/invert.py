"""Inverses of bijective layouts as expressions.

Two families cover what tiles use. *Digits*: every axis splits into digits that have constant strides in memory
(orders, panels, tilings, of any extents). *Bits*: extents are powers of two and the offset is linear over bits
(swizzles). Both are recognised from the table, so it does not matter how the map was written.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import CompileError
from .maps import flat_index

if TYPE_CHECKING:
    from collections.abc import Callable

    from .layout import Layout

__all__ = ["digit_sums", "inverse_map"]


def inverse_map(layout: Layout) -> Callable[..., tuple[Any, ...]]:
    """The function from image indices to domain indices of a bijective layout.

    Raises:
        CompileError: neither family fits.
    """
    digits = _digits(layout)
    if digits is not None:
        return lambda *places: _from_digits(flat_index(places, layout.image), digits)
    bits = _bits(layout)
    if bits is not None:
        return lambda *places: _from_bits(places, bits)
    raise CompileError(
        "E-LAYOUT-INVERSE",
        "the layout's inverse is no expression of digits or bits",
        facts=[repr(layout)],
        help="write the inverse map yourself as a T.Layout from the image to the tile",
    )


def digit_sums(table: np.ndarray) -> list[list[tuple[int, int, int]]] | None:
    """For each axis its digits (stride in the values, count, place value in the index), when the table is the sum of
    its digits times their strides."""
    lines = []
    total = np.zeros((), dtype=np.int64)
    for axis, extent in enumerate(table.shape):
        line = table[tuple(slice(None) if a == axis else 0 for a in range(table.ndim))] - table.flat[0]
        lines.append(line)
        total = total + line.reshape([extent if a == axis else 1 for a in range(table.ndim)])
    if table.flat[0] != 0 or not np.array_equal(total, table):
        return None
    found = []
    for line in lines:
        own = []
        place = 1
        while line.size > 1:
            stride = int(line[1])
            count = next((n for n in range(line.size, 1, -1) if _is_digit(line, n, stride)), None)
            if count is None:
                return None
            own.append((stride, count, place))
            place *= count
            line = line[::count]
        found.append(own)
    return found


def _is_digit(line: np.ndarray, count: int, stride: int) -> bool:
    if line.size % count:
        return False
    steps = np.arange(count, dtype=np.int64) * stride
    return np.array_equal(line.reshape(-1, count), line[::count, None] + steps[None, :])


def _digits(layout: Layout) -> list[list[tuple[int, int, int]]] | None:
    """The digits of a layout whose strides nest, so that division by them takes an offset apart; None for another."""
    found = digit_sums(layout.table())
    if found is None:
        return None
    reach = 1
    for stride, count, _ in sorted(d for own in found for d in own):
        if stride != reach:
            return None
        reach *= count
    return found


def _from_digits(offset: Any, digits: list[list[tuple[int, int, int]]]) -> tuple[Any, ...]:
    return tuple(sum((offset // stride % count * place for stride, count, place in own), offset * 0) for own in digits)


def _bits(layout: Layout) -> tuple[list[int], list[list[tuple[int, int, int]]]] | None:
    """(bits to flip in each image axis first, for each domain axis its terms (image axis, mask, shift)), or None."""
    widths = [e.bit_length() - 1 for e in layout.domain]
    places = [e.bit_length() - 1 for e in layout.image]
    if any(1 << w != e for w, e in zip([*widths, *places], [*layout.domain, *layout.image])):
        return None
    flat = layout.table().ravel()
    count = sum(widths)
    origin = int(flat[0])
    columns = [int(flat[1 << b]) ^ origin for b in range(count)]
    linear = np.full(flat.shape, origin, dtype=np.int64)
    index = np.arange(flat.size, dtype=np.int64)
    for bit, column in enumerate(columns):
        linear ^= np.where(index >> bit & 1, column, 0)
    if not np.array_equal(linear, flat):
        return None
    rows = _invert_bits(columns, count)
    if rows is None:
        return None
    return _flips(origin, places), _terms(rows, widths, places)


def _invert_bits(columns: list[int], count: int) -> list[int] | None:
    """The inverse matrix: rows[d] is the mask of place bits whose parity is element bit d."""
    # Gauss-Jordan over bits; each working row pairs a place mask with the element bit that it equals.
    matrix = [sum((columns[d] >> p & 1) << d for d in range(count)) for p in range(count)]
    inverse = [1 << p for p in range(count)]
    for d in range(count):
        pivot = next((r for r in range(d, count) if matrix[r] >> d & 1), None)
        if pivot is None:
            return None
        matrix[d], matrix[pivot] = matrix[pivot], matrix[d]
        inverse[d], inverse[pivot] = inverse[pivot], inverse[d]
        for r in range(count):
            if r != d and matrix[r] >> d & 1:
                matrix[r] ^= matrix[d]
                inverse[r] ^= inverse[d]
    return inverse


def _axes_of_bits(widths: list[int]) -> list[tuple[int, int]]:
    """For each bit of a row-major offset the axis and the bit of that axis."""
    found: list[tuple[int, int]] = []
    for axis in range(len(widths) - 1, -1, -1):
        found += [(axis, bit) for bit in range(widths[axis])]
    return found


def _flips(origin: int, places: list[int]) -> list[int]:
    flips = [0] * len(places)
    for bit, (axis, own) in enumerate(_axes_of_bits(places)):
        flips[axis] |= (origin >> bit & 1) << own
    return flips


def _terms(rows: list[int], widths: list[int], places: list[int]) -> list[list[tuple[int, int, int]]]:
    place_bits = _axes_of_bits(places)
    terms: list[dict[tuple[int, int], int]] = [{} for _ in widths]
    for bit, (axis, own) in enumerate(_axes_of_bits(widths)):
        for place, (source, source_bit) in enumerate(place_bits):
            if rows[bit] >> place & 1:
                key = (source, own - source_bit)
                terms[axis][key] = terms[axis].get(key, 0) | 1 << source_bit
    return [[(source, mask, shift) for (source, shift), mask in sorted(t.items())] for t in terms]


def _from_bits(places: tuple[Any, ...], bits: tuple[list[int], list[list[tuple[int, int, int]]]]) -> tuple[Any, ...]:
    flips, axes = bits
    flipped = [p ^ f if f else p for p, f in zip(places, flips)]
    results = []
    for terms in axes:
        result: Any = None
        used = 0
        for source, mask, shift in terms:
            part = _masked(flipped[source], mask)
            part = part * (1 << shift) if shift > 0 else part // (1 << -shift) if shift < 0 else part
            moved = mask << shift if shift >= 0 else mask >> -shift
            result = part if result is None else result + part if not used & moved else result ^ part
            used |= moved
        results.append(places[0] * 0 if result is None else result)
    return tuple(results)


def _masked(value: Any, mask: int) -> Any:
    """`value & mask`; a mask of adjacent bits as division and remainder, which the simplifier knows."""
    low = mask & -mask
    if mask // low & (mask // low + 1):
        return value & mask
    high = mask + low
    return value % high // low * low if low > 1 else value % high
