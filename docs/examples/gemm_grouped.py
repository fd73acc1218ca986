"""Grouped matrix product: rows of A belong to groups, each with a B of its own, as tokens belong to experts.

The rows of a group lie together. How many there are is known only at the call: a list of tiles,
made on the host, tells a block its group and its first row.
"""

import tile_core as tile
import tile_core.language as T


@tile.jit(out_idx=[-1])
def grouped_matmul(groups, N, K, block_M=64, block_N=64, block_K=32, stages=2, dtype="float16"):
    """A kernel C[r] = A[r] @ B[group of r] for A [rows, K], B [groups, K, N]; offsets [groups + 1] says where groups
    begin, owners [tiles, 2] holds the group and the first row of every tile of rows."""
    rows, tiles = T.dynamic("rows, tiles")

    @T.prim_func
    def grouped(
        A: T.Tensor((rows, K), dtype),
        B: T.Tensor((groups, K, N), dtype),
        offsets: T.Tensor((groups + 1,), "int32"),
        owners: T.Tensor((tiles, 2), "int32"),
        C: T.Tensor((rows, N), dtype),
    ):
        with T.Kernel(T.ceildiv(N, block_N), tiles, threads=128) as (bx, by):
            A_shared = T.alloc_shared((block_M, block_K), dtype)
            B_shared = T.alloc_shared((block_K, block_N), dtype)
            acc = T.alloc_fragment((block_M, block_N), "float32")
            group = owners[by, 0]
            first = owners[by, 1]
            end = offsets[group + 1]
            T.clear(acc)
            for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=stages):
                T.copy(A[first : first + block_M, k * block_K : (k + 1) * block_K], A_shared)
                T.copy(B[group, k * block_K : (k + 1) * block_K, bx * block_N : (bx + 1) * block_N], B_shared)
                T.gemm(A_shared, B_shared, acc)
            for i, j in T.Parallel(block_M, block_N):
                if (first + i < end) & (bx * block_N + j < N):
                    C[first + i, bx * block_N + j] = acc[i, j]

    return grouped


def matmul(a, b, sizes, block_M=64):
    """Products of groups of rows: sizes[g] rows of a with b[g]."""
    import torch

    kernel = grouped_matmul(b.shape[0], b.shape[2], b.shape[1], block_M=block_M)
    offsets = torch.zeros(len(sizes) + 1, dtype=torch.int32)
    offsets[1:] = torch.tensor(sizes).cumsum(0)
    begins = offsets.tolist()
    owners = [(g, first) for g in range(len(sizes)) for first in range(begins[g], begins[g + 1], block_M)]
    return kernel(a, b, offsets.to(a.device), torch.tensor(owners, dtype=torch.int32, device=a.device))


def reference(a, b, sizes):
    """The same in torch: a product for each group."""
    import torch

    return torch.cat([part @ b[g] for g, part in enumerate(a.split(list(sizes)))])


def cases(small=False):
    """(label, kernel, reference, inputs, length of the sums)."""
    import torch

    shapes = [((70, 1, 33), 50, 40)] if small else [((512, 100, 1000, 436), 512, 512), ((64,) * 16, 256, 256)]
    for sizes, n, k in shapes:
        a = torch.randn(sum(sizes), k, dtype=torch.float16)
        b = torch.randn(len(sizes), k, n, dtype=torch.float16)
        yield f"{len(sizes)} groups {sum(sizes)}×{n}×{k}", matmul, reference, (a, b, sizes), k


if __name__ == "__main__":
    from _run import run

    run("gemm grouped", cases)
