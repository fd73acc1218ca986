"""SelectInstructions and LowerTileOp with the default candidates: always legal, and the same results."""

import pytest

from tile_core.errors import InternalError
from tile_core.ir import Block, For, TileOpStmt, parse, walk
from tile_core.source import Span
from tile_core.target import Target
from tile_core.tileop import Candidate, Copy, Facts
from tile_core.tileop.default_candidates import default_candidates, register_default_candidate
from tile_core.transform import (
    BindTarget,
    LayoutInference,
    LowerTileOp,
    PassContext,
    PipelinePlanning,
    SelectInstructions,
    SerializePipelines,
)
from tile_core.transform.select_instructions import rank_candidates

TEXT = """
    @T.prim_func
    def main(A: T.Buffer((16, 24), T.{a}), C: T.Buffer((16, 16), T.{c})):
        with T.Kernel(1) as bx:
            S = T.alloc_buffer((16, 24), T.{a}, scope="shared")
            R = T.alloc_buffer((16, 16), T.{c}, scope="fragment")
            T.copy(A, S)
            T.copy(C, R)
            {op}
            T.copy(R, C)
"""
STEPS = (BindTarget, SelectInstructions, LayoutInference, PipelinePlanning, SerializePipelines, LowerTileOp)


@pytest.mark.parametrize(
    ("op", "a", "c"),
    [
        ("T.gemm(S, S, R, transpose_b=True)", "int8", "int32"),
        ("T.gemm(S[:, 0:16], S[:, 8:24], R, transpose_a=True)", "int16", "int32"),
        ("T.gemm(S[:, 0:16], S[:, 8:24], R, clear_accum=True)", "int8", "int32"),
        ('T.reduce(S, R[:, 3], kind="sum", axis=1)', "int8", "int32"),
        ('T.reduce(S[:, 0:16], R[2, :], kind="max", axis=0, clear=False)', "int32", "int32"),
        ('T.scan(S[:, 0:16], R, kind="sum", axis=1, reverse=True)', "int32", "int32"),
        ("T.fill(R[2:5, 1:3], value=7)", "int8", "int32"),
        ("T.copy(S[3:4, 4:20], R[5:6, 0:16])", "int8", "int32"),
        ('T.atomic_update(R, S[:, 0:16], kind="add")', "int32", "int32"),
        ('T.atomic_update(R[0:1, 0:1], 5, kind="max")', "int32", "int32"),
    ],
)
def test_loops_compute_what_the_op_means(check_pass, apply, op, a, c):
    text = TEXT.format(op=op, a=a, c=c)
    lowered = apply(text, *STEPS)
    assert not any(isinstance(n, TileOpStmt) for n in walk(lowered.body))
    _same(lowered, text)


def _same(lowered, text):
    import textwrap

    import numpy

    from tile_core.interpreter import interpret, numpy_type

    source = parse(textwrap.dedent(text))
    random = numpy.random.default_rng(0)
    arrays = [random.integers(-8, 8, p.static_shape()).astype(numpy_type(p.dtype)) for p in source.params]
    expected, found = [x.copy() for x in arrays], [x.copy() for x in arrays]
    interpret(source, *expected)
    interpret(lowered, *found)
    for x, y in zip(expected, found):
        numpy.testing.assert_array_equal(x, y)


def test_half_sums_are_kept_in_float32(apply):
    op = 'T.reduce(S[:, 0:16], R[:, 0], kind="sum", axis=1)'
    lowered = apply(TEXT.format(op=op, a="float16", c="float16"), *STEPS)
    scratch = [b for n in walk(lowered.body) if isinstance(n, Block) for b in n.allocations if b.scope == "local"]
    assert [b.dtype.name for b in scratch] == ["float32"]
    assert any(isinstance(n, For) and n.kind == "parallel" for n in walk(lowered.body))


def test_every_core_op_has_one_last_resort():
    classes = [c.op for c in default_candidates()]
    assert len(classes) == len(set(classes)) == 7

    class Another(Candidate):
        op = Copy
        name = "another"

    with pytest.raises(ValueError, match="copy has the default candidate CopyLoops already"):
        register_default_candidate(Another())


def test_an_op_that_nobody_carries_out_is_a_fault_of_tile():
    from tile_core.ir import node
    from tile_core.tileop import TileOp

    @node
    class Orphan(TileOp):
        name = "orphan"

    with pytest.raises(InternalError, match=r"no candidate carries out T\.orphan") as error:
        rank_candidates(Orphan(span=Span("<text>", 1)), Facts(Target("cpu"), None), PassContext(Target("cpu")))
    assert "register_default_candidate" in str(error.value)
