"""Quantisation with a scale for each token: the largest absolute value of a row becomes 127 in int8, 448 in
float8_e4m3fn."""

import tile_core as tile
import tile_core.language as T

# The largest value of each type.
LIMITS = {"int8": 127.0, "float8_e4m3fn": 448.0}


@tile.jit(out_idx=[1, 2])
def quantise_kernel(M, N, to="int8", block_M=4, dtype="float16"):
    """A kernel for Q [M, N] in int8 or float8_e4m3fn and S [M] in fp32 with X ≈ Q · S, for X [M, N]."""
    limit = LIMITS[to]

    @T.prim_func
    def quantise(X: T.Tensor((M, N), dtype), Q: T.Tensor((M, N), to), S: T.Tensor((M,), "float32")):
        with T.Kernel(T.ceildiv(M, block_M), threads=128) as bx:
            x = T.alloc_fragment((block_M, N), "float32")
            largest = T.alloc_fragment((block_M,), "float32")
            scale = T.alloc_fragment((block_M,), "float32")
            T.copy(X[bx * block_M, 0], x)
            T.reduce_absmax(x, largest, dim=1)
            for i in T.Parallel(block_M):
                scale[i] = T.max(largest[i], 1e-4) / limit
                S[bx * block_M + i] = scale[i]
            for i, j in T.Parallel(block_M, N):
                value = x[i, j] / scale[i]
                if to == "int8":
                    value = T.round(value)
                Q[bx * block_M + i, j] = T.cast(T.clamp(value, -limit, limit), to)

    return quantise


def reference(to):
    """The same in torch, as a function of x."""
    import torch

    def quantised(x):
        largest = x.float().abs().amax(1).clamp(min=1e-4)
        # By a number, torch's CUDA code would multiply with the reciprocal.
        scale = largest / torch.full_like(largest, LIMITS[to])
        value = x.float() / scale[:, None]
        value = value.round() if to == "int8" else value
        return value.clamp(-LIMITS[to], LIMITS[to]).to(getattr(torch, to)), scale

    return quantised


def cases(small=False):
    """(label, kernel, reference, inputs, length of the sums)."""
    import torch

    for m, n in [(7, 100)] if small else [(4096, 1024), (1000, 7168)]:
        x = torch.randn(m, n, dtype=torch.float16)
        for to in LIMITS:
            yield f"{m}×{n} {to}", quantise_kernel(m, n, to), reference(to), (x,), 1


if __name__ == "__main__":
    from _run import run

    run("quantise", cases)
