"""LegalizeSafeMemoryAccess guards exactly the accesses that are not proven to be inside."""

from tile_core.ir import If, Select, walk
from tile_core.transform import LegalizeSafeMemoryAccess, Options

COPY = """
    @T.prim_func
    def main(A: T.Buffer((M,), T.float32), B: T.Buffer((M,), T.float32)):
        M = T.size_var(T.int32)
        with T.Kernel((M + 31) // 32) as bx:
            S = T.alloc_buffer((32,), T.float32, scope="shared")
            for i in T.Parallel(32):
                S[i] = A[bx * 32 + i]
            for j in T.Parallel(32):
                B[bx * 32 + j] = S[j] + A[bx * 32 + j]
"""


def test_a_load_that_may_be_outside_gives_zero_and_a_store_is_dropped(check_pass):
    check_pass(
        LegalizeSafeMemoryAccess,
        COPY,
        """
        @T.prim_func
        def main(A: T.Buffer((M,), T.float32), B: T.Buffer((M,), T.float32)):
            M = T.size_var(T.int32)
            with T.Kernel((M + 31) // 32) as bx:
                S = T.alloc_buffer((32,), T.float32, scope="shared")
                for i in T.Parallel(32):
                    S[i] = T.if_then_else(bx * 32 + i < M, A[bx * 32 + i], 0.0)
                for j in T.Parallel(32):
                    if bx * 32 + j < M:
                        B[bx * 32 + j] = S[j] + A[bx * 32 + j]
        """,
        sizes=[{"M": 1}, {"M": 32}, {"M": 70}],
    )


def test_tiles_that_divide_the_tensor_need_no_guard(check_pass):
    text = COPY.replace("(M,)", "(96,)").replace("        M = T.size_var(T.int32)\n", "").replace("(M + 31) // 32", "3")
    check_pass(LegalizeSafeMemoryAccess, text, text)


def test_a_negative_index_is_guarded_below(check_pass):
    text = """
        @T.prim_func
        def main(A: T.Buffer((8,), T.float32), B: T.Buffer((8,), T.float32)):
            with T.Kernel(1) as bx:
                for i in T.Parallel(8):
                    B[i] = A[i - 2]
    """
    changed = check_pass(LegalizeSafeMemoryAccess, text, None)
    guards = [n for n in walk(changed.body) if isinstance(n, Select)]
    assert [repr(g.condition) for g in guards] == ["i - 2 >= 0"]


def test_the_users_own_condition_is_enough(check_pass):
    text = """
        @T.prim_func
        def main(A: T.Buffer((M,), T.float32)):
            M = T.size_var(T.int32)
            with T.Kernel(4) as bx:
                for i in T.Parallel(32):
                    if bx * 32 + i < M:
                        A[bx * 32 + i] = 1.0
    """
    check_pass(LegalizeSafeMemoryAccess, text, text, sizes=[{"M": 100}])


def test_the_option_leaves_accesses_alone(apply):
    changed = apply(COPY, LegalizeSafeMemoryAccess, options=Options({"tl.disable_safe_memory_legalize": True}))
    assert not any(isinstance(n, (If, Select)) for n in walk(changed.body))


def test_a_safe_value_replaces_zero(apply):
    changed = apply(
        """
        @T.prim_func
        def main(A: T.Buffer((M,), T.float32), B: T.Buffer((64,), T.float32)):
            M = T.size_var(T.int32)
            with T.Kernel(1) as bx:
                with T.block():
                    T.annotate("safe_value", ((A, T.float32(-1.0)),))
                    for i in T.Parallel(64):
                        B[i] = A[i]
        """,
        LegalizeSafeMemoryAccess,
    )
    [guard] = [n for n in walk(changed.body) if isinstance(n, Select)]
    assert guard.false_value.value == -1.0


def test_an_atomic_update_outside_is_dropped(check_pass):
    text = """
        @T.prim_func
        def main(A: T.Buffer((M,), T.float32)):
            M = T.size_var(T.int32)
            with T.Kernel(3) as bx:
                for i in T.Parallel(32):
                    T.evaluate(T.atomic_add(T.access_ptr(A[bx * 32 + i], "rw", 1), 1.0, "relaxed"))
    """
    changed = check_pass(LegalizeSafeMemoryAccess, text, None, sizes=[{"M": 70}])
    assert sum(isinstance(n, If) for n in walk(changed.body)) == 1
