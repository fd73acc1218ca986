"""Quantisation with a scale for each token: the largest absolute value of a row becomes 127 in int8, 448 in
float8_e4m3fn."""

import tile_core as tile
import tile_core.language as T


@tile.jit(out_idx=[1, 2])
def quantise_kernel(M, N, block_M=4, dtype="float16"):
    """A kernel for Q [M, N] in int8 and S [M] in fp32 with X ≈ Q · S, for X [M, N]."""

    @T.prim_func
    def quantise(X: T.Tensor((M, N), dtype), Q: T.Tensor((M, N), "int8"), S: T.Tensor((M,), "float32")):
        with T.Kernel(T.ceildiv(M, block_M), threads=128) as bx:
            x = T.alloc_fragment((block_M, N), "float32")
            largest = T.alloc_fragment((block_M,), "float32")
            scale = T.alloc_fragment((block_M,), "float32")
            T.copy(X[bx * block_M, 0], x)
            T.reduce_absmax(x, largest, dim=1)
            for i in T.Parallel(block_M):
                scale[i] = T.max(largest[i], 1e-4) / 127.0
                S[bx * block_M + i] = scale[i]
            for i, j in T.Parallel(block_M, N):
                value = T.clamp(T.round(x[i, j] / scale[i]), -127.0, 127.0)
                Q[bx * block_M + i, j] = T.cast(value, "int8")

    return quantise


@tile.jit(out_idx=[1, 2])
def quantise_fp8_kernel(M, N, block_M=4, dtype="float16"):
    """A kernel for Q [M, N] in float8_e4m3fn and S [M] in fp32 with X ≈ Q · S, for X [M, N]."""

    @T.prim_func
    def quantise_fp8(X: T.Tensor((M, N), dtype), Q: T.Tensor((M, N), "float8_e4m3fn"), S: T.Tensor((M,), "float32")):
        with T.Kernel(T.ceildiv(M, block_M), threads=128) as bx:
            x = T.alloc_fragment((block_M, N), "float32")
            largest = T.alloc_fragment((block_M,), "float32")
            scale = T.alloc_fragment((block_M,), "float32")
            T.copy(X[bx * block_M, 0], x)
            T.reduce_absmax(x, largest, dim=1)
            for i in T.Parallel(block_M):
                scale[i] = T.max(largest[i], 1e-4) / 448.0
                S[bx * block_M + i] = scale[i]
            for i, j in T.Parallel(block_M, N):
                value = T.clamp(x[i, j] / scale[i], -448.0, 448.0)
                Q[bx * block_M + i, j] = T.cast(value, "float8_e4m3fn")

    return quantise_fp8


def reference(x):
    """The same in torch."""
    import torch

    largest = x.float().abs().amax(1).clamp(min=1e-4)
    scale = largest / torch.full_like(largest, 127)  # by a number, torch's CUDA code multiplies with the reciprocal
    return (x.float() / scale[:, None]).round().clamp(-127, 127).to(torch.int8), scale


def reference_fp8(x):
    """The same in torch."""
    import torch

    largest = x.float().abs().amax(1).clamp(min=1e-4)
    scale = largest / torch.full_like(largest, 448)  # by a number, torch's CUDA code multiplies with the reciprocal
    return (x.float() / scale[:, None]).clamp(-448, 448).to(torch.float8_e4m3fn), scale


def cases(small=False):
    """(label, kernel, reference, inputs, length of the sums)."""
    import torch

    for m, n in [(7, 100)] if small else [(4096, 1024), (1000, 7168)]:
        x = torch.randn(m, n, dtype=torch.float16)
        yield f"{m}×{n} int8", quantise_kernel(m, n), reference, (x,), 1
        yield f"{m}×{n} fp8", quantise_fp8_kernel(m, n), reference_fp8, (x,), 1


if __name__ == "__main__":
    from _run import run

    run("quantise", cases)
