"""Attention without the score matrix in memory (forward), in lazy style: causal or not, any lengths, grouped heads.

Scores of one block of queries against one block of keys live in registers; a running maximum and sum per row (base 2)
rescale what was accumulated before. A warp has whole rows of the scores (`FullRow`), so that warps exchange nothing.
Keys beyond the end and, with `causal`, keys after the query get the score -inf. Several query heads may share a key
and value head.
"""

import math

import tile_core as tile
import tile_core.language as T


@tile.jit(out_idx=[-1])
def attention(
    batch,
    heads,
    kv_heads,
    query_len,
    key_len,
    dim,
    causal=False,
    block_M=64,
    block_N=64,
    dtype="float32",
    accum="float32",
):
    """A kernel O = softmax(Q Kᵀ / sqrt(dim)) V for Q [batch, heads, query_len, dim], K and V [batch, kv_heads,
    key_len, dim]."""
    scale = 1.0 / math.sqrt(dim) * math.log2(math.e)
    group = heads // kv_heads

    @T.prim_func
    def forward(
        Q: T.Tensor((batch, heads, query_len, dim), dtype),
        K: T.Tensor((batch, kv_heads, key_len, dim), dtype),
        V: T.Tensor((batch, kv_heads, key_len, dim), dtype),
        O: T.Tensor((batch, heads, query_len, dim), dtype),
    ):
        with T.Kernel(T.ceildiv(query_len, block_M), heads, batch, threads=128) as (bx, by, bz):
            Q_shared = T.alloc_shared((block_M, dim), dtype)
            K_shared = T.alloc_shared((block_N, dim), dtype)
            V_shared = T.alloc_shared((block_N, dim), dtype)
            scores = T.alloc_fragment((block_M, block_N), accum)
            weights = T.alloc_fragment((block_M, block_N), dtype)
            acc = T.alloc_fragment((block_M, dim), accum)
            top = T.alloc_fragment((block_M,), accum)
            top_before = T.alloc_fragment((block_M,), accum)
            rescale = T.alloc_fragment((block_M,), accum)
            block_sum = T.alloc_fragment((block_M,), accum)
            total = T.alloc_fragment((block_M,), accum)

            T.copy(Q[bz, by, bx * block_M : (bx + 1) * block_M, :], Q_shared)
            T.clear(acc)
            T.clear(total)
            T.fill(top, -T.infinity(accum))
            key_blocks = T.ceildiv(key_len, block_N)
            if causal:
                key_blocks = T.min(key_blocks, T.ceildiv((bx + 1) * block_M, block_N))

            for k in T.Pipelined(key_blocks, num_stages=2):
                T.copy(K[bz, by // group, k * block_N : (k + 1) * block_N, :], K_shared)
                for i, j in T.Parallel(block_M, block_N):
                    visible = k * block_N + j < key_len
                    if causal:
                        visible = visible & (bx * block_M + i >= k * block_N + j)
                    scores[i, j] = T.if_then_else(visible, 0.0, -T.infinity(accum))
                T.gemm(Q_shared, K_shared, scores, transpose_B=True, policy=T.GemmWarpPolicy.FullRow)
                T.copy(top, top_before)
                T.reduce_max(scores, top, dim=1, clear=False)
                for i in T.Parallel(block_M):
                    rescale[i] = T.exp2(top_before[i] * scale - top[i] * scale)
                for i, j in T.Parallel(block_M, block_N):
                    scores[i, j] = T.exp2(scores[i, j] * scale - top[i] * scale)
                T.reduce_sum(scores, block_sum, dim=1)
                for i in T.Parallel(block_M):
                    total[i] = total[i] * rescale[i] + block_sum[i]
                T.copy(scores, weights)
                for i, j in T.Parallel(block_M, dim):
                    acc[i, j] = acc[i, j] * rescale[i]
                T.copy(V[bz, by // group, k * block_N : (k + 1) * block_N, :], V_shared)
                T.gemm(weights, V_shared, acc, policy=T.GemmWarpPolicy.FullRow)

            for i, j in T.Parallel(block_M, dim):
                acc[i, j] = acc[i, j] / total[i]
            T.copy(acc, O[bz, by, bx * block_M : (bx + 1) * block_M, :])

    return forward


def reference(causal):
    """The same in torch, as a function of q, k and v."""
    import torch

    def run(q, k, v):
        return torch.nn.functional.scaled_dot_product_attention(
            q, k, v, is_causal=causal, enable_gqa=q.shape[1] != k.shape[1]
        )

    return run


def cases(small=False):
    """(label, kernel, reference, inputs, length of the sums) of what the demo shows."""
    import torch

    shapes = [
        (1, 8, 8, 1024, 1024, 64, False),
        (1, 8, 8, 1024, 1024, 64, True),
        (2, 8, 2, 500, 777, 64, False),
        (1, 8, 4, 333, 333, 128, True),
    ]
    if small:
        shapes = [(1, 2, 1, 70, 70, 32, True), (1, 1, 1, 40, 90, 32, False)]
    dtype = "float16" if small or torch.get_default_device().type == "cuda" else "float32"
    for batch, heads, kv_heads, query_len, key_len, dim, causal in shapes:
        q = torch.randn(batch, heads, query_len, dim, dtype=getattr(torch, dtype))
        k, v = (torch.randn(batch, kv_heads, key_len, dim, dtype=q.dtype) for _ in range(2))
        label = f"B{batch} H{heads}/{kv_heads} {query_len}×{key_len} D{dim}{' causal' if causal else ''}"
        kernel = attention(batch, heads, kv_heads, query_len, key_len, dim, causal, dtype=dtype)
        yield label, kernel, reference(causal), (q, k, v), key_len


if __name__ == "__main__":
    from _run import run

    run("flash attention", cases)
