"""RequireAlignment: a tensor that is read or written in vectors says what its start must be a multiple of.

Needs FLAT, leaves FLAT. Vectors are chosen for tensors that start at multiples of 16 bytes, which those of an allocator
do and their slices need not; the GPU answers an access beside it with a fault that ends the process's context. The
checks of a call ask for as much as the widest access of the tensor needs, so that kernels without vectors take any;
where VersionAlignment made two, the call asks before it takes the first.
"""

from __future__ import annotations

from typing import Any

from tile_core.analysis import root_buffer
from tile_core.ir import (
    AccessPtr,
    Attr,
    Buffer,
    BufferLoad,
    BufferStore,
    Call,
    If,
    IntImm,
    KernelLaunch,
    PrimFunc,
    Ramp,
    Rewriter,
    Stmt,
    binary,
    const,
    is_one,
    substitute,
    walk,
)
from tile_core.ir.host import past_multiple
from tile_core.transform import Pass, PassContext, register_pass

from ..predicates import split_predicate
from .version_alignment import VERSIONS

__all__ = ["RequireAlignment"]

_WIDEST = 16  # bytes of an access
# What takes a pointer and moves all that it covers at once.
_AT_ONCE = ("cuda.cp_async", "cuda.atomic_add_vec")


@register_pass("RequireAlignment", needs="FLAT", leaves="FLAT")
class RequireAlignment(Pass):
    def function(self, function: PrimFunc, context: PassContext) -> PrimFunc:
        asked = _Ask([p for p in function.params if isinstance(p, Buffer)])
        new = asked.rewrite(function)
        places = {p: p.with_(align=max(p.align, size)) for p, size in asked.needs.items()}
        return substitute(new, buffers=places) if places else new


class _Ask(Rewriter):
    """Collects what launches need; of two versions of one, the call takes the second where the first's needs are not
    met."""

    def __init__(self, params: list[Buffer]) -> None:
        super().__init__()
        self.params = params
        self.needs: dict[Buffer, int] = {}

    def rewrite_KernelLaunch(self, node: KernelLaunch) -> Stmt:
        for param, size in self.widest(node).items():
            self.needs[param] = max(self.needs.get(param, 1), size)
        return node

    def rewrite_Attr(self, node: Attr) -> Stmt | None:
        versions = node.body
        if node.key != VERSIONS or not isinstance(versions, If) or versions.else_body is None:
            return self.rewrite_children(node)
        self.rewrite(versions.else_body)
        condition = versions.condition
        for param, size in self.widest(versions.then_body).items():
            if size > self.needs.get(param, 1):
                start = AccessPtr(param, (const(0, "int32"),), const(1, "int32"), "r")
                condition = binary("and", condition, binary("eq", past_multiple(start, size), 0))
        return versions.with_(condition=condition)

    def widest(self, stmt: Stmt) -> dict[Buffer, int]:
        """The widest access of each parameter that is wider than an element, in bytes."""
        found: dict[Buffer, int] = {}
        for node in walk(stmt):
            for buffer, size in _accesses(node):
                root = root_buffer(buffer)
                found[root] = max(found.get(root, 1), min(size, _WIDEST))
        return {p: found[p] for p in self.params if found.get(p, 1) > p.dtype.scalar.storage_bits // 8}


def _accesses(node: Any) -> list[tuple[Buffer, int]]:
    """(memory, bytes at once) of what a node itself reads or writes."""
    if isinstance(node, (BufferLoad, BufferStore)):
        index = node.indices[0]
        whole = split_predicate(node.predicate)[1] is None
        lanes = index.lanes if isinstance(index, Ramp) and is_one(index.stride) and whole else 1
        return [(node.buffer, lanes * node.buffer.dtype.storage_bits // 8)]
    if isinstance(node, Call) and node.op in _AT_ONCE:
        pointers = [a for a in node.args if isinstance(a, AccessPtr) and isinstance(a.extent, IntImm)]
        return [(p.buffer, p.extent.value * p.buffer.dtype.storage_bits // 8) for p in pointers]
    return []
