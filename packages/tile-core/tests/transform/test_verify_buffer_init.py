"""VerifyBufferInit: proven reads of what nobody wrote; silence on code that may be right."""

from __future__ import annotations

import textwrap

import pytest

from tile_core.errors import CompileError
from tile_core.ir import IRModule, parse
from tile_core.target import parse_target
from tile_core.transform import Options, PassContext, Simplify, VerifyBufferInit

HEAD = """
@T.prim_func
def main(A: T.Buffer((64, 64), T.float32), F: T.Buffer((8,), T.int32), n: T.int32):
    with T.Kernel(4, threads=(32,)) as (bx, tx):
        s = T.alloc_buffer((64, 64), T.float32, scope="shared")
        acc = T.alloc_buffer((64, 64), T.float32, scope="fragment")
        x = T.alloc_buffer((1,), T.float32, scope="local")
"""


def verify(body: str, **options) -> None:
    function = parse(HEAD + textwrap.indent(textwrap.dedent(body).strip("\n"), " " * 8) + "\n")
    context = PassContext(parse_target("cpu"), Options({k.replace("__", "."): v for k, v in options.items()}))
    module = Simplify().apply(IRModule((function,)), context)
    assert VerifyBufferInit().apply(module, context) is module
    assert not context.diagnostics


SILENT = {
    "filled, then used": """
        T.copy(A, s)
        T.fill(acc, value=0.0)
        for k in T.Pipelined(n, num_stages=2):
            T.gemm(s, s, acc)
        T.copy(acc, A)
    """,
    "written on one branch only": """
        if n > 3:
            T.copy(A, s)
        T.copy(s, A)
    """,
    "written in a loop that may run": """
        for k in T.serial(n):
            T.copy(A, s)
        T.copy(s, A)
    """,
    "a part of the region written": """
        T.copy(A[0:32, 0:64], s[0:32, 0:64])
        T.copy(s, A)
    """,
    "cleared by the op": """
        T.copy(A, s)
        T.gemm(s, s, acc, clear_accum=True)
        T.copy(acc, A)
    """,
    "written by an earlier iteration": """
        for k in T.serial(4):
            if k > 0:
                T.copy(s, A)
            T.copy(A, s)
    """,
    "the first iteration passes by": """
        for k in T.serial(4):
            for i, j in T.Parallel(64, 64):
                A[i, j] = T.if_then_else(k == 0, 0.0, s[i, j])
            T.copy(A, s)
    """,
    "an inner loop that the first iteration skips": """
        for k in T.serial(4):
            for l in T.serial(k):
                T.copy(s, A)
            T.copy(A, s)
    """,
    "a condition on memory": """
        for k in T.serial(4):
            if F[k] > 0:
                T.copy(s, A)
            T.copy(A, s)
    """,
    "foreign code that may fill it": """
        T.call_extern("fill", T.access_ptr(s[0, 0], "rw", 4096), dtype=T.void)
        T.copy(s, A)
    """,
    "stored element by element": """
        for i, j in T.Parallel(64, 64):
            s[i, j] = A[i, j]
        for i, j in T.Parallel(64, 64):
            A[i, j] = s[j, i]
    """,
    "a scalar of a thread": """
        x[0] = A[0, 0]
        A[0, 1] = x[0] + 1.0
    """,
}


@pytest.mark.parametrize("name", SILENT)
def test_code_that_may_be_right_stays_silent(name):
    verify(SILENT[name])


FAULTS = {
    "never written": "T.copy(s, A)",
    "written only after": """
        T.copy(s, A)
        T.copy(A, s)
    """,
    "an accumulator that nobody cleared": """
        T.copy(A, s)
        for k in T.Pipelined(n, num_stages=2):
            T.gemm(s, s, acc)
        T.copy(acc, A)
    """,
    "an accumulator in two loops": """
        T.copy(A, s)
        for t in T.serial(4):
            for k in T.Pipelined(n, num_stages=2):
                T.gemm(s, s, acc)
    """,
    "an accumulator under a condition that does not change": """
        T.copy(A, s)
        for k in T.serial(8):
            if n > 3:
                T.gemm(s, s, acc)
    """,
    "in place": """
        for i, j in T.Parallel(64, 64):
            s[i, j] = s[i, j] + 1.0
    """,
    "other elements": """
        T.copy(A[0:32, 0:64], s[0:32, 0:64])
        T.copy(s[32:64, 0:64], A[32:64, 0:64])
    """,
    "a loop that never runs": """
        for k in T.serial(0):
            T.copy(A, s)
        T.copy(s, A)
    """,
    "a condition": """
        if x[0] > 0.0:
            A[0, 0] = 1.0
    """,
    "an atomic update": "T.atomic_update(s[0:1, 0:1], 1.0)",
    "the first iteration of a guarded loop": """
        for k in T.serial(4):
            if k < 2:
                T.copy(s, A)
            T.copy(A, s)
    """,
}


@pytest.mark.parametrize("name", FAULTS)
def test_proven_reads_are_errors(name):
    with pytest.raises(CompileError) as caught:
        verify(FAULTS[name])
    assert caught.value.code == "E-BUFFER-INIT" and caught.value.span is not None
    verify(FAULTS[name], tl__disable_buffer_init_check=True)


def test_the_text_names_both_places():
    with pytest.raises(CompileError) as caught:
        verify(FAULTS["written only after"])
    assert (
        str(caught.value)
        == """\
error[E-BUFFER-INIT]: s[0:64, 0:64] in T.copy reads s, which nothing has written
  --> <text>:8:9
    8 |         T.copy(s, A)
      |         ^^^^^^^^^^^^
  s is declared here:
  --> <text>:5:13
    5 |         s = T.alloc_buffer((64, 64), T.float32, scope="shared")
      |             ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
   s: float32[64, 64] in shared
   no write can come before
  help: fill or copy into s before this"""
    )


def test_the_text_of_an_accumulator():
    with pytest.raises(CompileError) as caught:
        verify(FAULTS["an accumulator that nobody cleared"])
    assert (
        str(caught.value)
        == """\
error[E-BUFFER-INIT]: acc[0:64, 0:64] in T.gemm reads acc, which nothing has written
  --> <text>:10:13
   10 |             T.gemm(s, s, acc)
      |             ^^^^^^^^^^^^^^^^^
  acc is declared here:
  --> <text>:6:15
    6 |         acc = T.alloc_buffer((64, 64), T.float32, scope="fragment")
      |               ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
   acc: float32[64, 64] in fragment
   the first iteration reads what the memory happened to hold
  help: clear it first with T.clear(acc), or pass clear_accum=True where the op takes it"""
    )
