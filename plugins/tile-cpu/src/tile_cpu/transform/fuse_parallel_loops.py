"""FuseParallelLoops: neighbouring T.Parallel nests over the same axes become one, as deep as that is legal.

Needs PIPED with layouts applied, leaves PIPED. A row that one nest writes and the next reads is then still in the
first cache, and where all axes are fused, in a register. Fusing is legal when two iterations of the fused axes that
differ never touch the same element, one of them writing: each buffer that both nests touch has an axis that all its
accesses index with the fused variable alone. It is not done along the axis that either nest wants as its vector axis
unless all of both nests is fused.
"""

from __future__ import annotations

from dataclasses import dataclass

from tile_core.arith import Simplifier
from tile_core.ir import (
    AccessPtr,
    Assert,
    Block,
    Break,
    Buffer,
    BufferLoad,
    BufferStore,
    Call,
    Continue,
    Evaluate,
    Expr,
    For,
    IntImm,
    PrimFunc,
    Return,
    Rewriter,
    Seq,
    Stmt,
    Var,
    While,
    find_intrinsic,
    is_zero,
    seq,
    structural_equal,
    substitute,
    walk,
)
from tile_core.transform import Pass, PassContext, register_pass
from tile_core.transform.linear import linear_in, mentioned_vars

from .lower_parallel_loops import best_axis, perfect_nest, stays_scalar

__all__ = ["FuseParallelLoops"]

# A fused body of more accesses than this spills whatever fusing could keep in registers.
_MOST_ACCESSES = 64


