"""Loops of the language: the IR that they make, and what they refuse."""

import pytest

from tile_core.ir import Break, Continue, For, IRModule, While, walk
from tile_core.target import Target
from tile_core.transform import PassContext, UnrollLoops


@pytest.mark.parametrize(
    ("statements", "code", "part"),
    [
        ("for i, j in T.Persistent((4, 4), 0, bx):\n    B[i, j] = 0.0", "E-LOOP-OPTION", "wave_size=0"),
        ("for i in T.Persistent(4, 2, bx, group_size=0):\n    B[i, 0] = 0.0", "E-LOOP-OPTION", "group_size=0"),
        ("for i in T.Persistent(4, 2, bx, num_stages=-1):\n    B[i, 0] = 0.0", "E-LOOP-OPTION", "num_stages=-1"),
        ("for i in T.Persistent((), 2, bx):\n    B[i, 0] = 0.0", "E-PARALLEL-EXTENT", "no domain"),
        ("for i in T.Persistent((4, 4), 2, bx):\n    B[i, 0] = 0.0", "E-LOOP-TARGET", "2 indices"),
        ("for i in T.Persistent(4.5, 2, bx):\n    B[i, 0] = 0.0", "E-LOOP-BOUND", "4.5"),
        ("for i in T.Persistent(8, 2, bx, num_stages=2):\n    break", "E-BREAK", "iterations overlap"),
        ("for i in T.unroll(n, explicit=True):\n    B[i, 0] = 0.0", "E-LOOP-OPTION", "constant bounds"),
        ("for i in T.unroll(4, explicit=True):\n    break", "E-BREAK", "written out"),
        ("for i in T.Parallel(4):\n    T.loop_break()", "E-BREAK", "T.loop_break"),
        ("T.loop_break()", "E-BREAK", "outside a loop"),
        ("T.continue_loop()", "E-BREAK", "outside a loop"),
        ("for i in T.Pipelined(4, num_stages=2):\n    continue", "E-BREAK", "iterations overlap"),
        ("with T.While(True):\n    B[0, 0] = 0.0", "E-LOOP-BOUND", "T.While"),
    ],
)
def test_what_a_loop_refuses(body, message, statements, code, part):
    text = message(body, statements)
    assert f"error[{code}]" in text
    assert part in text
    assert "kernel.py" in text


def test_a_pipelined_loop_that_does_not_overlap_may_be_left(body):
    text = body("for i in T.Pipelined(4):\n    if A[i, 0] > 0.0:\n        break")
    assert text.startswith("for i in T.serial(4):")
    assert "T.Pipelined" in body("for i in T.Pipelined(4):\n    B[i, 0] = A[i, 0]")


def test_loops_as_statements(trace):
    function = trace("""
@T.prim_func
def main(B: T.Tensor((4,), "int32")):
    with T.Kernel(1):
        i = T.alloc_var("int32", init=0)
        with T.While(i < 4):
            i += 1
            if i == 2:
                T.continue_loop()
            if i == 3:
                T.break_loop()
            B[i] = i
""")
    (loop,) = [n for n in walk(function.body) if isinstance(n, While)]
    assert len([n for n in walk(loop) if isinstance(n, Break)]) == 1
    assert len([n for n in walk(loop) if isinstance(n, Continue)]) == 1


def test_a_worker_beyond_the_tiles_takes_none(body):
    text = body("for i in T.Persistent(3, 8, bx):\n    B[i, 0] = 0.0")
    assert text.split("\n")[0] == "for wave in T.serial(T.max((3 - bx + 7) // 8, 0)):" or "T.max" in text


def test_written_out_iterations_have_names_and_tiles_of_their_own(trace):
    function = trace("""
@T.prim_func
def main(A: T.Tensor((8, 4), "float32"), B: T.Tensor((8, 4), "float32")):
    with T.Kernel(1):
        for i in T.unroll(6, 0, -2, explicit=True):
            tile = T.alloc_shared((1, 4), "float32")
            row = i + 1
            T.copy(A[row, 0], tile)
            T.copy(tile, B[i, 0])
""")
    module = UnrollLoops().apply(IRModule((function,)), PassContext(Target("cpu")))
    text = module.functions[0].script()
    assert not any(isinstance(n, For) for n in walk(module.functions[0].body))
    for place in (6, 4, 2):
        assert f"B[{place}, 0:4]" in text or f"B[{place}:{place + 1}, 0:4]" in text
    assert text.count("T.alloc") == 3
