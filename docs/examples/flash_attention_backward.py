"""Attention, forward and backward, as an autograd function; no score matrix in memory in either direction.

Forward keeps the logarithm (base 2) of each row's sum of weights. Backward makes the weights anew from it: a block owns
some keys and goes over all queries, so that gradients of keys and values stay in registers, while those of queries are
added atomically.
"""

import math

import tile_core as tile
import tile_core.language as T


@tile.jit(out_idx=[3, 4])
def forward_kernel(batch, heads, length, dim, causal, block_M=64, block_N=64, dtype="float16"):
    """A kernel for O = softmax(Q Kᵀ / sqrt(dim)) V and L, the logarithms of the sums, in base 2."""
    scale = math.log2(math.e) / math.sqrt(dim)
    shape = (batch, heads, length, dim)

    @T.prim_func
    def forward(
        Q: T.Tensor(shape, dtype),
        K: T.Tensor(shape, dtype),
        V: T.Tensor(shape, dtype),
        O: T.Tensor(shape, dtype),
        L: T.Tensor((batch, heads, length), "float32"),
    ):
        with T.Kernel(T.ceildiv(length, block_M), heads, batch, threads=128) as (bx, by, bz):
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
            T.copy(Q[bz, by, bx * block_M : (bx + 1) * block_M, :], Q_shared)
            T.clear(acc)
            T.clear(total)
            T.fill(top, -T.infinity("float32"))
            blocks = T.ceildiv(length, block_N)
            if causal:
                blocks = T.min(blocks, T.ceildiv((bx + 1) * block_M, block_N))
            for k in T.Pipelined(blocks, num_stages=2):
                T.copy(K[bz, by, k * block_N : (k + 1) * block_N, :], K_shared)
                for i, j in T.Parallel(block_M, block_N):
                    visible = k * block_N + j < length
                    if causal:
                        visible = visible & (bx * block_M + i >= k * block_N + j)
                    scores[i, j] = T.if_then_else(visible, 0.0, -T.infinity("float32"))
                T.gemm(Q_shared, K_shared, scores, transpose_B=True, policy=T.GemmWarpPolicy.FullRow)
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
                T.copy(V[bz, by, k * block_N : (k + 1) * block_N, :], V_shared)
                T.gemm(weights, V_shared, acc, policy=T.GemmWarpPolicy.FullRow)
            for i, j in T.Parallel(block_M, dim):
                acc[i, j] = acc[i, j] / total[i]
            T.copy(acc, O[bz, by, bx * block_M : (bx + 1) * block_M, :])
            for i in T.Parallel(block_M):
                L[bz, by, bx * block_M + i] = top[i] * scale + T.log2(total[i])

    return forward


@tile.jit(out_idx=[2])
def delta_kernel(rows, dim, block_M=64, dtype="float16"):
    """A kernel for D[r] = Σ O[r, :] · dO[r, :]."""

    @T.prim_func
    def delta(O: T.Tensor((rows, dim), dtype), dO: T.Tensor((rows, dim), dtype), D: T.Tensor((rows,), "float32")):
        with T.Kernel(T.ceildiv(rows, block_M), threads=128) as bx:
            product = T.alloc_fragment((block_M, dim), "float32")
            total = T.alloc_fragment((block_M,), "float32")
            for i, j in T.Parallel(block_M, dim):
                row = bx * block_M + i
                product[i, j] = T.cast(O[row, j], "float32") * T.cast(dO[row, j], "float32")
            T.reduce_sum(product, total, dim=1)
            T.copy(total, D[bx * block_M])

    return delta


