"""Matrix product of fp16 activations and 4-bit weights: a byte holds two weights, a group of rows shares a scale.

Weights are unpacked and scaled on their way from shared memory into the operand of the product.
"""

import tile_core as tile
import tile_core.language as T


@tile.jit(out_idx=[-1])
def dequant_matmul(M, N, K, group=64, block_M=64, block_N=64, block_K=32, stages=2, dtype="float16"):
    """A kernel C = A @ ((Q - 8) · S) for A [M, K], packed Q [K / 2, N] (row 2k in the low half of a byte) and
    scales S [K / group, N]."""

    @T.prim_func
    def w4a16(
        A: T.Tensor((M, K), dtype),
        Q: T.Tensor((K // 2, N), "uint8"),
        S: T.Tensor((K // group, N), dtype),
        C: T.Tensor((M, N), dtype),
    ):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=128) as (bx, by):
            A_shared = T.alloc_shared((block_M, block_K), dtype)
            Q_shared = T.alloc_shared((block_K // 2, block_N), "uint8")
            B_shared = T.alloc_shared((block_K, block_N), dtype)
            acc = T.alloc_fragment((block_M, block_N), "float32")
            T.clear(acc)
            for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=stages):
                T.copy(A[by * block_M, k * block_K], A_shared)
                T.copy(Q[k * block_K // 2, bx * block_N], Q_shared)
                for i, j in T.Parallel(block_K, block_N):
                    nibble = (Q_shared[i // 2, j] >> T.cast((i % 2) * 4, "uint8")) & T.uint8(15)
                    scale = S[(k * block_K + i) // group, bx * block_N + j]
                    B_shared[i, j] = (T.cast(nibble, dtype) - T.cast(8.0, dtype)) * scale
                T.gemm(A_shared, B_shared, acc)
            T.copy(acc, C[by * block_M, bx * block_N])

    return w4a16


def dequantised(q, scales):
    """The weights [K, N] behind packed ones."""
    import torch

    weights = torch.stack((q & 15, q >> 4), 1).flatten(0, 1)
    return (weights.to(scales.dtype) - 8) * scales.repeat_interleave(len(weights) // len(scales), 0)


def reference(a, q, scales):
    """The same in torch."""
    return a @ dequantised(q, scales)


def cases(small=False):
    """(label, kernel, reference, inputs, length of the sums)."""
    import torch

    for m, n, k in [(70, 50, 128)] if small else [(16, 1024, 1024), (512, 1024, 1024)]:
        a = torch.randn(m, k, dtype=torch.float16)
        q = torch.randint(0, 256, (k // 2, n), dtype=torch.uint8)
        scales = torch.rand(k // 64, n).half() / 4
        yield f"{m}×{n}×{k}", dequant_matmul(m, n, k), reference, (a, q, scales), k


if __name__ == "__main__":
    from _run import run

    run("gemm w4a16", cases)
