"""VerifyLoopNesting and VerifyFragmentIndex: where loops may stand, what may index a fragment."""

from __future__ import annotations

import textwrap

import pytest

from tile_core.errors import CompileError
from tile_core.ir import IRModule, parse
from tile_core.target import parse_target
from tile_core.transform import Options, PassContext, VerifyFragmentIndex, VerifyLoopNesting

HEAD = """
@T.prim_func
def main(A: T.Buffer((64, 64), T.float32), n: T.int32):
    with T.Kernel(4, threads=(32,)) as (bx, tx):
        s = T.alloc_buffer((64, 64), T.float32, scope="shared")
        f = T.alloc_buffer((64, 64), T.float32, scope="fragment")
"""


def verify(pass_, body: str, **options) -> None:
    function = parse(HEAD + textwrap.indent(textwrap.dedent(body).strip("\n"), " " * 8) + "\n")
    context = PassContext(parse_target("cpu"), Options({k.replace("__", "."): v for k, v in options.items()}))
    module = IRModule((function,))
    assert pass_().apply(module, context) is module


GOOD_NESTS = {
    "tight axes": """
        for i in T.Parallel(64):
            for j in T.Parallel(64):
                s[i, j] = A[i, j]
    """,
    "a serial loop inside": """
        for i in T.Parallel(64):
            for j in T.serial(64):
                s[i, j] = A[i, j]
    """,
    "serial and while around pipelined": """
        for t in T.serial(4):
            for k in T.Pipelined(8, num_stages=2):
                T.copy(A, s)
        while s[0, 0] > 0.0:
            for k in T.Pipelined(8, num_stages=2):
                T.copy(A, s)
    """,
    "pipelined loops one after another": """
        for k in T.Pipelined(8, num_stages=2):
            T.copy(A, s)
        for k in T.Pipelined(8, num_stages=2):
            T.copy(A, s)
    """,
    "an atomic update of one element": """
        for i in T.Parallel(64):
            T.atomic_update(A[i:i + 1, 0:1], 1.0)
    """,
    "a break of a serial loop inside": """
        for i in T.Parallel(64):
            for j in T.serial(64):
                if A[i, j] > 0.0:
                    break
                s[i, j] = A[i, j]
    """,
    "parallel inside pipelined": """
        for k in T.Pipelined(8, num_stages=2):
            for i, j in T.Parallel(64, 64):
                s[i, j] = A[i, j]
    """,
}


@pytest.mark.parametrize("name", GOOD_NESTS)
def test_loops_that_have_a_meaning(name):
    verify(VerifyLoopNesting, GOOD_NESTS[name])


NEST_ERRORS = {
    "statements between": (
        """
        for i in T.Parallel(64):
            s[i, 0] = 1.0
            for j in T.Parallel(64):
                s[i, j] = A[i, j]
        """,
        """\
error[E-LOOP-NESTING]: a T.Parallel loop stands inside another one with other statements between
  --> <text>:9:13
    9 |             for j in T.Parallel(64):
      |             ^^^^^^^^^^^^^^^^^^^^^^^^
  the outer loop:
  --> <text>:7:9
    7 |         for i in T.Parallel(64):
      |         ^^^^^^^^^^^^^^^^^^^^^^^^
   j runs inside i, which does more than that in an iteration
  help: write one loop, `for i, j in T.Parallel(…)`, or make the inner one T.serial""",
    ),
    "a tile op inside": (
        """
        for i in T.Parallel(64):
            T.copy(A, s)
        """,
        """\
error[E-LOOP-BODY]: T.copy stands inside T.Parallel
  --> <text>:8:13
    8 |             T.copy(A, s)
      |             ^^^^^^^^^^^^
  the loop:
  --> <text>:7:9
    7 |         for i in T.Parallel(64):
      |         ^^^^^^^^^^^^^^^^^^^^^^^^
   T.copy works on whole tiles; an iteration of i works on elements
  help: move T.copy out of the loop, or write what it does for one element""",
    ),
    "pipelined inside pipelined": (
        """
        for t in T.Pipelined(4, num_stages=2):
            for k in T.Pipelined(8, num_stages=2):
                T.copy(A, s)
        """,
        """\
error[E-LOOP-NESTING]: a T.Pipelined loop stands inside another one
  --> <text>:8:13
    8 |             for k in T.Pipelined(8, num_stages=2):
      |             ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  the outer loop:
  --> <text>:7:9
    7 |         for t in T.Pipelined(4, num_stages=2):
      |         ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
   k is pipelined inside t
  help: pipeline one of them: make the outer loop T.serial, or the inner one""",
    ),
    "pipelined inside parallel": (
        """
        for i in T.Parallel(64):
            for k in T.Pipelined(8, num_stages=2):
                s[i, k] = A[i, k]
        """,
        """\
error[E-LOOP-NESTING]: a T.Pipelined loop stands inside T.Parallel
  --> <text>:8:13
    8 |             for k in T.Pipelined(8, num_stages=2):
      |             ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  the outer loop:
  --> <text>:7:9
    7 |         for i in T.Parallel(64):
      |         ^^^^^^^^^^^^^^^^^^^^^^^^
   the iterations of i are element-wise code and have no order
  help: make it T.serial, or put the parallel loop inside it""",
    ),
    "a break of a pipelined loop": (
        """
        for k in T.Pipelined(8, num_stages=2):
            T.copy(A, s)
            break
        """,
        """\
error[E-LOOP-JUMP]: `break` in T.Pipelined
  --> <text>:9:13
    9 |             break
      |             ^^^^^
  the loop:
  --> <text>:7:9
    7 |         for k in T.Pipelined(8, num_stages=2):
      |         ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
   iterations of a pipelined loop are under way at the same time
  help: use T.serial for a loop that ends early, or `if` for what an iteration leaves out""",
    ),
}


