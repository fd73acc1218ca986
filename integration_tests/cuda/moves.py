"""Element-wise chains, transposes through shared memory, copies under conditions, atomics."""

from __future__ import annotations

from typing import Any

import torch

import tile_core.language as T

from .case import Case, normal

__all__ = ["KERNELS"]


def add() -> Any:
    N = T.dynamic("n")

    @T.prim_func
    def add(X: T.Tensor((N,), "float32"), Y: T.Tensor((N,), "float32"), Z: T.Tensor((N,), "float32")):
        with T.Kernel(T.ceildiv(N, 128), threads=32) as bx:
            for i in T.Parallel(128):
                Z[bx * 128 + i] = X[bx * 128 + i] + Y[bx * 128 + i]

    return add


def chain() -> Any:
    """silu(x) · y + 1, fp16 in and out, fp32 between."""
    N = T.dynamic("n")

    @T.prim_func
    def chain(X: T.Tensor((N,), "float16"), Y: T.Tensor((N,), "float16"), Z: T.Tensor((N,), "float16")):
        with T.Kernel(1, threads=32) as _:
            x = T.alloc_fragment((128,), "float32")
            y = T.alloc_fragment((128,), "float32")
            for k in T.serial(T.ceildiv(N, 128)):
                T.copy(X[k * 128], x)
                T.copy(Y[k * 128], y)
                for i in T.Parallel(128):
                    x[i] = x[i] / (1.0 + T.exp(-x[i]))
                for i in T.Parallel(128):
                    x[i] = x[i] * y[i] + 1.0
                T.copy(x, Z[k * 128])

    return chain


def transpose() -> Any:
    M = T.dynamic("m")

    @T.prim_func
    def transpose(A: T.Tensor((M, 20), "float32"), B: T.Tensor((20, M), "float32")):
        with T.Kernel(T.ceildiv(M, 16), T.ceildiv(20, 16), threads=64) as (bx, by):
            held = T.alloc_shared((16, 16), "float32")
            T.copy(A[bx * 16, by * 16], held)
            for i, j in T.Parallel(16, 16):
                B[by * 16 + i, bx * 16 + j] = held[j, i]

    return transpose


def transpose_pipelined() -> Any:
    M = T.dynamic("m")

    @T.prim_func
    def transpose(A: T.Tensor((M, 16), "float16"), B: T.Tensor((16, M), "float16")):
        with T.Kernel(1, threads=32) as _:
            held = T.alloc_shared((16, 16), "float16")
            for k in T.Pipelined(T.ceildiv(M, 16), num_stages=3):
                T.copy(A[k * 16, 0], held)
                for i, j in T.Parallel(16, 16):
                    B[i, k * 16 + j] = held[j, i]

    return transpose


def chosen_copy() -> Any:
    """In each step one of two tensors is copied: which one, an array says."""
    M = T.dynamic("m")

    @T.prim_func
    def chosen(
        A: T.Tensor((M, 32), "float32"),
        B: T.Tensor((M, 32), "float32"),
        C: T.Tensor((M, 32), "float32"),
    ):
        with T.Kernel(1, threads=32) as _:
            held = T.alloc_shared((8, 32), "float32")
            for k in T.Pipelined(T.ceildiv(M, 8), num_stages=2):
                if k % 2 == 0:
                    T.copy(A[k * 8, 0], held)
                else:
                    T.copy(B[k * 8, 0], held)
                for i, j in T.Parallel(8, 32):
                    C[k * 8 + i, j] = held[i, 31 - j]

    return chosen


def chosen_meaning(a: torch.Tensor, b: torch.Tensor) -> list[torch.Tensor]:
    first = (torch.arange(len(a)) // 8 % 2 == 0)[:, None]
    return [torch.where(first, a, b).flip(1)]


def histogram() -> Any:
    N = T.dynamic("n")

    @T.prim_func
    def histogram(X: T.Tensor((N,), "int32"), H: T.Tensor((16,), "int32")):
        with T.Kernel(T.ceildiv(N, 64), threads=32) as bx:
            for i in T.Parallel(64):
                if bx * 64 + i < N:
                    T.atomic_add(H[X[bx * 64 + i]], 1)

    return histogram


def extremes() -> Any:
    """Largest and smallest by atomics of many blocks."""
    N = T.dynamic("n")

    @T.prim_func
    def extremes(X: T.Tensor((N,), "int32"), top: T.Tensor((4,), "int32"), low: T.Tensor((4,), "int32")):
        with T.Kernel(T.ceildiv(N, 64), threads=32) as bx:
            for i in T.Parallel(64):
                if bx * 64 + i < N:
                    T.atomic_max(top[i % 4], X[bx * 64 + i])
                    T.atomic_min(low[i % 4], X[bx * 64 + i])

    return extremes


def extremes_meaning(x: torch.Tensor) -> list[torch.Tensor]:
    zero = torch.zeros(1, 4, dtype=torch.int32)
    grouped = torch.cat([x.reshape(-1, 4), zero])
    return [grouped.amax(0), grouped.amin(0)]


KERNELS = {
    "add": Case(
        add,
        lambda random, trips: [normal(random, max(128 * trips - 3, 0)) for _ in range(2)],
        lambda x, y: [x + y],
        quick=True,
    ),
    "fused_chain": Case(
        chain,
        lambda random, trips: [normal(random, 128 * trips, dtype=torch.float16) for _ in range(2)],
        lambda x, y: [(torch.nn.functional.silu(x.float()) * y.float() + 1).half()],
    ),
    "transpose": Case(
        transpose, lambda random, trips: [normal(random, max(16 * trips - 3, 0), 20)], lambda a: [a.T.contiguous()]
    ),
    "transpose_pipelined": Case(
        transpose_pipelined,
        lambda random, trips: [normal(random, 16 * trips, 16, dtype=torch.float16)],
        lambda a: [a.T.contiguous()],
        3,
    ),
    "chosen_copy": Case(
        chosen_copy, lambda random, trips: [normal(random, 8 * trips, 32) for _ in range(2)], chosen_meaning, 2
    ),
    "histogram": Case(
        histogram,
        lambda random, trips: [torch.randint(0, 16, (max(64 * trips - 7, 0),), generator=random).int()],
        lambda x: [torch.bincount(x, minlength=16).int()],
        start=0,
        quick=True,
    ),
    "atomic_extremes": Case(
        extremes,
        lambda random, trips: [torch.randint(-99, 99, (64 * trips,), generator=random).int()],
        extremes_meaning,
        start=0,
    ),
}
