"""Kernels on tiles, as users write them: what tests and tools of this backend run through the whole pipeline."""

from __future__ import annotations

from typing import Any

import tile_core.language as T

__all__ = ["attention", "column_scan", "elementwise", "reduce", "softmax", "sparse_gemm", "swapped", "tiled_gemm"]


def tiled_gemm(
    m: int,
    n: int,
    k: int,
    tile: tuple[int, int, int],
    dtype: str = "float16",
    accumulator: str = "float32",
    out: str = "float32",
    transpose_a: bool = False,
    transpose_b: bool = False,
    threads: int = 128,
    stages: int = 2,
    policy: Any = T.GemmWarpPolicy.Square,
) -> Any:
    """C = op(A) op(B), a tile of C a block, K in a pipelined loop."""
    rows, columns, depth = tile

    @T.prim_func
    def gemm(
        A: T.Tensor((k, m) if transpose_a else (m, k), dtype),
        B: T.Tensor((n, k) if transpose_b else (k, n), dtype),
        C: T.Tensor((m, n), out),
    ):
        with T.Kernel(T.ceildiv(n, columns), T.ceildiv(m, rows), threads=threads) as (bx, by):
            a = T.alloc_shared((depth, rows) if transpose_a else (rows, depth), dtype)
            b = T.alloc_shared((columns, depth) if transpose_b else (depth, columns), dtype)
            c = T.alloc_fragment((rows, columns), accumulator)
            T.clear(c)
            for step in T.Pipelined(T.ceildiv(k, depth), num_stages=stages):
                if transpose_a:
                    T.copy(A[step * depth, by * rows], a)
                else:
                    T.copy(A[by * rows, step * depth], a)
                if transpose_b:
                    T.copy(B[bx * columns, step * depth], b)
                else:
                    T.copy(B[step * depth, bx * columns], b)
                T.gemm(a, b, c, transpose_A=transpose_a, transpose_B=transpose_b, policy=policy)
            T.copy(c, C[by * rows, bx * columns])

    return gemm


