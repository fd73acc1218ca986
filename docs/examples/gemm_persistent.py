"""Matrix product on a fixed number of blocks: each takes one tile after the other, in an order that keeps what
neighbours read in cache."""

import tile_core as tile
import tile_core.language as T


@tile.jit(out_idx=[-1])
def persistent_matmul(M, N, K, workers, block_M=64, block_N=64, block_K=32, stages=3, dtype="float16"):
    """A kernel C = A @ B for A [M, K] and B [K, N] on `workers` blocks."""

    @T.prim_func
    def persistent(A: T.Tensor((M, K), dtype), B: T.Tensor((K, N), dtype), C: T.Tensor((M, N), dtype)):
        with T.Kernel(workers, threads=128) as worker:
            A_shared = T.alloc_shared((block_M, block_K), dtype)
            B_shared = T.alloc_shared((block_K, block_N), dtype)
            acc = T.alloc_fragment((block_M, block_N), "float32")
            for by, bx in T.Persistent((T.ceildiv(M, block_M), T.ceildiv(N, block_N)), workers, worker):
                T.clear(acc)
                for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=stages):
                    T.copy(A[by * block_M, k * block_K], A_shared)
                    T.copy(B[k * block_K, bx * block_N], B_shared)
                    T.gemm(A_shared, B_shared, acc)
                T.copy(acc, C[by * block_M, bx * block_N])

    return persistent


def reference(a, b):
    """The same in torch."""
    return a @ b


def cases(small=False):
    """(label, kernel, reference, inputs, length of the sums)."""
    import torch

    on_gpu = torch.get_default_device().type == "cuda"
    workers = torch.cuda.get_device_properties(0).multi_processor_count if on_gpu else torch.get_num_threads()
    workers = 3 if small else workers  # tiles that do not divide evenly
    for m, n, k in [(150, 130, 40)] if small else [(1024, 1024, 1024), (2048, 1024, 512)]:
        a, b = (torch.randn(shape, dtype=torch.float16) for shape in ((m, k), (k, n)))
        yield f"{m}×{n}×{k}", persistent_matmul(m, n, k, workers), reference, (a, b), k


if __name__ == "__main__":
    from _run import run

    run("gemm persistent", cases)
