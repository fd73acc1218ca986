"""Hadamard transform of rows: log2(n) butterfly steps over a row in shared memory, two buffers in turn."""

import math

import tile_core as tile
import tile_core.language as T


@tile.jit(out_idx=[-1])
def hadamard_kernel(M, N, block_M=4, dtype="float32"):
    """A kernel Y = X @ H / sqrt(N) for X [M, N] and the Hadamard matrix H of order N, a power of two."""
    steps = N.bit_length() - 1
    assert N == 1 << steps, "the order of a Hadamard matrix of this kind is a power of two"
    scale = 1.0 / math.sqrt(N)

    @T.prim_func
    def hadamard(X: T.Tensor((M, N), dtype), Y: T.Tensor((M, N), dtype)):
        with T.Kernel(T.ceildiv(M, block_M), threads=128) as bx:
            a = T.alloc_shared((block_M, N), "float32")
            b = T.alloc_shared((block_M, N), "float32")
            T.copy(X[bx * block_M, 0], a)
            for step in list(range(steps)):
                source, target = (a, b) if step % 2 == 0 else (b, a)
                for i, j in T.Parallel(block_M, N):
                    other = source[i, j ^ (1 << step)]
                    target[i, j] = T.if_then_else((j >> step) % 2 == 0, source[i, j] + other, other - source[i, j])
            result = a if steps % 2 == 0 else b
            for i, j in T.Parallel(block_M, N):
                Y[bx * block_M + i, j] = result[i, j] * scale

    return hadamard


def reference(x):
    """The same in torch: a product with the matrix."""
    import torch

    n = x.shape[-1]
    h = torch.ones(1, 1, device=x.device, dtype=x.dtype)
    while h.shape[0] < n:
        h = torch.cat((torch.cat((h, h), 1), torch.cat((h, -h), 1)), 0)
    return x @ h / math.sqrt(n)


def cases(small=False):
    """(label, kernel, reference, inputs, length of the sums)."""
    import torch

    for m, n in [(7, 64), (3, 128)] if small else [(4096, 128), (4096, 1024)]:
        yield f"{m}×{n}", hadamard_kernel(m, n), reference, (torch.randn(m, n),), n


if __name__ == "__main__":
    from _run import run

    run("hadamard", cases)
