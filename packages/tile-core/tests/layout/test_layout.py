"""Layouts: meaning, questions, algebra, texts and errors."""

from __future__ import annotations

import itertools
import random
import subprocess
import sys
from math import prod

import numpy as np
import pytest

from tile_core.arith import evaluate
from tile_core.errors import CompileError
from tile_core.ir import SizeVar, structural_equal
from tile_core.layout import Layout, column_major, padded, panels, row_major, swizzle_span, swizzled


def places(layout):
    """Brute force: the offset of each element, from the expressions one element at a time."""
    found = np.zeros(layout.domain, dtype=np.int64)
    for point in itertools.product(*map(range, layout.domain)):
        found[point] = evaluate(layout.offset(point), {})
    return found


def test_both_forms_of_the_constructor_mean_the_same():
    assert Layout((8, 32), lambda i, j: (j // 8, i, j % 8)) == Layout(
        (8, 32), (4, 8, 8), lambda i, j: (j // 8, i, j % 8)
    )
    assert Layout((8, 4), lambda i, j: i * 4 + j).image == (32,)


def test_equality_is_that_of_the_tables():
    a = Layout((8, 8), lambda i, j: (i, j ^ i % 8))
    b = Layout((8, 8), lambda i, j: (i, (j + i - 2 * (j & i))))
    assert a == b and hash(a) == hash(b)
    assert a != row_major((8, 8))
    assert row_major((4, 1, 8)) == Layout((4, 1, 8), (4, 1, 8), lambda i, j, k: (i, j * 5, k))
    assert row_major((4, 8)) != Layout((4, 8), (4, 9), lambda i, j: (i, j))


def test_row_major_questions_need_no_tables():
    code = (
        "import sys; from tile_core.layout import *; a = row_major((128, 64)); "
        "assert a == Layout((128, 64), lambda i, j: (i, j)) and a != column_major((128, 64)) and a.injective; "
        "print('numpy' in sys.modules)"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "False"


@pytest.mark.parametrize(
    ("layout", "text"),
    [
        (row_major((128, 32)), "T.Layout((128, 32), lambda i, j: (i, j))"),
        (panels((5, 13), 4), "T.Layout((5, 13), lambda i, j: (j // 4, i, j % 4))"),
        (padded((8, 64), "float16"), "T.Layout((8, 64), (8, 72), lambda i, j: (i, j))"),
        (Layout((8,), lambda i: 7 - i), "T.Layout((8,), lambda i: (7 - i,))"),
        (
            swizzled((16, 64), "float16"),
            "T.Layout((16, 64), lambda i, j: (i, (j // 8 ^ i % 8) * 8 + j % 8))",
        ),
    ],
)
def test_text(layout, text):
    assert repr(layout) == text


def test_swizzles_keep_columns_of_chunks_in_different_banks():
    column = [(i, 0) for i in range(8)]
    for span, ways in ((128, 1), (64, 1), (32, 1)):
        columns = span // 2
        assert row_major((8, columns)).bank_conflicts(column, 2, 8).ways == span // 16
        assert swizzled((8, columns), "float16", span).bank_conflicts(column, 2, 8).ways == ways
    assert padded((8, 64), "float16").bank_conflicts(column, 2, 8).ways == 1
    assert row_major((32, 32)).bank_conflicts([(i, 0) for i in range(32)], 4).ways == 32
    assert row_major((32, 32)).bank_conflicts([(0, i) for i in range(32)], 4).ways == 1
    # Threads that read one word are served together.
    assert row_major((32, 32)).bank_conflicts([(0, 0)] * 32, 4).ways == 1
    assert row_major((32, 64)).bank_conflicts([(i, 0) for i in range(32)], 4, 4).wavefronts == 32


def test_swizzle_spans_follow_the_row():
    assert [swizzle_span((8, n), "float16") for n in (64, 32, 16, 8)] == [128, 64, 32, 0]
    assert swizzled((8, 8), "float16") == row_major((8, 8))
    tiled = swizzled((16, 128), "float16", 128, tiled=True)
    assert tiled.image == (2, 16, 64) and tiled.bijective
    batch = swizzled((3, 16, 64), "float16")
    assert batch.bijective and batch.vector_width() == 8


def test_vector_width_is_that_of_aligned_groups():
    assert row_major((16, 24)).vector_width() == 24
    assert row_major((16, 24)).vector_width(limit=8) == 8
    assert row_major((16, 24)).vector_width(axis=0) == 1
    assert column_major((16, 24)).vector_width(axis=0) == 16
    assert panels((6, 13), 4).vector_width() == 1  # 13 columns divide into no groups
    assert panels((6, 12), 4).vector_width() == 4
    assert Layout((8, 8), (8, 9), lambda i, j: (i, j)).vector_width() == 1
    assert Layout((4, 8), (4, 12), lambda i, j: (i, j)).vector_width() == 4


def test_panels_pad_the_last_one():
    packed = panels((5, 13), 4)
    assert packed.image == (4, 5, 4) and packed.injective and not packed.bijective
    assert panels((13, 5), 4, axis=0).image == (4, 5, 4)


KNOWN = [
    row_major((3, 5, 7)),
    column_major((3, 5, 7)),
    panels((6, 12), 4),
    panels((12, 7), 3, axis=0),
    swizzled((16, 64), "float16"),
    swizzled((8, 32), "float32", 64),
    swizzled((16, 128), "int8", 32, tiled=True),
    Layout((12, 10), lambda i, j: (i // 3, j // 5, i % 3, j % 5)),
    Layout((16,), lambda i: (15 ^ i,)),
]


@pytest.mark.parametrize("number", range(len(KNOWN)))
def test_inverse_undoes(number):
    layout = KNOWN[number]
    inverse = layout.inverse()
    assert inverse.domain == layout.image and inverse.image == layout.domain
    assert layout.compose(inverse) == row_major(layout.image)
    assert inverse.compose(layout) == row_major(layout.domain)


def test_repeat_expand_reshape():
    base = swizzled((8, 32), "float16", 64)
    assert base.repeat(0, 3).domain == (24, 32) and base.repeat(0, 3).image == (3, 8, 32)
    assert (base.repeat(0, 3).table()[8:16] == base.table() + 256).all()
    assert (base.repeat(1, 2).table()[:, 32:] == base.table() + 256).all()
    grown = base.expand((2, 3))
    assert grown.domain == (2, 3, 8, 32) and (grown.table()[1, 2] == base.table() + 5 * 256).all()
    assert (base.reshape((4, 64)).table().ravel() == base.table().ravel()).all()
    assert row_major((4, 6)).reshape((24,)).image == (4, 6)


def test_containment():
    assert row_major((8, 8)).contains(Layout((4, 8), (8, 8), lambda i, j: (i * 2, j)))
    assert not Layout((4, 8), (8, 8), lambda i, j: (i * 2, j)).contains(row_major((8, 8)))


def test_one_element():
    layout = swizzled((16, 64), "float16")
    assert layout.at(3, 8) == (3, 16) and layout.at(0, 63) == (0, 63)
    for outside in ((16, 0), (0, -1), (0,)):
        with pytest.raises(CompileError, match="does not have"):
            layout.at(*outside)


def test_index_types_mix():
    from tile_core.dtypes import DType
    from tile_core.ir import Var

    k = Var("k", DType("int64"))
    assert all(p.dtype is k.dtype for p in swizzled((16, 64), "float16").physical((k, k))[1:])


@pytest.mark.parametrize("seed", range(60))
def test_fuzz_against_brute_force(seed):
    pick = random.Random(seed)
    shape = tuple(pick.choice([1, 2, 3, 4, 6, 8, 12]) for _ in range(pick.randint(1, 3)))
    axis = pick.randrange(len(shape))
    layout = pick.choice(
        [
            lambda: row_major(shape),
            lambda: column_major(shape),
            lambda: panels(shape, pick.choice([1, 2, 3, 4]), axis),
            lambda: row_major(shape).repeat(axis, 2),
            lambda: column_major(shape).expand((2,)),
            lambda: row_major(shape).reshape((prod(shape),)),
            lambda: Layout(shape, lambda *i: sum(x * pick.choice([1, 2, 5]) for x in i)),
            lambda: swizzled((pick.choice([4, 8, 16]), pick.choice([16, 32])), "float32"),
            lambda: Layout((8, 8), lambda i, j: ((i + j) % 8, j)),
        ]
    )()
    want = places(layout)
    assert (layout.table() == want).all()
    flat = want.ravel()
    assert layout.injective == (len(set(flat.tolist())) == flat.size)
    width = layout.vector_width()
    lines = want.reshape(-1, layout.domain[-1])
    for candidate in range(1, layout.domain[-1] + 1):
        fits = layout.domain[-1] % candidate == 0 and all(
            line[s] % candidate == 0 and all(line[s + t] == line[s] + t for t in range(candidate))
            for line in lines
            for s in range(0, len(line), candidate)
        )
        assert not fits or candidate <= width
    if layout.bijective:
        try:
            inverse = layout.inverse()
        except CompileError as error:
            assert error.code == "E-LAYOUT-INVERSE"
        else:
            assert (inverse.table().ravel()[flat] == np.arange(flat.size)).all()


def test_pictures_show_every_element():
    text = swizzled((8, 16), "float32", 32).draw()
    assert " 4 |  68  69  70  71  64  65  66  67" in text
    svg = row_major((2, 3)).draw("svg")
    assert svg.startswith("<svg") and svg.count("<rect") == 7 and ">5</text>" in svg
    assert row_major((2, 2, 2)).draw().count("[1, :, :]") == 1


ERRORS = [
    (
        lambda: Layout((4, 4), lambda i, j: i + j).require_injective("A_shared"),
        """error[E-LAYOUT-INJECTIVE]: the layout of A_shared puts two elements in one place
   elements (0, 1) and (1, 0) both lie at offset 1
   T.Layout((4, 4), lambda i, j: (i + j,))
  help: make the function give every element a place of its own""",
    ),
    (
        lambda: Layout((4,), lambda i: i - 1),
        """error[E-LAYOUT-RANGE]: T.Layout: an element lies outside the image on axis 0
   element (0,) of (4,) gets index -1
   allowed: indices ≥ 0
  help: correct the function, or leave out the image to have it derived""",
    ),
    (
        lambda: Layout((4,), (3,), lambda i: (i,)),
        """error[E-LAYOUT-RANGE]: T.Layout: an element lies outside the image on axis 0
   element (3,) of (4,) gets index 3
   allowed: 0 … 2
  help: correct the function, or leave out the image to have it derived""",
    ),
    (
        lambda: Layout((4,), lambda i, j: i),
        """error[E-LAYOUT-MAP]: T.Layout: the function does not map indices to indices
   it is called with 1 indices: missing a required argument: 'j'
  help: give a function of one index an axis that returns an index or a tuple of indices, made with + - * // % and ^""",
    ),
    (
        lambda: Layout((4,), lambda i: i * 0.5),
        """error[E-LAYOUT-MAP]: T.Layout: the function does not map indices to indices
   it returned T.cast(i, T.float32) * 0.5, which is float32
  help: give a function of one index an axis that returns an index or a tuple of indices, made with + - * // % and ^""",
    ),
    (
        lambda: Layout((SizeVar("n"), 4), lambda i, j: (i, j)),
        """error[E-LAYOUT-SHAPE]: T.Layout: n is no constant positive extent
   found shape (n, 4)
  help: lay out tiles of constant size; sizes known only at run time belong to global tensors""",
    ),
    (
        lambda: row_major((4, 4)).compose(row_major((16,))),
        """error[E-LAYOUT-COMPOSE]: the layouts do not fit each other
   the inner one ends in (16,)
   the outer one starts from (4, 4)
  help: reshape one of them, or state the inner image""",
    ),
    (
        lambda: panels((5, 13), 4).inverse(),
        """error[E-LAYOUT-INVERSE]: the layout has no inverse
   65 elements in 80 places
   T.Layout((5, 13), lambda i, j: (j // 4, i, j % 4))
  help: only a layout that fills its image with every element once can be inverted""",
    ),
    (
        lambda: swizzled((8, 24), "float16", 64),
        """error[E-LAYOUT-SWIZZLE]: a swizzle over 64 bytes does not fit a tile of (8, 24) float16
   a row has 48 bytes
   spans: 128, 64, 32 bytes
  help: make the last axis a multiple of the span, or choose a smaller span""",
    ),
    (
        lambda: row_major((4, 4)).bank_conflicts([(0, 2)], 4, 4),
        """error[E-LAYOUT-INDEX]: an access leaves the tile
   tile (4, 4), largest index (0, 5)
  help: give indices of elements inside the tile""",
    ),
    (
        lambda: row_major((4, 4)).draw("pdf"),
        """error[E-LAYOUT-DRAW]: a layout cannot be drawn as 'pdf'
   formats: text, svg
  help: use draw('text') or draw('svg')""",
    ),
]


@pytest.mark.parametrize("number", range(len(ERRORS)))
def test_error_text(number):
    make, text = ERRORS[number]
    with pytest.raises(Exception) as caught:
        make()
    assert str(caught.value) == text


def test_maps_compare_structurally_too():
    assert structural_equal(row_major((4, 4)).forward, Layout((4, 4), lambda a, b: (a, b)).forward)
