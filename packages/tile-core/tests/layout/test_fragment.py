"""Fragments: which thread and register hold each element."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest

from tile_core.arith import evaluate
from tile_core.layout import Fragment


def accumulator():
    """The 16 × 16 accumulator of a warp's matrix instruction."""
    return Fragment((16, 16), lambda i, j: (i % 8 * 4 + j % 8 // 2, j // 8 * 4 + i // 8 * 2 + j % 2))


def test_the_forms_of_the_constructor_mean_the_same():
    stated = Fragment((6, 8), 4, 12, 1, lambda i, j, r: (j // 2, i * 2 + j % 2))
    assert Fragment((6, 8), lambda i, j: (j // 2, i * 2 + j % 2)) == stated
    assert (
        Fragment((6, 8), forward_thread_fn=lambda i, j: j // 2, forward_index_fn=lambda i, j: i * 2 + j % 2) == stated
    )
    # Registers are numbered in row-major order when nobody says.
    assert Fragment((6, 8), forward_thread_fn=lambda i, j: j // 2) == stated
    assert hash(Fragment((6, 8), forward_thread_fn=lambda i, j: j // 2)) == hash(stated)
    assert stated != accumulator()


def test_questions():
    fragment = accumulator()
    assert (fragment.threads, fragment.regs, fragment.full, fragment.vector_width()) == (32, 8, True, 2)
    odd = Fragment((7, 5), lambda i, j: (i, j))
    assert (odd.threads, odd.regs, odd.full) == (7, 5, True)
    partial = Fragment((7, 5), 8, 5, 1, lambda i, j, r: (i, j))
    assert partial.slots_distinct and not partial.full


def test_replicas_are_copies():
    everywhere = Fragment((4,), forward_thread_fn=lambda i, r: r, replicate=3, forward_index_fn=lambda i: i)
    assert everywhere.replicated_everywhere and everywhere.full
    assert Fragment((4,), forward_fn=lambda i, r: (r, i), replicate=3) == everywhere
    assert not accumulator().replicate(2).replicated_everywhere
    assert accumulator().replicate(2).threads == 64
    clash = Fragment((4,), 3, 4, 3, lambda i, r: (r // 2, i))
    assert not clash.slots_distinct


def test_containment_needs_no_exchange():
    rows = Fragment((8, 4), lambda i, j: (i, j))
    everywhere = Fragment((8, 4), forward_fn=lambda i, j, r: (r, i * 4 + j), replicate=8)
    assert everywhere.contains(rows) and not rows.contains(everywhere) and rows.contains(rows)


def test_repeat():
    fragment = accumulator()
    assert fragment.repeat(0, 2).regs == 16 and fragment.repeat(0, 2).full
    wide = fragment.repeat(1, 4, on_threads=True)
    assert wide.domain == (16, 64) and wide.threads == 128 and wide.full


@pytest.mark.parametrize("seed", range(40))
def test_fuzz_against_brute_force(seed):
    pick = random.Random(seed)
    shape = (pick.choice([3, 4, 6, 16]), pick.choice([2, 5, 8]))
    split = pick.choice([1, 2, 3])
    replicas = pick.choice([1, 1, 2, 3])
    fragment = Fragment(
        shape,
        shape[0] * 4 * replicas,
        shape[1] + 4,
        replicas,
        lambda i, j, r: (i + j // split % 2 * shape[0] + r * 2 * shape[0], j // (2 * split) * split + j % split),
    )
    seen = {}
    threads, regs = fragment.tables()
    for point in itertools.product(*map(range, shape), range(replicas)):
        thread, register = (evaluate(e, {}) for e in fragment.place(point[:-1], point[-1]))
        assert (threads[point], regs[point]) == (thread, register)
        seen.setdefault((thread, register), []).append(point)
    assert fragment.slots_distinct == all(len(points) == 1 for points in seen.values())


def test_pictures_name_thread_and_register():
    assert "t31:7" in accumulator().draw()
    assert accumulator().draw("svg").count("<rect") == 257
    assert "+1" in Fragment((2,), forward_fn=lambda i, r: (r, i), replicate=3).draw()


def test_text():
    assert repr(Fragment((6, 8), lambda i, j: (j // 2, i * 2 + j % 2))) == (
        "T.Fragment((6, 8), 4, 12, 1, lambda i, j, k: (j // 2, i * 2 + j % 2))"
    )


ERRORS = [
    (
        lambda: Fragment((4,), 2, 1, 1, lambda i, r: (i, 0)),
        """error[E-FRAGMENT-RANGE]: T.Fragment: an element goes to a thread that does not exist
   element (2,), replica 0: thread 2
   there are 2
  help: correct the function, or state more""",
    ),
    (
        lambda: Fragment((4, 2), lambda i, j: (i, 0)).require_distinct("C_local"),
        """error[E-FRAGMENT-SLOT]: the fragment of C_local puts two elements in one register
   elements (0, 0) (replica 0) and (0, 1) (replica 0)
   both are in register 0 of thread 0
  help: make (thread, register) different for every element and replica""",
    ),
    (
        lambda: Fragment((4, 2)),
        """error[E-LAYOUT-MAP]: T.Fragment needs forward_fn or forward_thread_fn, and not both
  help: give forward_fn=lambda i, j: (thread, register), or forward_thread_fn and forward_index_fn""",
    ),
    (
        lambda: Fragment((6, 5), forward_thread_fn=lambda i, j: (i * 5 + j) % 7),
        """error[E-LAYOUT-MAP]: T.Fragment: the registers cannot be derived from the threads
   the elements of a thread, counted in row-major order, have no regular positions
  help: give forward_index_fn=lambda i, j: register""",
    ),
    (
        lambda: Fragment((4, 2), lambda i, j: i),
        """error[E-LAYOUT-MAP]: T.Fragment: the function does not map indices to a thread and a register
   it returned 1 values
  help: return (thread, register)""",
    ),
]


@pytest.mark.parametrize("number", range(len(ERRORS)))
def test_error_text(number):
    make, text = ERRORS[number]
    with pytest.raises(Exception) as caught:
        make()
    assert str(caught.value) == text


def test_tables_are_shared_and_read_only():
    a, b = accumulator().tables()[0], accumulator().tables()[0]
    assert a is b and not a.flags.writeable
    assert isinstance(a, np.ndarray)
