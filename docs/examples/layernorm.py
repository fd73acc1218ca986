"""Layer normalisation, forward and backward, as an autograd function.

Backward computes the gradient of x row by row and sums the gradients of weight and bias over the rows of a block
before it adds them atomically to those of all blocks.
"""

import tile_core as tile
import tile_core.language as T

EPS = 1e-5


@tile.jit(out_idx=[3, 4, 5])
def forward_kernel(M, N, block_M=2, dtype="float32"):
    """A kernel Y = (X - mean) · rstd · W + B over rows of X [M, N]; also returns mean and rstd [M]."""

    @T.prim_func
    def layernorm(
        X: T.Tensor((M, N), dtype),
        W: T.Tensor((N,), dtype),
        B: T.Tensor((N,), dtype),
        Y: T.Tensor((M, N), dtype),
        Mean: T.Tensor((M,), "float32"),
        Rstd: T.Tensor((M,), "float32"),
    ):
        with T.Kernel(T.ceildiv(M, block_M), threads=128) as bx:
            x = T.alloc_fragment((block_M, N), "float32")
            centred = T.alloc_fragment((block_M, N), "float32")
            mean = T.alloc_fragment((block_M,), "float32")
            rstd = T.alloc_fragment((block_M,), "float32")
            T.copy(X[bx * block_M, 0], x)
            T.reduce_sum(x, mean, dim=1)
            for i in T.Parallel(block_M):
                mean[i] = mean[i] / N
            for i, j in T.Parallel(block_M, N):
                centred[i, j] = (x[i, j] - mean[i]) * (x[i, j] - mean[i])
            T.reduce_sum(centred, rstd, dim=1)
            for i in T.Parallel(block_M):
                rstd[i] = T.rsqrt(rstd[i] / N + EPS)
            for i, j in T.Parallel(block_M, N):
                x[i, j] = (x[i, j] - mean[i]) * rstd[i] * W[j] + B[j]
            T.copy(x, Y[bx * block_M, 0])
            T.copy(mean, Mean[bx * block_M])
            T.copy(rstd, Rstd[bx * block_M])

    return layernorm


@tile.jit
def backward_kernel(M, N, rows, dtype="float32"):
    """A kernel for the gradients dX [M, N] and, added to what they hold, dW and dB [N]; a block takes `rows` rows."""

    @T.prim_func
    def layernorm_backward(
        X: T.Tensor((M, N), dtype),
        W: T.Tensor((N,), dtype),
        Mean: T.Tensor((M,), "float32"),
        Rstd: T.Tensor((M,), "float32"),
        dY: T.Tensor((M, N), dtype),
        dX: T.Tensor((M, N), dtype),
        dW: T.Tensor((N,), "float32"),
        dB: T.Tensor((N,), "float32"),
    ):
        with T.Kernel(T.ceildiv(M, rows), threads=128) as bx:
            scaled = T.alloc_fragment((1, N), "float32")
            normal = T.alloc_fragment((1, N), "float32")
            product = T.alloc_fragment((1, N), "float32")
            weight_sum = T.alloc_fragment((1, N), "float32")
            bias_sum = T.alloc_fragment((1, N), "float32")
            first = T.alloc_fragment((1,), "float32")
            second = T.alloc_fragment((1,), "float32")
            T.clear(weight_sum)
            T.clear(bias_sum)
            for r in T.serial(rows):
                row = bx * rows + r
                if row < M:
                    for i, j in T.Parallel(1, N):
                        normal[i, j] = (X[row, j] - Mean[row]) * Rstd[row]
                        scaled[i, j] = dY[row, j] * W[j]
                        product[i, j] = scaled[i, j] * normal[i, j]
                        weight_sum[i, j] += dY[row, j] * normal[i, j]
                        bias_sum[i, j] += dY[row, j]
                    T.reduce_sum(scaled, first, dim=1)
                    T.reduce_sum(product, second, dim=1)
                    for i, j in T.Parallel(1, N):
                        dX[row, j] = (scaled[i, j] - (first[i] + normal[i, j] * second[i]) / N) * Rstd[row]
            T.atomic_add(dW, weight_sum[0, :])
            T.atomic_add(dB, bias_sum[0, :])

    return layernorm_backward


def forward(x, weight, bias):
    """y, mean and rstd."""
    return forward_kernel(*x.shape)(x, weight, bias)


def backward(x, weight, mean, rstd, dy, rows=8):
    """Gradients of x, weight and bias."""
    import torch

    dx = torch.empty_like(x)
    dw, db = torch.zeros_like(weight), torch.zeros_like(weight)
    backward_kernel(*x.shape, rows)(x, weight, mean, rstd, dy, dx, dw, db)
    return dx, dw, db


def both(x, weight, bias, dy):
    """The result and all gradients, by Tile."""
    y, mean, rstd = forward(x, weight, bias)
    return y, *backward(x, weight, mean, rstd, dy)


def reference(x, weight, bias, dy):
    """The result and all gradients, by torch."""
    import torch

    leaves = [t.detach().requires_grad_() for t in (x, weight, bias)]
    y = torch.nn.functional.layer_norm(leaves[0], (x.shape[1],), leaves[1], leaves[2], EPS)
    return y.detach(), *torch.autograd.grad(y, leaves, dy)


def cases(small=False):
    """(label, kernel, reference, inputs, length of the sums)."""
    import torch

    for m, n in [(13, 100)] if small else [(4096, 1024), (1023, 777)]:
        inputs = (torch.randn(m, n), torch.randn(n), torch.randn(n), torch.randn(m, n))
        yield f"{m}×{n} forward and backward", both, reference, inputs, max(m, n)


if __name__ == "__main__":
    from _run import run

    run("layernorm", cases)
