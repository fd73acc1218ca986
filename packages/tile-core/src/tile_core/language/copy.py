"""``T.copy``: moves a tile."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..frontend.builder import require_builder
from ..ir import BufferRegion, Expr, IntImm
from ..tileop import Copy
from .operands import annotation_pairs, paired_regions, require_flag, require_loop_layout, require_option, require_width

__all__ = ["copy"]

_INSTRUCTIONS = ("tma", "cp_async", "sync")
_EVICTION = ("evict_normal", "evict_first", "evict_last")


def copy(
    src: Any,
    dst: Any,
    *,
    coalesced_width: int | None = None,
    disable_tma: bool = False,
    eviction_policy: str | None = None,
    prefer_instruction: str | None = None,
    annotations: Mapping[str, Any] | None = None,
    loop_layout: Any = None,
) -> None:
    """Copies a tile between any two memories, converting the element type.

    Operands are whole buffers, slices ``A[i:j, k:l]``, or the first element ``A[i, k]`` of a tile whose extents the
    other operand has. Axes of extent 1 do not count. Outside a global tensor reads give 0 and writes are dropped.

    Args:
        src, dst: from where, to where.
        coalesced_width: elements a thread should move at once (CUDA).
        disable_tma: never by the tensor copy engine; targets without one ignore it.
        eviction_policy: evict_normal, evict_first or evict_last: what the second-level cache should do with it, where
            the target can say so (CUDA from sm_80 on, for copies through registers; asynchronous ones have none).
        prefer_instruction: cp_async or tma, where the target has it and it is legal (else an error says why not); sync
            for a copy that is done at once.
        annotations: further hints, by name.
        loop_layout: a T.Fragment that maps elements to threads.

    Raises:
        CompileError: shapes differ (E-COPY-SHAPE), no extents (E-OPERAND-EXTENT), an unknown option (E-OPERAND-OPTION).
    """
    builder = require_builder("T.copy")
    builder.require_kernel("T.copy")
    require_width("T.copy", coalesced_width)
    if eviction_policy is not None:
        require_option("T.copy", "eviction_policy", eviction_policy, _EVICTION)
    if prefer_instruction is not None:
        require_option("T.copy", "prefer_instruction", prefer_instruction, _INSTRUCTIONS)
    given = {
        "coalesced_width": coalesced_width,
        "disable_tma": require_flag("T.copy", "disable_tma", disable_tma) or None,
        "eviction_policy": eviction_policy,
        "prefer_instruction": prefer_instruction,
        "loop_layout": loop_layout,
    }
    source, target = paired_regions("T.copy", ("src", src), ("dst", dst))
    require_loop_layout("T.copy", loop_layout, _moving(target))
    builder.emit_op(Copy(source, target, annotation_pairs("T.copy", given, annotations), span=builder.span))


def _moving(region: BufferRegion) -> list[Expr]:
    """The extents that a copy runs over: those that are not 1."""
    return [e for e in region.tile_extents() if not (isinstance(e, IntImm) and e.value == 1)]
