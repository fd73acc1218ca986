"""VerifyLoopNesting: loops stand only where they have a meaning.

Needs TILE, leaves TILE unchanged. T.Parallel axes nest tightly and hold element-wise code only: no tile ops, no
pipelined loop, no allocation shared by the block, no jump out. A pipelined loop does not stand inside another one,
nor is it left by a jump. Serial and persistent loops around pipelined ones are fine.
"""

from __future__ import annotations

from typing import Any

from ..errors import CompileError, declare_codes
from ..ir import Block, Break, Continue, For, PrimFunc, Seq, Stmt, TileOpStmt, Visitor, While
from ..tileop.atomic import AtomicUpdate
from .base import Pass, PassContext, register_pass

__all__ = ["VerifyLoopNesting"]

declare_codes(
    {
        "E-LOOP-NESTING": "a loop inside a loop that cannot hold it",
        "E-LOOP-BODY": "a statement inside a parallel loop that is no element-wise code",
        "E-LOOP-JUMP": "a break or continue in a loop whose iterations are not in order",
    }
)

_NAMES = {
    "parallel": "T.Parallel",
    "pipelined": "T.Pipelined",
    "vectorized": "T.vectorized",
    "persistent": "T.Persistent",
    "serial": "T.serial",
    "unroll": "T.unroll",
    "threads": "the loop over threads",
}


@register_pass("VerifyLoopNesting", needs="TILE", leaves="TILE", options=("tl.disable_prelower_semantic_check",))
class VerifyLoopNesting(Pass):
    def function(self, function: PrimFunc, context: PassContext) -> PrimFunc:
        if not context.options["tl.disable_prelower_semantic_check"]:
            _Nesting().visit(function.body)
        return function


class _Nesting(Visitor):
    def __init__(self) -> None:
        super().__init__()
        # Loops around the statement, outermost first.
        self.loops: list[Any] = []

    def visit_For(self, node: For) -> None:
        outer = self._around("parallel", "vectorized")
        if outer is not None:
            self._inside_parallel(node, outer)
        if node.kind == "pipelined":
            pipelined = self._around("pipelined")
            if pipelined is not None:
                raise CompileError(
                    "E-LOOP-NESTING",
                    "a T.Pipelined loop stands inside another one",
                    span=node.span,
                    spans=[("the outer loop", pipelined.span)],
                    facts=[f"{node.var.name} is pipelined inside {pipelined.var.name}"],
                    help="pipeline one of them: make the outer loop T.serial, or the inner one",
                )
        self.loops.append(node)
        self.visit_children(node)
        self.loops.pop()

    def _inside_parallel(self, node: For, outer: For) -> None:
        if node.kind == "parallel":
            if outer.kind == "parallel" and self.loops[-1] is outer and _sole(outer.body) is node:
                return
            raise CompileError(
                "E-LOOP-NESTING",
                "a T.Parallel loop stands inside another one with other statements between",
                span=node.span,
                spans=[("the outer loop", outer.span)],
                facts=[f"{node.var.name} runs inside {outer.var.name}, which does more than that in an iteration"],
                help=f"write one loop, `for {outer.var.name}, {node.var.name} in T.Parallel(…)`, or make the inner one "
                "T.serial",
            )
        if node.kind in ("pipelined", "persistent"):
            raise CompileError(
                "E-LOOP-NESTING",
                f"a {_NAMES[node.kind]} loop stands inside {_NAMES[outer.kind]}",
                span=node.span,
                spans=[("the outer loop", outer.span)],
                facts=[f"the iterations of {outer.var.name} are element-wise code and have no order"],
                help="make it T.serial, or put the parallel loop inside it",
            )

    def visit_While(self, node: While) -> None:
        self.loops.append(node)
        self.visit_children(node)
        self.loops.pop()

    def visit_TileOpStmt(self, node: TileOpStmt) -> None:
        outer = self._around("parallel", "vectorized")
        if outer is not None and not _on_elements(node):
            name = f"T.{node.op.name}"
            raise CompileError(
                "E-LOOP-BODY",
                f"{name} stands inside {_NAMES[outer.kind]}",
                span=node.span,
                spans=[("the loop", outer.span)],
                facts=[f"{name} works on whole tiles; an iteration of {outer.var.name} works on elements"],
                help=f"move {name} out of the loop, or write what it does for one element",
            )
        self.visit_children(node)

    def visit_Block(self, node: Block) -> None:
        outer = self._around("parallel", "vectorized")
        for buffer in node.allocations:
            if outer is not None and buffer.memory.level != "thread":
                raise CompileError(
                    "E-LOOP-BODY",
                    f"{buffer.name} is allocated inside {_NAMES[outer.kind]}",
                    span=buffer.span or node.span,
                    spans=[("the loop", outer.span)],
                    facts=[f"{buffer!r} belongs to the whole block, an iteration of {outer.var.name} to one element"],
                    help="allocate it before the loop, or use T.alloc_local or T.alloc_var",
                )
        self.visit_children(node)

    def visit_Break(self, node: Break) -> None:
        self._jump(node, "break")

    def visit_Continue(self, node: Continue) -> None:
        self._jump(node, "continue")

    def _jump(self, node: Stmt, word: str) -> None:
        inner = self.loops[-1] if self.loops else None
        if inner is None:
            raise CompileError("E-LOOP-JUMP", f"`{word}` outside a loop", span=node.span, help="remove it")
        if not isinstance(inner, For) or inner.kind not in ("parallel", "pipelined", "vectorized", "threads"):
            return
        reason = (
            "iterations of a pipelined loop are under way at the same time"
            if inner.kind == "pipelined"
            else "its iterations have no order"
        )
        raise CompileError(
            "E-LOOP-JUMP",
            f"`{word}` in {_NAMES[inner.kind]}",
            span=node.span,
            spans=[("the loop", inner.span)],
            facts=[reason],
            help="use T.serial for a loop that ends early, or `if` for what an iteration leaves out",
        )

    def _around(self, *kinds: str) -> For | None:
        """The innermost enclosing loop of one of the kinds."""
        for loop in reversed(self.loops):
            if isinstance(loop, For) and loop.kind in kinds:
                return loop
        return None


def _on_elements(node: TileOpStmt) -> bool:
    """Whether a tile op updates single elements only, as T.atomic_add(A[i], x) does."""
    if not isinstance(node.op, AtomicUpdate):
        return False
    return all(extents is not None and set(extents) <= {1} for extents in _extents(node))


def _extents(node: TileOpStmt) -> list[tuple[int, ...] | None]:
    return [region.static_extents() for _, _, region in node.op.operands()]


def _sole(stmt: Stmt) -> Stmt | None:
    """The one statement of a body, through blocks that allocate nothing."""
    while True:
        if isinstance(stmt, Seq):
            if len(stmt.stmts) != 1:
                return None
            stmt = stmt.stmts[0]
        elif isinstance(stmt, Block) and not stmt.allocations:
            stmt = stmt.body
        else:
            return stmt
