"""LayoutInference: constraints by strength, demotion, and the error where nothing gives way."""

import pytest

from tile_core import tileop
from tile_core.errors import CompileError
from tile_core.ir import Block, IRModule, TileOpStmt, parse, walk
from tile_core.layout import column_major, row_major
from tile_core.target import Target
from tile_core.tileop import Candidate, Constraint, Copy, Fill, Ok
from tile_core.transform import LayoutInference, PassContext, SelectInstructions
from tile_core.transform.layout_inference import plain_layout

TEXT = """
@T.prim_func
def main(A: T.Buffer((8, 8), T.float32), B: T.Buffer((8, 8), T.float32)):
    with T.Kernel(1) as bx:
        S = T.alloc_buffer((8, 8), T.float32, scope="shared")
        T.fill(S, value=T.float32(0.0))
        T.copy(A, S)
        T.copy(S, B)
"""


def candidate(op_class, called, cost, strength=None, layout=column_major, side="dst"):
    class Wishing(Candidate):
        op = op_class
        name = called

        def legal(self, op, facts):
            return Ok(cost)

        def constraints(self, op, facts):
            buffer = getattr(op, side).buffer
            if strength and buffer.is_on_chip:
                yield Constraint(buffer, layout((8, 8)), strength)

    return Wishing()


class FakeBackend:
    """Candidates given directly."""

    def __init__(self, *candidates):
        self.candidates = lambda: candidates


def infer(*candidates, text=TEXT):
    context = PassContext(Target("cpu"), backend=FakeBackend(*candidates))
    module = IRModule((parse(text),))
    for pass_ in (SelectInstructions, LayoutInference):
        module = pass_().apply(module, context)
    body = module.functions[0].body
    layout, *_ = [layout for n in walk(body) if isinstance(n, Block) for _, layout in n.annotation("layouts")]
    return layout, [n.candidate for n in walk(body) if isinstance(n, TileOpStmt)], context


def test_what_nobody_asks_for_is_row_major():
    layout, taken, _ = infer()
    assert layout == row_major((8, 8))
    assert taken == ["loops", "loops", "loops"]


def test_a_strict_wish_beats_a_common_one_and_that_a_free_one():
    free = candidate(Fill, "free", 0.1, "free", row_major)
    common = candidate(Copy, "common", 0.1, "common", column_major)
    assert infer(free)[0] == row_major((8, 8))
    assert infer(free, common)[0] == column_major((8, 8))
    strict = candidate(Fill, "strict", 0.1, "strict", row_major)
    assert infer(strict, common)[0] == row_major((8, 8))


def test_the_choice_of_lower_value_gives_way():
    fill = candidate(Fill, "fill_columns", 1.0, "strict", column_major)
    copy = candidate(Copy, "copy_rows", 30.0, "strict", row_major)
    # Without its choice the fill costs 64 - 1 more, the copy 64 - 30.
    layout, taken, context = infer(fill, copy)
    assert layout == column_major((8, 8))
    assert taken[:2] == ["fill_columns", "loops"]
    [choice] = [c for c in context.choices if isinstance(c.op, Copy) and c.op.dst.buffer.name == "S"]
    assert choice.taken == "loops"
    assert choice.considered[0] == (
        "copy_rows",
        "T.fill (fill_columns) and T.copy (copy_rows) need different layouts of S",
    )


def test_a_conflict_that_nobody_can_give_way_in_names_both_sides():
    fill = candidate(Fill, "loops", 1.0, "strict", column_major)
    copy = candidate(Copy, "loops", 1.0, "strict", row_major)

    class Only(FakeBackend):
        pass

    context = PassContext(Target("cpu"), backend=Only(fill, copy))
    module = IRModule((parse(TEXT),))
    module = SelectInstructions().apply(module, context)
    # As if the defaults were not there.
    for ranking in [value for key, (_, value) in context._analyses.items() if key[0] == "ranked_candidates"]:
        object.__setattr__(ranking, "legal", ranking.legal[:1])
    with pytest.raises(CompileError) as error:
        LayoutInference().apply(module, context)
    assert str(error.value) == "\n".join(
        [
            "error[E-LAYOUT-CONFLICT]: T.fill (loops) and T.copy (loops) need different layouts of S",
            "  --> <text>:7:9",
            "    7 |         T.copy(A, S)",
            "      |         ^^^^^^^^^^^^",
            "  the other use:",
            "  --> <text>:6:9",
            "    6 |         T.fill(S, value=T.float32(0.0))",
            "      |         ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^",
            "   T.fill (loops) needs T.Layout((8, 8), lambda i, j: (j, i))",
            "   T.copy (loops) needs T.Layout((8, 8), lambda i, j: (i, j))",
            "   S: float32[8, 8] in shared",
            "  help: copy S into a second tile for one of them",
        ]
    )


def test_the_users_layout_is_strict():
    text = TEXT.replace(
        "        T.fill", '        T.annotate("layouts", ((S, T.Layout((8, 8), lambda i, j: (j, i))),))\n        T.fill'
    )
    copy = candidate(Copy, "copy_rows", 1.0, "strict", row_major)
    layout, taken, _ = infer(copy, text=text)
    assert layout == column_major((8, 8))
    assert taken[1] == "loops"


def viewed(dtype):
    return TEXT.replace(
        "        T.fill(S",
        f'        V = T.buffer((64,), T.{dtype}, scope="shared", data=S)\n        V[3] = 1\n        T.fill(S',
    )


def test_a_view_of_another_type_keeps_its_storage_row_major():
    fill = candidate(Fill, "fill_columns", 1.0, "strict", column_major)
    layout, taken, _ = infer(fill, text=viewed("int32"))
    assert layout == row_major((8, 8))
    assert taken[0] == "loops"


def test_a_view_of_another_shape_takes_part_in_the_layout_of_its_storage():
    fill = candidate(Fill, "fill_columns", 1.0, "strict", column_major)
    layout, taken, _ = infer(fill, text=viewed("float32"))
    assert layout == column_major((8, 8))
    assert taken[0] == "fill_columns"


def test_plain_layouts_need_constant_extents():
    text = TEXT.replace("(8, 8), T.float32, scope", "(8, bx), T.float32, scope")
    with pytest.raises(CompileError, match="E-LAYOUT-CONFLICT"):
        infer(text=text)
    assert plain_layout(parse(TEXT).params[0]) == row_major((8, 8))
    assert tileop.tile_op_class("copy") is Copy
