"""Statements: running a function's body.

Control flow over a batch follows the lanes: a condition that differs between them narrows the mask, `break`,
`continue` and `return` take the lanes that reach them out of their loop, iteration or kernel. A barrier that only some
of a block's threads reach is a fault.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from ..errors import InternalError
from ..ir import (
    SIDE_BY_SIDE,
    Assert,
    Attr,
    Bind,
    Block,
    Break,
    Buffer,
    BufferStore,
    Call,
    Continue,
    Evaluate,
    For,
    If,
    KernelLaunch,
    Return,
    Seq,
    Stmt,
    TileOpStmt,
    While,
    has_named_barrier,
    has_thread_code,
    walk,
)
from ..tileop import TileOp
from .batch import Plan, plan_batch
from .effects import EFFECTS
from .evaluate import Evaluator
from .faults import ExecutionFault
from .memory import LaneConflict, Storage, Tracker, memory_at
from .tiles import run_tile_op
from .turns import Turns
from .values import convert, numpy_type
from .warps import Barriers

__all__ = ["Machine"]

# What a statement reports to the one around it. IDLE: no lane is left here, though some go on elsewhere.
BREAK, CONTINUE, RETURN, IDLE = "break", "continue", "return", "idle"
_LARGEST_BATCH = 1 << 22


class _Frame:
    """The lanes that have left a loop (broken) or its current iteration (continued)."""

    __slots__ = ("broken", "continued")

    def __init__(self) -> None:
        self.broken: Any = None
        self.continued: Any = None


class Machine(Evaluator):
    """Runs statements.

    Args:
        strict, check_written: see `Evaluator`.
        limit: iterations after which a while loop is a fault.
        batch: whether iterations of a loop may run side by side.
    """

    def __init__(
        self, strict: bool = False, check_written: bool = False, limit: int = 1_000_000, batch: bool = True
    ) -> None:
        super().__init__(strict, check_written)
        self.limit = limit
        self.batch = batch
        self.batch_shape: tuple[int, ...] = ()
        self.threads: np.ndarray | None = None
        self.frames: list[_Frame] = []
        self.parallel = 0
        self.returned: Any = None
        self.grid: Turns | None = None
        self.parts: list[Turns] = []
        self.barriers = Barriers()
        self._plans: dict[For, Plan | None] = {}

    def run(self, stmt: Any) -> str | None:
        """Runs a statement; see the reports above."""
        method = self._statements.get(type(stmt))
        if method is None:
            raise InternalError("E-INTERNAL", f"the interpreter has no rule for {type(stmt).__name__}", span=stmt.span)
        return method(self, stmt)

    # Sequences and control flow

    def _seq(self, stmt: Seq) -> str | None:
        for item in stmt.stmts:
            signal = self.run(item)
            if signal is not None:
                return signal
        return None

    def _if(self, stmt: If) -> str | None:
        condition = self.evaluate(stmt.condition)
        if np.ndim(condition):
            holds = condition if self.mask is None else condition[...] & self.mask
            fails = ~condition if self.mask is None else ~condition & self.mask
            if holds.any() and fails.any():
                return self._diverge(stmt, holds, fails)
            condition = holds.any()
        if condition:
            return self.run(stmt.then_body)
        return None if stmt.else_body is None else self.run(stmt.else_body)

    def _diverge(self, stmt: If, holds: Any, fails: Any) -> str | None:
        outer = self.mask
        if stmt.else_body is not None and has_named_barrier(stmt):
            self._side_by_side([(holds, stmt.then_body), (fails, stmt.else_body)])
            self.mask = self._remaining(outer)
            return IDLE if self.mask is not None and not self.mask.any() else None
        self.mask = holds
        self.run(stmt.then_body)
        if stmt.else_body is not None:
            self.mask = fails
            self.run(stmt.else_body)
        self.mask = self._remaining(outer)
        return IDLE if self.mask is not None and not self.mask.any() else None

    def _side_by_side(self, parts: list[tuple[Any, Stmt]]) -> None:
        """Statements for some of the threads each, which go on while others wait at a named barrier."""
        machines = [self._apart(mask) for mask, _ in parts]
        works = [lambda m=m, s=stmt: m.run(s) for m, (_, stmt) in zip(machines, parts)]
        turns = Turns(works, self.barriers.after_round(self.parts))
        for machine in machines:
            machine.parts = [*self.parts, turns]
        turns.run()
        for machine in machines:
            if machine.returned is not None:
                self.returned = machine.returned if self.returned is None else self.returned | machine.returned

    def _apart(self, mask: Any = None) -> Machine:
        """A machine over the same memory that goes its own way from here."""
        found = copy.copy(self)
        found.env, found.storages, found.placements = dict(self.env), dict(self.storages), dict(self.placements)
        found.frames, found.mask = list(self.frames), mask
        return found

    def _remaining(self, mask: Any) -> Any:
        """`mask` without the lanes that have left the innermost loop, its iteration, or the kernel."""
        frame = self.frames[-1] if self.frames else None
        for left in (self.returned, frame and frame.broken, frame and frame.continued):
            if left is not None:
                mask = ~left if mask is None else mask & ~left
        return mask

    def _break(self, stmt: Break) -> str | None:
        if self.mask is None:
            return BREAK
        frame = self.frames[-1]
        frame.broken = self.mask if frame.broken is None else frame.broken | self.mask
        return self._leave()

    def _continue(self, stmt: Continue) -> str | None:
        if self.mask is None:
            return CONTINUE
        frame = self.frames[-1]
        frame.continued = self.mask if frame.continued is None else frame.continued | self.mask
        return self._leave()

    def _return(self, stmt: Return) -> str | None:
        if self.mask is None:
            return RETURN
        self.returned = self.mask if self.returned is None else self.returned | self.mask
        return self._leave()

    def _leave(self) -> str:
        self.mask = np.zeros_like(self.mask)
        return IDLE

    # Loops

    def _for(self, stmt: For) -> str | None:
        if self.tracker is None and self.batch:
            if stmt not in self._plans:
                self._plans[stmt] = plan_batch(stmt)
            plan = self._plans[stmt]
            if plan is not None and self._try_batch(plan):
                return None
        return self._in_order(stmt)

    def _in_order(self, stmt: For) -> str | None:
        low, count, step = self._bounds(stmt)
        entry = self.mask
        held = numpy_type(stmt.var.dtype)
        varies = np.ndim(count) > 0
        frame = _Frame()
        self.frames.append(frame)
        self.parallel += stmt.kind == "parallel"
        signal = None
        try:
            for i in range(int(np.max(count)) if varies else int(count)):
                frame.continued = None
                self.mask = self._remaining(entry)
                if varies:
                    going = i < count
                    self.mask = going if self.mask is None else self.mask & going
                if self.mask is not None and not self.mask.any():
                    break
                self.env[stmt.var] = _typed(low + i * step, held)
                signal = self.run(stmt.body)
                if signal in (BREAK, RETURN):
                    break
        finally:
            self.frames.pop()
            self.parallel -= stmt.kind == "parallel"
        return self._after_loop(entry, signal)

    def _while(self, stmt: While) -> str | None:
        entry = self.mask
        frame = _Frame()
        self.frames.append(frame)
        signal = None
        try:
            for i in range(self.limit + 1):
                frame.continued = None
                self.mask = self._remaining(entry)
                if self.mask is not None and not self.mask.any():
                    break
                condition = self.evaluate(stmt.condition)
                if np.ndim(condition):
                    stops = ~condition if self.mask is None else ~condition & self.mask
                    if stops.any():
                        frame.broken = stops if frame.broken is None else frame.broken | stops
                        self.mask = self._remaining(entry)
                        if not self.mask.any():
                            break
                elif not condition:
                    break
                if i == self.limit:
                    raise ExecutionFault(
                        "E-RUN-ITERATIONS",
                        f"a while loop did not end within {self.limit} iterations",
                        span=stmt.span,
                        help="see that its condition becomes false, or raise the limit of the run",
                    )
                signal = self.run(stmt.body)
                if signal in (BREAK, RETURN):
                    break
        finally:
            self.frames.pop()
        return self._after_loop(entry, signal)

    def _after_loop(self, entry: Any, signal: str | None) -> str | None:
        self.mask = self._remaining(entry)
        if signal == RETURN:
            return RETURN
        return IDLE if self.mask is not None and not self.mask.any() else None

    def _bounds(self, stmt: For) -> tuple[Any, Any, int]:
        low = self.evaluate(stmt.min)
        count = self.evaluate(stmt.extent)
        step = 1 if stmt.step is None else self.integer(stmt.step, "loop step")
        return (low.astype(np.int64) if np.ndim(low) else int(low)), count, step

    def _try_batch(self, plan: Plan) -> bool:
        """Runs a nest as a batch. False where that would not do; then nothing has changed."""
        bounds = {l: self._bounds(l) for l in plan.loops}
        if any(np.ndim(low) or np.ndim(count) for low, count, _ in bounds.values()):
            return False
        extents = [int(bounds[l][1]) for l in plan.lanes]
        total = int(np.prod(extents))
        if any(int(bounds[l][1]) <= 0 for l in plan.loops):
            return True
        if total < 4 or total > _LARGEST_BATCH:
            return False
        inner = len(self.batch_shape)
        numbers = np.arange(1, total + 1, dtype=np.int32).reshape(*extents, *(1,) * inner)
        tracker = Tracker(numbers)
        for buffer in plan.stored:
            tracker.watch(self.placement(buffer).storage)
        outer_shape, outer_mask, outer_returned = self.batch_shape, self.mask, self.returned
        for axis, (l, extent) in enumerate(zip(plan.lanes, extents)):
            low, _, step = bounds[l]
            steps = (low + np.arange(extent) * step).astype(numpy_type(l.var.dtype))
            self.env[l.var] = steps.reshape(*(extent if i == axis else 1 for i in range(len(extents))), *(1,) * inner)
        self.batch_shape = (*extents, *outer_shape)
        self.tracker = tracker
        self.frames.append(_Frame())
        try:
            self._around([l for l in plan.loops if l not in plan.lanes], bounds, plan)
            return True
        except (LaneConflict, ExecutionFault):
            # A fault may come from a value that only running side by side has made; in order it shows itself, if it is
            # real.
            tracker.undo()
            self._plans[plan.loops[0]] = None
            return False
        finally:
            self.frames.pop()
            self.tracker = None
            self.batch_shape, self.mask, self.returned = outer_shape, outer_mask, outer_returned

    def _around(self, serial: list[For], bounds: dict[For, tuple[Any, Any, int]], plan: Plan) -> None:
        if not serial:
            self.run(plan.body)
            return
        low, count, step = bounds[serial[0]]
        held = numpy_type(serial[0].var.dtype)
        for i in range(int(count)):
            self.env[serial[0].var] = _typed(low + i * step, held)
            self._around(serial[1:], bounds, plan)

    # Data

    def _store(self, stmt: BufferStore) -> None:
        indices, vector = self._indices(stmt.indices)
        predicate = None
        if stmt.predicate is not None:
            predicate = self.evaluate(stmt.predicate)
            if vector and stmt.predicate.dtype.lanes == 1:
                predicate = np.asarray(predicate)[..., None]
        outer = self.mask
        if not vector and self.tolerates(stmt.buffer):
            # A store that is dropped does not evaluate its value either: what it would divide by may have been read as
            # 0.
            inside = self._inside(stmt.buffer, indices)
            if not np.all(inside):
                self.mask = np.asarray(inside) if outer is None else outer & inside
                if not self.mask.any():
                    self.mask = outer
                    return
        value = convert(self.evaluate(stmt.value), stmt.value.dtype, stmt.buffer.dtype)
        self.mask = outer
        if vector and stmt.value.dtype.lanes == 1:
            value = np.asarray(value)[..., None]
        self.store(stmt.buffer, indices, vector, predicate, value, stmt.span)

    def _bind(self, stmt: Bind) -> None:
        self.env[stmt.var] = self.evaluate(stmt.value)

    def _evaluate(self, stmt: Evaluate) -> None:
        self.evaluate(stmt.value)

    def _block(self, stmt: Block) -> str | None:
        for buffer in stmt.allocations:
            self.allocate(buffer)
        outer_safe = self.safe_values
        safe = stmt.annotation("safe_value", ())
        if safe:
            self.safe_values = {**outer_safe, **dict(safe)}
        try:
            return self.run(stmt.body)
        finally:
            self.safe_values = outer_safe
            for buffer in stmt.allocations:
                storage = self.storages.pop(buffer, None)
                if storage is not None:
                    self.forget(storage)

    def allocate(self, buffer: Buffer) -> None:
        """Poisoned memory for a buffer: for each lane of the batch its own, for each thread where the scope is the
        thread's."""
        if buffer.data is not None:
            return
        size = int(np.prod([self.integer(e, "extent") for e in buffer.shape], dtype=np.int64)) * buffer.dtype.lanes
        shape = self.batch_shape
        if self.threads is not None and buffer.memory.level != "thread":
            shape = (*shape[:-1], 1)
        lanes = np.arange(int(np.prod(shape)), dtype=np.int64).reshape(shape) if int(np.prod(shape)) > 1 else None
        self.storages[buffer] = Storage.allocate(buffer, size, lanes, self.check_written)

    def _assert(self, stmt: Assert) -> None:
        condition = np.asarray(self.evaluate(stmt.condition))
        if self.mask is not None:
            condition = condition | ~self.mask
        if not condition.all():
            raise ExecutionFault("E-RUN-ASSERT", f"assertion failed: {stmt.message}", span=stmt.span)

    def _attr(self, stmt: Attr) -> str | None:
        if stmt.key == "assume" and stmt.value is not None:
            fact = np.asarray(self.evaluate(stmt.value))
            if not fact.all() and self.mask is None:
                raise ExecutionFault(
                    "E-RUN-ASSERT", f"what the kernel assumes does not hold: {stmt.value!r}", span=stmt.span
                )
        if stmt.key == "executors":
            return self._as_part(stmt, *stmt.subject[:2])
        if stmt.key == SIDE_BY_SIDE:
            parts = stmt.body.stmts if isinstance(stmt.body, Seq) else (stmt.body,)
            self._side_by_side([(self.mask, part) for part in parts])
            return None
        if stmt.key == "address" and stmt.value is not None:
            return self._at_address(stmt, stmt.subject, stmt.value)
        return self.run(stmt.body)

    def _as_part(self, stmt: Attr, first: int, count: int) -> str | None:
        """Statements that some of the block's threads execute: tile ops are theirs, as they are the block's outside."""
        if self.threads is None:
            return self.run(stmt.body)
        inside = (self.threads >= first) & (self.threads < first + count)
        outer = self.mask
        self.mask = np.broadcast_to(inside, self.batch_shape) & (True if outer is None else outer)
        try:
            self.run(stmt.body)
        finally:
            self.mask = outer
        self.mask = self._remaining(outer)
        return IDLE if self.mask is not None and not self.mask.any() else None

    def _at_address(self, stmt: Attr, buffer: Buffer, address: Any) -> str | None:
        """A buffer over memory that the kernel only has the address of, for the statements that use it."""
        strides, shape = buffer.element_strides(), [self.integer(e, "extent") for e in buffer.shape]
        count = 1 + sum((n - 1) * self.integer(s, "stride") for n, s in zip(shape, strides)) if all(shape) else 0
        data = memory_at(self.integer(address, "address"), count, buffer.dtype)
        self.storages[buffer] = storage = Storage(buffer, data)
        try:
            return self.run(stmt.body)
        finally:
            del self.storages[buffer]
            self.forget(storage)

    def _tile_op(self, stmt: TileOpStmt) -> None:
        if self.mask is not None and not self.mask.any():
            return
        if self.threads is None or not self._differs_by_thread(stmt.op):
            run_tile_op(self, stmt.op)
            return
        active = np.broadcast_to(True if self.mask is None else self.mask, self.batch_shape).reshape(-1)
        for thread in np.flatnonzero(active):
            self._as_one_thread(int(thread), stmt.op)

    def _differs_by_thread(self, op: TileOp) -> bool:
        """Whether each thread performs the op on a tile, or with a value, of its own."""
        if any(region.buffer.memory.level == "thread" for _, _, region in op.operands()):
            return True
        exprs = [*op.expressions(), *(low for _, _, region in op.operands() for low in region.mins)]
        return any(np.ndim(self.evaluate(e)) for e in exprs)

    def _as_one_thread(self, thread: int, op: TileOp) -> None:
        state = self.env, self.mask, self.threads, self.batch_shape
        starts = {s: s.lanes for s in self.storages.values() if s.lanes is not None}
        self.env = {var: value[..., thread] if np.ndim(value) else value for var, value in self.env.items()}
        self.mask, self.threads, self.batch_shape = None, None, ()
        for storage, lanes in starts.items():
            storage.lanes = lanes[..., thread]
        try:
            run_tile_op(self, op)
        finally:
            self.env, self.mask, self.threads, self.batch_shape = state
            for storage, lanes in starts.items():
                storage.lanes = lanes

    def effect(self, expr: Call) -> Any:
        """A call that does more than compute: barriers, atomics and what else has a row in `effects`."""
        function = EFFECTS.get(expr.op)
        if function is None:
            raise ExecutionFault(
                "E-RUN-EXTERNAL",
                f"{expr.op} has no meaning off the device",
                span=expr.span,
                help="give it one with tile_core.interpreter.register_effect, or run the kernel on its backend",
            )
        return function(self, expr)

    # Kernels

    def _launch(self, stmt: KernelLaunch) -> None:
        grid = [self.integer(extent, "grid extent") for extent in stmt.grid]
        threads = [self.integer(extent, "thread extent") for extent in stmt.threads]
        count = int(np.prod(threads, dtype=np.int64))
        by_thread = count > 1 and has_thread_code(stmt.body, stmt.thread_vars)
        thread_values = _thread_indices(threads) if by_thread else [0] * len(threads)
        for var, value in zip(stmt.thread_vars, thread_values):
            self.env[var] = _typed(value, numpy_type(var.dtype))
        self.threads = np.arange(count) if by_thread else None
        self.batch_shape = (count,) if by_thread else ()
        blocks = list(np.ndindex(*reversed(grid)))
        if any(isinstance(node, Call) and node.op == "sync_grid" for node in walk(stmt.body)):
            machines = [self._apart() for _ in blocks]
            works = [lambda m=m, b=block: m.run_block(stmt, b) for m, block in zip(machines, blocks)]
            turns = Turns(works, _all_wait)
            for machine in machines:
                machine.grid = turns
            turns.run()
        else:
            for block in blocks:
                self.run_block(stmt, block)
        self.threads, self.batch_shape, self.mask, self.returned = None, (), None, None

    def run_block(self, stmt: KernelLaunch, block: tuple[int, ...]) -> None:
        """The block of these indices, x last."""
        for var, index in zip(stmt.grid_vars, reversed(block)):
            self.env[var] = numpy_type(var.dtype).type(index)
        self.mask = self.returned = None
        self.frames = []
        self.barriers = Barriers()
        self.run(stmt.body)

    _statements: ClassVar[dict[type, Callable[[Any, Any], str | None]]] = {
        Seq: _seq,
        If: _if,
        For: _for,
        While: _while,
        Break: _break,
        Continue: _continue,
        Return: _return,
        BufferStore: _store,
        Bind: _bind,
        Evaluate: _evaluate,
        Block: _block,
        Assert: _assert,
        Attr: _attr,
        TileOpStmt: _tile_op,
        KernelLaunch: _launch,
    }


def _all_wait(waiting: int, ended: int) -> None:
    if ended:
        raise ExecutionFault(
            "E-RUN-DIVERGENCE",
            "not all blocks of the grid reach this T.sync_grid()",
            facts=[f"{waiting} blocks wait, {ended} have ended"],
            help="move T.sync_grid() out of conditions and loops that differ between blocks",
        )


def _typed(value: Any, held: np.dtype) -> Any:
    return value.astype(held) if isinstance(value, np.ndarray) else held.type(value)


def _thread_indices(extents: list[int]) -> list[np.ndarray]:
    linear = np.arange(int(np.prod(extents, dtype=np.int64)), dtype=np.int64)
    found = []
    for extent in extents:
        found.append(linear % extent)
        linear = linear // extent
    return found
