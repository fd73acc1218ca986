"""LowerThreadCode: loops over threads between block-wide syncs."""

import pytest

from tile_core.errors import CompileError
from tile_core.ir import For, KernelLaunch, walk
from tile_core.transform import LowerThreadCode


def test_a_sync_ends_one_loop_and_starts_the_next(check_pass):
    check_pass(
        LowerThreadCode,
        """
        @T.prim_func
        def main(A: T.Buffer((4, 64), T.float32)):
            with T.Kernel(4, threads=(64,)) as (bx, tx):
                S = T.alloc_buffer((64,), T.float32, scope="shared")
                x = T.alloc_buffer((1,), T.float32, scope="local")
                x[0] = A[bx, tx]
                S[tx] = x[0]
                T.sync_threads()
                A[bx, tx] = S[63 - tx] + x[0]
        """,
        """
        @T.prim_func
        def main(A: T.Buffer((4, 64), T.float32)):
            with T.Kernel(4) as bx:
                S = T.alloc_buffer((64,), T.float32, scope="shared")
                x = T.alloc_buffer((1, 64), T.float32, scope="local")
                for tx in T.Parallel(64):
                    x[0, tx] = A[bx, tx]
                    S[tx] = x[0, tx]
                for ty in T.Parallel(64):
                    A[bx, ty] = S[63 - ty] + x[0, ty]
        """,
        sizes=[{}],
    )


def test_a_variable_that_all_threads_count_up_has_a_copy_for_each(check_pass):
    check_pass(
        LowerThreadCode,
        """
        @T.prim_func
        def main(A: T.Buffer((2, 64), T.int32)):
            with T.Kernel(1, threads=(64,)) as (bx, tx):
                n = T.alloc_buffer((1,), T.int32, scope="local")
                n[0] = 0
                T.sync_threads()
                while n[0] < 3:
                    n[0] = n[0] + 1
                    A[0, tx] = A[0, tx] * 2 + tx
                T.sync_threads()
                if n[0] == 3:
                    T.sync_threads()
                    A[1, tx] = n[0]
        """,
        """
        @T.prim_func
        def main(A: T.Buffer((2, 64), T.int32)):
            with T.Kernel(1) as bx:
                n = T.alloc_buffer((1, 64), T.int32, scope="local")
                for tx in T.Parallel(64):
                    n[0, tx] = 0
                for ty in T.Parallel(64):
                    while n[0, ty] < 3:
                        n[0, ty] = n[0, ty] + 1
                        A[0, ty] = A[0, ty] * 2 + ty
                if n[0, 0] == 3:
                    for tz in T.Parallel(64):
                        A[1, tz] = n[0, tz]
        """,
        sizes=[{}],
    )


def test_values_bound_before_a_sync_live_on(check_pass):
    check_pass(
        LowerThreadCode,
        """
        @T.prim_func
        def main(A: T.Buffer((64,), T.float32)):
            with T.Kernel(1, threads=(32, 2)) as (bx, tx, ty):
                S = T.alloc_buffer((64,), T.float32, scope="shared")
                x: T.float32 = A[ty * 32 + tx] * 3.0
                S[ty * 32 + tx] = x
                T.sync_threads()
                A[ty * 32 + tx] = S[63 - (ty * 32 + tx)] + x
        """,
        None,
        sizes=[{}],
    )


def test_a_tree_reduction(check_pass):
    changed = check_pass(
        LowerThreadCode,
        """
        @T.prim_func
        def main(A: T.Buffer((64,), T.float32), B: T.Buffer((1,), T.float32)):
            with T.Kernel(1, threads=(64,)) as (bx, tx):
                S = T.alloc_buffer((64,), T.float32, scope="shared")
                S[tx] = A[tx]
                for step in T.serial(6):
                    T.sync_threads()
                    if tx < 32 >> step:
                        S[tx] = S[tx] + S[tx + (32 >> step)]
                T.sync_threads()
                if tx == 0:
                    B[0] = S[0]
        """,
        None,
        sizes=[{}],
    )
    [launch] = [n for n in walk(changed.body) if isinstance(n, KernelLaunch)]
    assert launch.thread_vars == () and launch.threads == ()


def test_code_without_threads_loses_only_the_launch_bounds(check_pass):
    body = """
        @T.prim_func
        def main(A: T.Buffer((8,), T.float32)):
            with T.Kernel(1{threads}) as {names}:
                for i in T.Parallel(8):
                    A[i] = 1.0
    """
    check_pass(
        LowerThreadCode,
        body.format(threads=", threads=(128,)", names="(bx, tx)"),
        body.format(threads="", names="bx"),
    )


def test_a_loop_that_only_threads_run_stays_inside_one_loop(apply):
    changed = apply(
        """
        @T.prim_func
        def main(A: T.Buffer((64, 8), T.float32), B: T.Buffer((64,), T.float32)):
            with T.Kernel(1, threads=(64,)) as (bx, tx):
                acc = T.alloc_buffer((1,), T.float32, scope="local")
                acc[0] = 0.0
                for k in T.serial(8):
                    acc[0] = acc[0] + A[tx, k]
                B[tx] = acc[0]
        """,
        LowerThreadCode,
    )
    assert sum(isinstance(n, For) and n.kind == "parallel" for n in walk(changed.body)) == 1


def test_a_sync_that_only_some_threads_reach_is_an_error(apply):
    with pytest.raises(CompileError) as found:
        apply(
            """
            @T.prim_func
            def main(A: T.Buffer((64,), T.float32)):
                with T.Kernel(1, threads=(64,)) as (bx, tx):
                    if tx < 32:
                        A[tx] = 1.0
                        T.sync_threads()
            """,
            LowerThreadCode,
        )
    assert str(found.value) == "\n".join(
        [
            "error[E-THREAD-DIVERGENT]: not all threads of the block reach this T.sync_threads() together",
            "  --> <text>:7:13",
            "    7 |             T.sync_threads()",
            "      |             ^^^^^^^^^^^^^^^^",
            "  it stands under:",
            "  --> <text>:5:9",
            "    5 |         if tx < 32:",
            "      |         ^^^^^^^^^^^",
            "   if: tx < 32 differs between threads",
            "  help: move the sync out, and split the condition round the statements before and after it",
        ]
    )


def test_a_sync_of_a_part_of_the_block_is_an_error(apply):
    text = """
        @T.prim_func
        def main(A: T.Buffer((64,), T.float32)):
            with T.Kernel(1, threads=(64,)) as (bx, tx):
                A[tx] = 1.0
                T.sync_threads(1, {count})
    """
    apply(text.format(count=64), LowerThreadCode)
    with pytest.raises(CompileError, match="E-THREAD-PARTIAL") as found:
        apply(text.format(count=32), LowerThreadCode)
    assert "threads that meet: 32" in str(found.value)
    assert "threads that reach it: 64" in str(found.value)


def test_a_return_of_some_threads_is_an_error(apply):
    with pytest.raises(CompileError, match="E-THREAD-RETURN"):
        apply(
            """
            @T.prim_func
            def main(A: T.Buffer((64,), T.float32)):
                with T.Kernel(1, threads=(64,)) as (bx, tx):
                    if tx > 3:
                        return
                    A[tx] = 1.0
            """,
            LowerThreadCode,
        )
