"""Softmax over the last axis, in lazy style: whole rows in registers, two reductions, one pass over memory."""

import tile_core as tile
import tile_core.language as T


@tile.jit(out_idx=[-1])
def softmax(M, N, block_M=4, dtype="float32"):
    """A kernel Y[i, :] = exp(X[i, :] - max) / sum for X [M, N]."""

    @T.prim_func
    def rows(X: T.Tensor((M, N), dtype), Y: T.Tensor((M, N), dtype)):
        with T.Kernel(T.ceildiv(M, block_M), threads=128) as bx:
            x = T.alloc_fragment((block_M, N), "float32")
            top = T.alloc_fragment((block_M,), "float32")
            total = T.alloc_fragment((block_M,), "float32")
            T.copy(X[bx * block_M, 0], x)
            T.reduce_max(x, top, dim=1)
            for i, j in T.Parallel(block_M, N):
                x[i, j] = T.exp(x[i, j] - top[i])
            T.reduce_sum(x, total, dim=1)
            for i, j in T.Parallel(block_M, N):
                x[i, j] = x[i, j] / total[i]
            T.copy(x, Y[bx * block_M, 0])

    return rows


def reference(x):
    """The same in torch."""
    import torch

    return torch.softmax(x, dim=-1)


def cases(small=False):
    """(label, kernel, reference, inputs, length of the sums) of what the demo shows."""
    import torch

    # A GPU has threads enough for a block a row; a CPU's thread would rather begin fewer blocks.
    rows = 1 if torch.get_default_device().type == "cuda" and not small else 4
    for m, n in [(9, 100)] if small else [(4096, 1024), (1023, 4096), (333, 777)]:
        yield f"{m}×{n}", softmax(m, n, rows), reference, (torch.randn(m, n),), n


if __name__ == "__main__":
    from _run import run

    run("softmax", cases)
