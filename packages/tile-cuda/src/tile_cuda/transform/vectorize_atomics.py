"""VectorizeAtomics: updates of neighbours become one update of a pair or a quadruple where the hardware has it.

Needs FLAT, leaves FLAT; after VectorizeLoop. A loop over neighbours, or updates that follow each other, as
T.atomic_addx2 writes them, are joined when their addresses are proved to be consecutive and aligned: pairs of fp16
from sm_75 on, pairs of bf16 and, in global memory, pairs and quadruples of fp32 from sm_90 on. Each element's update
stays indivisible by itself.
"""

from __future__ import annotations

from dataclasses import dataclass

from tile_core.analysis import root_buffer
from tile_core.arith import Prover
from tile_core.dtypes import DType
from tile_core.ir import (
    AccessPtr,
    Buffer,
    BufferLoad,
    Call,
    Evaluate,
    Expr,
    For,
    If,
    IntImm,
    PrimFunc,
    Seq,
    Shuffle,
    Stmt,
    StringImm,
    binary,
    const,
    seq,
    substitute,
    walk,
)
from tile_core.transform import Pass, PassContext, register_pass
from tile_core.transform.scoped import ScopedRewriter, is_index

from ..target import architecture

__all__ = ["VectorizeAtomics", "widest_update"]

_MOST = 4


@register_pass("VectorizeAtomics", needs="FLAT", leaves="same")
class VectorizeAtomics(Pass):
    def function(self, function: PrimFunc, context: PassContext) -> PrimFunc:
        return _Join(architecture(context.target).number).rewrite(function)


def widest_update(buffer: Buffer, arch: int) -> int:
    """Elements that one instruction adds to (PTX ISA, atom.add and red.add with vector types)."""
    if buffer.dtype.name == "float16":
        return 2
    if arch >= 90 and buffer.dtype.name == "bfloat16":
        return 2
    if arch >= 90 and buffer.dtype.name == "float32" and buffer.memory.level == "device":
        return _MOST
    return 1


@dataclass
class _Update:
    """One update of one element, with what is bound for it."""

    pointer: AccessPtr
    value: Expr
    stmt: Stmt


class _Join(ScopedRewriter):
    def __init__(self, arch: int) -> None:
        super().__init__(Prover(solver=False))
        self.arch = arch

    def rewrite_For(self, node: For) -> Stmt | None:
        guard = node.body
        if isinstance(guard, If) and guard.else_body is None and _update(guard.then_body) is not None:
            if not any(n is node.var for n in walk(guard.condition)):
                # The same for all neighbours: asked once.
                return self.rewrite(guard.with_(then_body=node.with_(body=guard.then_body)))
        update = _update(node.body)
        if node.kind not in ("unroll", "vectorized") or update is None or not isinstance(node.extent, IntImm):
            return super().rewrite_For(node)
        count = node.extent.value
        if count > 16 or node.step is not None or widest_update(update.pointer.buffer, self.arch) == 1:
            return super().rewrite_For(node)
        turns = [substitute(node.body, {node.var: binary("add", node.min, i)}) for i in range(count)]
        joined = self.join([u for u in map(_update, turns) if u is not None])
        return super().rewrite_For(node) if len(joined) == count else seq(*joined)

    def rewrite_Seq(self, node: Seq) -> Stmt | None:
        stmts: list[Stmt] = []
        run: list[_Update] = []
        for stmt in node.stmts:
            update = _update(stmt)
            if update is not None:
                run.append(update)
                continue
            stmts += self.join(run)
            run = []
            stmts.append(stmt)
        stmts += self.join(run)
        changed = len(stmts) != len(node.stmts)
        return super().rewrite_Seq(Seq(tuple(stmts), span=node.span) if changed else node)

    def join(self, run: list[_Update]) -> list[Stmt]:
        """The updates, neighbours of one vector as one call."""
        result: list[Stmt] = []
        position = 0
        while position < len(run):
            lanes = self.lanes(run[position:])
            first = run[position]
            if lanes == 1:
                result.append(first.stmt)
            else:
                values = tuple(u.value for u in run[position : position + lanes])
                pointer = first.pointer.with_(extent=const(lanes, "int32"))
                vector = Shuffle(values, tuple(range(lanes)))
                call = Call("cuda.atomic_add_vec", (pointer, vector), DType("void"), span=first.stmt.span)
                result.append(Evaluate(call, span=first.stmt.span))
            position += lanes
        return result

    def lanes(self, run: list[_Update]) -> int:
        """How many of the updates from the first on one instruction can make."""
        pointer = run[0].pointer
        lanes = min(widest_update(pointer.buffer, self.arch), len(run))
        while lanes > 1:
            together = all(
                u.pointer.buffer is pointer.buffer and self._distance(pointer, u.pointer) == i
                for i, u in enumerate(run[:lanes])
            )
            if lanes in (2, 4) and together and self._aligned(pointer, lanes):
                return lanes
            lanes -= 1
        return 1

    def _distance(self, first: AccessPtr, other: AccessPtr) -> int | None:
        apart = self.prover.simplify(binary("sub", other.indices[0], first.indices[0]))
        return apart.value if isinstance(apart, IntImm) else None

    def _aligned(self, pointer: AccessPtr, lanes: int) -> bool:
        offset = pointer.buffer.offset
        size = lanes * pointer.buffer.dtype.bytes
        at = pointer.buffer.data
        starts = offset is None or (at is not None and self.prover.divides(size // at.dtype.bytes or 1, offset))
        return starts and self.prover.divides(lanes, self.prover.simplify(pointer.indices[0]))


def _update(stmt: Stmt) -> _Update | None:
    """A statement that is one relaxed addition to one element in memory that threads share."""
    if not (isinstance(stmt, Evaluate) and isinstance(stmt.value, Call) and stmt.value.op == "atomic_add"):
        return None
    pointer, value, order = stmt.value.args
    if not isinstance(pointer, AccessPtr) or not isinstance(order, StringImm) or order.value != "relaxed":
        return None
    shared = pointer.buffer.memory.level in ("device", "block") and pointer.buffer.scope != "fragment"
    own = root_buffer(pointer.buffer)
    reads = any(isinstance(n, BufferLoad) and root_buffer(n.buffer) is own for n in walk(value))
    plain = all(is_index(i) for i in pointer.indices) and not reads
    return _Update(pointer, value, stmt) if shared and plain and pointer.dtype.lanes == 1 else None
