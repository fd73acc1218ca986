"""Causal linear attention, O_t = Q_t Σ_{s ≤ t} K_sᵀ V_s, by chunks: within a chunk a masked product, between chunks a
state.

A block carries the state [dim, dim_v] of one head through the sequence, one chunk after the other.
"""

import tile_core as tile
import tile_core.language as T


@tile.jit(out_idx=[3, 4])
def linear_attention_kernel(batch, heads, length, dim, dim_v, chunk=64, block_V=32, dtype="float16"):
    """A kernel for O [batch, heads, length, dim_v] and the last state [batch, heads, dim, dim_v] in fp32."""

    @T.prim_func
    def linear_attention(
        Q: T.Tensor((batch, heads, length, dim), dtype),
        K: T.Tensor((batch, heads, length, dim), dtype),
        V: T.Tensor((batch, heads, length, dim_v), dtype),
        O: T.Tensor((batch, heads, length, dim_v), dtype),
        State: T.Tensor((batch, heads, dim, dim_v), "float32"),
    ):
        with T.Kernel(T.ceildiv(dim_v, block_V), heads, batch, threads=128) as (bx, by, bz):
            Q_shared = T.alloc_shared((chunk, dim), dtype)
            K_shared = T.alloc_shared((chunk, dim), dtype)
            V_shared = T.alloc_shared((chunk, block_V), dtype)
            S_shared = T.alloc_shared((chunk, chunk), dtype)
            H_shared = T.alloc_shared((dim, block_V), dtype)
            scores = T.alloc_fragment((chunk, chunk), "float32")
            out = T.alloc_fragment((chunk, block_V), "float32")
            state = T.alloc_fragment((dim, block_V), "float32")
            T.clear(state)
            for c in T.serial(T.ceildiv(length, chunk)):
                T.copy(Q[bz, by, c * chunk : (c + 1) * chunk, :], Q_shared)
                T.copy(K[bz, by, c * chunk : (c + 1) * chunk, :], K_shared)
                T.copy(V[bz, by, c * chunk : (c + 1) * chunk, bx * block_V : (bx + 1) * block_V], V_shared)
                T.copy(state, H_shared)
                T.clear(scores)
                T.gemm(Q_shared, K_shared, scores, transpose_B=True)
                for i, j in T.Parallel(chunk, chunk):
                    S_shared[i, j] = T.if_then_else(i >= j, scores[i, j], 0.0)
                T.clear(out)
                T.gemm(Q_shared, H_shared, out)
                T.gemm(S_shared, V_shared, out)
                T.gemm(K_shared, V_shared, state, transpose_A=True)
                T.copy(out, O[bz, by, c * chunk : (c + 1) * chunk, bx * block_V : (bx + 1) * block_V])
            T.copy(state, State[bz, by, :, bx * block_V : (bx + 1) * block_V])

    return linear_attention


def reference(q, k, v):
    """The same in torch, with the whole matrix of scores."""
    scores = (q.float() @ k.float().transpose(2, 3)).tril()
    return (scores @ v.float()).to(q.dtype), k.float().transpose(2, 3) @ v.float()


def cases(small=False):
    """(label, kernel, reference, inputs, length of the sums)."""
    import torch

    for batch, heads, length, dim, dim_v in [(1, 2, 150, 32, 40)] if small else [(1, 8, 2048, 64, 64)]:
        q, k = (torch.randn(batch, heads, length, dim).half() / dim**0.5 for _ in range(2))
        v = torch.randn(batch, heads, length, dim_v).half()
        kernel = linear_attention_kernel(batch, heads, length, dim, dim_v)
        yield f"B{batch} H{heads} {length} D{dim}×{dim_v}", kernel, reference, (q, k, v), length


if __name__ == "__main__":
    from _run import run

    run("linear attention", cases)
