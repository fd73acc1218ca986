"""Matrix product of a 2:4 sparse A: of each four neighbours along K two are kept, and four bits say which."""

import tile_core as tile
import tile_core.language as T


@tile.jit(out_idx=[-1])
def sparse_matmul(M, N, K, block_M=128, block_N=128, block_K=64, stages=3, dtype="float16"):
    """A kernel C = A @ B for B [K, N] and what A [M, K] keeps; an int16 holds the places for 16 elements of K."""

    @T.prim_func
    def sparse_gemm(
        A_sparse: T.Tensor((M, K // 2), dtype),
        E: T.Tensor((M, K // 16), "int16"),
        B: T.Tensor((K, N), dtype),
        C: T.Tensor((M, N), dtype),
    ):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=128) as (bx, by):
            A_shared = T.alloc_shared((block_M, block_K // 2), dtype)
            E_shared = T.alloc_shared((block_M, block_K // 16), "int16")
            B_shared = T.alloc_shared((block_K, block_N), dtype)
            C_local = T.alloc_fragment((block_M, block_N), "float32")
            T.clear(C_local)
            for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=stages):
                T.copy(A_sparse[by * block_M, k * block_K // 2], A_shared)
                T.copy(E[by * block_M, k * block_K // 16], E_shared)
                T.copy(B[k * block_K, bx * block_N], B_shared)
                T.gemm_sp(A_shared, E_shared, B_shared, C_local)
            T.copy(C_local, C[by * block_M, bx * block_N])

    return sparse_gemm


def reference(held):
    """torch's product with an A that it holds dense, or in a form of its own."""
    return lambda a_sparse, e, b: held @ b


def cases(small=False):
    """(label, kernel, reference, inputs, length of the sums); on a GPU also beside torch's own sparse product, where
    that runs."""
    import torch

    from tile_runtime.sparse import compress, randn_semi_sparse

    cuda = torch.get_default_device().type == "cuda"
    large = [(2048, 2048, 2048), (4096, 4096, 4096)] if cuda else [(512, 512, 512), (1024, 1024, 1024)]
    for m, n, k in [(130, 70, 144)] if small else large:
        a, b = randn_semi_sparse(m, k), torch.randn(k, n, dtype=torch.float16)
        kernel, inputs = sparse_matmul(m, n, k), (*compress(a), b)
        yield f"{m}×{n}×{k}", kernel, reference(a), inputs, k
        if cuda and not small:
            try:
                theirs = torch.sparse.to_sparse_semi_structured(a)
                torch.mm(theirs, b)
            except (RuntimeError, NotImplementedError):
                continue  # a device or build for which torch has none
            yield f"{m}×{n}×{k}, torch sparse too", kernel, reference(theirs), inputs, k


if __name__ == "__main__":
    from _run import run

    run("gemm sparse", cases)