def sparse_gemm(
    m: int,
    n: int,
    k: int,
    tile: tuple[int, int, int],
    dtype: str = "float16",
    accumulator: str = "float32",
    places: str = "int16",
    scope: str = "shared",
    threads: int = 64,
    stages: int = 2,
) -> Any:
    """C = A B of a sparse A, a tile of C a block; `places` is the type of E, `scope` where its tile lies."""
    rows, columns, depth = tile
    covered = int(places.lstrip("uint")) // (2 if dtype.endswith("32") else 1)

    @T.prim_func
    def gemm(
        A: T.Tensor((m, k // 2), dtype),
        E: T.Tensor((m, k // covered), places),
        B: T.Tensor((k, n), dtype),
        C: T.Tensor((m, n), accumulator),
    ):
        with T.Kernel(T.ceildiv(n, columns), T.ceildiv(m, rows), threads=threads) as (bx, by):
            a = T.alloc_shared((rows, depth // 2), dtype)
            e = T.alloc_buffer((rows, depth // covered), places, scope=scope)
            b = T.alloc_shared((depth, columns), dtype)
            c = T.alloc_fragment((rows, columns), accumulator)
            T.clear(c)
            for step in T.Pipelined(T.ceildiv(k, depth), num_stages=stages):
                T.copy(A[by * rows, step * depth // 2], a)
                T.copy(E[by * rows, step * depth // covered], e)
                T.copy(B[step * depth, bx * columns], b)
                T.gemm_sp(a, e, b, c)
            T.copy(c, C[by * rows, bx * columns])

    return gemm


def softmax(m: int, n: int, rows: int, threads: int = 128, dtype: str = "float32") -> Any:
    """Y = softmax of the rows of X."""

    @T.prim_func
    def softmax(X: T.Tensor((m, n), dtype), Y: T.Tensor((m, n), dtype)):
        with T.Kernel(T.ceildiv(m, rows), threads=threads) as block:
            x = T.alloc_fragment((rows, n), "float32")
            largest = T.alloc_fragment((rows,), "float32")
            total = T.alloc_fragment((rows,), "float32")
            T.copy(X[block * rows, 0], x)
            T.reduce_max(x, largest, dim=1)
            for i, j in T.Parallel(rows, n):
                x[i, j] = T.exp(x[i, j] - largest[i])
            T.reduce_sum(x, total, dim=1)
            for i, j in T.Parallel(rows, n):
                x[i, j] = x[i, j] / total[i]
            T.copy(x, Y[block * rows, 0])

    return softmax


def reduce(m: int, n: int, axis: int, threads: int = 128, kind: str = "sum", dtype: str = "float32") -> Any:
    """One axis of X combined away by one block."""
    combine = getattr(T, f"reduce_{kind}")
    kept = n if axis == 0 else m

    @T.prim_func
    def reduce(X: T.Tensor((m, n), dtype), Y: T.Tensor((kept,), dtype)):
        with T.Kernel(1, threads=threads) as _:
            x = T.alloc_fragment((m, n), dtype)
            y = T.alloc_fragment((kept,), dtype)
            T.copy(X, x)
            combine(x, y, dim=axis)
            T.copy(y, Y)

    return reduce


def column_scan(m: int, n: int, threads: int = 128) -> Any:
    """Sums down the columns of X, as far as each row."""

    @T.prim_func
    def column_scan(X: T.Tensor((m, n), "float32"), Y: T.Tensor((m, n), "float32")):
        with T.Kernel(1, threads=threads) as _:
            x = T.alloc_fragment((m, n), "float32")
            T.copy(X, x)
            T.cumsum(x, dim=0)
            T.copy(x, Y)

    return column_scan


def elementwise(m: Any, n: Any, rows: int, columns: int, dtype: str = "float16") -> Any:
    """C = A + B without tiles on chip."""

    @T.prim_func
    def elementwise(A: T.Tensor((m, n), dtype), B: T.Tensor((m, n), dtype), C: T.Tensor((m, n), dtype)):
        with T.Kernel(T.ceildiv(n, columns), T.ceildiv(m, rows), threads=128) as (bx, by):
            for i, j in T.Parallel(rows, columns):
                row, column = by * rows + i, bx * columns + j
                C[row, column] = A[row, column] + B[row, column]

    return elementwise


def swapped(m: int, n: int, tile: int) -> Any:
    """B = A transposed, through a shared tile."""

    @T.prim_func
    def swapped(A: T.Tensor((m, n), "float32"), B: T.Tensor((n, m), "float32")):
        with T.Kernel(T.ceildiv(n, tile), T.ceildiv(m, tile), threads=128) as (bx, by):
            held = T.alloc_shared((tile, tile), "float32")
            T.copy(A[by * tile, bx * tile], held)
            for i, j in T.Parallel(tile, tile):
                B[bx * tile + i, by * tile + j] = held[j, i]

    return swapped


def attention(
    length: int,
    width: int,
    rows: int,
    columns: int,
    threads: int = 128,
    stages: int = 2,
    policy: Any = T.GemmWarpPolicy.FullRow,
    dtype: str = "float16",
) -> Any:
    """O = softmax(Q Kᵀ) V with a running maximum, a tile of rows a block; no scaling."""

    @T.prim_func
    def attention(
        Q: T.Tensor((length, width), dtype),
        K: T.Tensor((length, width), dtype),
        V: T.Tensor((length, width), dtype),
        O: T.Tensor((length, width), dtype),
    ):
        with T.Kernel(T.ceildiv(length, rows), threads=threads) as block:
            q = T.alloc_shared((rows, width), dtype)
            k = T.alloc_shared((columns, width), dtype)
            v = T.alloc_shared((columns, width), dtype)
            scores = T.alloc_fragment((rows, columns), "float32")
            weights = T.alloc_fragment((rows, columns), dtype)
            out = T.alloc_fragment((rows, width), "float32")
            largest = T.alloc_fragment((rows,), "float32")
            before = T.alloc_fragment((rows,), "float32")
            scale = T.alloc_fragment((rows,), "float32")
            partial = T.alloc_fragment((rows,), "float32")
            total = T.alloc_fragment((rows,), "float32")
            T.copy(Q[block * rows, 0], q)
            T.clear(out)
            T.clear(total)
            T.fill(largest, -T.infinity("float32"))
            for step in T.Pipelined(T.ceildiv(length, columns), num_stages=stages):
                T.copy(K[step * columns, 0], k)
                T.clear(scores)
                T.gemm(q, k, scores, transpose_B=True, policy=policy)
                T.copy(V[step * columns, 0], v)
                T.copy(largest, before)
                T.reduce_max(scores, largest, dim=1, clear=False)
                for i in T.Parallel(rows):
                    scale[i] = T.exp(before[i] - largest[i])
                for i, j in T.Parallel(rows, columns):
                    scores[i, j] = T.exp(scores[i, j] - largest[i])
                T.reduce_sum(scores, partial, dim=1)
                for i in T.Parallel(rows):
                    total[i] = total[i] * scale[i] + partial[i]
                T.copy(scores, weights)
                for i, j in T.Parallel(rows, width):
                    out[i, j] *= scale[i]
                T.gemm(weights, v, out, policy=policy)
            for i, j in T.Parallel(rows, width):
                out[i, j] /= total[i]
            T.copy(out, O[block * rows, 0])

    return attention
