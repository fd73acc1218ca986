"""LegalizeNegativeIndex: what counts from the end, and what does not.

Before the pass an index below zero is outside the tensor for the interpreter, so the two sides are not run against each
other where the meaning is what the pass gives.
"""

from __future__ import annotations

from tile_core.transform import LegalizeNegativeIndex


def test_constants_and_minus_a_positive_count_from_the_end(check_pass):
    check_pass(
        LegalizeNegativeIndex,
        before="""
        @T.prim_func
        def main(A: T.Buffer((8, N), T.float32)):
            N = T.size_var(T.int32)
            with T.Kernel(1, threads=(32,)) as (bx, tx):
                for i in T.serial(4, min=1):
                    A[-1, -i] = A[0, -1] + 1.0
        """,
        after="""
        @T.prim_func
        def main(A: T.Buffer((8, N), T.float32)):
            N = T.size_var(T.int32)
            with T.Kernel(1, threads=(32,)) as (bx, tx):
                for i in T.serial(4, min=1):
                    A[7, N + -i] = A[0, N + -1] + 1.0
        """,
        sizes=[],
    )


def test_an_index_before_the_tensor_stays(check_pass):
    text = """
        @T.prim_func
        def main(A: T.Buffer((8,), T.float32), B: T.Buffer((8,), T.float32)):
            with T.Kernel(1, threads=(32,)) as (bx, tx):
                for i in T.serial(8):
                    B[i] = A[i - 1]
                for i in T.serial(1):
                    B[i] = A[i - 1] + A[-i]
        """
    check_pass(LegalizeNegativeIndex, text, text)


def test_regions(check_pass):
    check_pass(
        LegalizeNegativeIndex,
        before="""
        @T.prim_func
        def main(A: T.Buffer((8, 4), T.float32)):
            with T.Kernel(1, threads=(32,)) as (bx, tx):
                s = T.alloc_buffer((1, 4), T.float32, scope="shared")
                T.copy(A[-2:-1, 0:4], s)
                T.copy(s, A[0:1, 0:4])
        """,
        after="""
        @T.prim_func
        def main(A: T.Buffer((8, 4), T.float32)):
            with T.Kernel(1, threads=(32,)) as (bx, tx):
                s = T.alloc_buffer((1, 4), T.float32, scope="shared")
                T.copy(A[6:7, 0:4], s)
                T.copy(s, A[0:1, 0:4])
        """,
        sizes=[],
    )
