"""ApplyLayouts: buffers get the shape of their layout's image, indices become physical.

Needs PIPED, leaves PIPED with every layout row-major. From here on an index says where an element lies, so that
contiguity is what the last index tells. A Fragment is no place in memory: it stays, for the pass that gives each thread
its registers.
"""

from __future__ import annotations

from typing import Any

from ..arith import Simplifier
from ..errors import CompileError, declare_codes
from ..ir import AccessPtr, Block, Buffer, BufferLoad, BufferStore, Expr, PrimFunc, Ramp, Rewriter, Stmt, as_shape
from ..layout import Layout, row_major
from .base import Pass, PassContext, register_pass

__all__ = ["ApplyLayouts"]

declare_codes({"E-LAYOUT-VECTOR": "a vector access across a layout that scatters its elements"})


@register_pass("ApplyLayouts", needs="PIPED", leaves="same")
class ApplyLayouts(Pass):
    def function(self, function: PrimFunc, context: PassContext) -> PrimFunc:
        return _Apply().rewrite(function)


class _Apply(Rewriter):
    def __init__(self) -> None:
        super().__init__()
        self.layouts: dict[Buffer, Layout] = {}
        self.simplifier = Simplifier()

    def rewrite_Block(self, node: Block) -> Stmt:
        pairs = node.annotation("layouts", ())
        for buffer, layout in pairs:
            if isinstance(layout, Layout) and not is_plain(layout):
                self.layouts[buffer] = layout
                data = None if buffer.data is None else self.buffer(buffer.data)
                self.buffers[buffer] = buffer.with_(shape=as_shape(tuple(layout.image)), strides=(), data=data)
        body = self.rewrite(node.body)
        allocations = tuple(self.buffer(b) for b in node.allocations)
        others = tuple(pair for pair in node.annotations if pair[0] != "layouts")
        laid = tuple((self.buffer(b), _applied(layout)) for b, layout in pairs)
        changed = body is not node.body or any(a is not b for a, b in zip(allocations, node.allocations))
        if not changed and all(_applied(layout) is layout or is_plain(layout) for _, layout in pairs):
            return node
        return node.with_(
            allocations=allocations, body=body, annotations=(*others, ("layouts", laid)) if laid else others
        )

    def rewrite_BufferLoad(self, node: BufferLoad) -> Expr:
        return self._access(node)

    def rewrite_BufferStore(self, node: BufferStore) -> Stmt:
        return self._access(node)

    def rewrite_AccessPtr(self, node: AccessPtr) -> Expr:
        return self._access(node)

    def _access(self, node: Any) -> Any:
        new = node.map_children(self.rewrite)
        layout = self.layouts.get(node.buffer)
        if layout is None:
            return new if node.buffer not in self.buffers else new.with_(buffer=self.buffers[node.buffer])
        if any(isinstance(i, Ramp) or i.dtype.lanes > 1 for i in new.indices):
            raise CompileError(
                "E-LAYOUT-VECTOR",
                f"a vector of {node.buffer.name} is accessed, whose layout is not row-major",
                span=node.span,
                facts=[f"layout {layout!r}"],
                help="access single elements in a T.Parallel loop; the compiler forms vectors",
            )
        indices = tuple(self.simplifier.simplify(i) for i in layout.physical(new.indices))
        return new.with_(buffer=self.buffers[node.buffer], indices=indices)


def _applied(layout: Any) -> Any:
    return row_major(tuple(layout.image)) if isinstance(layout, Layout) else layout


def is_plain(layout: Layout) -> bool:
    """Whether a layout is row-major without gaps."""
    return tuple(layout.domain) == tuple(layout.image) and layout == row_major(tuple(layout.domain))
