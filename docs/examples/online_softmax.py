"""Softmax of rows too long for registers: one pass finds the maximum and the sum, a second one writes.

A block takes a row, a tile of `depth` × `lanes` columns after the other. Each lane keeps a maximum and a sum of its
own, rescaled whenever a tile raises its maximum, so that the threads have nothing to tell each other before the row's
end.
"""

import tile_core as tile
import tile_core.language as T


@tile.jit(out_idx=[-1])
def online_softmax(M, N, threads=512, depth=2, dtype="float16"):
    """A kernel Y = softmax(X, dim=1) for X [M, N], computed in fp32."""
    log2e = 1.4426950408889634
    lanes = threads * 8
    block_N = depth * lanes

    @T.prim_func
    def softmax(X: T.Tensor((M, N), dtype), Y: T.Tensor((M, N), dtype)):
        with T.Kernel(M, threads=threads) as row:
            x = T.alloc_fragment((depth, lanes), "float32")
            part = T.alloc_fragment((lanes,), "float32")
            top = T.alloc_fragment((lanes,), "float32")
            before = T.alloc_fragment((lanes,), "float32")
            total = T.alloc_fragment((lanes,), "float32")
            row_top = T.alloc_fragment((1,), "float32")
            row_total = T.alloc_fragment((1,), "float32")
            T.clear(total)
            # Finite, as lanes beyond the end of a short row never see anything but -inf.
            T.fill(top, T.min_value("float32"))
            for k in T.serial(T.ceildiv(N, block_N)):
                for i, j in T.Parallel(depth, lanes):
                    column = k * block_N + i * lanes + j
                    value = T.cast(X[row, column], "float32") * log2e
                    x[i, j] = T.if_then_else(column < N, value, -T.infinity("float32"))
                T.copy(top, before)
                T.reduce_max(x, top, dim=0, clear=False)
                for i, j in T.Parallel(depth, lanes):
                    x[i, j] = T.exp2(x[i, j] - top[j])
                T.reduce_sum(x, part, dim=0)
                for j in T.Parallel(lanes):
                    total[j] = total[j] * T.exp2(before[j] - top[j]) + part[j]
            T.reduce_max(top, row_top, dim=0)
            for j in T.Parallel(lanes):
                total[j] = total[j] * T.exp2(top[j] - row_top[0])
            T.reduce_sum(total, row_total, dim=0)
            for i in T.Parallel(1):
                row_total[i] = 1.0 / row_total[i]
            for k in T.serial(T.ceildiv(N, block_N)):
                for i, j in T.Parallel(depth, lanes):
                    column = k * block_N + i * lanes + j
                    value = T.cast(X[row, column], "float32") * log2e
                    Y[row, column] = T.exp2(value - row_top[0]) * row_total[0]

    return softmax


def reference(x):
    """The same in torch."""
    return x.softmax(-1)


def cases(small=False):
    """(label, kernel, reference, inputs, length of the sums)."""
    import torch

    # Few rows leave a GPU idle unless each has many threads; a CPU wants a tile that its nearest cache holds.
    on_gpu = torch.get_default_device().type == "cuda"
    for m, n, threads in [(5, 700, 128)] if small else [(1024, 32000, 512), (128, 100_000, 1024)]:
        kernel = online_softmax(m, n, threads if on_gpu or small else 128)
        yield f"{m}×{n}", kernel, reference, (torch.randn(m, n, dtype=torch.float16) * 4,), 1


if __name__ == "__main__":
    from _run import run

    run("online softmax", cases)
