"""Attention with a running maximum: both products in one pipelined loop, keys to any length."""

from __future__ import annotations

import math
from typing import Any

import torch

import tile_core.language as T

from .case import Case, normal

__all__ = ["KERNELS"]


def attention(causal: bool = False, missing: int = 0, stages: int = 2, rows: int = 32, threads: int = 64) -> Case:
    """One block of queries, keys a tile of 16 at a time; `missing` keys at the end of the last tile do not exist.

    Causal: a query sees the keys as far as its own number.
    """
    width, columns = 32, 16
    scale = math.log2(math.e) / math.sqrt(width)

    def make() -> Any:
        L = T.dynamic("length")

        @T.prim_func
        def attention(
            Q: T.Tensor((rows, width), "float16"),
            K: T.Tensor((L, width), "float16"),
            V: T.Tensor((L, width), "float16"),
            O: T.Tensor((rows, width), "float32"),
        ):
            with T.Kernel(1, threads=threads) as _:
                q = T.alloc_shared((rows, width), "float16")
                keys = T.alloc_shared((columns, width), "float16")
                values = T.alloc_shared((columns, width), "float16")
                scores = T.alloc_fragment((rows, columns), "float32")
                weights = T.alloc_fragment((rows, columns), "float16")
                out = T.alloc_fragment((rows, width), "float32")
                top = T.alloc_fragment((rows,), "float32")
                before = T.alloc_fragment((rows,), "float32")
                rescale = T.alloc_fragment((rows,), "float32")
                part = T.alloc_fragment((rows,), "float32")
                total = T.alloc_fragment((rows,), "float32")
                T.copy(Q, q)
                T.clear(out)
                T.clear(total)
                T.fill(top, -1e30)
                for k in T.Pipelined(T.ceildiv(L, columns), num_stages=stages):
                    T.copy(K[k * columns, 0], keys)
                    for i, j in T.Parallel(rows, columns):
                        seen = k * columns + j < L
                        if causal:
                            seen = T.all_of(seen, k * columns + j <= i)
                        scores[i, j] = T.if_then_else(seen, 0.0, -T.infinity("float32"))
                    T.gemm(q, keys, scores, transpose_B=True, policy=T.GemmWarpPolicy.FullRow)
                    T.copy(top, before)
                    T.reduce_max(scores, top, dim=1, clear=False)
                    for i in T.Parallel(rows):
                        rescale[i] = T.exp2((before[i] - top[i]) * scale)
                    for i, j in T.Parallel(rows, columns):
                        scores[i, j] = T.exp2((scores[i, j] - top[i]) * scale)
                    T.reduce_sum(scores, part, dim=1)
                    for i in T.Parallel(rows):
                        total[i] = total[i] * rescale[i] + part[i]
                    T.copy(scores, weights)
                    for i, j in T.Parallel(rows, width):
                        out[i, j] = out[i, j] * rescale[i]
                    T.copy(V[k * columns, 0], values)
                    T.gemm(weights, values, out, policy=T.GemmWarpPolicy.FullRow)
                for i, j in T.Parallel(rows, width):
                    out[i, j] = out[i, j] / T.max(total[i], 1e-30)
                T.copy(out, O)

        return attention

    def inputs(random: torch.Generator, trips: int) -> list[torch.Tensor]:
        length = max(columns * trips - missing, 0)
        return [normal(random, n, width, dtype=torch.float16) for n in (rows, length, length)]

    def meaning(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> list[torch.Tensor]:
        scores = q.float() @ k.float().T / math.sqrt(width)
        if causal:
            scores = scores.masked_fill(torch.arange(len(k)) > torch.arange(rows)[:, None], -torch.inf)
        return [torch.softmax(scores, 1) @ v.float()]

    return Case(make, inputs, meaning, stages, "float16", lambda trips: max(columns * trips, 1))


def chained() -> Case:
    """(A B) D: the first product is an operand of the second from registers."""

    def make() -> Any:
        K = T.dynamic("k")

        @T.prim_func
        def chained(
            A: T.Tensor((32, 32), "float16"),
            B: T.Tensor((K, 32), "float16"),
            D: T.Tensor((K, 32), "float16"),
            C: T.Tensor((32, 32), "float32"),
        ):
            with T.Kernel(1, threads=64) as _:
                a = T.alloc_shared((32, 32), "float16")
                b = T.alloc_shared((16, 32), "float16")
                d = T.alloc_shared((16, 32), "float16")
                first = T.alloc_fragment((32, 16), "float32")
                narrow = T.alloc_fragment((32, 16), "float16")
                c = T.alloc_fragment((32, 32), "float32")
                T.copy(A, a)
                T.clear(c)
                for k in T.Pipelined(T.ceildiv(K, 16), num_stages=3):
                    T.copy(B[k * 16, 0], b)
                    T.copy(D[k * 16, 0], d)
                    T.gemm(a, b, first, transpose_B=True, clear_accum=True, policy=T.GemmWarpPolicy.FullRow)
                    T.copy(first, narrow)
                    T.gemm(narrow, d, c, policy=T.GemmWarpPolicy.FullRow)
                T.copy(c, C)

        return chained

    return Case(
        make,
        lambda random, trips: [normal(random, n, 32, dtype=torch.float16) * 0.25 for n in (32, 16 * trips, 16 * trips)],
        lambda a, b, d: [(a.float() @ b.float().T).half().float() @ d.float()],
        3,
        "float16",
        lambda trips: max(16 * trips, 1),
    )


KERNELS = {
    "attention": attention(),
    "attention_causal": attention(causal=True),
    "attention_odd_length": attention(missing=5, stages=3),
    "attention_causal_odd_length": attention(causal=True, missing=3),
    "gemm_chained": chained(),
}
