"""Matrix product of a long K: several blocks share one tile of C, each sums a part of K and adds it atomically.

Two launches in one function: the first clears C, so that the host makes one call.
"""

from functools import cache

import tile_core as tile
import tile_core.language as T


@tile.jit(out_idx=[-1])
def splitk_kernel(M, N, K, split, block_M=64, block_N=64, block_K=64, stages=3, dtype="float16"):
    """A kernel C = A @ B, with C in fp32; every one of `split` blocks of a tile takes a share of K."""
    steps = T.ceildiv(T.ceildiv(K, block_K), split)

    @T.prim_func
    def splitk(A: T.Tensor((M, K), dtype), B: T.Tensor((K, N), dtype), C: T.Tensor((M, N), "float32")):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=128) as (bx, by):
            for i, j in T.Parallel(block_M, block_N):
                C[by * block_M + i, bx * block_N + j] = 0.0
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), split, threads=128) as (bx, by, bz):
            A_shared = T.alloc_shared((block_M, block_K), dtype)
            B_shared = T.alloc_shared((block_K, block_N), dtype)
            acc = T.alloc_fragment((block_M, block_N), "float32")
            T.clear(acc)
            for step in T.Pipelined(steps, num_stages=stages):
                k = (bz * steps + step) * block_K
                T.copy(A[by * block_M, k], A_shared)
                T.copy(B[k, bx * block_N], B_shared)
                T.gemm(A_shared, B_shared, acc)
            T.atomic_add(C[by * block_M, bx * block_N], acc)

    return splitk


def matmul(a, b, split=None):
    """a @ b in fp32; unless `split` is given, two blocks a processor share the tiles."""
    (m, k), n = a.shape, b.shape[1]
    if split is None:
        tiles = -(-m // 64) * -(-n // 64)
        split = max(1, min(2 * processors(a.device) // tiles, k // 256))
    return splitk_kernel(m, n, k, split)(a, b)


@cache
def processors(device):
    """The multiprocessors of a GPU, asked once; a CPU needs no more blocks than it has tiles anyway, or two."""
    import torch

    return torch.cuda.get_device_properties(device).multi_processor_count if device.type == "cuda" else 2


def reference(a, b):
    """The same in torch; it rounds once more, to fp16."""
    return a @ b


def cases(small=False):
    """(label, kernel, reference, inputs, length of the sums)."""
    import torch

    for m, n, k in [(70, 50, 200)] if small else [(64, 64, 16384), (256, 512, 8192)]:
        a, b = (torch.randn(shape, dtype=torch.float16) for shape in ((m, k), (k, n)))
        yield f"{m}×{n}×{k}", matmul, reference, (a, b), k


if __name__ == "__main__":
    from _run import run

    run("gemm split-K", cases)
