"""VersionAlignment: a kernel over tensors of unknown sizes gets a second version for rows that begin and end at
multiples of 16 bytes.

Needs TILE, leaves TILE. Whether ``n`` columns of fp16 divide by 8 is known only at the call, and without it elements go
one by one, past cp.async. The host asks and launches one of two kernels: in the first the divisibility is assumed, the
second is what it was. All tensors of a launch are asked about together, so there are at most two. Nothing happens where
T.assume says it already, or where no tile or nest of parallel loops runs along a row of unknown length.
"""

from __future__ import annotations

from tile_core.analysis import root_buffer
from tile_core.arith import Prover
from tile_core.ir import (
    Attr,
    Buffer,
    BufferLoad,
    BufferRegion,
    BufferStore,
    Expr,
    For,
    If,
    IntImm,
    KernelLaunch,
    PrimFunc,
    Stmt,
    TileOpStmt,
    Var,
    binary,
    const,
    is_one,
    walk,
)
from tile_core.ir.structural import structural_equal
from tile_core.transform import Pass, PassContext, Rewriter, register_pass
from tile_core.transform.loop_unswitching import fresh_binders
from tile_core.transform.options import declare_option
from tile_core.transform.scoped import ScopedRewriter

__all__ = ["VERSIONS", "VersionAlignment"]

VERSIONS = "alignment_versions"

_VECTOR_BITS = 128
_OPTION = "tl.disable_alignment_versions"

declare_option(_OPTION, False, bool, "one kernel for tensors of unknown sizes, whether or not rows are aligned")


@register_pass("VersionAlignment", needs="TILE", leaves="TILE", options=(_OPTION,))
class VersionAlignment(Pass):
    def function(self, function: PrimFunc, context: PassContext) -> PrimFunc:
        return function if context.options[_OPTION] else _Version(Prover(solver=False)).rewrite(function)


class _Version(ScopedRewriter):
    def rewrite_KernelLaunch(self, node: KernelLaunch) -> Stmt:
        if node.annotation("entry") is not None:
            return node
        condition: Expr | None = None
        for divisor, length in _wanted(node):
            if not self.prover.divides(divisor, length):
                whole = binary("eq", binary("floormod", length, divisor), 0)
                condition = whole if condition is None else binary("and", condition, whole)
        if condition is None:
            return node
        aligned = node.with_(body=Attr("assume", None, condition, node.body, span=node.span))
        versions = If(condition, aligned, _Copies().rewrite(fresh_binders(node)), span=node.span)
        # RequireAlignment asks for what the first version's vectors need of the tensors' starts.
        return Attr(VERSIONS, None, const(1, "int32"), versions, span=node.span)


class _Copies(Rewriter):
    """Ops of their own for the second version: passes remember by the op what they chose for it."""

    def rewrite_TileOpStmt(self, node: TileOpStmt) -> TileOpStmt:
        new = self.rewrite_children(node)
        return new.with_(op=new.op.with_())


def _wanted(launch: KernelLaunch) -> list[tuple[int, Expr]]:
    """(multiple, length) of the rows that the launch moves in vectors, each once."""
    found: list[tuple[int, Expr]] = []
    for buffer in _moved(launch):
        divisor = _VECTOR_BITS // buffer.dtype.storage_bits
        lengths = [buffer.shape[-1], *buffer.strides[:-1]]
        if buffer.strides and not is_one(buffer.strides[-1]):
            continue
        if divisor < 2 or any(isinstance(x, IntImm) and x.value % divisor for x in lengths):
            continue
        for length in lengths:
            new = not isinstance(length, IntImm) and not any(
                known == divisor and structural_equal(length, other) for known, other in found
            )
            if new:
                found.append((divisor, length))
    return found


def _moved(launch: KernelLaunch) -> list[Buffer]:
    """Tensors of which an op takes parts of rows, or parallel loops go along rows; each once, in order."""
    parallel = {n.var for n in walk(launch.body) if isinstance(n, For) and n.kind == "parallel"}
    found: dict[Buffer, None] = {}
    for item in walk(launch.body):
        if isinstance(item, BufferRegion):
            along = bool(item.extents) and not is_one(item.extents[-1])
        elif isinstance(item, (BufferLoad, BufferStore)):
            along = bool(item.indices) and any(v in parallel for v in walk(item.indices[-1]) if isinstance(v, Var))
        else:
            continue
        if along and root_buffer(item.buffer).memory.level == "device" and item.buffer.data is None:
            found[item.buffer] = None
    return list(found)
