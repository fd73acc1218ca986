"""UnrollLoops: ``T.unroll(…, explicit=True)`` is written out.

Needs TILE, leaves TILE. Stands before instructions are chosen, so that a pipelined loop around sees every iteration as
statements of its own. Each iteration has its own names and its own tiles.
"""

from __future__ import annotations

from typing import Any

from ..ir import Bind, Block, Buffer, Expr, For, IntImm, Let, PrimFunc, Rewriter, Stmt, Var, const, seq
from .base import Pass, PassContext, register_pass

__all__ = ["UnrollLoops"]


@register_pass("UnrollLoops", needs="TILE", leaves="TILE")
class UnrollLoops(Pass):
    def function(self, function: PrimFunc, context: PassContext) -> PrimFunc:
        return _Unroll().rewrite(function)


class _Unroll(Rewriter):
    def rewrite_For(self, node: For) -> Stmt | None:
        new = self.rewrite_children(node)
        if new.kind != "unroll" or not new.annotation("explicit"):
            return new
        if not (isinstance(new.min, IntImm) and isinstance(new.extent, IntImm)):
            return new
        step = new.step.value if isinstance(new.step, IntImm) else 1
        values = [new.min.value + i * step for i in range(new.extent.value)]
        return seq(*[_Copy({new.var: const(v, new.var.dtype)}).rewrite(new.body) for v in values], span=new.span)


class _Copy(Rewriter):
    """A body with variables replaced and everything that it declares made anew."""

    def __init__(self, values: dict[Var, Expr]) -> None:
        super().__init__()
        self.vars.update(values)

    def rewrite_For(self, node: For) -> Stmt | None:
        self._fresh(node.var)
        return self.rewrite_children(node)

    def rewrite_Bind(self, node: Bind) -> Stmt:
        value = self.rewrite(node.value)
        return node.with_(var=self._fresh(node.var), value=value)

    def rewrite_Let(self, node: Let) -> Expr:
        value = self.rewrite(node.value)
        return node.with_(var=self._fresh(node.var), value=value, body=self.rewrite(node.body))

    def rewrite_Block(self, node: Block) -> Stmt | None:
        for buffer in node.allocations:
            self.buffers[buffer] = buffer.with_()
        return self.rewrite_children(node)

    def rewrite_Attr(self, node: Any) -> Stmt | None:
        if node.key == "address" and isinstance(node.subject, Buffer):
            self.buffers[node.subject] = node.subject.map_children(self.rewrite).with_()
        return self.rewrite_children(node)

    def _fresh(self, var: Var) -> Var:
        new = self.vars[var] = Var(var.name, var.dtype, span=var.span)
        return new
