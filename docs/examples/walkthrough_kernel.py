"""The kernel that docs/walkthrough.md follows: C = leaky_relu(A @ B)."""

import tile_core.language as T

M = T.dynamic("M")
N, K = 96, 80


@T.prim_func
def main(
    A: T.Tensor((M, K), "float32"),
    B: T.Tensor((K, N), "float32"),
    C: T.Tensor((M, N), "float32"),
):
    with T.Kernel(T.ceildiv(N, 32), T.ceildiv(M, 32), threads=128) as (bx, by):
        A_shared = T.alloc_shared((32, 16), "float32")
        B_shared = T.alloc_shared((16, 32), "float32")
        acc = T.alloc_fragment((32, 32), "float32")
        T.clear(acc)
        for k in T.Pipelined(K // 16, num_stages=2):
            T.copy(A[by * 32, k * 16], A_shared)
            T.copy(B[k * 16, bx * 32], B_shared)
            T.gemm(A_shared, B_shared, acc)
        for i, j in T.Parallel(32, 32):
            acc[i, j] = T.if_then_else(acc[i, j] < 0, acc[i, j] * 0.5, acc[i, j])
        T.copy(acc, C[by * 32, bx * 32])
