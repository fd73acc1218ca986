"""Batched matrix product: one block for each tile of each product, the batch as the third axis of the grid."""

import tile_core as tile
import tile_core.language as T


@tile.jit(out_idx=[-1])
def batched_matmul(batch, M, N, K, block_M=64, block_N=64, block_K=32, stages=3, dtype="float16"):
    """A kernel C[b] = A[b] @ B[b] for A [batch, M, K] and B [batch, K, N]."""

    @T.prim_func
    def bmm(
        A: T.Tensor((batch, M, K), dtype),
        B: T.Tensor((batch, K, N), dtype),
        C: T.Tensor((batch, M, N), dtype),
    ):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), batch, threads=128) as (bx, by, bz):
            A_shared = T.alloc_shared((block_M, block_K), dtype)
            B_shared = T.alloc_shared((block_K, block_N), dtype)
            acc = T.alloc_fragment((block_M, block_N), "float32")
            T.clear(acc)
            for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=stages):
                T.copy(A[bz, by * block_M : (by + 1) * block_M, k * block_K : (k + 1) * block_K], A_shared)
                T.copy(B[bz, k * block_K : (k + 1) * block_K, bx * block_N : (bx + 1) * block_N], B_shared)
                T.gemm(A_shared, B_shared, acc)
            T.copy(acc, C[bz, by * block_M : (by + 1) * block_M, bx * block_N : (bx + 1) * block_N])

    return bmm


def reference(a, b):
    """The same in torch."""
    return a @ b


def cases(small=False):
    """(label, kernel, reference, inputs, length of the sums)."""
    import torch

    sizes = [(3, 70, 50, 40)] if small else [(16, 512, 512, 512), (64, 256, 256, 128)]
    for batch, m, n, k in sizes:
        a = torch.randn(batch, m, k, dtype=torch.float16)
        b = torch.randn(batch, k, n, dtype=torch.float16)
        yield f"{batch}×{m}×{n}×{k}", batched_matmul(batch, m, n, k), reference, (a, b), k


if __name__ == "__main__":
    from _run import run

    run("gemm batched", cases)
