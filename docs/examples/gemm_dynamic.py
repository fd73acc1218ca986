"""Matrix product of sizes that are known only at the call: one kernel for all of them."""

import tile_core as tile
import tile_core.language as T


@tile.jit(out_idx=[-1])
def dynamic_matmul(block_M=64, block_N=64, block_K=64, stages=3, dtype="float16"):
    """A kernel C = A @ B for A [m, k] and B [k, n], whatever m, n and k are."""
    m, n, k = T.dynamic("m, n, k")

    @T.prim_func
    def dynamic_gemm(A: T.Tensor((m, k), dtype), B: T.Tensor((k, n), dtype), C: T.Tensor((m, n), dtype)):
        with T.Kernel(T.ceildiv(n, block_N), T.ceildiv(m, block_M), threads=128) as (bx, by):
            A_shared = T.alloc_shared((block_M, block_K), dtype)
            B_shared = T.alloc_shared((block_K, block_N), dtype)
            acc = T.alloc_fragment((block_M, block_N), "float32")
            T.clear(acc)
            for step in T.Pipelined(T.ceildiv(k, block_K), num_stages=stages):
                T.copy(A[by * block_M, step * block_K], A_shared)
                T.copy(B[step * block_K, bx * block_N], B_shared)
                T.gemm(A_shared, B_shared, acc)
            T.copy(acc, C[by * block_M, bx * block_N])

    return dynamic_gemm


def reference(a, b):
    """The same in torch."""
    return a @ b


def cases(small=False):
    """(label, kernel, reference, inputs, length of the sums); the kernel is the same in all of them."""
    import torch

    kernel = dynamic_matmul()
    for m, n, k in [(70, 33, 40), (1, 100, 7)] if small else [(1024, 1024, 1024), (1000, 777, 333), (1, 4096, 1024)]:
        a, b = (torch.randn(shape, dtype=torch.float16) for shape in ((m, k), (k, n)))
        yield f"{m}×{n}×{k}", kernel, reference, (a, b), k


if __name__ == "__main__":
    from _run import run

    run("gemm dynamic", cases)
