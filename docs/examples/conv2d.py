"""Convolution of images (NHWC) as a matrix product that never writes the matrix of patches: `T.im2col` loads a tile of
it straight from the image.

Row m of the patches is an output pixel, column k a place in the filter and a channel; pixels outside the image are 0.
"""

import tile_core as tile
import tile_core.language as T


@tile.jit(out_idx=[-1])
def conv_kernel(
    N, C, H, W, F, kernel, stride=1, dilation=1, padding=0, block_M=64, block_N=64, block_K=32, dtype="float16"
):
    """A kernel for X [N, H, W, C] and filters [kernel, kernel, C, F]: Y [N, H_out, W_out, F]."""
    H_out = (H + 2 * padding - dilation * (kernel - 1) - 1) // stride + 1
    W_out = (W + 2 * padding - dilation * (kernel - 1) - 1) // stride + 1
    rows, terms = N * H_out * W_out, kernel * kernel * C

    @T.prim_func
    def conv(
        X: T.Tensor((N, H, W, C), dtype),
        Filter: T.Tensor((terms, F), dtype),
        Y: T.Tensor((rows, F), dtype),
    ):
        with T.Kernel(T.ceildiv(F, block_N), T.ceildiv(rows, block_M), threads=128) as (bx, by):
            patches = T.alloc_shared((block_M, block_K), dtype)
            filters = T.alloc_shared((block_K, block_N), dtype)
            acc = T.alloc_fragment((block_M, block_N), "float32")
            T.clear(acc)
            for step in T.Pipelined(T.ceildiv(terms, block_K), num_stages=2):
                T.im2col(X, patches, by, step, kernel, stride, dilation, padding)
                T.copy(Filter[step * block_K, bx * block_N], filters)
                T.gemm(patches, filters, acc)
            T.copy(acc, Y[by * block_M, bx * block_N])

    return conv


def conv2d(x, filters, stride=1, dilation=1, padding=0):
    """The convolution of x [N, H, W, C] with filters [kernel, kernel, C, F]."""
    n, h, w, c = x.shape
    size, f = filters.shape[0], filters.shape[3]
    y = conv_kernel(n, c, h, w, f, size, stride, dilation, padding)(x, filters.reshape(-1, f))
    width = (w + 2 * padding - dilation * (size - 1) - 1) // stride + 1
    return y.view(n, -1, width, f)


def reference(x, filters, stride=1, dilation=1, padding=0):
    """The same in torch, whose own order of axes is NCHW."""
    import torch

    y = torch.nn.functional.conv2d(
        x.permute(0, 3, 1, 2), filters.permute(3, 2, 0, 1), stride=stride, dilation=dilation, padding=padding
    )
    return y.permute(0, 2, 3, 1).contiguous()


def cases(small=False):
    """(label, kernel, reference, inputs, length of the sums)."""
    import torch

    shapes = [(2, 5, 9, 7, 20, 3, 1, 1, 1), (1, 8, 12, 12, 10, 3, 2, 2, 2)]
    if not small:
        shapes = [(8, 64, 56, 56, 64, 3, 1, 1, 1), (8, 128, 28, 28, 256, 3, 2, 1, 1)]
    for n, c, h, w, f, size, stride, dilation, padding in shapes:
        x = torch.randn(n, h, w, c, dtype=torch.float16)
        filters = torch.randn(size, size, c, f, dtype=torch.float16)
        label = f"{n}×{h}×{w}×{c} → {f}, {size}×{size}/{stride}"
        yield label, conv2d, reference, (x, filters, stride, dilation, padding), size * size * c


if __name__ == "__main__":
    from _run import run

    run("conv2d", cases)
