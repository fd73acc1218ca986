"""Kernels of the tile ops, one case a block."""

from __future__ import annotations

from typing import Any

import tile_core.language as T

__all__ = ["copy_kernel", "fill_kernel", "gemm_kernel", "reduce_kernel", "sparse_gemm_kernel"]


def copy_kernel(cases: int, height: int, width: int, rows: int, columns: int, source: str, target: str) -> Any:
    """Y[b] at offset (r, c) = X[b] at offset (r, c), through shared memory and registers, with a conversion between
    them."""

    @T.prim_func
    def copies(
        X: T.Tensor((cases, height, width), source),
        OFFSETS: T.Tensor((cases, 4), "int32"),
        Y: T.Tensor((cases, height, width), target),
    ):
        with T.Kernel(cases, threads=64) as b:
            shared = T.alloc_shared((rows, columns), source)
            registers = T.alloc_fragment((rows, columns), target)
            T.copy(X[b, OFFSETS[b, 0], OFFSETS[b, 1]], shared)
            T.copy(shared, registers)
            T.copy(registers, Y[b, OFFSETS[b, 2], OFFSETS[b, 3]])

    return copies


def fill_kernel(cases: int, rows: int, columns: int, top: int, left: int, dtype: str) -> Any:
    """Y[b] = V[b, 0], and V[b, 1] in the part from (top, left) on."""

    @T.prim_func
    def fills(V: T.Tensor((cases, 2), dtype), Y: T.Tensor((cases, rows, columns), dtype)):
        with T.Kernel(cases, threads=64) as b:
            registers = T.alloc_fragment((rows, columns), dtype)
            T.fill(registers, V[b, 0])
            T.fill(registers[top:rows, left:columns], V[b, 1])
            T.copy(registers, Y[b, 0:rows, 0:columns])

    return fills


def reduce_kernel(
    cases: int, rows: int, columns: int, axis: int, kinds: tuple[str, ...], clear: bool, dtypes: Any
) -> Any:
    """OUT[k, b] = reduction of X[b] along `axis` by the k-th kind, on top of HELD[k, b] unless `clear`."""
    source, target = dtypes
    length = rows if axis == 1 else columns

    @T.prim_func
    def reduces(
        X: T.Tensor((cases, rows, columns), source),
        HELD: T.Tensor((len(kinds), cases, length), target),
        OUT: T.Tensor((len(kinds), cases, length), target),
    ):
        with T.Kernel(cases, threads=64) as b:
            tile = T.alloc_fragment((rows, columns), source)
            result = T.alloc_fragment((length,), target)
            T.copy(X[b, 0:rows, 0:columns], tile)
            for k, kind in enumerate(kinds):
                T.copy(HELD[k, b, 0:length], result)
                T.reduce(tile, result, kind, axis, clear)
                T.copy(result, OUT[k, b, 0:length])

    return reduces


def gemm_kernel(cases: int, m: int, n: int, k: int, transposed: tuple[bool, bool], clear: bool, dtypes: Any) -> Any:
    """C[b] (+)= op(A[b]) · op(B[b])."""
    a_type, b_type, c_type = dtypes
    a_shape = (k, m) if transposed[0] else (m, k)
    b_shape = (n, k) if transposed[1] else (k, n)

    @T.prim_func
    def products(
        A: T.Tensor((cases, *a_shape), a_type),
        B: T.Tensor((cases, *b_shape), b_type),
        C: T.Tensor((cases, m, n), c_type),
    ):
        with T.Kernel(cases, threads=64) as b:
            A_shared = T.alloc_shared(a_shape, a_type)
            B_shared = T.alloc_shared(b_shape, b_type)
            acc = T.alloc_fragment((m, n), c_type)
            T.copy(A[b, :, :], A_shared)
            T.copy(B[b, :, :], B_shared)
            T.copy(C[b, :, :], acc)
            T.gemm(A_shared, B_shared, acc, transpose_A=transposed[0], transpose_B=transposed[1], clear_accum=clear)
            T.copy(acc, C[b, :, :])

    return products


def sparse_gemm_kernel(
    cases: int, shapes: tuple[tuple[int, int], ...], flags: dict[str, bool], clear: bool, dtypes: Any
) -> Any:
    """C[b] (+)= op(A[b]) · op(B[b]), of a sparse A; `shapes` and `dtypes` are those of A, E, B and C as they lie."""
    (a_shape, e_shape, b_shape, c_shape), (dtype, places, c_type) = shapes, dtypes

    @T.prim_func
    def products(
        A: T.Tensor((cases, *a_shape), dtype),
        E: T.Tensor((cases, *e_shape), places),
        B: T.Tensor((cases, *b_shape), dtype),
        C: T.Tensor((cases, *c_shape), c_type),
    ):
        with T.Kernel(cases, threads=64) as b:
            A_shared = T.alloc_shared(a_shape, dtype)
            E_shared = T.alloc_shared(e_shape, places)
            B_shared = T.alloc_shared(b_shape, dtype)
            acc = T.alloc_fragment(c_shape, c_type)
            T.copy(A[b, :, :], A_shared)
            T.copy(E[b, :, :], E_shared)
            T.copy(B[b, :, :], B_shared)
            T.copy(C[b, :, :], acc)
            T.gemm_sp(A_shared, E_shared, B_shared, acc, clear_accum=clear, **flags)
            T.copy(acc, C[b, :, :])

    return products
