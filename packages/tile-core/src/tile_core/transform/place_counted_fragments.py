"""PlaceCountedFragments: a fragment indexed by a loop that counts at run time lies in shared memory.

Needs TILE, leaves TILE. Registers cannot be chosen at run time, and a fragment is a tile of the block like a shared
one: the meaning stays, an access costs more. The artifact's diagnostics name the tile. What has to stay in registers
(the accumulator of a product, a tile laid out by hand, one that is seen through a view) is left for VerifyFragmentIndex
to refuse.
"""

from __future__ import annotations

from ..ir import Block, Buffer, KernelLaunch, PrimFunc, TileOpStmt, substitute, walk
from ..tileop import MatrixProduct
from .base import Pass, PassContext, register_pass
from .verify_fragment_index import counted_indices

__all__ = ["PlaceCountedFragments"]


@register_pass("PlaceCountedFragments", needs="TILE", leaves="TILE")
class PlaceCountedFragments(Pass):
    def function(self, function: PrimFunc, context: PassContext) -> PrimFunc:
        found = [one for one in counted_indices(function.body) if one.by_count]
        kept = _kept(function) if found else set()
        places: dict[Buffer, Buffer] = {}
        for one in found:
            if one.buffer not in kept and one.buffer not in places:
                places[one.buffer] = one.buffer.with_(scope="shared")
                context.diagnostics.append(
                    f"{one.buffer.name} lies in shared memory: {one.var.name}, the variable of a loop that counts at"
                    " run time, indexes it"
                )
        return substitute(function, buffers=places) if places else function


def _kept(function: PrimFunc) -> set[Buffer]:
    """The fragments that cannot move."""
    kept: set[Buffer] = set()
    for node in walk(function.body):
        if isinstance(node, TileOpStmt) and isinstance(node.op, MatrixProduct):
            kept.add(node.op.c.buffer)
        elif isinstance(node, (Block, KernelLaunch)):
            kept.update(buffer for buffer, _ in node.annotation("layouts", ()))
        buffer = getattr(node, "buffer", None)
        while isinstance(buffer, Buffer) and buffer.data is not None:
            kept.update((buffer, buffer.data))
            buffer = buffer.data
    return kept
