"""Decoding: one query for each head against a long cache of keys. Splits of the cache are worked on in parallel, then a
second kernel joins their partial results by their weights.

The query heads of a group share keys, so they form the rows of one tile.
"""

import math

import tile_core as tile
import tile_core.language as T


@tile.jit(out_idx=[3, 4])
def split_kernel(batch, heads, kv_heads, length, dim, splits, block_H=16, block_N=64, dtype="float16"):
    """A kernel for the result of every split of the cache and the logarithm of its weight, in base 2."""
    scale = math.log2(math.e) / math.sqrt(dim)
    group = heads // kv_heads
    share = T.ceildiv(T.ceildiv(length, splits), block_N) * block_N

    @T.prim_func
    def decode(
        Q: T.Tensor((batch, heads, dim), dtype),
        K: T.Tensor((batch, length, kv_heads, dim), dtype),
        V: T.Tensor((batch, length, kv_heads, dim), dtype),
        Part: T.Tensor((batch, heads, splits, dim), "float32"),
        L: T.Tensor((batch, heads, splits), "float32"),
    ):
        with T.Kernel(splits, kv_heads, batch, threads=128) as (bx, by, bz):
            Q_shared = T.alloc_shared((block_H, dim), dtype)
            K_shared = T.alloc_shared((block_N, dim), dtype)
            V_shared = T.alloc_shared((block_N, dim), dtype)
            P_shared = T.alloc_shared((block_H, block_N), dtype)
            scores = T.alloc_fragment((block_H, block_N), "float32")
            acc = T.alloc_fragment((block_H, dim), "float32")
            top = T.alloc_fragment((block_H,), "float32")
            before = T.alloc_fragment((block_H,), "float32")
            part = T.alloc_fragment((block_H,), "float32")
            total = T.alloc_fragment((block_H,), "float32")
            T.copy(Q[bz, by * group : by * group + block_H, :], Q_shared)
            T.clear(acc)
            T.clear(total)
            T.fill(top, -1e30)
            end = T.min((bx + 1) * share, length)
            for k in T.Pipelined(T.ceildiv(T.max(end - bx * share, 0), block_N), num_stages=2):
                first = bx * share + k * block_N
                T.copy(K[bz, first : first + block_N, by, :], K_shared)
                T.copy(V[bz, first : first + block_N, by, :], V_shared)
                T.clear(scores)
                T.gemm(Q_shared, K_shared, scores, transpose_B=True, policy=T.GemmWarpPolicy.FullCol)
                for i, j in T.Parallel(block_H, block_N):
                    scores[i, j] = T.if_then_else(first + j < end, scores[i, j], -T.infinity("float32"))
                T.copy(top, before)
                T.reduce_max(scores, top, dim=1, clear=False)
                for i, j in T.Parallel(block_H, block_N):
                    scores[i, j] = T.exp2((scores[i, j] - top[i]) * scale)
                T.reduce_sum(scores, part, dim=1)
                for i in T.Parallel(block_H):
                    before[i] = T.exp2((before[i] - top[i]) * scale)
                    total[i] = total[i] * before[i] + part[i]
                T.copy(scores, P_shared)
                for i, j in T.Parallel(block_H, dim):
                    acc[i, j] = acc[i, j] * before[i]
                T.gemm(P_shared, V_shared, acc, policy=T.GemmWarpPolicy.FullCol)
            for i, j in T.Parallel(block_H, dim):
                if i < group:
                    Part[bz, by * group + i, bx, j] = acc[i, j] / T.max(total[i], 1e-30)
            for i in T.Parallel(block_H):
                if i < group:
                    L[bz, by * group + i, bx] = top[i] * scale + T.log2(total[i])

    return decode


@tile.jit(out_idx=[2])
def join_kernel(batch, heads, dim, splits, dtype="float16"):
    """A kernel O = Σ over splits of Part · 2^L, over Σ 2^L."""

    @T.prim_func
    def join(
        Part: T.Tensor((batch, heads, splits, dim), "float32"),
        L: T.Tensor((batch, heads, splits), "float32"),
        O: T.Tensor((batch, heads, dim), dtype),
    ):
        with T.Kernel(heads, batch, threads=128) as (bx, by):
            logs = T.alloc_fragment((splits,), "float32")
            top = T.alloc_fragment((1,), "float32")
            total = T.alloc_fragment((1,), "float32")
            acc = T.alloc_fragment((dim,), "float32")
            T.copy(L[by, bx, :], logs)
            T.reduce_max(logs, top, dim=0)
            for s in T.Parallel(splits):
                logs[s] = T.exp2(logs[s] - top[0])
            T.reduce_sum(logs, total, dim=0)
            T.clear(acc)
            for s in T.serial(splits):
                for j in T.Parallel(dim):
                    acc[j] += Part[by, bx, s, j] * T.exp2(L[by, bx, s] - top[0])
            for j in T.Parallel(dim):
                O[by, bx, j] = acc[j] / total[0]

    return join


def attention(q, k, v, splits=8):
    """Attention of q [batch, heads, dim] over k, v [batch, length, kv_heads, dim]."""
    batch, heads, dim = q.shape
    _, length, kv_heads, _ = k.shape
    parts, logs = split_kernel(batch, heads, kv_heads, length, dim, splits)(q, k, v)
    return join_kernel(batch, heads, dim, splits)(parts, logs)


def reference(q, k, v):
    """The same in torch."""
    import torch

    k, v = (t.transpose(1, 2) for t in (k, v))
    return torch.nn.functional.scaled_dot_product_attention(q[:, :, None], k, v, enable_gqa=True)[:, :, 0]


def cases(small=False):
    """(label, kernel, reference, inputs, length of the sums)."""
    import torch

    shapes = [(2, 4, 2, 500, 32)] if small else [(1, 32, 4, 8192, 64), (4, 16, 16, 4000, 64)]
    for batch, heads, kv_heads, length, dim in shapes:
        q = torch.randn(batch, heads, dim, dtype=torch.float16)
        k, v = (torch.randn(batch, length, kv_heads, dim, dtype=torch.float16) for _ in range(2))
        yield f"B{batch} H{heads}/{kv_heads} {length} D{dim}", attention, reference, (q, k, v), length


if __name__ == "__main__":
    from _run import run

    run("attention decode", cases)
