"""Grouped matrix product: rows of A belong to groups, each with a B of its own, as tokens belong to experts.

The rows of a group lie together. How many there are is known only at the call: a block counts the tiles of the groups
before it to find its own, so that the host passes nothing but where groups begin.
"""

from itertools import accumulate

import tile_core as tile
import tile_core.language as T


@tile.jit(out_idx=[-1])
def grouped_matmul(groups, N, K, block_M=64, block_N=64, block_K=64, stages=3, dtype="float16"):
    """A kernel C[r] = A[r] @ B[group of r] for A [rows, K], B [groups, K, N]; offsets [groups + 1] says where groups
    begin."""
    rows = T.dynamic("rows")

    @T.prim_func
    def grouped(
        A: T.Tensor((rows, K), dtype),
        B: T.Tensor((groups, K, N), dtype),
        offsets: T.Tensor((groups + 1,), "int32"),
        C: T.Tensor((rows, N), dtype),
    ):
        # Every group may have a tile that is not full.
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(rows, block_M) + groups, threads=128) as (bx, by):
            A_shared = T.alloc_shared((block_M, block_K), dtype)
            B_shared = T.alloc_shared((block_K, block_N), dtype)
            acc = T.alloc_fragment((block_M, block_N), "float32")
            group = T.alloc_var("int32", init=-1)
            number = T.alloc_var("int32", init=0)
            before = T.alloc_var("int32", init=0)
            for g in T.unroll(groups):
                tiles = T.ceildiv(offsets[g + 1] - offsets[g], block_M)
                if (before <= by) & (by < before + tiles):
                    group = g
                    number = by - before
                before += tiles
            if group >= 0:
                first = offsets[group] + number * block_M
                end = offsets[group + 1]
                T.clear(acc)
                for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=stages):
                    T.copy(A[first : first + block_M, k * block_K : (k + 1) * block_K], A_shared)
                    T.copy(B[group, k * block_K : (k + 1) * block_K, bx * block_N : (bx + 1) * block_N], B_shared)
                    T.gemm(A_shared, B_shared, acc)
                for i, j in T.Parallel(block_M, block_N):
                    if (first + i < end) & (bx * block_N + j < N):
                        C[first + i, bx * block_N + j] = acc[i, j]

    return grouped


def matmul(a, b, sizes):
    """Products of groups of rows: sizes[g] rows of a with b[g]."""
    import torch

    kernel = grouped_matmul(b.shape[0], b.shape[2], b.shape[1])
    return kernel(a, b, torch.tensor([0, *accumulate(sizes)], dtype=torch.int32, device=a.device))


def reference(a, b, sizes):
    """The same in torch: a product for each group."""
    import torch

    return torch.cat([part @ b[g] for g, part in enumerate(a.split(list(sizes)))])


def cases(small=False):
    """(label, kernel, reference, inputs, length of the sums)."""
    import torch

    shapes = [((70, 1, 33), 50, 40)] if small else [((512, 100, 1000, 436), 512, 512), ((64,) * 16, 256, 256)]
    for sizes, n, k in shapes:
        a = torch.randn(sum(sizes), k, dtype=torch.float16)
        b = torch.randn(len(sizes), k, n, dtype=torch.float16)
        yield f"{len(sizes)} groups {sum(sizes)}×{n}×{k}", matmul, reference, (a, b, sizes), k


if __name__ == "__main__":
    from _run import run

    run("gemm grouped", cases)
