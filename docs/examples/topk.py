"""The k largest of each row with their places, as a router of experts needs them: take the maximum k times.

The first place that holds the maximum is the smallest index among those that do.
"""

import tile_core as tile
import tile_core.language as T


@tile.jit(out_idx=[1, 2])
def topk_kernel(M, N, k, block_M=16, dtype="float32"):
    """A kernel for the k largest values [M, k] and their int32 places [M, k] in rows of X [M, N]."""

    @T.prim_func
    def topk(
        X: T.Tensor((M, N), dtype),
        Values: T.Tensor((M, k), dtype),
        Places: T.Tensor((M, k), "int32"),
    ):
        with T.Kernel(T.ceildiv(M, block_M), threads=128) as bx:
            x = T.alloc_fragment((block_M, N), dtype)
            candidate = T.alloc_fragment((block_M, N), "int32")
            top = T.alloc_fragment((block_M,), dtype)
            place = T.alloc_fragment((block_M,), "int32")
            T.copy(X[bx * block_M, 0], x)
            for step in T.serial(k):
                T.reduce_max(x, top, dim=1)
                for i, j in T.Parallel(block_M, N):
                    candidate[i, j] = T.if_then_else(x[i, j] == top[i], j, N)
                T.reduce_min(candidate, place, dim=1)
                for i, j in T.Parallel(block_M, N):
                    x[i, j] = T.if_then_else(j == place[i], -T.infinity(dtype), x[i, j])
                for i in T.Parallel(block_M):
                    Values[bx * block_M + i, step] = top[i]
                    Places[bx * block_M + i, step] = place[i]

    return topk


def reference(k):
    """The same in torch, as a function of x."""

    def run(x):
        values, places = x.topk(k, dim=-1)
        return values, places.int()

    return run


def cases(small=False):
    """(label, kernel, reference, inputs, length of the sums)."""
    import torch

    for m, n, k in [(19, 37, 3)] if small else [(4096, 64, 6), (8192, 256, 8)]:
        # Values all differ, so that places are the same whoever searches.
        x = torch.rand(m, n).argsort(-1).float() - n / 2
        yield f"{m}×{n} top {k}", topk_kernel(m, n, k), reference(k), (x,), 1


if __name__ == "__main__":
    from _run import run

    run("topk", cases)
