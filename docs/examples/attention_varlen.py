"""Attention over sequences of different lengths laid end to end (no padding), with grouped key and value heads.

`starts` holds where each sequence begins. The grid covers the longest sequence; blocks beyond the end of theirs do
nothing.
"""

import math

import tile_core as tile
import tile_core.language as T


@tile.jit
def varlen_kernel(sequences, heads, kv_heads, dim, causal, block_M=64, block_N=64, dtype="float16"):
    """A kernel O = attention of Q [tokens, heads, dim] over K, V [tokens, kv_heads, dim], sequence by sequence."""
    scale = math.log2(math.e) / math.sqrt(dim)
    group = heads // kv_heads
    tokens = T.dynamic("tokens")

    @T.prim_func
    def varlen(
        Q: T.Tensor((tokens, heads, dim), dtype),
        K: T.Tensor((tokens, kv_heads, dim), dtype),
        V: T.Tensor((tokens, kv_heads, dim), dtype),
        starts: T.Tensor((sequences + 1,), "int32"),
        longest: T.int32,
        O: T.Tensor((tokens, heads, dim), dtype),
    ):
        with T.Kernel(T.ceildiv(longest, block_M), heads, sequences, threads=128) as (bx, by, bz):
            Q_shared = T.alloc_shared((block_M, dim), dtype)
            K_shared = T.alloc_shared((block_N, dim), dtype)
            V_shared = T.alloc_shared((block_N, dim), dtype)
            scores = T.alloc_fragment((block_M, block_N), "float32")
            weights = T.alloc_fragment((block_M, block_N), dtype)
            acc = T.alloc_fragment((block_M, dim), "float32")
            top = T.alloc_fragment((block_M,), "float32")
            before = T.alloc_fragment((block_M,), "float32")
            part = T.alloc_fragment((block_M,), "float32")
            total = T.alloc_fragment((block_M,), "float32")
            start = starts[bz]
            length = starts[bz + 1] - start
            first = bx * block_M
            T.copy(Q[start + first : start + first + block_M, by, :], Q_shared)
            T.clear(acc)
            T.clear(total)
            T.fill(top, -1e30)
            # A block beyond the end of its sequence has no keys to look at, and nothing to write.
            visible_keys = T.if_then_else(first < length, length, 0)
            if causal:
                visible_keys = T.min(visible_keys, first + block_M)
            for k in T.Pipelined(T.ceildiv(visible_keys, block_N), num_stages=2):
                T.copy(K[start + k * block_N : start + (k + 1) * block_N, by // group, :], K_shared)
                T.copy(V[start + k * block_N : start + (k + 1) * block_N, by // group, :], V_shared)
                T.clear(scores)
                T.gemm(Q_shared, K_shared, scores, transpose_B=True, policy=T.GemmWarpPolicy.FullRow)
                for i, j in T.Parallel(block_M, block_N):
                    visible = k * block_N + j < length
                    if causal:
                        visible = visible & (first + i >= k * block_N + j)
                    scores[i, j] = T.if_then_else(visible, scores[i, j], -T.infinity("float32"))
                T.copy(top, before)
                T.reduce_max(scores, top, dim=1, clear=False)
                for i, j in T.Parallel(block_M, block_N):
                    scores[i, j] = T.exp2((scores[i, j] - top[i]) * scale)
                T.reduce_sum(scores, part, dim=1)
                for i in T.Parallel(block_M):
                    before[i] = T.exp2((before[i] - top[i]) * scale)
                    total[i] = total[i] * before[i] + part[i]
                T.copy(scores, weights)
                for i, j in T.Parallel(block_M, dim):
                    acc[i, j] = acc[i, j] * before[i]
                T.gemm(weights, V_shared, acc, policy=T.GemmWarpPolicy.FullRow)
            for i, j in T.Parallel(block_M, dim):
                if first + i < length:
                    O[start + first + i, by, j] = acc[i, j] / total[i]

    return varlen


def attention(q, k, v, lengths, causal):
    """Attention within each of the sequences that lie end to end in q, k and v."""
    import torch

    starts = torch.zeros(len(lengths) + 1, dtype=torch.int32)
    starts[1:] = torch.tensor(lengths, device="cpu").cumsum(0)
    o = torch.empty_like(q)
    kernel = varlen_kernel(len(lengths), q.shape[1], k.shape[1], q.shape[2], causal)
    kernel(q, k, v, starts.to(q.device), max(lengths), o)
    return o


def reference(q, k, v, lengths, causal):
    """The same in torch, sequence by sequence."""
    import torch

    parts = []
    for parted in zip(*(t.split(list(lengths)) for t in (q, k, v))):
        one = [t.transpose(0, 1)[None] for t in parted]
        o = torch.nn.functional.scaled_dot_product_attention(*one, is_causal=causal, enable_gqa=True)
        parts.append(o[0].transpose(0, 1))
    return torch.cat(parts)


def cases(small=False):
    """(label, kernel, reference, inputs, length of the sums)."""
    import torch

    shapes = (
        [((20, 1, 70), 2, 1, 32, True)]
        if small
        else [((512, 100, 1000, 436), 8, 2, 64, True), ((333,) * 6, 8, 8, 64, False)]
    )
    for lengths, heads, kv_heads, dim, causal in shapes:
        q = torch.randn(sum(lengths), heads, dim, dtype=torch.float16)
        k, v = (torch.randn(sum(lengths), kv_heads, dim, dtype=torch.float16) for _ in range(2))
        label = f"{len(lengths)} sequences H{heads}/{kv_heads} D{dim}{' causal' if causal else ''}"
        yield label, attention, reference, (q, k, v, lengths, causal), max(lengths)


if __name__ == "__main__":
    from _run import run

    run("attention varlen", cases)
