"""Pipelined kernels of many kinds, each with a dynamic number of trips: what they are called with, what is right."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

import tile_core.language as T

__all__ = ["KERNELS", "PipelinedKernel"]

STEP = 32


@dataclass(frozen=True)
class PipelinedKernel:
    """A kernel and its meaning.

    Args:
        make: () → the traced function.
        inputs: (generator, trips) → the inputs.
        meaning: (inputs…) → the output, in float32 or the output's type.
        stages: of its pipeline.
    """

    make: Callable[[], Any]
    inputs: Callable[[torch.Generator, int], Sequence[torch.Tensor]]
    meaning: Callable[..., torch.Tensor]
    stages: int

    def case(self, trips: int) -> list[torch.Tensor]:
        """Arguments for a number of trips: inputs, then an output full of a number that is nowhere right."""
        given = list(self.inputs(torch.Generator().manual_seed(trips), trips))
        return [*given, torch.full_like(self.meaning(*given), 77)]


def gemm(
    dtype="float16", accum="float32", stages=3, ta=False, tb=False, threads=128, tile=(64, 64), **loop
) -> Callable[[], Any]:
    m, n = tile

    def make():
        K = T.dynamic("k")
        a_shape, b_shape = ((K, m) if ta else (m, K)), ((n, K) if tb else (K, n))
        a_tile, b_tile = ((STEP, m) if ta else (m, STEP)), ((n, STEP) if tb else (STEP, n))

        @T.prim_func
        def gemm(A: T.Tensor(a_shape, dtype), B: T.Tensor(b_shape, dtype), C: T.Tensor((m, n), accum)):
            with T.Kernel(1, threads=threads) as bx:
                A_shared = T.alloc_shared(a_tile, dtype)
                B_shared = T.alloc_shared(b_tile, dtype)
                acc = T.alloc_fragment((m, n), accum)
                T.clear(acc)
                for k in T.Pipelined(T.ceildiv(K, STEP), num_stages=stages):
                    if ta:
                        T.copy(A[k * STEP, 0], A_shared)
                    else:
                        T.copy(A[0, k * STEP], A_shared)
                    if tb:
                        T.copy(B[0, k * STEP], B_shared)
                    else:
                        T.copy(B[k * STEP, 0], B_shared)
                    T.gemm(A_shared, B_shared, acc, transpose_A=ta, transpose_B=tb)
                T.copy(acc, C)

        return gemm

    return make


def gemm_inputs(dtype: torch.dtype, ta=False, tb=False, tile=(64, 64)):
    def inputs(random, trips):
        m, n, k = *tile, STEP * trips
        shapes = ((k, m) if ta else (m, k)), ((n, k) if tb else (k, n))
        if dtype == torch.int8:
            return [torch.randint(-4, 5, shape, generator=random).to(dtype) for shape in shapes]
        return [torch.randn(shape, generator=random).to(dtype) for shape in shapes]

    return inputs


def product(ta=False, tb=False, out=torch.float32):
    def meaning(a, b):
        a, b = (x.to(torch.int32 if out == torch.int32 else torch.float32) for x in (a, b))
        return ((a.T if ta else a) @ (b.T if tb else b)).to(out)

    return meaning


def of_gemm(dtype="float16", accum="float32", stages=3, ta=False, tb=False, tile=(64, 64), **more) -> PipelinedKernel:
    return PipelinedKernel(
        gemm(dtype, accum, stages, ta, tb, tile=tile, **more),
        gemm_inputs(getattr(torch, dtype), ta, tb, tile),
        product(ta, tb, getattr(torch, accum)),
        stages,
    )


def running_sum(stages: int) -> Callable[[], Any]:
    def make():
        K = T.dynamic("k")

        @T.prim_func
        def column_sums(A: T.Tensor((K, 128), "float32"), B: T.Tensor((128,), "float32")):
            with T.Kernel(1, threads=128) as bx:
                rows = T.alloc_shared((STEP, 128), "float32")
                total = T.alloc_fragment((128,), "float32")
                T.clear(total)
                for k in T.Pipelined(T.ceildiv(K, STEP), num_stages=stages):
                    T.copy(A[k * STEP, 0], rows)
                    for r in T.serial(STEP):
                        for j in T.Parallel(128):
                            total[j] = total[j] + rows[r, j]
                T.copy(total, B)

        return column_sums

    return make


def mirrored(stages: int) -> Callable[[], Any]:
    def make():
        K = T.dynamic("k")

        @T.prim_func
        def mirrored(A: T.Tensor((K, 128), "float32"), B: T.Tensor((K, 128), "float32")):
            with T.Kernel(1, threads=128) as bx:
                rows = T.alloc_shared((STEP, 128), "float32")
                for k in T.Pipelined(T.ceildiv(K, STEP), num_stages=stages):
                    T.copy(A[k * STEP, 0], rows)
                    for i, j in T.Parallel(STEP, 128):
                        B[k * STEP + i, j] = rows[i, 127 - j] * 2.0

        return mirrored

    return make


def scaled_gemm(stages: int) -> Callable[[], Any]:
    """The second operand is int8, made into fp16 by a scale on its way."""

    def make():
        K = T.dynamic("k")

        @T.prim_func
        def scaled(A: T.Tensor((64, K), "float16"), B: T.Tensor((K, 64), "int8"), C: T.Tensor((64, 64), "float32")):
            with T.Kernel(1, threads=128) as bx:
                A_shared = T.alloc_shared((64, STEP), "float16")
                B_shared = T.alloc_shared((STEP, 64), "int8")
                B_half = T.alloc_shared((STEP, 64), "float16")
                acc = T.alloc_fragment((64, 64), "float32")
                T.clear(acc)
                for k in T.Pipelined(T.ceildiv(K, STEP), num_stages=stages):
                    T.copy(A[0, k * STEP], A_shared)
                    T.copy(B[k * STEP, 0], B_shared)
                    for i, j in T.Parallel(STEP, 64):
                        B_half[i, j] = T.cast(B_shared[i, j], "float16") * T.float16(0.5)
                    T.gemm(A_shared, B_half, acc)
                T.copy(acc, C)

        return scaled

    return make


def two_pipelines() -> Any:
    K = T.dynamic("k")

    @T.prim_func
    def twice(A: T.Tensor((64, K), "float16"), B: T.Tensor((K, 64), "float16"), C: T.Tensor((64, 64), "float32")):
        with T.Kernel(1, threads=128) as bx:
            A_shared = T.alloc_shared((64, STEP), "float16")
            B_shared = T.alloc_shared((STEP, 64), "float16")
            acc = T.alloc_fragment((64, 64), "float32")
            T.clear(acc)
            for k in T.Pipelined(T.ceildiv(K, STEP), num_stages=2):
                T.copy(A[0, k * STEP], A_shared)
                T.copy(B[k * STEP, 0], B_shared)
                T.gemm(A_shared, B_shared, acc)
            for k in T.Pipelined(T.ceildiv(K, STEP), num_stages=3):
                T.copy(A[0, k * STEP], A_shared)
                T.copy(B[k * STEP, 0], B_shared)
                T.gemm(A_shared, B_shared, acc)
            T.copy(acc, C)

    return twice


def attention(stages: int) -> Callable[[], Any]:
    def make():
        K = T.dynamic("k")

        @T.prim_func
        def attention(
            Q: T.Tensor((64, 64), "float16"),
            KV: T.Tensor((K, 64), "float16"),
            V: T.Tensor((K, 64), "float16"),
            O: T.Tensor((64, 64), "float32"),
        ):
            with T.Kernel(1, threads=128) as bx:
                Q_shared = T.alloc_shared((64, 64), "float16")
                K_shared = T.alloc_shared((STEP, 64), "float16")
                V_shared = T.alloc_shared((STEP, 64), "float16")
                scores = T.alloc_fragment((64, STEP), "float32")
                weights = T.alloc_fragment((64, STEP), "float16")
                out = T.alloc_fragment((64, 64), "float32")
                T.copy(Q, Q_shared)
                T.clear(out)
                for k in T.Pipelined(T.ceildiv(K, STEP), num_stages=stages):
                    T.copy(KV[k * STEP, 0], K_shared)
                    T.clear(scores)
                    T.gemm(Q_shared, K_shared, scores, transpose_B=True)
                    T.copy(V[k * STEP, 0], V_shared)
                    for i, j in T.Parallel(64, STEP):
                        weights[i, j] = T.max(scores[i, j], 0.0) * 0.125
                    T.gemm(weights, V_shared, out)
                T.copy(out, O)

        return attention

    return make


def attention_inputs(random, trips):
    return [torch.randn(n, 64, generator=random).half() * 0.3 for n in (64, STEP * trips, STEP * trips)]


def attention_meaning(q, k, v):
    weights = ((q.float() @ k.float().T).clamp(min=0) * 0.125).half()
    return weights.float() @ v.float()


def rows(random, trips):
    return [torch.randn(STEP * trips, 128, generator=random)]


def scaled_inputs(random, trips):
    k = STEP * trips
    return [torch.randn(64, k, generator=random).half(), torch.randint(-8, 9, (k, 64), generator=random).to(torch.int8)]


KERNELS = {
    "gemm_f16_2": of_gemm(stages=2),
    "gemm_f16_3": of_gemm(stages=3),
    "gemm_f16_4": of_gemm(stages=4),
    "gemm_f16_nt": of_gemm(stages=3, tb=True),
    "gemm_f16_tn": of_gemm(stages=2, ta=True),
    "gemm_f16_tt": of_gemm(stages=3, ta=True, tb=True),
    "gemm_f16_256_threads": of_gemm(stages=3, threads=256, tile=(128, 64)),
    "gemm_f16_one_warp": of_gemm(stages=2, threads=32, tile=(32, 32)),
    "gemm_bf16": of_gemm("bfloat16", stages=3),
    "gemm_s8": of_gemm("int8", "int32", stages=3, tb=True),
    "gemm_f32": of_gemm("float32", stages=2, tile=(32, 32)),
    "column_sums_2": PipelinedKernel(running_sum(2), rows, lambda a: a.sum(0), 2),
    "column_sums_4": PipelinedKernel(running_sum(4), rows, lambda a: a.sum(0), 4),
    "mirrored_2": PipelinedKernel(mirrored(2), rows, lambda a: a.flip(1) * 2, 2),
    "mirrored_3": PipelinedKernel(mirrored(3), rows, lambda a: a.flip(1) * 2, 3),
    "scaled_gemm": PipelinedKernel(scaled_gemm(2), scaled_inputs, lambda a, b: a.float() @ (b.float() * 0.5), 2),
    "two_pipelines": PipelinedKernel(
        two_pipelines, gemm_inputs(torch.float16), lambda a, b: 2 * (a.float() @ b.float()), 3
    ),
    "attention_2": PipelinedKernel(attention(2), attention_inputs, attention_meaning, 2),
    "attention_3": PipelinedKernel(attention(3), attention_inputs, attention_meaning, 3),
}
