"""LowerTileOp: each tile op becomes the statements of its candidate.

Needs PIPED, leaves PIPED: what is left are parallel loops, intrinsics and logical indices of laid-out buffers.
Scratch that a candidate asks for is allocated in a Block round the statements.
"""

from __future__ import annotations

from typing import Any

from ..arith import Prover
from ..ir import Attr, Block, Buffer, KernelLaunch, PrimFunc, Stmt, TileOpStmt
from ..tileop import Facts, LowerContext
from .base import Pass, PassContext, register_pass
from .layout_inference import needs_layout, plain_layout
from .scoped import ScopedRewriter
from .select_instructions import block_threads, known_candidates, narrowed

__all__ = ["LowerTileOp"]


@register_pass("LowerTileOp", needs="PIPED", leaves="same")
class LowerTileOp(Pass):
    def function(self, function: PrimFunc, context: PassContext) -> PrimFunc:
        # What a lowering asks (is this region inside its tensor?) intervals answer, or nothing does.
        return _Lower(context, Prover(solver=False)).rewrite(function)


class _Lower(ScopedRewriter):
    def __init__(self, context: PassContext, prover: Prover) -> None:
        super().__init__(prover)
        self.target = context.target
        self.candidates = known_candidates(context)
        self.here = Facts(context.target, prover, context.options)
        self.layouts: dict[Buffer, Any] = {}

    def rewrite_KernelLaunch(self, node: KernelLaunch) -> Stmt:
        self.here.threads = block_threads(node)
        self.here.launch = node
        return super().rewrite_KernelLaunch(node)

    def rewrite_Attr(self, node: Attr) -> Stmt | None:
        with narrowed(self.here, node):
            return super().rewrite_Attr(node)

    def rewrite_Block(self, node: Block) -> Stmt:
        self.layouts.update(node.annotation("layouts", ()))
        return self.rewrite_children(node)

    def rewrite_TileOpStmt(self, node: TileOpStmt) -> Stmt:
        candidate = next(c for c in self.candidates if c.name == node.candidate and isinstance(node.op, c.op))
        self.here.layouts = self.layouts
        context = LowerContext(self.target, self.layouts, self.here)
        stmt = candidate.lower(node.op, context)
        if not context.scratch:
            return stmt
        laid = tuple((b, plain_layout(b)) for b in context.scratch if needs_layout(b))
        return Block(tuple(context.scratch), stmt, (("layouts", laid),) if laid else (), span=node.span)