@tile.jit
def backward_kernel(batch, heads, length, dim, causal, block_M=64, block_N=32, dtype="float16"):
    """A kernel for dK and dV, and for dQ in fp32, to which it adds; block_M keys a block, block_N queries a step."""
    scale = 1.0 / math.sqrt(dim)
    base2 = scale * math.log2(math.e)
    shape = (batch, heads, length, dim)

    @T.prim_func
    def backward(
        Q: T.Tensor(shape, dtype),
        K: T.Tensor(shape, dtype),
        V: T.Tensor(shape, dtype),
        dO: T.Tensor(shape, dtype),
        L: T.Tensor((batch, heads, length), "float32"),
        D: T.Tensor((batch, heads, length), "float32"),
        dQ: T.Tensor(shape, "float32"),
        dK: T.Tensor(shape, dtype),
        dV: T.Tensor(shape, dtype),
    ):
        with T.Kernel(T.ceildiv(length, block_M), heads, batch, threads=128) as (bx, by, bz):
            K_shared = T.alloc_shared((block_M, dim), dtype)
            V_shared = T.alloc_shared((block_M, dim), dtype)
            Q_shared = T.alloc_shared((block_N, dim), dtype)
            dO_shared = T.alloc_shared((block_N, dim), dtype)
            dS_shared = T.alloc_shared((block_M, block_N), dtype)
            L_shared = T.alloc_shared((block_N,), "float32")
            D_shared = T.alloc_shared((block_N,), "float32")
            scores = T.alloc_fragment((block_M, block_N), "float32")
            slopes = T.alloc_fragment((block_M, block_N), "float32")
            weights = T.alloc_fragment((block_M, block_N), dtype)
            dS = T.alloc_fragment((block_M, block_N), dtype)
            dk = T.alloc_fragment((block_M, dim), "float32")
            dv = T.alloc_fragment((block_M, dim), "float32")
            dq = T.alloc_fragment((block_N, dim), "float32")
            T.copy(K[bz, by, bx * block_M : (bx + 1) * block_M, :], K_shared)
            T.copy(V[bz, by, bx * block_M : (bx + 1) * block_M, :], V_shared)
            T.clear(dk)
            T.clear(dv)
            first = bx * block_M // block_N if causal else 0
            for k in T.Pipelined(first, T.ceildiv(length, block_N), num_stages=2):
                T.copy(Q[bz, by, k * block_N : (k + 1) * block_N, :], Q_shared)
                T.copy(dO[bz, by, k * block_N : (k + 1) * block_N, :], dO_shared)
                T.copy(L[bz, by, k * block_N : (k + 1) * block_N], L_shared)
                T.copy(D[bz, by, k * block_N : (k + 1) * block_N], D_shared)
                T.clear(scores)
                T.gemm(K_shared, Q_shared, scores, transpose_B=True, policy=T.GemmWarpPolicy.FullRow)
                for i, j in T.Parallel(block_M, block_N):
                    scores[i, j] = T.exp2(scores[i, j] * base2 - L_shared[j])
                if causal:
                    for i, j in T.Parallel(block_M, block_N):
                        visible = bx * block_M + i <= k * block_N + j
                        scores[i, j] = T.if_then_else(visible, scores[i, j], 0.0)
                T.clear(slopes)
                T.gemm(V_shared, dO_shared, slopes, transpose_B=True, policy=T.GemmWarpPolicy.FullRow)
                T.copy(scores, weights)
                T.gemm(weights, dO_shared, dv, policy=T.GemmWarpPolicy.FullRow)
                for i, j in T.Parallel(block_M, block_N):
                    dS[i, j] = scores[i, j] * (slopes[i, j] - D_shared[j]) * scale
                T.gemm(dS, Q_shared, dk, policy=T.GemmWarpPolicy.FullRow)
                T.copy(dS, dS_shared)
                T.clear(dq)
                T.gemm(dS_shared, K_shared, dq, transpose_A=True)
                T.atomic_add(dQ[bz, by, k * block_N : (k + 1) * block_N, :], dq)
            T.copy(dk, dK[bz, by, bx * block_M : (bx + 1) * block_M, :])
            T.copy(dv, dV[bz, by, bx * block_M : (bx + 1) * block_M, :])

    return backward


def forward(q, k, v, causal):
    """The result, and the logarithms that backward needs."""
    return forward_kernel(*q.shape, causal)(q, k, v)


def backward(q, k, v, o, logs, do, causal):
    """Gradients of q, k and v."""
    import torch

    batch, heads, length, dim = q.shape
    delta = delta_kernel(batch * heads * length, dim)(o.view(-1, dim), do.view(-1, dim)).view_as(logs)
    dq = torch.zeros(q.shape, dtype=torch.float32, device=q.device)
    dk, dv = torch.empty_like(k), torch.empty_like(v)
    backward_kernel(batch, heads, length, dim, causal)(q, k, v, do, logs, delta, dq, dk, dv)
    return dq.to(q.dtype), dk, dv


def attention(q, k, v, do, causal):
    """The result and all gradients, by Tile."""
    o, logs = forward(q, k, v, causal)
    return o, *backward(q, k, v, o, logs, do, causal)


def reference(q, k, v, do, causal):
    """The result and all gradients, by torch."""
    import torch

    leaves = [t.detach().requires_grad_() for t in (q, k, v)]
    o = torch.nn.functional.scaled_dot_product_attention(*leaves, is_causal=causal)
    return o.detach(), *torch.autograd.grad(o, leaves, do)


def cases(small=False):
    """(label, kernel, reference, inputs, length of the sums)."""
    import torch

    shapes = (
        [(1, 2, 50, 32, True), (2, 1, 70, 32, False)] if small else [(1, 8, 1024, 64, False), (2, 4, 777, 64, True)]
    )
    for batch, heads, length, dim, causal in shapes:
        q, k, v, do = (torch.randn(batch, heads, length, dim, dtype=torch.float16) for _ in range(4))
        label = f"B{batch} H{heads} {length} D{dim}{' causal' if causal else ''}"
        yield label, attention, reference, (q, k, v, do, causal), length


if __name__ == "__main__":
    from _run import run

    run("attention backward", cases)
