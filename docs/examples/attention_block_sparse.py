"""Attention where a mask says, block by block, which keys a block of queries looks at; other blocks cost nothing."""

import math

import tile_core as tile
import tile_core.language as T

BLOCK = 64


@tile.jit(out_idx=[-1])
def block_sparse_kernel(batch, heads, length, dim, dtype="float16"):
    """A kernel for attention over the blocks that Mask [batch, heads, blocks, blocks] (int8) keeps; a row of blocks
    without any gives zeros."""
    scale = math.log2(math.e) / math.sqrt(dim)
    shape = (batch, heads, length, dim)
    blocks = (length + BLOCK - 1) // BLOCK

    @T.prim_func
    def block_sparse(
        Q: T.Tensor(shape, dtype),
        K: T.Tensor(shape, dtype),
        V: T.Tensor(shape, dtype),
        Mask: T.Tensor((batch, heads, blocks, blocks), "int8"),
        O: T.Tensor(shape, dtype),
    ):
        with T.Kernel(blocks, heads, batch, threads=128) as (bx, by, bz):
            Q_shared = T.alloc_shared((BLOCK, dim), dtype)
            K_shared = T.alloc_shared((BLOCK, dim), dtype)
            V_shared = T.alloc_shared((BLOCK, dim), dtype)
            scores = T.alloc_fragment((BLOCK, BLOCK), "float32")
            weights = T.alloc_fragment((BLOCK, BLOCK), dtype)
            acc = T.alloc_fragment((BLOCK, dim), "float32")
            top = T.alloc_fragment((BLOCK,), "float32")
            before = T.alloc_fragment((BLOCK,), "float32")
            part = T.alloc_fragment((BLOCK,), "float32")
            total = T.alloc_fragment((BLOCK,), "float32")
            T.copy(Q[bz, by, bx * BLOCK : (bx + 1) * BLOCK, :], Q_shared)
            T.clear(acc)
            T.clear(total)
            T.fill(top, -1e30)
            for k in T.Pipelined(blocks, num_stages=1):
                if Mask[bz, by, bx, k] != 0:
                    T.copy(K[bz, by, k * BLOCK : (k + 1) * BLOCK, :], K_shared)
                    T.copy(V[bz, by, k * BLOCK : (k + 1) * BLOCK, :], V_shared)
                    T.clear(scores)
                    T.gemm(Q_shared, K_shared, scores, transpose_B=True, policy=T.GemmWarpPolicy.FullRow)
                    for i, j in T.Parallel(BLOCK, BLOCK):
                        scores[i, j] = T.if_then_else(k * BLOCK + j < length, scores[i, j], -T.infinity("float32"))
                    T.copy(top, before)
                    T.reduce_max(scores, top, dim=1, clear=False)
                    for i, j in T.Parallel(BLOCK, BLOCK):
                        scores[i, j] = T.exp2((scores[i, j] - top[i]) * scale)
                    T.reduce_sum(scores, part, dim=1)
                    for i in T.Parallel(BLOCK):
                        before[i] = T.exp2((before[i] - top[i]) * scale)
                        total[i] = total[i] * before[i] + part[i]
                    T.copy(scores, weights)
                    for i, j in T.Parallel(BLOCK, dim):
                        acc[i, j] = acc[i, j] * before[i]
                    T.gemm(weights, V_shared, acc, policy=T.GemmWarpPolicy.FullRow)
            for i, j in T.Parallel(BLOCK, dim):
                acc[i, j] = T.if_then_else(total[i] > 0.0, acc[i, j] / total[i], 0.0)
            T.copy(acc, O[bz, by, bx * BLOCK : (bx + 1) * BLOCK, :])

    return block_sparse


def reference(q, k, v, mask):
    """The same in torch, with a mask of elements."""

    length = q.shape[2]
    elements = mask.bool().repeat_interleave(BLOCK, 2).repeat_interleave(BLOCK, 3)[:, :, :length, :length]
    scores = q.float() @ k.float().transpose(2, 3) / math.sqrt(q.shape[3])
    weights = scores.masked_fill(~elements, -math.inf).softmax(-1).nan_to_num(0.0)
    return (weights @ v.float()).to(q.dtype)


def cases(small=False):
    """(label, kernel, reference, inputs, length of the sums)."""
    import torch

    for batch, heads, length, dim in [(1, 2, 150, 32)] if small else [(1, 8, 2048, 64)]:
        q, k, v = (torch.randn(batch, heads, length, dim, dtype=torch.float16) for _ in range(3))
        blocks = -(-length // BLOCK)
        mask = (torch.rand(batch, heads, blocks, blocks) < 0.3).to(torch.int8)
        mask[:, :, 0, :] = 0
        kernel = block_sparse_kernel(batch, heads, length, dim)
        yield f"B{batch} H{heads} {length} D{dim} 30 %", kernel, reference, (q, k, v, mask), length


if __name__ == "__main__":
    from _run import run

    run("attention block-sparse", cases)
