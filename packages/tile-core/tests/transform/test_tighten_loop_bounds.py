"""TightenLoopBounds moves monotone guards into loop bounds."""

from tile_core.ir import If, walk
from tile_core.transform import TightenLoopBounds

GUARDED = """
    @T.prim_func
    def main(A: T.Buffer((M, N), T.float32)):
        M = T.size_var(T.int32)
        N = T.size_var(T.int32)
        with T.Kernel((N + 31) // 32, (M + 7) // 8) as (bx, by):
            for i, j in T.Parallel(8, 32):
                if by * 8 + i < M and bx * 32 + j < N:
                    A[by * 8 + i, bx * 32 + j] = 1.0
"""


def test_a_guard_becomes_the_bounds_of_both_loops(check_pass):
    check_pass(
        TightenLoopBounds,
        GUARDED,
        """
        @T.prim_func
        def main(A: T.Buffer((M, N), T.float32)):
            M = T.size_var(T.int32)
            N = T.size_var(T.int32)
            with T.Kernel((N + 31) // 32, (M + 7) // 8) as (bx, by):
                for i in T.Parallel(T.max(T.min(8, M - by * 8), 0)):
                    for j in T.Parallel(T.max(T.min(32, N - bx * 32), 0)):
                        A[by * 8 + i, bx * 32 + j] = 1.0
        """,
        sizes=[{"M": 1, "N": 1}, {"M": 8, "N": 32}, {"M": 13, "N": 70}],
    )


def test_lower_bounds_and_both_directions(check_pass):
    text = """
        @T.prim_func
        def main(A: T.Buffer((64,), T.float32), B: T.Buffer((64,), T.float32)):
            with T.Kernel(3) as bx:
                for i in T.serial(64):
                    if i >= bx * 20 and 63 - i > bx:
                        B[i] = A[i] + B[i]
    """
    changed = check_pass(TightenLoopBounds, text, None)
    assert not any(isinstance(n, If) for n in walk(changed.body))


def test_a_condition_on_memory_stays(check_pass):
    text = """
        @T.prim_func
        def main(A: T.Buffer((64,), T.int32), B: T.Buffer((64,), T.int32)):
            with T.Kernel(1) as bx:
                for i in T.serial(64):
                    if i < A[0]:
                        B[i] = 1
    """
    check_pass(TightenLoopBounds, text, text)


def test_a_loop_that_is_left_early_keeps_its_bounds(check_pass):
    text = """
        @T.prim_func
        def main(A: T.Buffer((64,), T.int32)):
            with T.Kernel(3) as bx:
                for i in T.serial(64):
                    if i < bx * 30:
                        A[i] = 1
                        break
    """
    check_pass(TightenLoopBounds, text, text)


def test_an_else_branch_keeps_the_guard(check_pass):
    text = """
        @T.prim_func
        def main(A: T.Buffer((64,), T.int32)):
            with T.Kernel(3) as bx:
                for i in T.serial(64):
                    if i < bx * 30:
                        A[i] = 1
                    else:
                        A[i] = 2
    """
    check_pass(TightenLoopBounds, text, text)


def test_two_statements_with_one_guard_are_tightened_together(check_pass):
    text = """
        @T.prim_func
        def main(A: T.Buffer((M,), T.float32), B: T.Buffer((M,), T.float32)):
            M = T.size_var(T.int32)
            with T.Kernel((M + 7) // 8) as bx:
                for i in T.Parallel(8):
                    if bx * 8 + i < M:
                        A[bx * 8 + i] = 1.0
                    if bx * 8 + i < M:
                        B[bx * 8 + i] = A[bx * 8 + i] + 2.0
    """
    changed = check_pass(TightenLoopBounds, text, None, sizes=[{"M": 3}, {"M": 17}])
    assert not any(isinstance(n, If) for n in walk(changed.body))


def test_a_lower_bound_before_the_loop_begins_with_the_loop(check_pass):
    text = """
        @T.prim_func
        def main(A: T.Buffer((96,), T.float32), B: T.Buffer((96,), T.float32)):
            with T.Kernel(3) as bx:
                for i in T.serial(64):
                    if 0 <= bx * 40 - 20 + i and bx * 40 - 20 + i < 96:
                        B[bx * 40 - 20 + i] = A[bx * 40 - 20 + i] + B[bx * 40 - 20 + i]
    """
    changed = check_pass(TightenLoopBounds, text, None)
    assert not any(isinstance(n, If) for n in walk(changed.body))
