"""VerifyParallelLoop: races between iterations of T.Parallel, with witness; silence on correct loops."""

from __future__ import annotations

import textwrap
import warnings

import pytest

from tile_core.errors import CompileError, OptionError
from tile_core.ir import IRModule, parse
from tile_core.target import parse_target
from tile_core.transform import Options, PassContext, VerifyParallelLoop

HEAD = """
@T.prim_func
def main(A: T.Buffer((64, 64), T.float32), B: T.Buffer((64,), T.float32), I: T.Buffer((64,), T.int32), n: T.int32):
    with T.Kernel(4, threads=(32,)) as (bx, tx):
        s = T.alloc_buffer((64,), T.float32, scope="shared")
        t = T.alloc_buffer((64, 64), T.float32, scope="fragment")
        x = T.alloc_buffer((1,), T.float32, scope="local")
"""


def verify(body: str, **options) -> PassContext:
    function = parse(HEAD + textwrap.indent(textwrap.dedent(body).strip("\n"), " " * 8) + "\n")
    context = PassContext(parse_target("cpu"), Options({k.replace("__", "."): v for k, v in options.items()}))
    module = IRModule((function,))
    assert VerifyParallelLoop().apply(module, context) is module
    return context


SAFE = {
    "element-wise": """
        for i, j in T.Parallel(64, 64):
            t[i, j] = A[i, j] * T.float32(2)
    """,
    "in place": """
        for i, j in T.Parallel(64, 64):
            t[i, j] = t[i, j] + A[j, i]
    """,
    "broadcast of a row": """
        for i, j in T.Parallel(64, 64):
            t[i, j] = t[i, j] / s[i]
    """,
    "transposed index on both sides": """
        for i, j in T.Parallel(64, 64):
            t[j, i] = t[j, i] + T.float32(1)
    """,
    "two axes in one": """
        for i, j in T.Parallel(8, 8):
            s[i * 8 + j] = s[i * 8 + j] + T.float32(1)
    """,
    "halves": """
        for i in T.Parallel(32):
            s[i] = s[i + 32]
    """,
    "evens from odds": """
        for i in T.Parallel(32):
            s[i * 2] = s[i * 2 + 1]
    """,
    "a serial sum inside": """
        for i in T.Parallel(64):
            for k in T.serial(64):
                s[i] = s[i] + A[i, k]
    """,
    "one iteration writes": """
        for i in T.Parallel(64):
            if i == 5:
                s[0] = B[i]
    """,
    "one store of the same value": """
        for i in T.Parallel(64):
            s[0] = T.float32(1)
    """,
    "atomic updates": """
        for i in T.Parallel(64):
            T.atomic_update(s[I[i]:I[i] + 1], B[i])
    """,
    "thread-local scratch": """
        for i in T.Parallel(64):
            x[0] = B[i]
            s[i] = x[0]
    """,
    "a named index": """
        for i, j in T.Parallel(8, 8):
            k: T.int32 = i * 8 + j
            s[k] = s[k] * T.float32(2)
    """,
    "blocks of the grid": """
        for i in T.Parallel(16):
            B[bx * 16 + i] = B[bx * 16 + i] + T.float32(1)
    """,
    "one iteration only": """
        for i in T.Parallel(1):
            s[0] = s[0] + B[i]
    """,
    "guards keep them apart": """
        for i in T.Parallel(64):
            if i < 32:
                s[i] = s[63 - i]
    """,
    "a symbolic extent": """
        for i in T.Parallel(n):
            B[i] = B[i] + T.float32(1)
    """,
    "a rotation": """
        for i in T.Parallel(64):
            s[(i + 3) % 64] = B[i]
    """,
    "a swizzle": """
        for i, j in T.Parallel(8, 8):
            s[i * 8 + (j ^ i)] = B[j]
    """,
}


@pytest.mark.parametrize("name", SAFE)
def test_correct_loops_stay_silent(name, recwarn):
    context = verify(SAFE[name])
    assert not context.diagnostics
    assert context.solver_queries == (name == "a rotation")