@register_pass("FuseParallelLoops", needs="PIPED", leaves="same")
class FuseParallelLoops(Pass):
    def function(self, function: PrimFunc, context: PassContext) -> PrimFunc:
        return _Fuse(int(context.target.get("vector_bits", 128)) // 32).rewrite(function)


@dataclass
class _Access:
    """An access with simplified indices; `axes` are those whose index says exactly which elements are touched."""

    indices: tuple[Expr, ...]
    axes: int
    writes: bool


class _Nest:
    """A nest with what fusing asks about it."""

    def __init__(self, loop: For, lanes: int, simplifier: Simplifier) -> None:
        self.loop = loop
        self.loops, self.body = perfect_nest(loop)
        axis = None if stays_scalar(self.body) else best_axis(self.loops, self.body, max(2, lanes))
        self.axis = None if axis is None else self.loops.index(axis)
        self.plain = not any(isinstance(i, (While, Break, Continue, Return, Block, Assert)) for i in walk(self.body))
        self.accesses: dict[Buffer, list[_Access]] = {}
        self.count = 0
        for item in walk(self.body):
            if isinstance(item, (BufferLoad, BufferStore)):
                indices = tuple(simplifier.simplify(i) for i in item.indices)
                self._add(item.buffer, _Access(indices, len(indices), isinstance(item, BufferStore)))
            elif isinstance(item, AccessPtr):
                indices = tuple(simplifier.simplify(i) for i in item.indices)
                self._add(item.buffer, _Access(indices, _whole_axes(item), item.mode != "r"))
            elif isinstance(item, Evaluate) and isinstance(item.value, Call):
                self.plain = self.plain and find_intrinsic(item.value.op).effect == "none" and _pointers(item.value)

    def _add(self, buffer: Buffer, access: _Access) -> None:
        self.accesses.setdefault(buffer, []).append(access)
        self.count += 1


class _Fuse(Rewriter):
    def __init__(self, lanes: int) -> None:
        super().__init__()
        self.lanes = lanes
        self.simplifier = Simplifier()

    def rewrite_Seq(self, node: Seq) -> Stmt | None:
        stmts: list[Stmt] = []
        last: _Nest | None = None
        for stmt in node.stmts:
            nest = _Nest(stmt, self.lanes, self.simplifier) if _is_parallel(stmt) else None
            fused = _fused(last, nest) if last is not None and nest is not None else None
            if fused is not None:
                stmts[-1] = fused
                nest = _Nest(fused, self.lanes, self.simplifier)
            else:
                stmts.append(stmt)
            last = nest
        changed = len(stmts) != len(node.stmts)
        # What two fused axes now share may fuse further inside.
        return self._sequence(Seq(tuple(stmts), span=node.span) if changed else node)


def _fused(first: _Nest, second: _Nest) -> For | None:
    """Both nests as one with as many common loops as possible, or None."""
    if not first.plain or not second.plain or first.count + second.count > _MOST_ACCESSES:
        return None
    depth = _common(first.loops, second.loops)
    while depth and not _wanted(first, second, depth):
        depth -= 1
    mapping = {b.var: a.var for a, b in zip(first.loops[:depth], second.loops[:depth])}
    while depth and not _independent(first, second, [a.var for a in first.loops[:depth]], mapping):
        depth -= 1
        while depth and not _wanted(first, second, depth):
            depth -= 1
    if not depth:
        return None
    mapping = {b.var: a.var for a, b in zip(first.loops[:depth], second.loops[:depth])}
    inner = seq(_inside(first, depth), substitute(_inside(second, depth), mapping))
    for loop in reversed(first.loops[:depth]):
        inner = loop.with_(body=inner)
    assert isinstance(inner, For)
    return inner


def _common(first: list[For], second: list[For]) -> int:
    """How many loops from the outermost on have the same bounds."""
    count = 0
    for a, b in zip(first, second):
        stepped = a.step is not None or b.step is not None
        if stepped or not structural_equal(a.min, b.min) or not structural_equal(a.extent, b.extent):
            break
        count += 1
    return count


def _wanted(first: _Nest, second: _Nest, depth: int) -> bool:
    """Whether fusing to this depth leaves both nests their vector axis."""
    if depth == len(first.loops) == len(second.loops):
        return first.axis == second.axis
    return all(nest.axis is None or nest.axis >= depth for nest in (first, second))


def _independent(first: _Nest, second: _Nest, fused: list[Var], mapping: dict[Var, Var]) -> bool:
    """Whether different iterations of the fused loops never meet in an element that one of them writes."""
    for buffer, ours in first.accesses.items():
        for other, theirs in second.accesses.items():
            if _root(other) is not _root(buffer) or not any(a.writes for a in (*ours, *theirs)):
                continue
            if other is not buffer:
                return False
            moved = [_Access(tuple(substitute(i, mapping) for i in a.indices), a.axes, a.writes) for a in theirs]
            if not all(_separates(var, fused, [*ours, *moved]) for var in fused):
                return False
    return True


def _separates(var: Var, fused: list[Var], accesses: list[_Access]) -> bool:
    """Whether some axis is indexed by `var` in the same way in all accesses, and by nothing else that varies."""
    first = accesses[0]
    for axis in range(min(a.axes for a in accesses)):
        index = first.indices[axis]
        linear = linear_in(index, var)
        if linear is None or not isinstance(linear[0], IntImm) or is_zero(linear[0]):
            continue
        # Other variables of the nests would be different ones in the two bodies.
        if mentioned_vars(index) & (set(fused) - {var}):
            continue
        if all(structural_equal(index, a.indices[axis]) for a in accesses[1:]):
            return True
    return False


def _inside(nest: _Nest, depth: int) -> Stmt:
    return nest.loops[depth - 1].body


def _whole_axes(pointer: AccessPtr) -> int:
    """Leading axes that a pointer stays within: all but the last where its elements lie in one row, else none."""
    last = pointer.buffer.shape[-1]
    start = pointer.indices[-1]
    if isinstance(last, IntImm) and isinstance(start, IntImm) and isinstance(pointer.extent, IntImm):
        if start.value + pointer.extent.value <= last.value:
            return len(pointer.indices) - 1
    return 0


def _pointers(call: Call) -> bool:
    """Whether all that a call touches is named by its pointers."""
    return any(isinstance(a, AccessPtr) for a in call.args)


def _is_parallel(stmt: Stmt) -> bool:
    return isinstance(stmt, For) and stmt.kind == "parallel"


def _root(buffer: Buffer) -> Buffer:
    while buffer.data is not None:
        buffer = buffer.data
    return buffer
