"""Options of statements: a value that is none of theirs is a typed error, wherever it comes from."""

from __future__ import annotations

import pytest

import tile_core.language as T
from tile_core.errors import CompileError
from tile_core.frontend import from_source
from tile_core.interpreter import interpret

STATEMENTS = [
    ("T.copy(A, B, eviction_policy='evict')", "E-OPERAND-OPTION"),
    ("T.copy(A, B, disable_tma=2)", "E-OPERAND-OPTION"),
    ("T.use_swizzle(4, enable='no')", "E-OPERAND-OPTION"),
    ("B[0] = T.cast(A[0], 'float16', sat='x')", "E-OPERAND-OPTION"),
    ("B[0] = T.cast(A[0], 'float16', round={})", "E-OPERAND-OPTION"),
    ("T.device_assert(A[0] > 0.0, msg=3)", "E-OPERAND"),
    ("T.device_assert(A[0] > 0.0, no_stack_info='x')", "E-OPERAND-OPTION"),
    ("T.device_assert('A is positive')", "E-CONDITION"),
    ("T.assume('A is positive')", "E-CONDITION"),
    ("x = T.ldg32(I[0], pred='x')", "E-CONDITION"),
    ("x = T.alloc_shared((4,), 'float32', scope=['shared'])", "E-ALLOC-SCOPE|E-SCOPE"),
    ("x = T.alloc_var('float32', scope={})", "E-ALLOC-SCOPE|E-SCOPE"),
    ("x = T.access_ptr(A[0], ['r'])", "E-POINTER"),
    ("x = T.access_ptr(A[0], 'r', 4.0)", "E-POINTER"),
    ("x = T.access_ptr(A[0], 'r', -4)", "E-POINTER"),
    ("x = T.access_ptr(A[0], offset=A[1])", "E-POINTER"),
    ("x = T.access_ptr(A[0], extent='x')", "E-POINTER"),
    ("x = T.access_ptr(A[0], ignore_last_ndim=2)", "E-POINTER"),
    ("I[0] = T.shfl_xor(I[0], 1, width=True)", "E-WARP-OPTION"),
    ("for i in T.Parallel(4, prefer_async='yes'): I[i] = 1", "E-OPERAND-OPTION"),
    ("for i in T.unroll(4, explicit='yes'): I[i] = 1", "E-OPERAND-OPTION"),
]


def kernel(statement: str):
    text = f"""
@T.prim_func
def main(A: T.Tensor((64,), "float32"), B: T.Tensor((64,), "float32"), I: T.Tensor((64,), "int32")):
    with T.Kernel(1, threads=32):
        {statement}
        T.copy(A, B)
"""
    return from_source(text, {"T": T}, name="main")


@pytest.mark.parametrize(("statement", "code"), STATEMENTS, ids=[s for s, _ in STATEMENTS])
def test_a_value_that_an_option_does_not_take(statement, code):
    with pytest.raises(CompileError, match=code) as caught:
        kernel(statement)
    assert caught.value.span is not None and caught.value.help


def test_a_parallel_range_may_start_anywhere():
    import numpy as np

    a, b, i = np.zeros(64, np.float32), np.zeros(64, np.float32), np.zeros(64, np.int32)
    interpret(kernel("for k in T.parallel(3, 7): I[k] = k"), a, b, i)
    assert i.tolist() == [0, 0, 0, 3, 4, 5, 6, *[0] * 57]


def test_a_pointer_to_the_start_of_a_row():
    @T.prim_func
    def main(A: T.Tensor((4, 8, 16), "float32")):
        with T.Kernel(1):
            T.evaluate(T.call_extern("void", "use", T.access_ptr(A[3, 5, 7], "r", 16, ignore_last_ndim=1)))
            T.evaluate(T.call_extern("void", "use", T.access_ptr(A[3, 5, 7], "r", 16, ignore_last_ndim=2)))

    text = main.script()
    assert "A[3, 5, 0]" in text and "A[3, 0, 0]" in text
