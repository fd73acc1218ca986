"""LowerParallelLoops: T.Parallel nests become serial loops round one vector loop.

Needs PIPED with layouts applied, leaves THREAD. A block runs on one thread, so parallel loops are a matter of order:
the axis along which most accesses are contiguous goes innermost and becomes a loop of kind ``vectorized``
(VectorizeLoop cuts it into whole vectors and a rest). A nest in which no axis gains from vectors stays scalar.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tile_core.ir import (
    AccessPtr,
    Binary,
    Block,
    BufferLoad,
    BufferStore,
    Call,
    Evaluate,
    For,
    IntImm,
    PrimFunc,
    Rewriter,
    Stmt,
    Var,
    While,
    is_zero,
    walk,
)
from tile_core.transform import Pass, PassContext, register_pass
from tile_core.transform.linear import linear_in, mentions

__all__ = ["LowerParallelLoops", "best_axis", "perfect_nest", "stays_scalar"]

# Costs of one vector statement's parts in units of one vector instruction, for W lanes: a strided access is W scalar
# ones.
_CONTIGUOUS, _UNIFORM, _STRIDED_LOAD, _STRIDED_STORE = 1.0, 0.5, 1.0, 1.2
# A math call is worth vectorising even where accesses are strided: about this many instructions a call.
_MATH = 20.0


@register_pass("LowerParallelLoops", needs="PIPED", leaves="THREAD")
class LowerParallelLoops(Pass):
    def function(self, function: PrimFunc, context: PassContext) -> PrimFunc:
        return _Order(int(context.target.get("vector_bits", 128)) // 32).rewrite(function)


@dataclass
class _Access:
    """One access: its indices against the strides of its buffer."""

    node: Any
    strides: tuple[Any, ...]
    store: bool


class _Order(Rewriter):
    def __init__(self, lanes: int) -> None:
        super().__init__()
        self.lanes = max(2, lanes)

    def rewrite_For(self, node: For) -> Stmt | None:
        if node.kind != "parallel":
            return self.rewrite_children(node)
        loops, body = perfect_nest(node)
        inner = self.rewrite(body)
        if inner is None:
            return None
        axis = None if stays_scalar(inner) else best_axis(loops, inner, self.lanes)
        order = [loop for loop in loops if loop is not axis] + ([axis] if axis is not None else [])
        stmt: Stmt = inner
        for loop in reversed(order):
            kind = "vectorized" if loop is axis else "serial"
            stmt = loop.with_(kind=kind, body=stmt, annotations=())
        return stmt


def perfect_nest(loop: For) -> tuple[list[For], Stmt]:
    """The perfectly nested parallel loops from `loop` on, outermost first, and the body inside them."""
    loops = [loop]
    while isinstance(loops[-1].body, For) and loops[-1].body.kind == "parallel":
        loops.append(loops[-1].body)
    return loops, loops[-1].body


def stays_scalar(body: Stmt) -> bool:
    """Whether a body is one that VectorizeLoop would leave scalar, or has vector loops already."""
    for item in walk(body):
        if isinstance(item, (While, Evaluate, AccessPtr)) or (isinstance(item, Block) and item.allocations):
            return True
        if isinstance(item, For) and item.kind == "vectorized":
            return True
    return False


def best_axis(loops: list[For], body: Stmt, lanes: int) -> For | None:
    """The loop to vectorise, or None where scalar code is as good."""
    accesses, operations = _inventory(body)
    best: tuple[float, For] | None = None
    for position, loop in reversed(list(enumerate(loops))):
        if any(mentions(e, loop.var) for inner in loops[position + 1 :] for e in (inner.min, inner.extent)):
            continue
        cost = _cost(loop.var, accesses, lanes)
        if cost is None:
            continue
        cost = (cost + operations) / _filled(loop, lanes)
        if best is None or cost < best[0]:
            best = (cost, loop)
    scalar = (len(accesses) + operations) * lanes
    return best[1] if best is not None and best[0] < scalar else None


def _inventory(body: Stmt) -> tuple[list[_Access], float]:
    """The accesses of a body and the cost of its arithmetic on values."""
    accesses: list[_Access] = []
    operations = 0.0
    stack: list[Any] = [body]
    while stack:
        item = stack.pop()
        if isinstance(item, (BufferLoad, BufferStore)):
            accesses.append(_Access(item, item.buffer.element_strides(), isinstance(item, BufferStore)))
            stack.extend(i for i in item.indices if any(isinstance(x, BufferLoad) for x in walk(i)))
            if isinstance(item, BufferStore):
                stack.append(item.value)
            continue
        if isinstance(item, Call):
            operations += _MATH
        elif isinstance(item, Binary):
            operations += 1.0
        stack.extend(item.child_nodes())
    return accesses, operations


def _cost(var: Var, accesses: list[_Access], lanes: int) -> float | None:
    """Cost of one vector of iterations along `var`, or None where lanes would store to one place."""
    total = 0.0
    for access in accesses:
        stride = _stride(access, var)
        if stride == 0 and access.store:
            return None
        if stride == 0:
            total += _UNIFORM
        elif stride == 1:
            total += _CONTIGUOUS
        else:
            total += lanes * (_STRIDED_STORE if access.store else _STRIDED_LOAD)
    return total


def _stride(access: _Access, var: Var) -> int | None:
    """Elements between neighbouring iterations: 0, 1, or None for anything else."""
    found = 0
    for index, stride in zip(access.node.indices, access.strides):
        linear = linear_in(index, var)
        if linear is None:
            return None
        if is_zero(linear[0]):
            continue
        if found or not (isinstance(linear[0], IntImm) and isinstance(stride, IntImm)):
            return None
        found = linear[0].value * stride.value
        if found != 1:
            return None
    return found


def _filled(loop: For, lanes: int) -> float:
    """The share of lanes that do work."""
    if not isinstance(loop.extent, IntImm):
        return 0.9
    count = loop.extent.value
    return count / (max(1, -(-count // lanes)) * lanes) if count > 1 else 1.0 / lanes
