"""VerifyRegions: accesses outside on-chip buffers, with witness; what is never inside a global tensor."""

from __future__ import annotations

import textwrap

import pytest

from tile_core.errors import CompileError
from tile_core.ir import IRModule, parse
from tile_core.target import parse_target
from tile_core.transform import Options, PassContext, VerifyRegions

HEAD = """
@T.prim_func
def main(A: T.Buffer((M, 64), T.float32), B: T.Buffer((64,), T.float32), I: T.Buffer((64,), T.int32), n: T.int32):
    M = T.size_var(T.int32)
    with T.Kernel((M + 63) // 64, 4, threads=(32,)) as (bx, by, tx):
        s = T.alloc_buffer((64, 64), T.float32, scope="shared")
        t = T.alloc_buffer((64,), T.float32, scope="shared")
"""


def verify(body: str, **options) -> PassContext:
    function = parse(HEAD + textwrap.indent(textwrap.dedent(body).strip("\n"), " " * 8) + "\n")
    context = PassContext(parse_target("cpu"), Options({k.replace("__", "."): v for k, v in options.items()}))
    module = IRModule((function,))
    assert VerifyRegions().apply(module, context) is module
    return context


SILENT = {
    "tiles of a global tensor hang over": "T.copy(A[bx * 64:bx * 64 + 64, 0:64], s)",
    "an element of a padded tensor": """
        for i in T.serial(64):
            t[i] = A[bx * 64 + i - 1, 0]
    """,
    "sub-tiles": """
        for k in T.serial(4):
            T.copy(A[0:16, 0:64], s[k * 16:k * 16 + 16, 0:64])
    """,
    "a guard": """
        for i in T.serial(100):
            if i < 64:
                t[i] = 1.0
    """,
    "a guard in the expression": """
        for i in T.serial(64):
            t[i] = T.if_then_else(i > 0, t[i - 1], 0.0)
    """,
    "a condition from left to right": """
        for i in T.serial(64):
            if i > 0 and t[i - 1] > 0.0:
                B[i] = 1.0
    """,
    "an assumption": """
        T.assume(n >= 0 and n <= 64)
        for i in T.serial(n):
            t[i] = 1.0
    """,
    "a remainder": """
        for i in T.serial(1000):
            t[i % 64] = 1.0
    """,
    "a name": """
        k: T.int32 = by * 16
        t[k + 15] = 1.0
    """,
    "dead code": """
        for i in T.serial(64):
            if i > 100:
                t[i] = 1.0
    """,
}


@pytest.mark.parametrize("name", SILENT)
def test_accesses_inside_stay_silent(name):
    context = verify(SILENT[name])
    assert not context.diagnostics and context.solver_queries <= 1


FAULTS = {
    "a constant": "t[64] = 1.0",
    "below": """
        for i in T.serial(64):
            t[i - 1] = 1.0
    """,
    "one too far": """
        for i in T.serial(65):
            t[i] = 1.0
    """,
    "a region": """
        for k in T.serial(5):
            T.copy(A[0:16, 0:64], s[k * 16:k * 16 + 16, 0:64])
    """,
    "a size that nothing bounds": """
        for i in T.serial(n):
            t[i] = 1.0
    """,
    "in a condition": """
        for i in T.serial(64):
            if t[i + 1] > 0.0:
                B[i] = 1.0
    """,
    "an assumption that is not enough": """
        T.assume(n <= 65)
        for i in T.serial(n):
            t[i] = 1.0
    """,
    "a hole between the ends": """
        for i in T.serial(64):
            t[i * 37 % 128 // 2 + i % 3] = 1.0
    """,
}


@pytest.mark.parametrize("name", FAULTS)
def test_proven_faults_are_errors(name):
    with pytest.raises(CompileError) as caught:
        verify(FAULTS[name])
    assert caught.value.code == "E-REGION-BOUNDS" and caught.value.span is not None


def test_the_text_has_the_witness():
    with pytest.raises(CompileError) as caught:
        verify(FAULTS["a region"])
    assert (
        str(caught.value)
        == """\
error[E-REGION-BOUNDS]: s[k * 16:k * 16 + 16, 0:64] in T.copy leaves s
  --> <text>:9:13
    9 |             T.copy(A[0:16, 0:64], s[k * 16:k * 16 + 16, 0:64])
      |             ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  s is declared here:
  --> <text>:6:13
    6 |         s = T.alloc_buffer((64, 64), T.float32, scope="shared")
      |             ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
   axis 0: k * 16 … k * 16 + 16, allowed 0 … 64
   for example with k = 4: 64 … 80
   s: float32[64, 64] in shared
  help: correct the index, enlarge the tile, or guard the access with `if`"""
    )


def test_a_global_tensor_that_is_always_missed():
    with pytest.raises(CompileError) as caught:
        verify(
            """
            for i in T.serial(64):
                B[i + 64] = 1.0
            """
        )
    assert (
        str(caught.value)
        == """\
error[E-REGION-OUTSIDE]: B[i + 64] is always outside B
  --> <text>:9:13
    9 |             B[i + 64] = 1.0
      |             ^^^^^^^^^^^^^^^
   axis 0: index i + 64
   B has extent 64 there
  help: elements outside a tensor read as 0 and are not written; correct the index"""
    )


def test_an_index_from_memory_warns_once():
    body = """
        for i in T.serial(64):
            t[I[i]] = t[I[i]] + 1.0
    """
    with pytest.warns(UserWarning, match="not proven to stay inside t on axis 0"):
        context = verify(body)
    assert len(context.diagnostics) == 2  # the load and the store, each told once
    assert not verify(body, tl__disable_out_of_bound_warning=True).diagnostics


def test_under_a_condition_on_memory_nothing_is_proven():
    body = """
        for i in T.serial(65):
            if I[i % 64] > i:
                t[i] = 1.0
    """
    with pytest.warns(UserWarning, match="not proven"):
        verify(body)
