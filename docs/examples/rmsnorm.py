"""RMS normalisation with a weight: forward in eager style, where sizes come from the tensors and the output is
allocated and returned; backward in lazy style."""

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


@tile.jit
def rmsnorm_backward_kernel(M, N, rows, eps=1e-6):
    """A kernel for dX [M, N] and, added to what it holds, dW [N]; a block takes `rows` rows."""

    @T.prim_func
    def rmsnorm_backward(
        X: T.Tensor((M, N), "float32"),
        W: T.Tensor((N,), "float32"),
        dY: T.Tensor((M, N), "float32"),
        dX: T.Tensor((M, N), "float32"),
        dW: T.Tensor((N,), "float32"),
    ):
        with T.Kernel(T.ceildiv(M, rows), threads=128) as bx:
            x = T.alloc_fragment((1, N), "float32")
            square = T.alloc_fragment((1, N), "float32")
            product = T.alloc_fragment((1, N), "float32")
            weight_sum = T.alloc_fragment((1, N), "float32")
            rstd = T.alloc_fragment((1,), "float32")
            mean = T.alloc_fragment((1,), "float32")
            T.clear(weight_sum)
            for r in T.serial(rows):
                row = bx * rows + r
                if row < M:
                    for i, j in T.Parallel(1, N):
                        x[i, j] = X[row, j]
                        square[i, j] = x[i, j] * x[i, j]
                        product[i, j] = x[i, j] * dY[row, j] * W[j]
                    T.reduce_sum(square, rstd, dim=1)
                    T.reduce_sum(product, mean, dim=1)
                    for i in T.Parallel(1):
                        rstd[i] = T.rsqrt(rstd[i] / N + eps)
                        mean[i] = mean[i] / N
                    for i, j in T.Parallel(1, N):
                        weight_sum[i, j] += dY[row, j] * x[i, j] * rstd[i]
                        dX[row, j] = (dY[row, j] * W[j] - x[i, j] * rstd[i] * rstd[i] * mean[i]) * rstd[i]
            T.atomic_add(dW, weight_sum[0, :])

    return rmsnorm_backward


def backward(x, w, dy, rows=8):
    """Gradients of x and w."""
    import torch

    dx, dw = torch.empty_like(x), torch.zeros_like(w)
    rmsnorm_backward_kernel(*x.shape, rows)(x, w, dy, dx, dw)
    return dx, dw


def backward_reference(x, w, dy):
    """The same in torch."""
    import torch

    leaves = [t.detach().requires_grad_() for t in (x, w)]
    return torch.autograd.grad(reference(*leaves), leaves, dy)


def reference(x, w):
    """The same in torch."""
    import torch

    return torch.nn.functional.rms_norm(x, (x.shape[1],), w, eps=1e-6)


def cases(small=False):
    """(label, kernel, reference, inputs, length of the sums) of what the demo shows."""
    import torch

    for m, n in [(9, 100)] if small else [(4096, 1024), (1023, 4096), (333, 777)]:
        x, w, dy = torch.randn(m, n), torch.randn(n), torch.randn(m, n)
        yield f"{m}×{n}", rmsnorm, reference, (x, w), n
        yield f"{m}×{n} backward", backward, backward_reference, (x, w, dy), max(m, n)


if __name__ == "__main__":
    from _run import run

    run("rmsnorm", cases)
