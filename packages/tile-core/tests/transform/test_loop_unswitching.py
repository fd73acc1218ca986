"""LoopUnswitching: one version of a nest for when all of it is inside, one for the edge."""

from tile_core.ir import For, If, Select, walk
from tile_core.transform import LegalizeSafeMemoryAccess, LoopUnswitching, Options

LOAD = """
    @T.prim_func
    def main(A: T.Buffer((M, N), T.float32), B: T.Buffer((64, 64), T.float32)):
        M = T.size_var(T.int32)
        N = T.size_var(T.int32)
        with T.Kernel(2, 2) as (bx, by):
            for i, j in T.Parallel(32, 32):
                B[by * 32 + i, bx * 32 + j] = T.if_then_else(
                    by * 32 + i < M and bx * 32 + j < N, A[by * 32 + i, bx * 32 + j] * 2.0, 0.0
                )
"""


def test_the_first_version_has_no_conditions(check_pass):
    changed = check_pass(
        LoopUnswitching,
        LOAD,
        None,
        sizes=[{"M": 1, "N": 1}, {"M": 32, "N": 64}, {"M": 63, "N": 65}, {"M": 64, "N": 64}],
    )
    [switch] = [n for n in walk(changed.body) if isinstance(n, If)]
    assert repr(switch.condition) == "by * 32 + 31 < M and bx * 32 + 31 < N"
    assert not any(isinstance(n, Select) for n in walk(switch.then_body))
    assert any(isinstance(n, Select) for n in walk(switch.else_body))


def test_the_hardest_iteration_depends_on_the_slope(check_pass):
    text = """
        @T.prim_func
        def main(A: T.Buffer((M,), T.float32), B: T.Buffer((32,), T.float32)):
            M = T.size_var(T.int32)
            with T.Kernel(1) as bx:
                for i in T.Parallel(32):
                    B[i] = T.if_then_else(40 - 2 * i < M and 40 - 2 * i >= 0, A[40 - 2 * i], 0.0)
    """
    changed = check_pass(LoopUnswitching, text, None, sizes=[{"M": 1}, {"M": 40}, {"M": 41}])
    [switch] = [n for n in walk(changed.body) if isinstance(n, If)]
    assert repr(switch.condition) == "40 - 2 * 0 < M and 40 - 2 * 31 >= 0"


def test_a_condition_on_a_name_of_the_body(check_pass):
    text = """
        @T.prim_func
        def main(A: T.Buffer((M,), T.float32), B: T.Buffer((4, 32), T.float32)):
            M = T.size_var(T.int32)
            with T.Kernel(4) as bx:
                for i in T.Parallel(32):
                    row: T.int32 = bx * 32
                    column: T.int32 = row + i
                    B[bx, i] = T.if_then_else(column < M, A[column], 0.0)
    """
    changed = check_pass(LoopUnswitching, text, None, sizes=[{"M": 1}, {"M": 64}, {"M": 127}])
    [switch] = [n for n in walk(changed.body) if isinstance(n, If)]
    assert repr(switch.condition) == "bx * 32 + 31 < M"
    assert not any(isinstance(n, Select) for n in walk(switch.then_body))


def test_selects_between_values_and_conditions_on_memory_stay(check_pass):
    for condition, value in (("i < bx", "1.0"), ("A[i] > 0.0", "A[i]")):
        text = f"""
            @T.prim_func
            def main(A: T.Buffer((32,), T.float32), B: T.Buffer((32,), T.float32)):
                with T.Kernel(3) as bx:
                    for i in T.serial(32):
                        B[i] = B[i] + T.if_then_else({condition}, {value}, 0.0)
        """
        check_pass(LoopUnswitching, text, text, sizes=[{}])


def test_both_versions_declare_their_own(apply):
    changed = apply(
        """
        @T.prim_func
        def main(A: T.Buffer((M,), T.float32), B: T.Buffer((64,), T.float32)):
            M = T.size_var(T.int32)
            with T.Kernel(1) as bx:
                for i in T.serial(64):
                    with T.block():
                        x = T.alloc_buffer((1,), T.float32, scope="local")
                        x[0] = A[i]
                        B[i] = x[0]
        """,
        LegalizeSafeMemoryAccess,
        LoopUnswitching,
    )
    allocated = [b for n in walk(changed.body) for b in getattr(n, "allocations", ())]
    loops = [n.var for n in walk(changed.body) if isinstance(n, For)]
    assert len(allocated) == len(set(allocated)) == 2
    assert len(loops) == len(set(loops)) == 2


def test_the_option_keeps_one_version(apply):
    changed = apply(LOAD, LoopUnswitching, options=Options({"tl.disable_loop_unswitching": True}))
    assert not any(isinstance(n, If) for n in walk(changed.body))


def test_each_tile_of_a_serial_loop_is_judged_alone(check_pass):
    text = """
        @T.prim_func
        def main(A: T.Buffer((M,), T.float32), B: T.Buffer((64,), T.float32)):
            M = T.size_var(T.int32)
            with T.Kernel(1) as bx:
                for k in T.serial(4):
                    for i in T.Parallel(16):
                        B[k * 16 + i] = T.if_then_else(k * 16 + i < M, A[k * 16 + i], 0.0)
    """
    changed = check_pass(LoopUnswitching, text, None, sizes=[{"M": 1}, {"M": 40}, {"M": 64}])
    [switch] = [n for n in walk(changed.body) if isinstance(n, If)]
    assert repr(switch.condition) == "k * 16 + 15 < M"
