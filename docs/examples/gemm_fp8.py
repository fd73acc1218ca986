"""Matrix product of float8_e4m3fn with block-wise scales: a scale for each row and 128 terms of A, and for each 128 ×
128 block of B.

The sum over 128 terms is scaled and added to a second accumulator, so that no more than 128 terms are summed with the
few bits that the matrix instructions of some GPUs keep. These instructions need sm_89.
"""

import tile_core as tile
import tile_core.language as T

ARCH = "sm_89"
GROUP = 128


@tile.jit(out_idx=[-1])
def fp8_matmul(M, N, K, block_M=64, block_N=64, stages=2):
    """A kernel C = A @ Bᵀ for A [M, K] with scales [M, K / 128], B [N, K] with scales [N / 128, K / 128]."""
    groups = T.ceildiv(K, GROUP)

    @T.prim_func
    def fp8_gemm(
        A: T.Tensor((M, K), "float8_e4m3fn"),
        B: T.Tensor((N, K), "float8_e4m3fn"),
        A_scale: T.Tensor((M, groups), "float32"),
        B_scale: T.Tensor((T.ceildiv(N, GROUP), groups), "float32"),
        C: T.Tensor((M, N), "bfloat16"),
    ):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=128) as (bx, by):
            A_shared = T.alloc_shared((block_M, GROUP), "float8_e4m3fn")
            B_shared = T.alloc_shared((block_N, GROUP), "float8_e4m3fn")
            part = T.alloc_fragment((block_M, block_N), "float32")
            acc = T.alloc_fragment((block_M, block_N), "float32")
            T.clear(acc)
            for k in T.Pipelined(groups, num_stages=stages):
                T.copy(A[by * block_M, k * GROUP], A_shared)
                T.copy(B[bx * block_N, k * GROUP], B_shared)
                T.clear(part)
                T.gemm(A_shared, B_shared, part, transpose_B=True)
                for i, j in T.Parallel(block_M, block_N):
                    acc[i, j] += part[i, j] * A_scale[by * block_M + i, k] * B_scale[bx * block_N // GROUP, k]
            T.copy(acc, C[by * block_M, bx * block_N])

    return fp8_gemm


def reference(a, b, a_scale, b_scale):
    """The same in torch, on dequantised operands."""
    k = a.shape[1]
    wide = a.float() * a_scale.repeat_interleave(GROUP, 1)[:, :k]
    other = b.float() * b_scale.repeat_interleave(GROUP, 0)[: len(b)].repeat_interleave(GROUP, 1)[:, :k]
    return (wide @ other.T).bfloat16()


def cases(small=False):
    """(label, kernel, reference, inputs, length of the sums)."""
    import torch

    for m, n, k in [(70, 130, 200)] if small else [(512, 512, 1024), (1024, 1024, 1024)]:
        a, b = (torch.randn(shape).to(torch.float8_e4m3fn) for shape in ((m, k), (n, k)))
        groups = -(-k // GROUP)
        a_scale, b_scale = torch.rand(m, groups), torch.rand(-(-n // GROUP), groups)
        yield f"{m}×{n}×{k}", fp8_matmul(m, n, k), reference, (a, b, a_scale, b_scale), k


if __name__ == "__main__":
    from _run import run

    run("gemm fp8", cases)
