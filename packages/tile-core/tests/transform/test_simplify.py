"""Simplify: what it changes, what it removes, what it must leave."""

from __future__ import annotations

import textwrap

import pytest

from tile_core.ir import IRModule, parse
from tile_core.target import Target
from tile_core.transform import PassContext, Simplify

HEAD = """
@T.prim_func
def main(A: T.Buffer((M, N), T.float32), B: T.Buffer((64,), T.float32)):
    M = T.size_var(T.int32)
    N = T.size_var(T.int32)
    with T.Kernel((N + 31) // 32, 4, threads=(32,)) as (bx, by, tx):
"""
SIZES = [{"M": 70, "N": 64}, {"M": 70, "N": 33}]


def text_of(body: str) -> str:
    return HEAD + textwrap.indent(textwrap.dedent(body).strip("\n"), " " * 8) + "\n"


CASES = {
    "indices": (
        """
        for i in T.serial(8):
            B[(by * 8 + i) // 8 * 8 + (by * 8 + i) % 8] = 1.0
        """,
        """
        for i in T.serial(8):
            B[by * 8 + i] = 1.0
        """,
    ),
    "a branch that is always taken": (
        """
        for i in T.serial(8):
            if by * 8 + i < 32:
                B[by * 8 + i] = 1.0
            else:
                B[0] = 2.0
        """,
        """
        for i in T.serial(8):
            B[by * 8 + i] = 1.0
        """,
    ),
    "a condition within its own branch": (
        """
        for i in T.serial(8):
            if bx * 32 + i < N:
                B[i] = T.Select(bx * 32 + i < N, 1.0, 2.0)
            else:
                if bx * 32 + i < N - 1:
                    B[i] = 3.0
        """,
        """
        for i in T.serial(8):
            if bx * 32 + i < N:
                B[i] = 1.0
        """,
    ),
    "an assumption": (
        """
        T.assume(N % 32 == 0)
        for i in T.serial(32):
            if bx * 32 + i < N:
                B[i] = 1.0
        """,
        """
        T.assume(N % 32 == 0)
        for i in T.serial(32):
            B[i] = 1.0
        """,
    ),
    "a loop that never runs": (
        """
        for i in T.serial(0, min=4):
            B[i] = 1.0
        B[by] = 2.0
        """,
        """
        B[by] = 2.0
        """,
    ),
    "a loop of one iteration": (
        """
        for i in T.serial(1, min=3):
            B[by * 8 + i] = 1.0
        """,
        """
        B[by * 8 + 3] = 1.0
        """,
    ),
    "an empty branch": (
        """
        if bx < 1:
            T.evaluate(0)
        else:
            B[by] = 1.0
        """,
        """
        if bx >= 1:
            B[by] = 1.0
        """,
    ),
    "dead names": (
        """
        x: T.int32 = by * 8
        y: T.int32 = x + 1
        z: T.int32 = by + 1
        B[z] = 1.0
        """,
        """
        z: T.int32 = by + 1
        B[z] = 1.0
        """,
    ),
    "a name of a constant": (
        """
        x: T.int32 = 7
        B[by + x] = 1.0
        """,
        """
        B[by + 7] = 1.0
        """,
    ),
    "regions of tile ops": (
        """
        s = T.alloc_buffer((32, 32), T.float32, scope="shared")
        T.fill(s[by * 0:by * 0 + 16 * 2, 0:32], value=0.0)
        """,
        """
        s = T.alloc_buffer((32, 32), T.float32, scope="shared")
        T.fill(s, value=0.0)
        """,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_rewrites(name, check_pass):
    before, after = CASES[name]
    check_pass(Simplify, text_of(before), text_of(after), sizes=SIZES[:1])


UNCHANGED = {
    "a loop with a break": """
        for i in T.serial(1):
            if B[by] > 0.0:
                break
            B[by] = 1.0
    """,
    "a pipelined loop of one iteration": """
        for k in T.Pipelined(1, num_stages=2):
            B[by] = 1.0
    """,
    "a loop that may run": """
        for i in T.serial(N - 40):
            B[i % 64] = 1.0
    """,
    "floats": """
        for i in T.serial(8):
            B[i] = B[i] + 0.0 - B[i] * 0.0
    """,
    "memory after a store": """
        if B[0] > 0.0:
            B[0] = -1.0
            if B[0] > 0.0:
                B[1] = 1.0
    """,
    "a name of a load": """
        x: T.float32 = B[0]
        B[0] = 1.0
        B[1] = x
    """,
    "a while over memory": """
        while B[0] < 3.0:
            B[0] = B[0] + 1.0
    """,
}


@pytest.mark.parametrize("name", UNCHANGED)
def test_leaves_the_same_object(name):
    module = IRModule((parse(text_of(UNCHANGED[name])),))
    assert Simplify().apply(module, PassContext(Target("cpu"))) is module


def test_twice_is_once(apply):
    text = text_of(CASES["indices"][0])
    once = apply(text, Simplify)
    module = IRModule((once,))
    assert Simplify().apply(module, PassContext(Target("cpu"))) is module


def test_spans_stay(apply):
    changed = apply(text_of(CASES["a condition within its own branch"][0]), Simplify)
    from tile_core.ir import BufferStore, walk

    store = next(n for n in walk(changed.body) if isinstance(n, BufferStore))
    assert store.span is not None and store.span.line == 9


def test_ten_thousand_statements():
    body = "\n".join(f"B[{i % 64}] = {float(i)}" for i in range(10_000))
    module = IRModule((parse(text_of(body)),))
    simplified = Simplify().apply(module, PassContext(Target("cpu")))
    assert len(simplified.functions[0].body.body.stmts) == 10_000
