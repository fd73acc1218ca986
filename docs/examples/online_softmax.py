"""Softmax of rows too long for registers: one pass finds the maximum and the sum, a second one writes.

The running sum is rescaled whenever a block raises the running maximum.
"""

import tile_core as tile
import tile_core.language as T


@tile.jit(out_idx=[-1])
def online_softmax(M, N, block_M=4, block_N=256, dtype="float16"):
    """A kernel Y = softmax(X, dim=1) for X [M, N], computed in fp32."""
    log2e = 1.4426950408889634

    @T.prim_func
    def softmax(X: T.Tensor((M, N), dtype), Y: T.Tensor((M, N), dtype)):
        with T.Kernel(T.ceildiv(M, block_M), threads=128) as bx:
            x = T.alloc_fragment((block_M, block_N), "float32")
            part = T.alloc_fragment((block_M,), "float32")
            top = T.alloc_fragment((block_M,), "float32")
            before = T.alloc_fragment((block_M,), "float32")
            total = T.alloc_fragment((block_M,), "float32")
            T.clear(total)
            T.fill(top, -T.infinity("float32"))
            for k in T.serial(T.ceildiv(N, block_N)):
                for i, j in T.Parallel(block_M, block_N):
                    column = k * block_N + j
                    value = T.cast(X[bx * block_M + i, column], "float32") * log2e
                    x[i, j] = T.if_then_else(column < N, value, -T.infinity("float32"))
                T.copy(top, before)
                T.reduce_max(x, top, dim=1, clear=False)
                for i, j in T.Parallel(block_M, block_N):
                    x[i, j] = T.exp2(x[i, j] - top[i])
                T.reduce_sum(x, part, dim=1)
                for i in T.Parallel(block_M):
                    total[i] = total[i] * T.exp2(before[i] - top[i]) + part[i]
            for k in T.serial(T.ceildiv(N, block_N)):
                for i, j in T.Parallel(block_M, block_N):
                    value = T.cast(X[bx * block_M + i, k * block_N + j], "float32") * log2e
                    Y[bx * block_M + i, k * block_N + j] = T.exp2(value - top[i]) / total[i]

    return softmax


def reference(x):
    """The same in torch."""
    return x.softmax(-1)


def cases(small=False):
    """(label, kernel, reference, inputs, length of the sums)."""
    import torch

    for m, n in [(5, 700)] if small else [(1024, 32000), (128, 100_000)]:
        yield f"{m}×{n}", online_softmax(m, n), reference, (torch.randn(m, n, dtype=torch.float16) * 4,), 1


if __name__ == "__main__":
    from _run import run

    run("online softmax", cases)
