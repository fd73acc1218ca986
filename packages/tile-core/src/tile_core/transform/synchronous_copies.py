"""SynchronousCopies: for targets without asynchronous copies, each is done where it begins.

Needs TILE, leaves TILE. A copy of neighbouring elements becomes a loop over them; groups and waits mean nothing then.
"""

from __future__ import annotations

from ..ir import (
    AccessPtr,
    BufferLoad,
    BufferStore,
    Call,
    Evaluate,
    For,
    IntImm,
    PrimFunc,
    Rewriter,
    Select,
    Stmt,
    Var,
    binary,
    const,
)
from .base import Pass, PassContext, register_pass

__all__ = ["SynchronousCopies"]


@register_pass("SynchronousCopies", needs="TILE", leaves="TILE")
class SynchronousCopies(Pass):
    def function(self, function: PrimFunc, context: PassContext) -> PrimFunc:
        return _Expand().rewrite(function)


class _Expand(Rewriter):
    def rewrite_Evaluate(self, node: Evaluate) -> Stmt | None:
        call = node.value
        if not isinstance(call, Call):
            return node
        if call.op in ("async_commit", "async_wait"):
            return None
        if call.op != "async_copy":
            return node
        target, source = call.args[0], call.args[1]
        assert isinstance(target, AccessPtr) and isinstance(source, AccessPtr)
        count = target.extent
        assert isinstance(count, IntImm)
        element = Var("element")
        places = [(*p.indices[:-1], binary("add", p.indices[-1], element)) for p in (target, source)]
        value = BufferLoad(source.buffer, places[1])
        if len(call.args) > 2:
            value = Select(call.args[2], value, const(0, value.dtype), lazy=True)
        store = BufferStore(target.buffer, value, places[0], span=node.span)
        return For(element, const(0, "int32"), const(count.value, "int32"), "serial", store, span=node.span)
