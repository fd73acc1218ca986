"""GroupBlocks: blocks that share what they load, at any grid."""

import pytest

from tile_core.ir import KernelLaunch, TileOpStmt, walk
from tile_core.tileop import Copy

TEXT = """
    @T.prim_func
    def main(A: T.Buffer((M, K), T.float32), B: T.Buffer((N, K), T.float32), C: T.Buffer((M, N), T.float32)):
        M = T.size_var(T.int32)
        N = T.size_var(T.int32)
        K = T.size_var(T.int32)
        with T.Kernel((N + 7) // 8, (M + 7) // 8{threads}) as ({names}):
            A_shared = T.alloc_buffer((8, 16), T.float32, scope="shared")
            B_shared = T.alloc_buffer((8, 16), T.float32, scope="shared")
            C_local = T.alloc_buffer((8, 8), T.float32, scope="fragment")
            bias = T.alloc_buffer((8,), T.float32, scope="shared")
            T.copy(C[0, bx * 8:bx * 8 + 8], bias)
            T.fill(C_local, value=T.float32(0.0))
            for ko in T.Pipelined((K + 15) // 16, num_stages=2):
                T.copy(A[by * 8:by * 8 + 8, ko * 16:ko * 16 + 16], A_shared)
                T.copy(B[bx * 8:bx * 8 + 8, ko * 16:ko * 16 + 16], B_shared)
                T.gemm(A_shared, B_shared, C_local, transpose_b=True)
            for i, j in T.Parallel(8, 8):
                C_local[i, j] = T.max(C_local[i, j] + bias[j], 0.0)
            T.copy(C_local, C[by * 8:by * 8 + 8, bx * 8:bx * 8 + 8])
"""


def text(threads="", names="bx, by"):
    return TEXT.format(threads=threads, names=names)


def allocations(function):
    return {b.name: b.static_shape() for n in walk(function.body) for b in getattr(n, "allocations", ())}


def test_a_tile_has_a_copy_for_each_index_that_it_depends_on(lowered):
    shapes = allocations(lowered(text()).after["GroupBlocks"])
    assert shapes == {
        "A_shared": (2, 8, 128),
        "B_shared": (4, 8, 128),
        "C_local": (4, 2, 8, 8),
        "bias": (4, 8),
    }


# The reference of cpu.worth_grouping says yes from 64 blocks on.
@pytest.mark.parametrize("sizes", [(1, 1, 1), (30, 50, 40), (64, 64, 20), (65, 100, 17), (100, 65, 150)], ids=str)
def test_every_step_computes_the_same_product(lowered, sizes):
    # Blocks of row 0 overwrite what others read as bias; only results of a kernel without that are compared.
    quiet = text().replace("T.copy(C[0, bx * 8:bx * 8 + 8], bias)", "T.copy(B[bx * 8:bx * 8 + 8, 0], bias)")
    lowered(quiet).check(dict(zip("MNK", sizes)), atol=1e-4)


def test_the_grid_counts_groups_when_the_kernel_runs(lowered):
    [launch] = [n for n in walk(lowered(text()).after["GroupBlocks"].body) if isinstance(n, KernelLaunch)]
    assert all("worth_grouping" in repr(extent) for extent in launch.grid)


@pytest.mark.parametrize(
    "change",
    [
        ("T.copy(A[by * 8:by * 8 + 8,", "T.copy(A[by * 8 + bx:by * 8 + bx + 8,"),
        ("for ko in T.Pipelined((K + 15) // 16, num_stages=2):", "for ko in T.serial(bx):"),
        ("T.gemm(A_shared, B_shared, C_local, transpose_b=True)", "C_local[0, 0] = 1.0"),
    ],
    ids=["nothing shared", "bounds by block", "no gemm"],
)
def test_other_kernels_keep_single_blocks(lowered, change):
    old = text()
    if "nothing" in change[1] or "bx + 8" in change[1]:
        old = old.replace("T.copy(B[bx * 8:bx * 8 + 8,", "T.copy(B[bx * 8 + by:bx * 8 + by + 8,")
    result = lowered(old.replace(*change))
    [launch] = [n for n in walk(result.after["GroupBlocks"].body) if isinstance(n, KernelLaunch)]
    assert [v.name for v in launch.grid_vars] == ["bx", "by"]


def test_thread_code_keeps_single_blocks(lowered):
    old = text(", threads=(8,)", "bx, by, tx").replace("T.fill(C_local", "bias[tx] = 0.0\n            T.fill(C_local")
    [launch] = [n for n in walk(lowered(old).after["GroupBlocks"].body) if isinstance(n, KernelLaunch)]
    assert [v.name for v in launch.grid_vars] == ["bx", "by"]


def test_loads_are_repeated_over_one_index_only(lowered):
    function = lowered(text()).after["GroupBlocks"]
    loads = {
        n.op.dst.buffer.name: n for n in walk(function.body) if isinstance(n, TileOpStmt) and isinstance(n.op, Copy)
    }
    assert len(loads["A_shared"].op.dst.mins) == 3
    assert len(loads["B_shared"].op.dst.mins) == 3
