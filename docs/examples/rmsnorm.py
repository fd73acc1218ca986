"""RMS normalisation with a weight, in eager style: sizes come from the tensors, the output is allocated and
returned."""

import tile_core as tile
import tile_core.language as T


@tile.jit
def rmsnorm(X, W, eps: float = 1e-6, block_M: int = 4):
    """Y[i, j] = X[i, j] / sqrt(mean(X[i, :]²) + eps) · W[j] for X [M, N] and W [N], both float32."""
    M, N = T.const("M, N")
    X: T.Tensor[[M, N], T.float32]
    W: T.Tensor[[N], T.float32]
    Y = T.empty((M, N), T.float32)

    with T.Kernel(T.ceildiv(M, block_M), threads=128) as bx:
        x = T.alloc_fragment((block_M, N), T.float32)
        square = T.alloc_fragment((block_M, N), T.float32)
        total = T.alloc_fragment((block_M,), T.float32)
        T.copy(X[bx * block_M, 0], x)
        for i, j in T.Parallel(block_M, N):
            square[i, j] = x[i, j] * x[i, j]
        T.reduce_sum(square, total, dim=1)
        for i in T.Parallel(block_M):
            total[i] = T.rsqrt(total[i] / N + eps)
        for i, j in T.Parallel(block_M, N):
            x[i, j] = x[i, j] * total[i] * W[j]
        T.copy(x, Y[bx * block_M, 0])

    return Y


def reference(x, w):
    """The same in torch."""
    import torch

    return torch.nn.functional.rms_norm(x, (x.shape[1],), w, eps=1e-6)


def cases():
    """(label, kernel, reference, inputs, length of the sums) of what the demo shows."""
    import torch

    for m, n in ((4096, 1024), (1023, 4096), (333, 777)):
        yield f"{m}×{n}", rmsnorm, reference, (torch.randn(m, n), torch.randn(n)), n


if __name__ == "__main__":
    from _run import run

    run("rmsnorm", cases())
