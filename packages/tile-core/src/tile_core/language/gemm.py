"""``T.gemm`` and ``T.gemm_sp``: the product of two tiles, and that of a sparse and a whole one."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Any

from ..errors import CompileError
from ..frontend.builder import require_builder
from ..tileop import Gemm, SparseGemm
from .operands import annotation_pairs, require_flag, require_option, tile_region

__all__ = ["GemmWarpPolicy", "gemm", "gemm_sp"]


class GemmWarpPolicy(IntEnum):
    """How the warps of a block share the tile of a gemm: as near to a square as can be, all along M, or all along N."""

    Square = 0
    FullRow = 1
    FullCol = 2


def gemm(
    A: Any,
    B: Any,
    C: Any,
    transpose_A: bool = False,
    transpose_B: bool = False,
    policy: GemmWarpPolicy | str = GemmWarpPolicy.Square,
    clear_accum: bool = False,
    mbar: Any = None,
    annotations: Mapping[str, Any] | None = None,
) -> None:
    """``C += op(A) · op(B)`` on tiles.

    Args:
        A: [M, K], or [K, M] with `transpose_A`; in shared memory or a fragment.
        B: [K, N], or [N, K] with `transpose_B`.
        C: [M, N], the accumulator.
        policy: how warps share the tile.
        clear_accum: ``C = …`` in place of ``C += …``.
        mbar: completion barrier of asynchronous forms; not in this version.
        annotations: hints, by name.

    Raises:
        CompileError: operands that do not fit (E-GEMM-SHAPE, E-GEMM-DTYPE, E-GEMM-SCOPE), an unknown policy
            (E-OPERAND-OPTION).
    """
    builder = require_builder("T.gemm")
    builder.require_kernel("T.gemm")
    if mbar is not None:
        raise CompileError(
            "E-OPERAND-OPTION",
            "T.gemm takes no mbar in this version",
            facts=[f"found mbar={mbar!r}"],
            help="leave mbar out: T.gemm has finished when the next statement reads C",
        )
    builder.emit_op(
        Gemm(
            tile_region("T.gemm", "A", A),
            tile_region("T.gemm", "B", B),
            tile_region("T.gemm", "C", C),
            require_flag("T.gemm", "transpose_A", transpose_A),
            require_flag("T.gemm", "transpose_B", transpose_B),
            _policy("T.gemm", policy),
            require_flag("T.gemm", "clear_accum", clear_accum),
            annotation_pairs("T.gemm", {}, annotations),
            span=builder.span,
        )
    )


def gemm_sp(
    A_sparse: Any,
    E: Any,
    B: Any,
    C: Any,
    transpose_A: bool = False,
    transpose_E: bool = False,
    transpose_B: bool = False,
    policy: GemmWarpPolicy | str = GemmWarpPolicy.Square,
    clear_accum: bool = False,
    wg_wait: int = 0,
    annotations: Mapping[str, Any] | None = None,
) -> None:
    """``C += op(A) · op(B)`` on tiles, for an A of which each group of neighbours along K has half its elements.

    Elements of 16 and 8 bits come in groups of four, of which two are kept (the others are 0); those of 32 bits in
    pairs, of which one is. `E` has four bits for each group, the first group in the lowest bits of E's first element:
    bits 0 and 1 are the place (0 to 3) of the first kept element, bits 2 and 3 the place of the second, which is
    greater. For pairs they are 0b0100 (the first is kept) or 0b1110 (the second). Other bits have no defined result.
    ``tile_runtime.sparse.compress`` makes `A_sparse` and `E` of a tensor.

    Args:
        A_sparse: what A keeps, [M, K/2], or [K/2, M] with `transpose_A`; in shared memory or a fragment.
        E: where it lies, [M, K/F], or [K/F, M] with `transpose_E`; integers of 8, 16 or 32 bits. An element of b bits
            covers F = b elements of K, or b/2 where A's have 32 bits.
        B: [K, N], or [N, K] with `transpose_B`.
        C: [M, N], the accumulator.
        policy: how warps share the tile.
        clear_accum: ``C = …`` in place of ``C += …``.
        wg_wait: how many warp-group products may be unfinished after the call; here none is, whatever it says.
        annotations: hints, by name.

    Raises:
        CompileError: operands that do not fit (E-GEMM-SHAPE, E-GEMM-DTYPE, E-GEMM-SCOPE), an unknown policy or a
            wg_wait that is no number (E-OPERAND-OPTION).
    """
    builder = require_builder("T.gemm_sp")
    builder.require_kernel("T.gemm_sp")
    if type(wg_wait) is not int:
        raise CompileError(
            "E-OPERAND-OPTION",
            f"T.gemm_sp: wg_wait must be a number, got {wg_wait!r}",
            help="leave wg_wait out: T.gemm_sp has finished when the next statement reads C",
        )
    builder.emit_op(
        SparseGemm(
            tile_region("T.gemm_sp", "A_sparse", A_sparse),
            tile_region("T.gemm_sp", "E", E),
            tile_region("T.gemm_sp", "B", B),
            tile_region("T.gemm_sp", "C", C),
            require_flag("T.gemm_sp", "transpose_A", transpose_A),
            require_flag("T.gemm_sp", "transpose_E", transpose_E),
            require_flag("T.gemm_sp", "transpose_B", transpose_B),
            _policy("T.gemm_sp", policy),
            require_flag("T.gemm_sp", "clear_accum", clear_accum),
            annotation_pairs("T.gemm_sp", {}, annotations),
            span=builder.span,
        )
    )


def _policy(op: str, policy: GemmWarpPolicy | str) -> str:
    """The policy's name."""
    name = policy.name if isinstance(policy, GemmWarpPolicy) else policy
    return require_option(op, "policy", name, [p.name for p in GemmWarpPolicy])
