"""``T.gemm``: the product of two tiles."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Any

from ..errors import CompileError
from ..frontend.builder import require_builder
from ..tileop import Gemm
from .operands import annotation_pairs, require_flag, require_option, tile_region

__all__ = ["GemmWarpPolicy", "gemm"]


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
    name = policy.name if isinstance(policy, GemmWarpPolicy) else policy
    require_option("T.gemm", "policy", name, [p.name for p in GemmWarpPolicy])
    builder.emit_op(
        Gemm(
            tile_region("T.gemm", "A", A),
            tile_region("T.gemm", "B", B),
            tile_region("T.gemm", "C", C),
            require_flag("T.gemm", "transpose_A", transpose_A),
            require_flag("T.gemm", "transpose_B", transpose_B),
            name,
            require_flag("T.gemm", "clear_accum", clear_accum),
            annotation_pairs("T.gemm", {}, annotations),
            span=builder.span,
        )
    )
