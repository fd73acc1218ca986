"""Intrinsics of the CPU backend; each is a function of the device headers, called by the name after the dot."""

from __future__ import annotations

from typing import Any

from tile_core.dtypes import DType
from tile_core.ir import (
    AccessPtr,
    BufferRegion,
    Call,
    Evaluate,
    Expr,
    IntImm,
    Intrinsic,
    StringImm,
    as_expr,
    const,
    register_intrinsic,
)

__all__ = ["copy_transposed", "gemm", "prefetch", "row_reduce"]

INT32, VOID = DType("int32"), DType("void")

register_intrinsic(
    Intrinsic(
        "cpu.gemm", None, "void", False, doc="C += op(A) op(B) on tiles; sizes, pitches and flags are annotations"
    )
)
register_intrinsic(
    Intrinsic(
        "cpu.copy_transposed",
        6,
        "void",
        False,
        doc="(dst, its pitch, src, its pitch, rows, columns): dst[c][r] = src[r][c]",
    )
)
register_intrinsic(
    Intrinsic("cpu.reduce", 3, "given", doc="(StringImm kind, address, count): a contiguous row combined")
)

register_intrinsic(
    Intrinsic(
        "cpu.worth_grouping",
        2,
        "int32",
        doc="(blocks, blocks a group): 1 where groups leave each thread several, else 0",
    )
)

register_intrinsic(
    Intrinsic("cpu.prefetch", 2, "void", False, doc="(address, 1 to write there soon else 0): a cache line on its way")
)


def prefetch(address: AccessPtr, write: bool) -> Evaluate:
    """``tile::prefetch`` of one cache line."""
    return Evaluate(Call("cpu.prefetch", (address, const(int(write), INT32)), VOID))


def gemm(
    ahead: tuple[BufferRegion, ...], a: AccessPtr, b: AccessPtr, c: AccessPtr, span: Any = None, **sizes: int
) -> Evaluate:
    """``tile::gemm``: `sizes` are trans_a, trans_b, m, n, k, lda, ldb, ldc, clear.

    `ahead` are regions of global tensors to prefetch meanwhile: a pointer and a pitch each follow C among the
    arguments, their rows and columns stand in the annotation ``prefetch``.
    """
    extra: list[Expr] = []
    shapes = []
    for region in ahead:
        rows, columns = (region.static_extents() or ())[-2:]
        extra += [
            AccessPtr(region.buffer, region.mins, const(rows * columns, INT32), "r"),
            region.buffer.element_strides()[-2],
        ]
        shapes.append((rows, columns))
    annotations = (*sizes.items(), *((("prefetch", tuple(shapes)),) if shapes else ()))
    return Evaluate(Call("cpu.gemm", (a, b, c, *extra), VOID, annotations, span=span), span=span)


def copy_transposed(
    dst: AccessPtr, dst_pitch: int, src: AccessPtr, src_pitch: Expr, rows: Expr, columns: Expr, span: Any = None
) -> Evaluate:
    """``tile::copy_transposed``: rows and columns are the source's; element (r, c) goes to dst[c][r]."""
    args = (dst, const(dst_pitch, INT32), src, src_pitch, rows, columns)
    return Evaluate(Call("cpu.copy_transposed", args, VOID, span=span), span=span)


def row_reduce(kind: str, row: AccessPtr, count: int, dtype: DType) -> Call:
    """``tile::reduce_<kind>`` of `count` contiguous elements."""
    return Call("cpu.reduce", (StringImm(kind), row, as_expr(IntImm(count))), dtype)
