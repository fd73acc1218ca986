"""Attention as a torch operator: a forward and a backward kernel, paired by `tile.op`.

The forward also gives, for each query, the logarithm of the sum of its weights (`lse`), so that the backward can make
the weights again without the score matrix. One backward kernel goes over blocks of queries and gives dQ, the other over
blocks of keys and gives dK and dV: no two blocks add into one place, so gradients are the same bits in every run.
"""

import math

import tile_core as tile
import tile_core.language as T


@tile.jit
def query_gradient(q, k, v, grad_o, lse, delta, causal: bool = False, block_M: int = 64, block_N: int = 64):
    """dQ from the weights (made again from `lse`) and `delta`: what softmax subtracts in a row."""
    batch, heads, rows, keys, dim = T.const("batch, heads, rows, keys, dim")
    dtype = q.dtype  # pyright: ignore[reportGeneralTypeIssues] - q is declared below, with it
    q: T.Tensor[[batch, heads, rows, dim], dtype]
    k: T.Tensor[[batch, heads, keys, dim], dtype]
    v: T.Tensor[[batch, heads, keys, dim], dtype]
    grad_o: T.Tensor[[batch, heads, rows, dim], dtype]
    lse: T.Tensor[[batch, heads, rows], dtype]
    delta: T.Tensor[[batch, heads, rows], dtype]
    grad_q = T.empty((batch, heads, rows, dim), dtype)
    scale = 1.0 / math.sqrt(dim)
    with T.Kernel(T.ceildiv(rows, block_M), heads, batch, threads=128) as (bx, by, bz):
        q_tile = T.alloc_shared((block_M, dim), dtype)
        grad_tile = T.alloc_shared((block_M, dim), dtype)
        k_tile = T.alloc_shared((block_N, dim), dtype)
        v_tile = T.alloc_shared((block_N, dim), dtype)
        weights = T.alloc_fragment((block_M, block_N), dtype)
        weight_grads = T.alloc_fragment((block_M, block_N), dtype)
        acc = T.alloc_fragment((block_M, dim), dtype)
        row_lse = T.alloc_fragment((block_M,), dtype)
        row_delta = T.alloc_fragment((block_M,), dtype)
        T.copy(q[bz, by, bx * block_M : (bx + 1) * block_M, :], q_tile)
        T.copy(grad_o[bz, by, bx * block_M : (bx + 1) * block_M, :], grad_tile)
        T.copy(lse[bz, by, bx * block_M : (bx + 1) * block_M], row_lse)
        T.copy(delta[bz, by, bx * block_M : (bx + 1) * block_M], row_delta)
        T.clear(acc)
        blocks = T.ceildiv(keys, block_N)
        if causal:
            blocks = T.min(blocks, T.ceildiv((bx + 1) * block_M, block_N))
        for j in T.serial(blocks):
            T.copy(k[bz, by, j * block_N : (j + 1) * block_N, :], k_tile)
            T.copy(v[bz, by, j * block_N : (j + 1) * block_N, :], v_tile)
            T.clear(weights)
            T.gemm(q_tile, k_tile, weights, transpose_B=True)
            T.clear(weight_grads)
            T.gemm(grad_tile, v_tile, weight_grads, transpose_B=True)
            for r, c in T.Parallel(block_M, block_N):
                visible = j * block_N + c < keys
                if causal:
                    visible = visible & (bx * block_M + r >= j * block_N + c)
                weights[r, c] = T.if_then_else(visible, T.exp(weights[r, c] * scale - row_lse[r]), 0.0)
            for r, c in T.Parallel(block_M, block_N):
                weights[r, c] = weights[r, c] * (weight_grads[r, c] - row_delta[r]) * scale
            T.gemm(weights, k_tile, acc)
        T.copy(acc, grad_q[bz, by, bx * block_M : (bx + 1) * block_M, :])
    return grad_q


