"""Matrix product by Stream-K: as many blocks as the machine runs at once share all steps of all tiles evenly.

A block works off a run of consecutive steps, which may begin in the middle of one tile and end in that of another; it
adds its part of a tile to C atomically. No block waits for another one.
"""

from functools import cache

import tile_core as tile
import tile_core.language as T


@tile.jit(out_idx=[-1])
def streamk_kernel(M, N, K, workers, block_M=64, block_N=64, block_K=64, stages=3, dtype="float16"):
    """A kernel C = A @ B, with C in fp32, on `workers` blocks; another launch clears C before."""
    columns = T.ceildiv(N, block_N)
    steps = T.ceildiv(K, block_K)
    total = T.ceildiv(M, block_M) * columns * steps
    share = T.ceildiv(total, workers)

    @T.prim_func
    def streamk(A: T.Tensor((M, K), dtype), B: T.Tensor((K, N), dtype), C: T.Tensor((M, N), "float32")):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=128) as (bx, by):
            for i, j in T.Parallel(block_M, block_N):
                C[by * block_M + i, bx * block_N + j] = 0.0
        with T.Kernel(workers, threads=128) as bx:
            A_shared = T.alloc_shared((block_M, block_K), dtype)
            B_shared = T.alloc_shared((block_K, block_N), dtype)
            acc = T.alloc_fragment((block_M, block_N), "float32")
            begin = T.alloc_var("int32", init=bx * share)
            end = T.min((bx + 1) * share, total)
            while begin < end:
                tile_index = begin // steps
                first = begin % steps
                count = T.min(steps - first, end - begin)
                row = tile_index // columns * block_M
                column = tile_index % columns * block_N
                T.clear(acc)
                for step in T.Pipelined(count, num_stages=stages):
                    k = (first + step) * block_K
                    T.copy(A[row, k], A_shared)
                    T.copy(B[k, column], B_shared)
                    T.gemm(A_shared, B_shared, acc)
                T.atomic_add(C[row, column], acc)
                begin += count

    return streamk


def matmul(a, b, workers=None):
    """a @ b in fp32."""
    (m, k), n = a.shape, b.shape[1]
    return streamk_kernel(m, n, k, workers or most_workers(a.device))(a, b)


@cache
def most_workers(device):
    """Blocks that run at once: two of 128 threads a multiprocessor, of which one multiplies while the other waits."""
    import torch

    return 2 * torch.cuda.get_device_properties(device).multi_processor_count if device.type == "cuda" else 5


def reference(a, b):
    """The same in torch; it rounds once more, to fp16."""
    return a @ b


def cases(small=False):
    """(label, kernel, reference, inputs, length of the sums)."""
    import torch

    for m, n, k in [(130, 70, 100)] if small else [(640, 640, 2048), (1024, 1024, 1024)]:
        a, b = (torch.randn(shape, dtype=torch.float16) for shape in ((m, k), (k, n)))
        yield f"{m}×{n}×{k}", matmul, reference, (a, b), k


if __name__ == "__main__":
    from _run import run

    run("gemm stream-K", cases)
