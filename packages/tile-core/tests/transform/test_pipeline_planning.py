"""PipelinePlanning finds the pipes of a loop and refuses what does not fit."""

import pytest

from tile_core.errors import CompileError
from tile_core.ir import For, parse, walk
from tile_core.transform import PipelinePlanning, SerializePipelines

TEXT = """
    @T.prim_func
    def main(A: T.Buffer((64, 64), T.float32), B: T.Buffer((64,), T.float32)):
        with T.Kernel(1) as bx:
            S = T.alloc_buffer((64,), T.float32, scope="local")
            for k in T.Pipelined(64{options}):
                for i in T.serial(64):
                    S[i] = A[k, i]
                for i in T.serial(64):
                    B[i] = B[i] + S[i]
"""


def pipelined(function):
    [loop] = [n for n in walk(function.body) if isinstance(n, For) and n.kind == "pipelined"]
    return loop


def test_a_loading_statement_and_its_readers_make_a_pipe(apply):
    planned = apply(TEXT.format(options=", num_stages=3"), PipelinePlanning)
    [pipe] = pipelined(planned).annotation("pipes")
    assert (pipe.depth, pipe.producers, pipe.consumers) == (3, (0,), (1,))
    assert [b.name for b in pipe.buffers] == ["S"]


@pytest.mark.parametrize(
    ("options", "depth"),
    [("", 1), (", num_stages=0", 1), (", stage=[0, 1]", 2), (", num_stages=2, order=[0, 1], stage=[0, 1]", 2)],
)
def test_depth_is_num_stages_else_the_last_stage(apply, options, depth):
    [pipe] = pipelined(apply(TEXT.format(options=options), PipelinePlanning)).annotation("pipes")
    assert pipe.depth == depth


def test_planned_loops_print_and_parse(apply):
    planned = apply(TEXT.format(options=", num_stages=2"), PipelinePlanning)
    assert "Pipe" in planned.script()
    assert parse(planned.script()).script() == planned.script()


def test_serial_loops_compute_the_same(check_pass, apply):
    serial = apply(TEXT.format(options=", num_stages=3"), PipelinePlanning, SerializePipelines)
    [loop] = [n for n in walk(serial.body) if isinstance(n, For) and n.var.name == "k"]
    assert (loop.kind, loop.annotations) == ("serial", ())
    check_pass(SerializePipelines, TEXT.format(options=""), None)


@pytest.mark.parametrize(
    ("options", "code", "found"),
    [
        (", num_stages=-1", "E-PIPELINED-STAGES", "num_stages=-1 is not a number of stages"),
        (", order=[0, 0]", "E-PIPELINED-ORDER", "order of T.Pipelined does not fit the loop's body"),
        (", order=[0]", "E-PIPELINED-ORDER", "one number for each of the body's 2 statements"),
        (", stage=[0, -2]", "E-PIPELINED-ORDER", "stage of T.Pipelined does not fit the loop's body"),
    ],
)
def test_misuse_is_an_error_with_its_line(apply, options, code, found):
    with pytest.raises(CompileError) as error:
        apply(TEXT.format(options=options), PipelinePlanning)
    assert error.value.code == code
    assert found in str(error.value)
    assert "T.Pipelined(64" in str(error.value)


def test_a_pipelined_loop_inside_another_is_an_error(apply):
    nested = """
        @T.prim_func
        def main(A: T.Buffer((64,), T.float32)):
            with T.Kernel(1) as bx:
                for k in T.Pipelined(4):
                    for i in T.Pipelined(16):
                        A[i] = 1.0
    """
    with pytest.raises(CompileError, match="E-PIPELINED-NESTED") as error:
        apply(nested, PipelinePlanning)
    assert "the outer loop" in str(error.value)