@tile.jit
def key_gradients(q, k, v, grad_o, lse, delta, causal: bool = False, block_M: int = 64, block_N: int = 64):
    """dK and dV; scores are made transposed, keys down and queries across."""
    batch, heads, rows, keys, dim = T.const("batch, heads, rows, keys, dim")
    dtype = q.dtype  # pyright: ignore[reportGeneralTypeIssues] - q is declared below, with it
    q: T.Tensor[[batch, heads, rows, dim], dtype]
    k: T.Tensor[[batch, heads, keys, dim], dtype]
    v: T.Tensor[[batch, heads, keys, dim], dtype]
    grad_o: T.Tensor[[batch, heads, rows, dim], dtype]
    lse: T.Tensor[[batch, heads, rows], dtype]
    delta: T.Tensor[[batch, heads, rows], dtype]
    grad_k = T.empty((batch, heads, keys, dim), dtype)
    grad_v = T.empty((batch, heads, keys, dim), dtype)
    scale = 1.0 / math.sqrt(dim)
    with T.Kernel(T.ceildiv(keys, block_N), heads, batch, threads=128) as (bx, by, bz):
        k_tile = T.alloc_shared((block_N, dim), dtype)
        v_tile = T.alloc_shared((block_N, dim), dtype)
        q_tile = T.alloc_shared((block_M, dim), dtype)
        grad_tile = T.alloc_shared((block_M, dim), dtype)
        weights = T.alloc_fragment((block_N, block_M), dtype)
        weight_grads = T.alloc_fragment((block_N, block_M), dtype)
        acc_k = T.alloc_fragment((block_N, dim), dtype)
        acc_v = T.alloc_fragment((block_N, dim), dtype)
        row_lse = T.alloc_fragment((block_M,), dtype)
        row_delta = T.alloc_fragment((block_M,), dtype)
        T.copy(k[bz, by, bx * block_N : (bx + 1) * block_N, :], k_tile)
        T.copy(v[bz, by, bx * block_N : (bx + 1) * block_N, :], v_tile)
        T.clear(acc_k)
        T.clear(acc_v)
        for j in T.serial(T.ceildiv(rows, block_M)):
            T.copy(q[bz, by, j * block_M : (j + 1) * block_M, :], q_tile)
            T.copy(grad_o[bz, by, j * block_M : (j + 1) * block_M, :], grad_tile)
            T.copy(lse[bz, by, j * block_M : (j + 1) * block_M], row_lse)
            T.copy(delta[bz, by, j * block_M : (j + 1) * block_M], row_delta)
            T.clear(weights)
            T.gemm(k_tile, q_tile, weights, transpose_B=True)
            T.clear(weight_grads)
            T.gemm(v_tile, grad_tile, weight_grads, transpose_B=True)
            for c, r in T.Parallel(block_N, block_M):
                visible = (bx * block_N + c < keys) & (j * block_M + r < rows)
                if causal:
                    visible = visible & (j * block_M + r >= bx * block_N + c)
                weights[c, r] = T.if_then_else(visible, T.exp(weights[c, r] * scale - row_lse[r]), 0.0)
            T.gemm(weights, grad_tile, acc_v)
            for c, r in T.Parallel(block_N, block_M):
                weights[c, r] = weights[c, r] * (weight_grads[c, r] - row_delta[r]) * scale
            T.gemm(weights, q_tile, acc_k)
        T.copy(acc_k, grad_k[bz, by, bx * block_N : (bx + 1) * block_N, :])
        T.copy(acc_v, grad_v[bz, by, bx * block_N : (bx + 1) * block_N, :])
    return grad_k, grad_v


def attention_backward(q, k, v, causal, o, lse, grad_o, grad_lse):
    """The gradients of q, k and v; torch does the one sum that needs no kernel."""
    delta = (o * grad_o).sum(-1) - grad_lse
    grad_q = query_gradient(q, k, v, grad_o, lse, delta, causal)
    return grad_q, *key_gradients(q, k, v, grad_o, lse, delta, causal)


