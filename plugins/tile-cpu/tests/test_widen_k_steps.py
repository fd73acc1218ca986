"""WidenKSteps: several steps of K at once, where nothing else can tell."""

import pytest

from tile_core.ir import For, TileOpStmt, walk
from tile_core.tileop import Gemm

TEXT = """
    @T.prim_func
    def main(A: T.Buffer((M, K), T.float32), B: T.Buffer((K, 32), T.float32), C: T.Buffer((M, 32), T.float32)):
        M = T.size_var(T.int32)
        K = T.size_var(T.int32)
        with T.Kernel((M + 31) // 32) as by:
            A_shared = T.alloc_buffer((32, 16), T.float32, scope="shared")
            B_shared = T.alloc_buffer((16, 32), T.float32, scope="shared")
            C_local = T.alloc_buffer((32, 32), T.float32, scope="fragment")
            T.fill(C_local, value=T.float32(0.0))
            for ko in T.Pipelined({steps}, num_stages=2):
                T.copy(A[by * 32:by * 32 + 32, ko * 16:ko * 16 + 16], A_shared)
                T.copy(B[ko * 16:ko * 16 + 16, 0:32], B_shared)
                T.gemm(A_shared, B_shared, C_local)
            T.copy(C_local, C[by * 32:by * 32 + 32, 0:32])
"""


def gemms(function):
    return [n.op for n in walk(function.body) if isinstance(n, TileOpStmt) and isinstance(n.op, Gemm)]


@pytest.mark.parametrize("steps", ["(K + 15) // 16", "K // 32"])
@pytest.mark.parametrize("size", [1, 16, 17, 127, 128, 129, 300])
def test_steps_that_are_left_over_keep_a_loop(lowered, steps, size):
    result = lowered(TEXT.format(steps=steps))
    assert [g.k for g in gemms(result.after["WidenKSteps"])] == [128, 16]
    result.check({"M": 33, "K": size}, atol=1e-4)


@pytest.mark.parametrize(("steps", "widths"), [(1, [16]), (2, [32]), (7, [64, 16]), (8, [128]), (16, [128])])
def test_constant_counts(lowered, steps, widths):
    result = lowered(TEXT.format(steps=steps))
    assert [g.k for g in gemms(result.after["WidenKSteps"])] == widths
    result.check({"M": 5, "K": 270}, atol=1e-4)


@pytest.mark.parametrize(
    "change",
    [
        ("T.gemm(A_shared, B_shared, C_local)", "T.gemm(A_shared, B_shared, C_local, clear_accum=True)"),
        ("A[by * 32:by * 32 + 32, ko * 16:ko * 16 + 16]", "A[by * 32:by * 32 + 32, ko * 8:ko * 8 + 16]"),
        ("T.copy(C_local, C", "T.copy(A_shared, C[by * 32:by * 32 + 32, 0:16])\n            T.copy(C_local, C"),
    ],
    ids=["cleared", "overlapping steps", "tile used later"],
)
def test_what_depends_on_single_steps_stays(lowered, change):
    result = lowered(TEXT.format(steps=4).replace(*change))
    assert [g.k for g in gemms(result.after["WidenKSteps"])] == [16]
    assert sum(isinstance(n, For) for n in walk(result.after["WidenKSteps"].body)) == 1
