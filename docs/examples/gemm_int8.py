"""Matrix product of int8 with int32 sums, scaled to fp16 by a scale for each row and one for each column."""

import tile_core as tile
import tile_core.language as T


@tile.jit(out_idx=[-1])
def int8_matmul(M, N, K, block_M=64, block_N=64, block_K=64, stages=2):
    """A kernel C[i, j] = (Σ A[i, k] B[j, k]) · row[i] · column[j] for A [M, K] and B [N, K]."""

    @T.prim_func
    def int8_gemm(
        A: T.Tensor((M, K), "int8"),
        B: T.Tensor((N, K), "int8"),
        row: T.Tensor((M,), "float32"),
        column: T.Tensor((N,), "float32"),
        C: T.Tensor((M, N), "float16"),
    ):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=128) as (bx, by):
            A_shared = T.alloc_shared((block_M, block_K), "int8")
            B_shared = T.alloc_shared((block_N, block_K), "int8")
            acc = T.alloc_fragment((block_M, block_N), "int32")
            out = T.alloc_fragment((block_M, block_N), "float16")
            T.clear(acc)
            for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=stages):
                T.copy(A[by * block_M, k * block_K], A_shared)
                T.copy(B[bx * block_N, k * block_K], B_shared)
                T.gemm(A_shared, B_shared, acc, transpose_B=True)
            for i, j in T.Parallel(block_M, block_N):
                out[i, j] = T.cast(acc[i, j], "float32") * row[by * block_M + i] * column[bx * block_N + j]
            T.copy(out, C[by * block_M, bx * block_N])

    return int8_gemm


def reference(a, b, row, column):
    """The same in torch, through doubles: it has no product of int8 on every device."""
    return ((a.double() @ b.double().T) * row.double()[:, None] * column.double()).half()


def cases(small=False):
    """(label, kernel, reference, inputs, length of the sums)."""
    import torch

    for m, n, k in [(70, 50, 100)] if small else [(512, 512, 512), (1024, 1024, 1024)]:
        a, b = (torch.randint(-128, 128, shape, dtype=torch.int8) for shape in ((m, k), (n, k)))
        row, column = torch.rand(m) / 128, torch.rand(n) / 128
        yield f"{m}×{n}×{k}", int8_matmul(m, n, k), reference, (a, b, row, column), 1


if __name__ == "__main__":
    from _run import run

    run("gemm int8", cases)
