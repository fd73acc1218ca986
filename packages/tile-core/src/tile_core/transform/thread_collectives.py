"""What threads do together, for a target on which one thread runs a block: shuffles, votes and reductions of warps as
loops over arrays with an element for each thread of the block.

Each function takes the array of the values that the threads brought and writes the array of what they get. `active`
has true for the threads that came (None: all did); the others bring nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..dtypes import DType
from ..ir import (
    Buffer,
    BufferLoad,
    BufferStore,
    Call,
    Expr,
    For,
    If,
    Select,
    Stmt,
    Var,
    binary,
    cast,
    const,
    seq,
)
from ..ir.expr import unary
from ..ir.thread_intrinsics import VOTES, WARP_SIZE, shuffles
from ..tileop.default_candidates import combined
from ..tileop.numerics import identity_value

__all__ = ["Together"]

INT32, UINT32, BOOL = DType("int32"), DType("uint32"), DType("bool")
_FULL = 0xFFFFFFFF


class Together:
    """The collectives of one block of `count` threads; `allocate` gives arrays that live as long as the kernel."""

    def __init__(self, count: int, allocate: Callable[[str, int, DType], Buffer]) -> None:
        self.count = count
        self.allocate = allocate

    def lower(self, call: Call, brought: list[Buffer], active: Buffer | None, result: Buffer) -> Stmt:
        """The statements that fill `result` from the arguments' arrays."""
        name = call.op
        if name in shuffles:
            return self.shuffle(name, brought, active, result)
        if name.startswith("warp_reduce_"):
            return self.reduce(name.removeprefix("warp_reduce_"), brought[0], active, result)
        if name in VOTES:
            return self.vote(name, brought, active, result)
        raise KeyError(name)

    def each(self, body: Callable[[Expr], Stmt], extent: int | None = None, kind: str = "parallel") -> Stmt:
        """A loop over the threads of the block."""
        var = Var("t" if extent is None else "w", INT32)
        return For(var, const(0, INT32), const(self.count if extent is None else extent, INT32), kind, body(var))

    def of(self, active: Buffer | None, thread: Expr, stmt: Stmt) -> Stmt:
        """A statement for those threads only that came."""
        return stmt if active is None else If(BufferLoad(active, (thread,)), stmt)

    def array(self, name: str, dtype: DType) -> Buffer:
        """An array with an element a thread."""
        return self.allocate(name, self.count, dtype)

    def shuffle(self, kind: str, brought: list[Buffer], active: Buffer | None, result: Buffer) -> Stmt:
        """Another lane's value (PTX ISA, shfl.sync: where the source is outside of the segment, the own one; so too,
        here, where the source does not come)."""
        value, operand, width = brought[:3]

        def body(t: Expr) -> Stmt:
            size, moved = BufferLoad(width, (t,)), BufferLoad(operand, (t,))
            place = binary("bitand", t, binary("sub", size, 1))
            if kind == "shfl":
                source: Expr = binary("bitand", moved, binary("sub", size, 1))
            elif kind == "shfl_xor":
                source = binary("bitxor", place, moved)
            else:
                source = binary("sub" if kind == "shfl_up" else "add", place, moved)
            thread = binary("add", binary("sub", t, place), source)
            inside = binary("and", binary("ge", source, 0), binary("lt", source, size))
            inside = binary("and", inside, binary("lt", thread, self.count))
            if kind == "shfl_xor":
                # A lane of an earlier segment may be read, a lane of a later one may not.
                warp = binary("bitand", t, WARP_SIZE - 1)
                other = binary("bitxor", warp, moved)
                last = binary("bitor", warp, binary("sub", size, 1))
                thread = binary("add", binary("sub", t, warp), other)
                inside = binary("and", binary("le", other, last), binary("lt", thread, self.count))
            if active is not None:
                inside = Select(inside, BufferLoad(active, (Select(inside, thread, t),)), const(False, BOOL), True)
            source_thread = Select(inside, thread, t)
            return self.of(active, t, BufferStore(result, BufferLoad(value, (source_thread,)), (t,)))

        return self.each(body)

    def reduce(self, kind: str, value: Buffer, active: Buffer | None, result: Buffer) -> Stmt:
        """A butterfly, as the device's: sums round alike."""
        dtype = value.dtype
        steps: list[Stmt] = []
        held = value
        if active is not None:
            held = self.array("brought", dtype)
            neutral = const(identity_value(kind, dtype), dtype)
            steps.append(
                self.each(
                    lambda t: BufferStore(
                        held, Select(BufferLoad(active, (t,)), BufferLoad(value, (t,)), neutral, True), (t,)
                    )
                )
            )
        distance = WARP_SIZE // 2
        while distance:
            target = result if distance == 1 else self.array("partial", dtype)
            steps.append(self._exchange(kind, held, target, distance))
            held, distance = target, distance // 2
        return seq(*steps)

    def _exchange(self, kind: str, held: Buffer, target: Buffer, distance: int) -> Stmt:
        def body(t: Expr) -> Stmt:
            other, own = binary("bitxor", t, distance), BufferLoad(held, (t,))
            whole = self.count % WARP_SIZE == 0
            safe = other if whole else Select(binary("lt", other, self.count), other, t)
            both = combined(kind, own, BufferLoad(held, (safe,)), False)
            if not whole:
                both = Select(binary("lt", other, self.count), both, own)
            return BufferStore(target, both, (t,))

        return self.each(body)

    def vote(self, name: str, brought: list[Buffer], active: Buffer | None, result: Buffer) -> Stmt:
        """Votes, from a word a warp; matches, from a comparison with every lane."""
        if name == "match_any":
            return self.matches(brought[0], active, result)
        if name == "match_all":
            same, all_lanes = self.array("same", UINT32), self.words(None, active)
            return seq(
                self.matches(brought[0], active, same),
                all_lanes[0],
                self.each(
                    lambda t: self.of(
                        active,
                        t,
                        BufferStore(
                            result,
                            Select(
                                binary("eq", BufferLoad(same, (t,)), self._word(all_lanes[1], t)),
                                self._word(all_lanes[1], t),
                                const(0, UINT32),
                            ),
                            (t,),
                        ),
                    )
                ),
            )
        predicate = brought[0] if name != "activemask" else None
        fill, words = self.words(predicate, active, negate=name == "all_sync")

        def body(t: Expr) -> Stmt:
            word = self._word(words, t)
            if name not in ("ballot", "activemask"):
                word = binary("ne" if name == "any_sync" else "eq", word, const(0, UINT32))
            return self.of(active, t, BufferStore(result, word, (t,)))

        return seq(fill, self.each(body))

    def words(self, predicate: Buffer | None, active: Buffer | None, negate: bool = False) -> tuple[Stmt, Buffer]:
        """(statements, array): a word a warp with a bit for each lane that came and whose predicate is true."""
        warps = -(-self.count // WARP_SIZE)
        words = self.allocate("votes", warps, UINT32)

        def warp(w: Expr) -> Stmt:
            first = binary("mul", w, WARP_SIZE)

            def lane(l: Expr) -> Stmt:
                t = binary("add", first, l)
                holds: Expr = const(True, BOOL)
                if predicate is not None:
                    holds = BufferLoad(predicate, (t,))
                    holds = unary("not", holds) if negate else holds
                if active is not None:
                    holds = Select(BufferLoad(active, (t,)), holds, const(False, BOOL), True)
                bit = binary("shl", cast(holds, UINT32), cast(l, UINT32))
                return BufferStore(words, binary("bitor", BufferLoad(words, (w,)), bit), (w,))

            return seq(BufferStore(words, const(0, UINT32), (w,)), self._lanes(first, lane))

        return self.each(warp, warps, "serial"), words

    def matches(self, value: Buffer, active: Buffer | None, result: Buffer) -> Stmt:
        """For each thread the lanes of its warp with the same value."""

        def body(t: Expr) -> Stmt:
            first = binary("sub", t, binary("bitand", t, WARP_SIZE - 1))

            def lane(l: Expr) -> Stmt:
                other = binary("add", first, l)
                equal: Expr = binary("eq", BufferLoad(value, (other,)), BufferLoad(value, (t,)))
                if active is not None:
                    equal = Select(BufferLoad(active, (other,)), equal, const(False, BOOL), True)
                bit = binary("shl", cast(equal, UINT32), cast(l, UINT32))
                return BufferStore(result, binary("bitor", BufferLoad(result, (t,)), bit), (t,))

            found = seq(BufferStore(result, const(0, UINT32), (t,)), self._lanes(first, lane))
            return self.of(active, t, found)

        return self.each(body, kind="serial")

    def _lanes(self, first: Expr, body: Callable[[Expr], Stmt]) -> Stmt:
        lane = Var("lane", INT32)
        extent: Expr = const(WARP_SIZE, INT32)
        if self.count % WARP_SIZE:
            extent = binary("min", extent, binary("sub", self.count, first))
        return For(lane, const(0, INT32), extent, "serial", body(lane))

    def _word(self, words: Buffer, t: Expr) -> Expr:
        return BufferLoad(words, (binary("floordiv", t, WARP_SIZE),))

    def total(self, kind: str, predicate: Buffer, result: Buffer) -> Stmt:
        """``sync_threads_<kind>``: one value for the whole block, in element 0."""
        zero = const(0, INT32)
        start = const(1 if kind == "and" else 0, INT32)
        held = BufferLoad(result, (zero,))

        def body(t: Expr) -> Stmt:
            value: Any = cast(BufferLoad(predicate, (t,)), INT32)
            op = {"count": "add", "and": "bitand", "or": "bitor"}[kind]
            return BufferStore(result, binary(op, held, value), (zero,))

        return seq(BufferStore(result, start, (zero,)), self.each(body, kind="serial"))
