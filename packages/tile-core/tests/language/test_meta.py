"""What meta classes and schedulers refuse, and how expressions are held by objects."""

import pytest

import tile_core.language as T
from tile_core.errors import CompileError


@pytest.mark.parametrize(
    ("made", "part"),
    [
        ("T.PersistentTileScheduler(4, 4, swizzle_size=0)", "swizzle_size=0"),
        ("T.PersistentTileScheduler(4, 4, cluster_size=-1)", "cluster_size=-1"),
        ("T.PersistentTileScheduler(4.0, 4)", "num_m_tiles=4.0"),
        ("T.PersistentTileScheduler(4, None)", "num_n_tiles=None"),
        ("T.PersistentTileScheduler(4, 4, A[0, 0])", "num_workers="),
        ("T.PersistentTileScheduler(4, 4, stateful=False).valid()", "stateful=False"),
        ("T.PersistentTileScheduler(4, 4, stateful=False).init(bx)", "stateful=False"),
    ],
)
def test_a_scheduler_says_what_it_does_not_take(body, message, made, part):
    text = message(body, f"x = {made}")
    assert "error[E-META]" in text
    assert part in text


def test_a_scheduler_without_state_numbers_tiles(body):
    text = body("s = T.PersistentTileScheduler(8, 4, stateful=False)\nm, n = s.coord(n)\nB[m, n] = 0.0")
    assert "T.var" not in text and "alloc" not in text
    assert "% 8" in text and "// 8" in text


def test_the_variables_of_a_scheduler_are_named(body):
    text = body("mine = T.PersistentTileScheduler(8, 4)\nmine.init(bx)\nB[mine.m_idx, mine.n_idx] = 0.0")
    assert "mine_linear[0] = bx" in text
    assert "B[mine_m[0], mine_n[0]] = 0.0" in text


def test_only_classes_are_meta_classes():
    with pytest.raises(CompileError, match="E-META"):
        T.meta_class(3)


def test_an_expression_held_by_an_object_is_evaluated_once(body):
    @T.meta_class
    class Holder:
        x = 0

    text = body("h = Holder()\nh.x = A[0, 0] + 1.0\nA[0, 0] = 5.0\nB[0, 0] = h.x", Holder=Holder)
    assert text.split("\n")[0].startswith("x")
    assert text.endswith("B[0, 0] = x")


def test_other_objects_hold_no_expressions(body, message):
    class Plain:
        x = 0

    text = message(body, "h = Plain()\nh.x = A[0, 0]", Plain=Plain)
    assert "error[E-ATTRIBUTE-VALUE]" in text
    assert "T.meta_class" in text
    text = message(body, "h = Plain()\nh.x += A[0, 0]", Plain=Plain)
    assert "error[E-ATTRIBUTE-VALUE]" in text
