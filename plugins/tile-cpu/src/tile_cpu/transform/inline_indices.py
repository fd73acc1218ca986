"""InlineIndices: a named index inside a parallel loop is put where it is used.

Needs PIPED, leaves PIPED. ``column = k * 256 + j`` and then ``X[row, column]``: behind the name, the passes that look
for neighbours and for bounds of loops would not see that `j` counts along a row. Only arithmetic on variables and
constants moves, which is computed anew for nothing.
"""

from __future__ import annotations

from tile_core.ir import Bind, For, PrimFunc, Rewriter, Stmt
from tile_core.transform import Pass, PassContext, register_pass
from tile_core.transform.scoped import is_index

__all__ = ["InlineIndices"]


@register_pass("InlineIndices", needs="PIPED", leaves="same")
class InlineIndices(Pass):
    def function(self, function: PrimFunc, context: PassContext) -> PrimFunc:
        return _Inline().rewrite(function)


class _Inline(Rewriter):
    def __init__(self) -> None:
        super().__init__()
        self.inside = False

    def rewrite_For(self, node: For) -> Stmt | None:
        outer, self.inside = self.inside, self.inside or node.kind == "parallel"
        new = self.rewrite_children(node)
        self.inside = outer
        return new

    def rewrite_Bind(self, node: Bind) -> Stmt | None:
        new = self.rewrite_children(node)
        if not self.inside or not is_index(new.value):
            return new
        self.vars[node.var] = new.value
        return None