@tile.op(backward=attention_backward)
@tile.jit
def attention(q, k, v, causal: bool = False, block_M: int = 64, block_N: int = 64):
    """softmax(q kᵀ / sqrt(dim)) v and its lse, for q [batch, heads, rows, dim], k and v [batch, heads, keys, dim]."""
    batch, heads, rows, keys, dim = T.const("batch, heads, rows, keys, dim")
    dtype = q.dtype  # pyright: ignore[reportGeneralTypeIssues] - q is declared below, with it
    q: T.Tensor[[batch, heads, rows, dim], dtype]
    k: T.Tensor[[batch, heads, keys, dim], dtype]
    v: T.Tensor[[batch, heads, keys, dim], dtype]
    o = T.empty((batch, heads, rows, dim), dtype)
    lse = T.empty((batch, heads, rows), dtype)
    scale = 1.0 / math.sqrt(dim)
    with T.Kernel(T.ceildiv(rows, block_M), heads, batch, threads=128) as (bx, by, bz):
        q_tile = T.alloc_shared((block_M, dim), dtype)
        k_tile = T.alloc_shared((block_N, dim), dtype)
        v_tile = T.alloc_shared((block_N, dim), dtype)
        scores = T.alloc_fragment((block_M, block_N), dtype)
        acc = T.alloc_fragment((block_M, dim), dtype)
        top = T.alloc_fragment((block_M,), dtype)
        top_before = T.alloc_fragment((block_M,), dtype)
        block_sum = T.alloc_fragment((block_M,), dtype)
        total = T.alloc_fragment((block_M,), dtype)
        T.copy(q[bz, by, bx * block_M : (bx + 1) * block_M, :], q_tile)
        T.clear(acc)
        T.clear(total)
        T.fill(top, -T.infinity(dtype))
        blocks = T.ceildiv(keys, block_N)
        if causal:
            blocks = T.min(blocks, T.ceildiv((bx + 1) * block_M, block_N))
        for j in T.serial(blocks):
            T.copy(k[bz, by, j * block_N : (j + 1) * block_N, :], k_tile)
            T.copy(v[bz, by, j * block_N : (j + 1) * block_N, :], v_tile)
            for r, c in T.Parallel(block_M, block_N):
                visible = j * block_N + c < keys
                if causal:
                    visible = visible & (bx * block_M + r >= j * block_N + c)
                scores[r, c] = T.if_then_else(visible, 0.0, -T.infinity(dtype))
            T.gemm(q_tile, k_tile, scores, transpose_B=True)
            T.copy(top, top_before)
            T.reduce_max(scores, top, dim=1, clear=False)
            for r, c in T.Parallel(block_M, block_N):
                scores[r, c] = T.exp((scores[r, c] - top[r]) * scale)
            T.reduce_sum(scores, block_sum, dim=1)
            for r in T.Parallel(block_M):
                total[r] = total[r] * T.exp((top_before[r] - top[r]) * scale) + block_sum[r]
            for r, d in T.Parallel(block_M, dim):
                acc[r, d] = acc[r, d] * T.exp((top_before[r] - top[r]) * scale)
            T.gemm(scores, v_tile, acc)
        for r, d in T.Parallel(block_M, dim):
            acc[r, d] = acc[r, d] / total[r]
        for r in T.Parallel(block_M):
            total[r] = T.log(total[r]) + top[r] * scale
        T.copy(acc, o[bz, by, bx * block_M : (bx + 1) * block_M, :])
        T.copy(total, lse[bz, by, bx * block_M : (bx + 1) * block_M])
    return o, lse


def main():
    """Trains nothing, and shows that the gradients are torch's."""
    import torch

    torch.manual_seed(0)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    q, k, v = (torch.randn(1, 4, 200, 64, device=device, requires_grad=True) for _ in range(3))
    for causal in (False, True):
        o = torch.compile(lambda q, k, v, causal=causal: attention(q, k, v, causal)[0], fullgraph=True)(q, k, v)
        o.square().sum().backward()
        ours = [tensor.grad for tensor in (q, k, v)]
        for tensor in (q, k, v):
            tensor.grad = None
        torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal).square().sum().backward()
        theirs = [tensor.grad for tensor in (q, k, v)]
        errors = [
            float((one - other).abs().max())
            for one, other in zip(ours, theirs)
            if one is not None and other is not None
        ]
        for tensor in (q, k, v):
            tensor.grad = None
        print(f"causal={causal}: largest difference of dq, dk, dv: {', '.join(f'{error:.1e}' for error in errors)}")


if __name__ == "__main__":
    main()
