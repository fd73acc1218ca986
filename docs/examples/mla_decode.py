"""Decoding with multi-head latent attention: all query heads share one latent cache that is both keys and values.

A score is the product with the latent part (dim) plus the product with the rotary part (rope_dim); the result is a sum
of latents.
"""

import math

import tile_core as tile
import tile_core.language as T


@tile.jit(out_idx=[4])
def mla_kernel(batch, heads, length, dim, rope_dim, block_H=16, block_N=32, dtype="float16"):
    """A kernel O [batch, heads, dim] for Q, Q_rope and the caches C [batch, length, dim], C_rope [batch, length,
    rope_dim]."""
    scale = math.log2(math.e) / math.sqrt(dim + rope_dim)

    @T.prim_func
    def mla(
        Q: T.Tensor((batch, heads, dim), dtype),
        Q_rope: T.Tensor((batch, heads, rope_dim), dtype),
        C: T.Tensor((batch, length, dim), dtype),
        C_rope: T.Tensor((batch, length, rope_dim), dtype),
        O: T.Tensor((batch, heads, dim), dtype),
    ):
        with T.Kernel(T.ceildiv(heads, block_H), batch, threads=128) as (bx, by):
            Q_shared = T.alloc_shared((block_H, dim), dtype)
            Q_rope_shared = T.alloc_shared((block_H, rope_dim), dtype)
            C_shared = T.alloc_shared((block_N, dim), dtype)
            C_rope_shared = T.alloc_shared((block_N, rope_dim), dtype)
            P_shared = T.alloc_shared((block_H, block_N), dtype)
            scores = T.alloc_fragment((block_H, block_N), "float32")
            acc = T.alloc_fragment((block_H, dim), "float32")
            top = T.alloc_fragment((block_H,), "float32")
            before = T.alloc_fragment((block_H,), "float32")
            part = T.alloc_fragment((block_H,), "float32")
            total = T.alloc_fragment((block_H,), "float32")
            T.copy(Q[by, bx * block_H : (bx + 1) * block_H, :], Q_shared)
            T.copy(Q_rope[by, bx * block_H : (bx + 1) * block_H, :], Q_rope_shared)
            T.clear(acc)
            T.clear(total)
            T.fill(top, -T.infinity("float32"))
            for k in T.Pipelined(T.ceildiv(length, block_N), num_stages=2):
                T.copy(C[by, k * block_N : (k + 1) * block_N, :], C_shared)
                T.copy(C_rope[by, k * block_N : (k + 1) * block_N, :], C_rope_shared)
                T.clear(scores)
                T.gemm(Q_shared, C_shared, scores, transpose_B=True, policy=T.GemmWarpPolicy.FullCol)
                T.gemm(Q_rope_shared, C_rope_shared, scores, transpose_B=True, policy=T.GemmWarpPolicy.FullCol)
                for i, j in T.Parallel(block_H, block_N):
                    scores[i, j] = T.if_then_else(k * block_N + j < length, scores[i, j], -T.infinity("float32"))
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
                T.gemm(P_shared, C_shared, acc, policy=T.GemmWarpPolicy.FullCol)
            for i, j in T.Parallel(block_H, dim):
                acc[i, j] = acc[i, j] / total[i]
            T.copy(acc, O[by, bx * block_H : (bx + 1) * block_H, :])

    return mla


def reference(q, q_rope, c, c_rope):
    """The same in torch."""
    import torch

    query, key = torch.cat((q, q_rope), -1), torch.cat((c, c_rope), -1)
    scores = (query.float() @ key.float().transpose(1, 2)) / math.sqrt(query.shape[-1])
    return (scores.softmax(-1) @ c.float()).to(q.dtype)


def cases(small=False):
    """(label, kernel, reference, inputs, length of the sums)."""
    import torch

    shapes = [(2, 20, 70, 64, 16)] if small else [(2, 64, 2048, 512, 64)]
    for batch, heads, length, dim, rope in shapes:
        q = torch.randn(batch, heads, dim, dtype=torch.float16)
        q_rope = torch.randn(batch, heads, rope, dtype=torch.float16)
        c = torch.randn(batch, length, dim, dtype=torch.float16)
        c_rope = torch.randn(batch, length, rope, dtype=torch.float16)
        label = f"B{batch} H{heads} {length} D{dim}+{rope}"
        yield label, mla_kernel(batch, heads, length, dim, rope), reference, (q, q_rope, c, c_rope), length


if __name__ == "__main__":
    from _run import run

    run("mla decode", cases)