@pytest.mark.parametrize("name", NEST_ERRORS)
def test_loops_without_a_meaning(name):
    body, text = NEST_ERRORS[name]
    with pytest.raises(CompileError) as caught:
        verify(VerifyLoopNesting, body)
    assert str(caught.value) == text
    verify(VerifyLoopNesting, body, tl__disable_prelower_semantic_check=True)


GOOD_INDICES = {
    "parallel axes": """
        for k in T.serial(8):
            for i, j in T.Parallel(64, 64):
                f[i, j] = f[i, j] + A[k, j]
    """,
    "an unrolled loop": """
        for k in T.unroll(8):
            for i in T.Parallel(64):
                f[i, k] = A[i, k]
    """,
    "shared memory": """
        for k in T.serial(64):
            s[k, 0] = A[k, 0]
    """,
    "a whole fragment in a serial loop": """
        for k in T.serial(8):
            T.copy(A, f)
    """,
}


@pytest.mark.parametrize("name", GOOD_INDICES)
def test_indices_that_pick_a_register(name):
    verify(VerifyFragmentIndex, GOOD_INDICES[name])


INDEX_ERRORS = {
    "a serial loop": (
        """
        for k in T.serial(64):
            for i in T.Parallel(64):
                f[i, k] = A[i, k]
        """,
        """\
error[E-FRAGMENT-INDEX]: the fragment f is indexed by k, the variable of a T.serial loop
  --> <text>:9:17
    9 |                 f[i, k] = A[i, k]
      |                 ^^^^^^^^^^^^^^^^^
  the loop:
  --> <text>:7:9
    7 |         for k in T.serial(64):
      |         ^^^^^^^^^^^^^^^^^^^^^^
   index 1 of f is k
   a fragment lies in registers of the block's threads, and registers cannot be chosen at run time
  help: count with T.Parallel, use T.unroll for a short loop, or keep the tile in shared memory (T.alloc_shared)""",
    ),
    "a name computed from a serial loop": (
        """
        for k in T.serial(8):
            l: T.int32 = k * 8
            for i in T.Parallel(8):
                A[i, k] = f[i, l + 1]
        """,
        """\
error[E-FRAGMENT-INDEX]: the fragment f is indexed by l, the variable of a T.serial loop
  --> <text>:10:27
   10 |                 A[i, k] = f[i, l + 1]
      |                           ^^^^^^^^^^^
  the loop:
  --> <text>:7:9
    7 |         for k in T.serial(8):
      |         ^^^^^^^^^^^^^^^^^^^^^
   index 1 of f is l + 1, which comes from k
   a fragment lies in registers of the block's threads, and registers cannot be chosen at run time
  help: count with T.Parallel, use T.unroll for a short loop, or keep the tile in shared memory (T.alloc_shared)""",
    ),
    "a parallel loop of symbolic extent": (
        """
        for i in T.Parallel(n):
            f[i, 0] = 1.0
        """,
        """\
error[E-FRAGMENT-INDEX]: the fragment f is indexed by i, whose loop has no constant extent
  --> <text>:8:13
    8 |             f[i, 0] = 1.0
      |             ^^^^^^^^^^^^^
  the loop:
  --> <text>:7:9
    7 |         for i in T.Parallel(n):
      |         ^^^^^^^^^^^^^^^^^^^^^^^
   index 0 of f is i
   a fragment lies in registers of the block's threads, and registers cannot be chosen at run time
  help: give the loop over i a constant extent, use T.unroll for a short loop, or keep the tile in shared memory \
(T.alloc_shared)""",
    ),
}


@pytest.mark.parametrize("name", INDEX_ERRORS)
def test_indices_known_only_at_run_time(name):
    body, text = INDEX_ERRORS[name]
    with pytest.raises(CompileError) as caught:
        verify(VerifyFragmentIndex, body)
    assert str(caught.value) == text
