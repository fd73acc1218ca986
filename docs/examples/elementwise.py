"""A chain of element-wise operations in one pass over memory, in eager style: the gate of a SwiGLU layer, scaled and
clipped."""

import tile_core as tile
import tile_core.language as T


@tile.jit
def gated(A, B, scale: float = 0.5, block_N: int = 4096):
    """C = min(max(silu(A) · B · scale, -4), 4) for A, B of one size, both float32."""
    N = T.const("N")
    A: T.Tensor[[N], T.float32]
    B: T.Tensor[[N], T.float32]
    C = T.empty((N,), T.float32)

    with T.Kernel(T.ceildiv(N, block_N), threads=128) as bx:
        for i in T.Parallel(block_N):
            a = A[bx * block_N + i]
            gate = a / (1.0 + T.exp(-a))
            C[bx * block_N + i] = T.min(T.max(gate * B[bx * block_N + i] * scale, -4.0), 4.0)

    return C


def reference(a, b):
    """The same in torch."""
    import torch

    return (torch.nn.functional.silu(a) * b * 0.5).clamp(-4.0, 4.0)


def cases(small=False):
    """(label, kernel, reference, inputs, length of the sums) of what the demo shows."""
    import torch

    for n in [10_001] if small else [1 << 22, 1_000_003]:
        yield f"{n}", gated, reference, (torch.randn(n), torch.randn(n)), 1


if __name__ == "__main__":
    from _run import run

    run("gated chain", cases)
