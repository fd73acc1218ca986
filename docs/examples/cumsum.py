"""Running sums of rows of any length: blocks of a row are scanned one after the other, the sum so far is carried on."""

import tile_core as tile
import tile_core.language as T


@tile.jit(out_idx=[-1])
def cumsum_kernel(M, N, block_M=4, block_N=256, dtype="float32"):
    """A kernel Y[i, j] = Σ X[i, 0..j] for X [M, N]."""

    @T.prim_func
    def cumsum(X: T.Tensor((M, N), dtype), Y: T.Tensor((M, N), dtype)):
        with T.Kernel(T.ceildiv(M, block_M), threads=128) as bx:
            x = T.alloc_shared((block_M, block_N), dtype)
            sums = T.alloc_fragment((block_M, block_N), dtype)
            part = T.alloc_fragment((block_M,), dtype)
            before = T.alloc_fragment((block_M,), dtype)
            T.clear(before)
            for k in T.serial(T.ceildiv(N, block_N)):
                T.copy(X[bx * block_M, k * block_N], x)
                T.copy(x, sums)
                T.reduce_sum(sums, part, dim=1)
                T.cumsum(x, dim=1)
                for i, j in T.Parallel(block_M, block_N):
                    Y[bx * block_M + i, k * block_N + j] = x[i, j] + before[i]
                for i in T.Parallel(block_M):
                    before[i] += part[i]

    return cumsum


def reference(x):
    """The same in torch."""
    return x.cumsum(-1)


def cases(small=False):
    """(label, kernel, reference, inputs, length of the sums)."""
    import torch

    for m, n in [(5, 600)] if small else [(1024, 4096), (333, 10_000)]:
        yield f"{m}×{n}", cumsum_kernel(m, n), reference, (torch.randn(m, n),), n


if __name__ == "__main__":
    from _run import run

    run("cumsum", cases)
