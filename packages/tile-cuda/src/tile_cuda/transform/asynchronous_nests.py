"""AsynchronousNests: a T.Parallel nest with prefer_async=True that moves a tile from global to shared memory becomes an
asynchronous copy of that tile.

Needs TILE, leaves TILE. The nest's body is one store ``shared[…] = global[…]`` of one type; each loop variable is added
to the index of one axis on either side, the innermost one to both last axes, and nothing else varies. In a pipelined
loop the copy is one of the iteration's loads; elsewhere it is a group of its own, and the wait for it is put in front
of what needs it. Any other nest stays as it is: cp.async can't compute.
"""

from __future__ import annotations

from tile_core.analysis import root_buffer
from tile_core.dtypes import DType
from tile_core.ir import (
    Buffer,
    BufferLoad,
    BufferRegion,
    BufferStore,
    Call,
    Evaluate,
    Expr,
    For,
    IntImm,
    PrimFunc,
    Rewriter,
    Stmt,
    TileOpStmt,
    Var,
    const,
    seq,
    walk,
)
from tile_core.tileop import Copy
from tile_core.transform import Pass, PassContext, register_pass
from tile_core.transform.linear import is_zero, linear_in

from ..target import architecture

__all__ = ["AsynchronousNests"]

INT32 = DType("int32")


@register_pass("AsynchronousNests", needs="TILE", leaves="TILE")
class AsynchronousNests(Pass):
    def function(self, function: PrimFunc, context: PassContext) -> PrimFunc:
        if not architecture(context.target).async_copy:
            return function
        return _Nests().rewrite(function)


class _Nests(Rewriter):
    def __init__(self) -> None:
        super().__init__()
        self.pipelined = 0

    def rewrite_For(self, node: For) -> Stmt | None:
        if node.kind == "parallel" and dict(node.annotations).get("prefer_async"):
            copy = _as_copy(node, not self.pipelined)
            return node if copy is None else copy
        inside = node.kind == "pipelined"
        self.pipelined += inside
        new = self.rewrite_children(node)
        self.pipelined -= inside
        return new


def _as_copy(outer: For, alone: bool) -> Stmt | None:
    """The nest as a copy, `alone` in a group of its own; None where it is more than a copy."""
    loops: list[For] = []
    body: Stmt = outer
    while isinstance(body, For) and body.kind == "parallel":
        loops.append(body)
        body = body.body
    if not isinstance(body, BufferStore) or not isinstance(body.value, BufferLoad):
        return None
    value = body.value
    if body.predicate is not None or value.predicate is not None or body.buffer.scope != "shared":
        return None
    if root_buffer(value.buffer).memory.level != "device" or value.buffer.dtype is not body.buffer.dtype:
        return None
    if not all(isinstance(loop.extent, IntImm) and loop.step is None for loop in loops):
        return None
    target = _region(body.buffer, body.indices, loops)
    source = _region(value.buffer, value.indices, loops)
    if target is None or source is None or not _same(target[1], source[1]):
        return None
    pairs = [pair for pair in outer.annotations if pair[0] in ("coalesced_width", "eviction_policy")]
    if alone:
        pairs.append(("asynchronous", True))
    copy = TileOpStmt(Copy(source[0], target[0], tuple(pairs), span=outer.span), span=outer.span)
    return seq(copy, Evaluate(Call("async_commit", (), DType("void")), span=outer.span)) if alone else copy


def _region(buffer: Buffer, indices: tuple[Expr, ...], loops: list[For]) -> tuple[BufferRegion, list[Var]] | None:
    """The region that the nest touches, and its variables in the order of the axes that they move along."""
    order: list[Var] = []
    mins: list[Expr] = []
    extents: list[Expr] = []
    for index in indices:
        moving = [loop for loop in loops if any(n is loop.var for n in walk(index))]
        if not moving:
            mins.append(index)
            extents.append(const(1, INT32))
            continue
        loop, *more = moving
        parts = linear_in(index, loop.var)
        if (
            more
            or parts is None
            or not (isinstance(parts[0], IntImm) and parts[0].value == 1)
            or loop.var in set(order)
        ):
            return None
        order.append(loop.var)
        mins.append(loop.min if is_zero(parts[1]) else parts[1] if is_zero(loop.min) else parts[1] + loop.min)
        extents.append(loop.extent)
    if len(order) != len(loops):
        return None
    squeezed = tuple(isinstance(e, IntImm) and e.value == 1 for e in extents)
    return BufferRegion(buffer, tuple(mins), tuple(extents), squeezed), order


def _same(a: list[Var], b: list[Var]) -> bool:
    return len(a) == len(b) and all(x is y for x, y in zip(a, b))
