"""Matrix product with a shared-memory pipeline, in lazy style: a factory whose result is compiled for given sizes.

Runs on any backend: ``python docs/examples/gemm.py`` takes the machine's best one.
"""

import tile_core as tile
import tile_core.language as T


@tile.jit(out_idx=[-1])
def matmul(M, N, K, block_M=128, block_N=128, block_K=32, dtype="float32", accum_dtype="float32"):
    """A kernel C = A @ B for A [M, K] and B [K, N]; sizes need not be multiples of the blocks."""

    @T.prim_func
    def gemm(A: T.Tensor((M, K), dtype), B: T.Tensor((K, N), dtype), C: T.Tensor((M, N), dtype)):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=128) as (bx, by):
            A_shared = T.alloc_shared((block_M, block_K), dtype)
            B_shared = T.alloc_shared((block_K, block_N), dtype)
            C_local = T.alloc_fragment((block_M, block_N), accum_dtype)
            T.clear(C_local)
            for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=4):
                T.copy(A[by * block_M, k * block_K], A_shared)
                T.copy(B[k * block_K, bx * block_N], B_shared)
                T.gemm(A_shared, B_shared, C_local)
            T.copy(C_local, C[by * block_M, bx * block_N])

    return gemm


def reference(a, b):
    """The same in torch."""
    return a @ b


def cases(small=False):
    """(label, kernel, reference, inputs, length of the sums) of what the demo shows: fp16 on a GPU, else fp32."""
    import torch

    dtype = "float16" if small or torch.get_default_device().type == "cuda" else "float32"
    for m, n, k in [(130, 70, 40)] if small else [(1000, 1111, 777), (1024, 1024, 1024), (2048, 2048, 2048)]:
        a, b = (torch.randn(shape, dtype=getattr(torch, dtype)) for shape in ((m, k), (k, n)))
        yield f"{m}×{n}×{k} {dtype}", matmul(m, n, k, dtype=dtype), reference, (a, b), k


if __name__ == "__main__":
    from _run import run

    run("gemm", cases)
