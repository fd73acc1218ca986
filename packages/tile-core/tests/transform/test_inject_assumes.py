"""InjectAssumes: facts about sizes move to the function's body, facts about indices stay."""

from __future__ import annotations

from tile_core.transform import InjectAssumes, Simplify


def test_facts_about_sizes_move_out(check_pass):
    check_pass(
        InjectAssumes,
        before="""
        @T.prim_func
        def main(A: T.Buffer((N,), T.float32)):
            N = T.size_var(T.int32)
            with T.Kernel(N // 32, threads=(32,)) as (bx, tx):
                s = T.alloc_buffer((32,), T.float32, scope="shared")
                T.assume(N % 32 == 0 and bx < 100)
                T.assume(N <= 4096)
                for i in T.Parallel(32):
                    A[bx * 32 + i] = 1.0
        """,
        after="""
        @T.prim_func
        def main(A: T.Buffer((N,), T.float32)):
            N = T.size_var(T.int32)
            T.assume(N % 32 == 0)
            T.assume(N <= 4096)
            with T.Kernel(N // 32, threads=(32,)) as (bx, tx):
                s = T.alloc_buffer((32,), T.float32, scope="shared")
                T.assume(bx < 100)
                for i in T.Parallel(32):
                    A[bx * 32 + i] = 1.0
        """,
        sizes=[{"N": 64}],
    )


def test_a_fact_that_only_some_runs_reach_stays(check_pass):
    text = """
        @T.prim_func
        def main(A: T.Buffer((N,), T.float32)):
            N = T.size_var(T.int32)
            with T.Kernel(1, threads=(32,)) as (bx, tx):
                if N > 4:
                    T.assume(N % 2 == 0)
                    A[0] = 1.0
        """
    check_pass(InjectAssumes, text, text, sizes=[{"N": 6}])


def test_without_facts_nothing_changes(apply):
    text = """
        @T.prim_func
        def main(A: T.Buffer((8,), T.float32)):
            with T.Kernel(1, threads=(32,)) as (bx, tx):
                A[0] = 1.0
        """
    assert apply(text, InjectAssumes).script() == apply(text).script()


def test_moved_facts_are_used_everywhere(apply):
    function = apply(
        """
        @T.prim_func
        def main(A: T.Buffer((N,), T.float32)):
            N = T.size_var(T.int32)
            with T.Kernel((N + 31) // 32, threads=(32,)) as (bx, tx):
                T.assume(N % 32 == 0)
                for i in T.Parallel(32):
                    if bx * 32 + i < N:
                        A[bx * 32 + i] = 1.0
        """,
        InjectAssumes,
        Simplify,
    )
    assert "if" not in function.script()