SYMBOLIC = """
@T.prim_func
def main(A: T.Buffer((N, M), T.float32), O: T.Buffer((N * M,), T.float32), C: T.Buffer((N, H, W), T.float32)):
    N = T.size_var(T.int32)
    M = T.size_var(T.int32)
    H = T.size_var(T.int32)
    W = T.size_var(T.int32)
    with T.Kernel(4, threads=(32,)) as (bx, tx):
"""
WITH_SIZES = {
    "rows of symbolic length": (
        """
        for i, j in T.Parallel(N, M):
            O[i * M + j] = A[i, j]
        """,
        "silent",
    ),
    "a position taken apart by symbolic sizes": (
        """
        for i in T.Parallel(64):
            m: T.int32 = bx * 64 + i
            C[m // (H * W), m % (H * W) // W, m % W] = 1.0
        """,
        "silent",
    ),
    "only parts of it": (
        """
        for i in T.Parallel(64):
            m: T.int32 = bx * 64 + i
            C[0, m % (H * W) // W, m % W] = T.cast(m, T.float32)
        """,
        "error",
    ),
    "rows that overlap": (
        """
        for i, j in T.Parallel(N, M + 1):
            O[i * M + j] = A[i, j]
        """,
        "error",
    ),
    "a stride that may be zero": (
        """
        for i in T.Parallel(N):
            C[0, 0, i * M] = A[i, 0]
        """,
        "error",
    ),
}


@pytest.mark.parametrize("name", WITH_SIZES)
def test_symbolic_sizes(name):
    body, expected = WITH_SIZES[name]
    function = parse(SYMBOLIC + textwrap.indent(textwrap.dedent(body).strip("\n"), " " * 8) + "\n")
    context = PassContext(parse_target("cpu"))
    found = "silent"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            VerifyParallelLoop().apply(IRModule((function,)), context)
        except CompileError:
            found = "error"
    assert found == expected and not context.diagnostics


RACES = {
    "a sum over an axis": (
        """
        for i, j in T.Parallel(64, 64):
            s[i] = s[i] + A[i, j]
        """,
        "s",
    ),
    "a shift": (
        """
        for i in T.Parallel(63):
            s[i] = s[i + 1]
        """,
        "s",
    ),
    "an index that folds": (
        """
        for i in T.Parallel(64):
            s[i // 2] = B[i]
        """,
        "s",
    ),
    "a remainder": (
        """
        for i in T.Parallel(64):
            s[i % 8] = B[i]
        """,
        "s",
    ),
    "overlapping tiles": (
        """
        for i, j in T.Parallel(8, 9):
            s[i * 7 + j] = B[i] + B[j]
        """,
        "s",
    ),
    "two statements": (
        """
        for i in T.Parallel(32):
            s[i] = B[i]
            s[i + 1] = B[i]
        """,
        "s",
    ),
    "an inner serial loop that reaches over": (
        """
        for i in T.Parallel(8):
            for k in T.serial(9):
                s[i * 8 + k] = B[i]
        """,
        "s",
    ),
    "a guard that does not help": (
        """
        for i in T.Parallel(64):
            if i > 3:
                s[0] = B[i]
        """,
        "s",
    ),
    "an update and an ordinary read": (
        """
        for i in T.Parallel(64):
            T.atomic_update(s[0:1], B[i])
            t[i, 0] = s[0]
        """,
        "s",
    ),
    "a global tensor": (
        """
        for i in T.Parallel(64):
            B[bx] = A[i, 0]
        """,
        "B",
    ),
}


@pytest.mark.parametrize("name", RACES)
def test_races_are_errors(name):
    body, buffer = RACES[name]
    with pytest.raises(CompileError) as caught:
        verify(body)
    assert caught.value.code == "E-PARALLEL-RACE" and f"race on {buffer}" in caught.value.summary
    assert verify(body, tl__disable_data_race_check=True).diagnostics == []


def test_the_text_names_both_accesses_and_iterations():
    with pytest.raises(CompileError) as caught:
        verify(
            """
            for i in T.Parallel(63):
                s[i] = s[i + 1]
            """
        )
    assert (
        str(caught.value)
        == """\
error[E-PARALLEL-RACE]: iterations of T.Parallel race on s
  --> <text>:9:13
    9 |             s[i] = s[i + 1]
      |             ^^^^^^^^^^^^^^^
  the other access:
  --> <text>:9:20
    9 |             s[i] = s[i + 1]
      |                    ^^^^^^^^
   s[i] is written in iteration i = 2
   s[i + 1], the same element, is read in iteration i = 1
  help: reduce with T.reduce_sum and its like, use T.atomic_add, or make the axis that is summed a T.serial loop"""
    )


def test_scattered_stores_warn_once():
    body = """
        for i in T.Parallel(64):
            s[I[i]] = B[i]
    """
    with pytest.warns(UserWarning, match="may race on s"):
        context = verify(body)
    assert len(context.diagnostics) == 1
    assert "tl.disable_data_race_check" in context.diagnostics[0]


def test_a_condition_on_memory_leaves_it_unknown():
    with pytest.warns(UserWarning, match="may race on s"):
        verify(
            """
            for i in T.Parallel(64):
                if I[i] > 0:
                    s[0] = B[i]
            """
        )


def test_the_key_takes_a_bool():
    with pytest.raises(OptionError):
        Options({"tl.disable_data_race_check": 1})
