from __future__ import annotations

import numpy as np
import pytest

from tile_core.arith.evaluate import evaluate
from tile_core.dtypes import DType
from tile_core.errors import CompileError
from tile_core.ir import IntImm, Var, substitute
from tile_core.layout import Fragment
from tile_core.layout.swizzle import swizzled
from tile_core.layout.tables import tabulate
from tile_cuda.layouts import (
    Places,
    coalesced,
    in_rows,
    operand_a,
    operand_b,
    product,
    reduced,
    replicated,
    warp_partition,
)


@pytest.mark.parametrize(
    ("m", "n", "warps", "policy", "split"),
    [
        (128, 128, 4, "Square", (2, 2)),
        (128, 128, 4, "FullRow", (4, 1)),
        (128, 128, 4, "FullCol", (1, 4)),
        (64, 32, 4, "FullRow", (4, 1)),
        (32, 64, 4, "FullRow", (2, 2)),
        (48, 32, 3, "Square", (3, 1)),
        (16, 16, 4, "Square", None),
        (20, 64, 1, "Square", None),
    ],
)
def test_warps_share_a_product(m, n, warps, policy, split):
    assert warp_partition(m, n, warps, policy) == split


FRAGMENTS = [
    product(64, 64, (2, 2)),
    product(48, 24, (3, 1)),
    operand_a(32, 64, (2, 2), 2),
    operand_a(32, 64, (2, 2), 4, transposed=True),
    operand_b(64, 64, (2, 2), 2),
    operand_b(32, 16, (1, 2), 1, transposed=True),
    coalesced((100, 100), 128, 4),
    coalesced((7, 9), 96, 1),
    coalesced((4,), 128, 1),
    coalesced((8, 64), 128, 8),
    replicated((3, 5), 96),
    reduced(product(64, 64, (2, 2)), [0]),
    reduced(product(64, 64, (2, 2)), [1]),
    reduced(coalesced((8, 64), 128, 8), [1]),
    # Rows with threads of their own, and the results of their columns.
    in_rows((4, 777), 128, 4),
    in_rows((8, 48), 64, 4),
    reduced(in_rows((8, 48), 64, 4), [0]),
    reduced(in_rows((16, 52), 128, 4), [0]),
]


@pytest.mark.parametrize("fragment", FRAGMENTS, ids=range(len(FRAGMENTS)))
def test_an_element_is_found_from_thread_and_register(fragment):
    places = Places(fragment)
    thread, register = Var("t"), Var("r")
    extents = (fragment.threads, fragment.regs)
    indices = tabulate((thread, register), places.indices(thread, register), extents)
    condition = places.valid(thread, register)
    valid = np.ones(extents, bool) if condition is None else tabulate((thread, register), (condition,), extents)[0]
    assert np.array_equal(valid.astype(bool), places.table >= 0)
    found = np.ravel_multi_index([np.where(valid, i, 0) for i in indices], fragment.domain)
    assert np.array_equal(np.where(valid, found, -1), places.table)
    only = places.first(thread, register)
    firsts = np.ones(extents, bool) if only is None else tabulate((thread, register), (only,), extents)[0]
    # Each element has one first copy.
    counts = np.bincount(found[(valid != 0) & (firsts != 0)], minlength=int(np.prod(fragment.domain)))
    assert (counts == 1).all()


def test_a_product_by_rows_is_the_next_gemms_operand():
    assert product(64, 32, (4, 1)) == operand_a(64, 32, (4, 1), 2)
    assert product(64, 32, (2, 2)) != operand_a(64, 32, (2, 2), 2)


def test_a_reduced_product_is_held_by_the_owners_of_its_row():
    rows = reduced(product(64, 64, (2, 2)), [1])
    assert (rows.domain, rows.regs, rows.replicas) == ((64,), 4, 8)
    owners, whole = rows.tables()[0], product(64, 64, (2, 2)).tables()[0]
    for row in (0, 9, 40, 63):
        assert set(owners[row].ravel()) == set(whole[row].ravel())


def test_owners_that_are_no_digits_have_no_reduced_fragment():
    assert reduced(coalesced((100, 100), 128, 4), [1]) is None


def test_a_tile_laid_out_like_one_of_its_rows_is_read_backwards():
    tile = Fragment((8, 17, 16), 100, 34, 1, lambda i, j, k, r: ((i * 16 + k) % 100, (i * 16 + k) // 100 * 17 + j))
    places = Places(tile)
    thread, register = Var("t", DType("int32")), Var("r", DType("int32"))
    indices, valid = places.indices(thread, register), places.valid(thread, register)
    for t, r in ((0, 0), (99, 16), (27, 33), (28, 17), (50, 20)):
        values = {thread: t, register: r}
        assert bool(evaluate(valid, values)) == (r < 17 or t < 28)
        if r < 17 or t < 28:
            i, j, k = (evaluate(index, values) for index in indices)
            assert ((i * 16 + k) % 100, (i * 16 + k) // 100 * 17 + j) == (t, r)


def test_a_fragment_without_a_closed_inverse_says_so():
    odd = Fragment((5,), 5, 1, 1, lambda i, r: (i * i % 5 * 0 + (i * 3) % 5, 0))
    with pytest.raises(CompileError) as caught:
        Places(odd)
    assert caught.value.code == "E-FRAGMENT-INVERSE"
    assert "leave the annotation out" in caught.value.help


@pytest.mark.parametrize("shape", [(64, 64), (64, 32), (64, 16), (32, 128)])
def test_rows_of_ldmatrix_fall_into_different_banks(shape):
    layout = swizzled(shape, "float16")
    for column in range(0, shape[1], 8):
        rows = [(row, column) for row in range(8)]
        assert layout.bank_conflicts(rows, 2, width=8).ways == 1


def test_constants_come_out_of_places():
    places = Places(coalesced((8, 64), 128, 8))
    thread, register = Var("t"), Var("r")
    values = {thread: IntImm(9), register: IntImm(3)}
    assert [substitute(i, values) for i in places.indices(thread, register)]
