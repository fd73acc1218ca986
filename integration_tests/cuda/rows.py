"""Softmax, norms, reductions and scans over a dynamic number of tiles of rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

import tile_core.language as T

from .case import Case, normal

__all__ = ["KERNELS"]

ROWS, WIDTH = 8, 48  # of a tile


def of_rows(make: Callable[[], Any], meaning: Callable[..., Any], stages: int = 1, quick: bool = False) -> Case:
    """A kernel X → Y over the rows of X, ROWS at a time."""
    return Case(
        make,
        lambda random, trips: [normal(random, ROWS * trips, WIDTH)],
        lambda x: [meaning(x)],
        stages,
        terms=lambda trips: WIDTH,
        quick=quick,
    )


def softmax() -> Any:
    M = T.dynamic("m")

    @T.prim_func
    def softmax(X: T.Tensor((M, WIDTH), "float32"), Y: T.Tensor((M, WIDTH), "float32")):
        with T.Kernel(1, threads=64) as _:
            x = T.alloc_fragment((ROWS, WIDTH), "float32")
            top = T.alloc_fragment((ROWS,), "float32")
            total = T.alloc_fragment((ROWS,), "float32")
            for r in T.serial(T.ceildiv(M, ROWS)):
                T.copy(X[r * ROWS, 0], x)
                T.reduce_max(x, top, dim=1)
                for i, j in T.Parallel(ROWS, WIDTH):
                    x[i, j] = T.exp(x[i, j] - top[i])
                T.reduce_sum(x, total, dim=1)
                for i, j in T.Parallel(ROWS, WIDTH):
                    x[i, j] = x[i, j] / total[i]
                T.copy(x, Y[r * ROWS, 0])

    return softmax


def softmax_pipelined() -> Any:
    M = T.dynamic("m")

    @T.prim_func
    def softmax(X: T.Tensor((M, WIDTH), "float32"), Y: T.Tensor((M, WIDTH), "float32")):
        with T.Kernel(1, threads=32) as _:
            held = T.alloc_shared((ROWS, WIDTH), "float32")
            x = T.alloc_fragment((ROWS, WIDTH), "float32")
            top = T.alloc_fragment((ROWS,), "float32")
            total = T.alloc_fragment((ROWS,), "float32")
            for r in T.Pipelined(T.ceildiv(M, ROWS), num_stages=3):
                T.copy(X[r * ROWS, 0], held)
                T.copy(held, x)
                T.reduce_max(x, top, dim=1)
                for i, j in T.Parallel(ROWS, WIDTH):
                    x[i, j] = T.exp(x[i, j] - top[i])
                T.reduce_sum(x, total, dim=1)
                for i, j in T.Parallel(ROWS, WIDTH):
                    x[i, j] = x[i, j] / total[i]
                T.copy(x, Y[r * ROWS, 0])

    return softmax


def rms_norm() -> Any:
    M = T.dynamic("m")

    @T.prim_func
    def rms_norm(X: T.Tensor((M, WIDTH), "float32"), Y: T.Tensor((M, WIDTH), "float32")):
        with T.Kernel(1, threads=64) as _:
            x = T.alloc_fragment((ROWS, WIDTH), "float32")
            squares = T.alloc_fragment((ROWS, WIDTH), "float32")
            mean = T.alloc_fragment((ROWS,), "float32")
            for r in T.serial(T.ceildiv(M, ROWS)):
                T.copy(X[r * ROWS, 0], x)
                for i, j in T.Parallel(ROWS, WIDTH):
                    squares[i, j] = x[i, j] * x[i, j]
                T.reduce_sum(squares, mean, dim=1)
                for i, j in T.Parallel(ROWS, WIDTH):
                    x[i, j] = x[i, j] * T.rsqrt(mean[i] / WIDTH + 1e-5)
                T.copy(x, Y[r * ROWS, 0])

    return rms_norm


def layer_norm() -> Any:
    M = T.dynamic("m")

    @T.prim_func
    def layer_norm(X: T.Tensor((M, WIDTH), "float32"), Y: T.Tensor((M, WIDTH), "float32")):
        with T.Kernel(1, threads=64) as _:
            held = T.alloc_shared((ROWS, WIDTH), "float32")
            x = T.alloc_fragment((ROWS, WIDTH), "float32")
            squares = T.alloc_fragment((ROWS, WIDTH), "float32")
            mean = T.alloc_fragment((ROWS,), "float32")
            spread = T.alloc_fragment((ROWS,), "float32")
            for r in T.Pipelined(T.ceildiv(M, ROWS), num_stages=2):
                T.copy(X[r * ROWS, 0], held)
                T.copy(held, x)
                T.reduce_sum(x, mean, dim=1)
                for i, j in T.Parallel(ROWS, WIDTH):
                    x[i, j] = x[i, j] - mean[i] / WIDTH
                for i, j in T.Parallel(ROWS, WIDTH):
                    squares[i, j] = x[i, j] * x[i, j]
                T.reduce_sum(squares, spread, dim=1)
                for i, j in T.Parallel(ROWS, WIDTH):
                    x[i, j] = x[i, j] * T.rsqrt(spread[i] / WIDTH + 1e-5)
                T.copy(x, Y[r * ROWS, 0])

    return layer_norm


def reduced(kind: str, threads: int = 64) -> Callable[[], Any]:
    """Each row to one number."""
    combine = getattr(T, f"reduce_{kind}")

    def make() -> Any:
        M = T.dynamic("m")

        @T.prim_func
        def reduced(X: T.Tensor((M, WIDTH), "float32"), Y: T.Tensor((M,), "float32")):
            with T.Kernel(1, threads=threads) as _:
                x = T.alloc_fragment((ROWS, WIDTH), "float32")
                y = T.alloc_fragment((ROWS,), "float32")
                for r in T.serial(T.ceildiv(M, ROWS)):
                    T.copy(X[r * ROWS, 0], x)
                    combine(x, y, dim=1)
                    T.copy(y, Y[r * ROWS])

        return reduced

    return make


def reduced_columns(kind: str, stages: int = 2, threads: int = 64) -> Callable[[], Any]:
    """Each column to one number: a running result over the tiles."""
    combine = getattr(T, f"reduce_{kind}")
    neutral = {"sum": 0.0, "absmax": 0.0, "max": -1e30, "min": 1e30}[kind]

    def make() -> Any:
        M = T.dynamic("m")

        @T.prim_func
        def reduced(X: T.Tensor((M, WIDTH), "float32"), Y: T.Tensor((WIDTH,), "float32")):
            with T.Kernel(1, threads=threads) as _:
                held = T.alloc_shared((ROWS, WIDTH), "float32")
                x = T.alloc_fragment((ROWS, WIDTH), "float32")
                y = T.alloc_fragment((WIDTH,), "float32")
                T.fill(y, neutral)
                for r in T.Pipelined(T.ceildiv(M, ROWS), num_stages=stages):
                    T.copy(X[r * ROWS, 0], held)
                    T.copy(held, x)
                    combine(x, y, dim=0, clear=False)
                T.copy(y, Y)

        return reduced

    return make


def of_columns(kind: str, stages: int = 2) -> Case:
    neutral = {"sum": 0.0, "absmax": 0.0, "max": -1e30, "min": 1e30}[kind]

    def meaning(x: torch.Tensor) -> torch.Tensor:
        if not len(x):
            return torch.full((WIDTH,), neutral)
        return {"sum": x.sum(0), "max": x.amax(0), "min": x.amin(0), "absmax": x.abs().amax(0)}[kind]

    return of_rows(reduced_columns(kind, stages), meaning, stages)


def running(kind: str, axis: int) -> Callable[[], Any]:
    """Running sums or maxima inside each tile."""
    scan = getattr(T, f"cum{kind}")

    def make() -> Any:
        M = T.dynamic("m")

        @T.prim_func
        def running(X: T.Tensor((M, WIDTH), "float32"), Y: T.Tensor((M, WIDTH), "float32")):
            with T.Kernel(1, threads=64) as _:
                x = T.alloc_fragment((ROWS, WIDTH), "float32")
                for r in T.serial(T.ceildiv(M, ROWS)):
                    T.copy(X[r * ROWS, 0], x)
                    scan(x, dim=axis)
                    T.copy(x, Y[r * ROWS, 0])

        return running

    return make


def running_backwards() -> Any:
    """In place in shared memory, from the end of each row."""
    M = T.dynamic("m")

    @T.prim_func
    def running(X: T.Tensor((M, WIDTH), "float32"), Y: T.Tensor((M, WIDTH), "float32")):
        with T.Kernel(1, threads=64) as _:
            x = T.alloc_shared((ROWS, WIDTH), "float32")
            for r in T.Pipelined(T.ceildiv(M, ROWS), num_stages=2):
                T.copy(X[r * ROWS, 0], x)
                T.cumsum(x, dim=1, reverse=True)
                T.copy(x, Y[r * ROWS, 0])

    return running


KERNELS = {
    "softmax": of_rows(softmax, lambda x: torch.softmax(x, 1), quick=True),
    "softmax_pipelined": of_rows(softmax_pipelined, lambda x: torch.softmax(x, 1), 3),
    "rms_norm": of_rows(rms_norm, lambda x: x * torch.rsqrt((x * x).mean(1, keepdim=True) + 1e-5)),
    "layer_norm": of_rows(layer_norm, lambda x: torch.nn.functional.layer_norm(x, (WIDTH,), eps=1e-5), 2),
    "row_sum": of_rows(reduced("sum"), lambda x: x.sum(1)),
    "row_sum_three_warps": of_rows(reduced("sum", threads=96), lambda x: x.sum(1)),
    "row_max": of_rows(reduced("max"), lambda x: x.amax(1)),
    "row_min": of_rows(reduced("min"), lambda x: x.amin(1)),
    "row_absmax": of_rows(reduced("absmax"), lambda x: x.abs().amax(1)),
    "column_sum": of_columns("sum"),
    "column_max": of_columns("max", 3),
    "column_min": of_columns("min"),
    "column_absmax": of_columns("absmax"),
    "running_sum_rows": of_rows(running("sum", 1), lambda x: x.cumsum(1)),
    "running_sum_columns": of_rows(running("sum", 0), lambda x: x.reshape(-1, ROWS, WIDTH).cumsum(1).reshape(x.shape)),
    "running_max_rows": of_rows(running("max", 1), lambda x: x.cummax(1).values),
    "running_sum_backwards": of_rows(running_backwards, lambda x: x.flip(1).cumsum(1).flip(1), 2),
}
