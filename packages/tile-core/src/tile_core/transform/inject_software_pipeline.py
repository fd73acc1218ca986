"""InjectSoftwarePipeline: a pipelined loop becomes prologue, steady loop and epilogue over versioned buffers.

Needs PIPED, leaves PIPED without pipelined loops. With S the last stage and E the trip count, slots 0 … S-1 are the
prologue, S … E-1 the loop, and the S slots from max(E, S) on the epilogue, so that short loops (E < S, also 0) run each
statement once as well. In slot t a statement of stage s handles iteration t - s; in prologue and epilogue it is
guarded.

A versioned buffer gets a leading axis, indexed by (k - min) mod versions. Asynchronous copies (candidates whose effects
complete by group) are committed after the last producer of each pipe in every slot, guarded or not: the number of
groups
that may stay unfinished at a wait is then a constant of the schedule.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

from ..analysis import owner_exclusions, root_buffer
from ..arith import Prover
from ..ir import (
    AccessPtr,
    Bind,
    Block,
    Buffer,
    BufferLoad,
    BufferRegion,
    BufferStore,
    Expr,
    For,
    If,
    IntImm,
    KernelLaunch,
    PrimFunc,
    Rewriter,
    Seq,
    Stmt,
    TileOpStmt,
    Var,
    Visitor,
    binary,
    const,
    select,
    seq,
    walk,
)
from ..ir.pipe import Pipe
from .base import Pass, PassContext, register_pass
from .pipeline_report import report_of
from .pipeline_schedule import Schedule, schedule_loop
from .select_instructions import known_candidates

__all__ = ["AsyncQueue", "InjectSoftwarePipeline"]

_CONSUMED = ("num_stages", "order", "stage", "pipes", "group", "sync")


@dataclass(frozen=True)
class AsyncQueue:
    """How a backend closes a group of a queue and waits for all but the newest `pending` ones."""

    commit: Callable[[], Stmt]
    wait: Callable[[int], Stmt]


@register_pass("InjectSoftwarePipeline", needs="PIPED", leaves="same")
class InjectSoftwarePipeline(Pass):
    """Args: queues: queue name of `Completion` → how to commit and wait."""

    def __init__(self, queues: Mapping[str, AsyncQueue] | None = None) -> None:
        self.queues = dict(queues or {})

    def function(self, function: PrimFunc, context: PassContext) -> PrimFunc:
        planner = _Planner(function)
        planner.visit(function.body)
        planner.settle()
        if not planner.schedules:
            return function
        context.solver_queries += planner.prover.solver_queries
        counts: dict[Buffer, int] = {}
        for schedule in planner.schedules.values():
            for versioned in schedule.versions:
                if versioned.count == 1:
                    continue
                counts[versioned.buffer] = max(versioned.count, counts.get(versioned.buffer, 1))
                context.reports.setdefault("versions", []).append(versioned)
        new = {b: b.with_(shape=(const(n, "int32"), *b.shape)) for b, n in counts.items()}
        for view in _views(function):
            root = root_buffer(view)
            if root in counts:
                # A view shows all of its tile, so the versions lie behind each other in it, too.
                new[view] = view.with_(shape=(const(counts[root], "int32"), *view.shape), data=new[root])
        inject = _Inject(planner.schedules, new, self.queues, known_candidates(context))
        result = inject.rewrite(function)
        exclusions = _exclusions(planner.schedules)
        context.reports.setdefault("pipelines", []).extend(
            report_of(
                emitter.schedule,
                function.name,
                planner.threads,
                emitter.pending(),
                sorted(emitter.commits),
                exclusions.get(emitter.schedule.loop, ()),
            )
            for emitter in inject.emitters
        )
        return result


class _Planner(Visitor):
    """Schedules every pipelined loop."""

    def __init__(self, function: PrimFunc) -> None:
        super().__init__()
        self.schedules: dict[For, Schedule] = {}
        self.homes = _loops_that_use(function)
        self.prover = Prover()
        self.threads = 1
        self.kept: set[Buffer] = set()

    def visit_KernelLaunch(self, node: KernelLaunch) -> None:
        self.threads = prod(e.value if isinstance(e, IntImm) else 1 for e in node.threads)
        for var, extent in (*zip(node.grid_vars, node.grid), *zip(node.thread_vars, node.threads)):
            self.prover.bind(var, 0, extent)
        self.visit_children(node)

    def visit_For(self, node: For) -> None:
        if node.kind == "pipelined":
            self.schedules[node] = self._schedule(node)
        self.visit_children(node)

    def settle(self) -> None:
        """Takes versions from buffers that one of their loops keeps from iteration to iteration: all loops index a
        buffer alike."""
        kept: set[Buffer] = set()
        ringed: set[Buffer] = set()
        for schedule in self.schedules.values():
            if schedule.found is not None:
                used = {access.root for access in schedule.found.accesses.accesses}
                kept |= {b for b in used if b in self.homes and b not in schedule.found.rings}
                ringed |= schedule.found.rings
        if kept & ringed:
            self.kept = kept
            self.schedules = {loop: self._schedule(loop) for loop in self.schedules}

    def _schedule(self, loop: For) -> Schedule:
        pipes: tuple[Pipe, ...] = loop.annotation("pipes", ())
        stages: list[int] = list(loop.annotation("stage") or ())
        order: list[int] = list(loop.annotation("order") or ())
        if any(n < 0 for n in (*stages, *order)):
            # -1 leaves a statement to the compiler; lists that place only some statements are no schedule.
            stages, order = [], []
        depth = max([p.depth for p in pipes], default=1)
        own = {
            buffer
            for buffer, loops in self.homes.items()
            if buffer.memory.level == "block" and buffer.memory.addressable and None not in loops
            if buffer not in self.kept
        }
        return schedule_loop(loop, depth, stages, order, own, self.prover)


def _views(function: PrimFunc) -> list[Buffer]:
    """The views of other buffers that a function uses."""
    places = (BufferLoad, BufferStore, BufferRegion, AccessPtr)
    return list(
        dict.fromkeys(n.buffer for n in walk(function.body) if isinstance(n, places) and n.buffer.data is not None)
    )


def _loops_that_use(function: PrimFunc) -> dict[Buffer, set[For | None]]:
    """Root buffer → the pipelined loops that use it; None stands for a use outside of them."""
    homes: dict[Buffer, set[For | None]] = {}

    def visit(node: Any, loop: For | None) -> None:
        if isinstance(node, For) and node.kind == "pipelined":
            loop = node
        buffer = getattr(node, "buffer", None)
        if isinstance(node, (BufferLoad, BufferStore, BufferRegion, AccessPtr)) and buffer is not None:
            while buffer.data is not None:
                buffer = buffer.data
            homes.setdefault(buffer, set()).add(loop)
        for item in node.child_nodes():
            visit(item, loop)

    visit(function.body, None)
    return homes


class _Inject(Rewriter):
    def __init__(
        self,
        schedules: dict[For, Schedule],
        versioned: dict[Buffer, Buffer],
        queues: dict[str, AsyncQueue],
        candidates: Any,
    ) -> None:
        super().__init__()
        self.schedules = schedules
        self.versioned = versioned
        self.queues = queues
        self.candidates = candidates
        self.emitters: list[_Emitter] = []

    def rewrite_Block(self, node: Block) -> Stmt:
        new = self.rewrite_children(node)
        return _with_versions(new, self.versioned)

    def rewrite_For(self, node: For) -> Stmt:
        schedule = self.schedules.get(node)
        if schedule is None:
            return self.rewrite_children(node)
        emitter = _Emitter(schedule, self.versioned, self.queues, self.candidates)
        self.emitters.append(emitter)
        return emitter.emit()


def _exclusions(schedules: Mapping[For, Schedule]) -> dict[For, list[str]]:
    """Loop → sentences about loops before it that use the same buffers."""
    loops = list(schedules)
    owners = [
        [a.site for a in s.found.accesses.accesses if a.root in s.found.rings] if s.found is not None else []
        for s in schedules.values()
    ]
    found: dict[For, list[str]] = {}
    for edge in owner_exclusions(owners):
        assert edge.buffer is not None and edge.first is not None
        before = loops[edge.source].span
        found.setdefault(loops[edge.target], []).append(
            f"{edge.buffer.name} belongs to the loop at {before!r} until its last use ({edge.first.span!r})"
        )
    return found


def _with_versions(block: Block, versioned: dict[Buffer, Buffer]) -> Block:
    if not any(b in versioned for b in block.allocations):
        return block
    allocations = tuple(versioned.get(b, b) for b in block.allocations)
    layouts = tuple(
        (versioned[b], layout.expand((versioned[b].static_shape() or (1,))[:1])) if b in versioned else (b, layout)
        for b, layout in block.annotation("layouts", ())
    )
    others = tuple(pair for pair in block.annotations if pair[0] != "layouts")
    return block.with_(allocations=allocations, annotations=(*others, ("layouts", layouts)))


class _Emitter:
    """Emits one loop."""

    def __init__(
        self, schedule: Schedule, versioned: dict[Buffer, Buffer], queues: dict[str, AsyncQueue], candidates: Any
    ) -> None:
        self.schedule = schedule
        self.versioned = versioned
        self.queues = queues
        self.candidates = candidates
        self.prover = Prover(solver=False)
        self.waiting: dict[int, list[tuple[str, int]]] = {}
        self.commits, self.waits = self._groups()

    def pending(self) -> dict[int, list[tuple[str, int]]]:
        """Place in the slot → (queue, groups left unfinished) of the waits in front of it."""
        return self.waiting

    def emit(self) -> Stmt:
        """Prologue, loop and epilogue, in the Blocks of the loop's body."""
        loop, last = self.schedule.loop, self.schedule.last_stage
        low, extent = loop.min, loop.extent
        parts: list[Stmt] = []
        for slot in range(last):
            parts.append(self._slot(binary("add", low, slot), lambda s, slot=slot: self._in_prologue(slot, s)))
        var = Var(loop.var.name, loop.var.dtype, span=loop.var.span)
        trips = extent if last == 0 else self.prover.simplify(binary("max", binary("sub", extent, last), 0))
        steady = self._slot(var, lambda s: None)
        kept = tuple(p for p in loop.annotations if p[0] not in _CONSUMED)
        parts.append(For(var, binary("add", low, last), trips, "serial", steady, loop.step, kept, span=loop.span))
        start = extent if self.prover.proves(binary("ge", extent, last)) else binary("max", extent, last)
        for slot in range(last):
            time = binary("add", low, binary("add", start, slot))
            parts.append(self._slot(time, lambda s, slot=slot: self._in_epilogue(start, slot, s)))
        body: Stmt = seq(*parts)
        for block in reversed(self.schedule.blocks):
            body = _with_versions(block.with_(body=body), self.versioned)
        return body

    def _in_prologue(self, slot: int, stage: int) -> Expr | bool | None:
        """None: always; False: never; else the condition."""
        if slot < stage:
            return False
        inside = binary("lt", const(slot - stage, "int32"), self.schedule.loop.extent)
        return None if self.prover.proves(inside) else inside

    def _in_epilogue(self, start: Expr, slot: int, stage: int) -> Expr | bool | None:
        if slot >= stage:
            return False
        inside = binary("lt", binary("add", start, slot - stage), self.schedule.loop.extent)
        return None if self.prover.proves(inside) else inside

    def _slot(self, time: Expr, guard: Callable[[int], Any]) -> Stmt:
        """All statements of one time slot."""
        out: list[Stmt] = self._waits_at(-1, guard)
        named: dict[Var, Expr] = {}
        for place, index in enumerate(self.schedule.order):
            out += self._waits_at(place, guard)
            stage = self.schedule.stages[index]
            condition = guard(stage)
            if condition is not False:
                out += self._guarded(index, self._instance(index, binary("sub", time, stage), named), condition, named)
            out += self.commits.get(place, ())
        return seq(*out)

    def _guarded(self, index: int, stmt: Stmt, condition: Any, named: dict[Var, Expr]) -> list[Stmt]:
        """An instance under its condition. A value that the loop's own data decides keeps its name for the rest of the
        slot, so the condition goes into the value."""
        original = self.schedule.statements[index]
        if not isinstance(original, Bind):
            return [stmt if condition is None else If(condition, stmt, span=stmt.span)]
        parts = list(stmt.stmts) if isinstance(stmt, Seq) else [stmt]
        bind = parts[-1]
        assert isinstance(bind, Bind)
        named[original.var] = bind.var
        if condition is not None:
            parts[-1] = bind.with_(value=select(condition, bind.value, const(0, bind.var.dtype), lazy=True))
        return parts

    def _waits_at(self, place: int, guard: Callable[[int], Any]) -> list[Stmt]:
        """Waits before a place, without those whose consumer surely does not run in this slot."""
        return [stmt for stage, stmt in self.waits.get(place, ()) if guard(stage) is not False]

    def _instance(self, index: int, iteration: Expr, named: dict[Var, Expr]) -> Stmt:
        """A statement for one iteration; `named` are values that statements of the slot have bound before it."""
        loop = self.schedule.loop
        stmt = self.schedule.statements[index]
        binds: list[Bind] = []
        values: dict[Var, Expr] = {loop.var: iteration, **named}
        for bind in self.schedule.binds:
            var = Var(bind.var.name, bind.var.dtype, span=bind.var.span)
            value = _Instance(self.versioned, dict(values), None).rewrite(bind.value)
            binds.append(bind.with_(var=var, value=value))
            values[bind.var] = var
        clock = binary("sub", iteration, loop.min)
        new = _Instance(self.versioned, values, clock).rewrite(stmt)
        needed = _needed(new, binds)
        return seq(*needed, new)

    # Groups of asynchronous copies.

    def _groups(self) -> tuple[dict[int, list[Stmt]], dict[int, list[tuple[int, Stmt]]]]:
        """(commits after a place in the slot, waits before a place with their consumer's stage; -1 is the start)."""
        schedule = self.schedule
        place = {index: p for p, index in enumerate(schedule.order)}
        pipes = [(queue, pipe) for pipe in self._pipes() for queue in [self._queue(pipe)] if queue is not None]
        commits: dict[int, list[Stmt]] = {}
        ordered = sorted(pipes, key=lambda item: max(place[p] for p in item[1][0]))
        ends = [max(place[p] for p in producers) for _, (producers, _) in ordered]
        for (queue, _), end in zip(ordered, ends):
            last = schedule.statements[schedule.order[end]]
            commits.setdefault(end, []).append(self.queues[queue].commit().with_(span=last.span))
        pending: dict[tuple[int, str], int] = {}
        firsts: list[tuple[int, int, int, Any, int]] = []
        used_by: dict[int, Stmt] = {}
        for number, (queue, (producers, consumers)) in enumerate(ordered):
            first = min(consumers, key=lambda c: (schedule.stages[c], place[c]))
            distance = schedule.stages[first] - schedule.stages[producers[0]]
            firsts.append((place[first], distance, number, queue, schedule.stages[first]))
            used_by[number] = schedule.statements[first]
        stages: dict[tuple[int, str], int] = {}
        users: dict[tuple[int, str], Stmt] = {}
        for rank, (at, distance, number, queue, stage) in enumerate(sorted(firsts)):
            # The first wait of a slot stands before the copies that run ahead, so that one barrier there serves both.
            where = -1 if rank == 0 and distance > 0 else at
            before = 0 if where == -1 else sum(1 for end in ends if end < at)
            if distance > 0:
                allowed = len(ordered) - 1 - number + len(ordered) * (distance - 1) + before
            else:
                allowed = sum(1 for end in ends if ends[number] < end < at)
            key = (where, queue)
            pending[key] = min(allowed, pending.get(key, allowed))
            stages[key] = min(stage, stages.get(key, stage))
            users.setdefault(key, used_by[number])
        waits: dict[int, list[tuple[int, Stmt]]] = {}
        for (where, queue), allowed in pending.items():
            # Groups finish in their order, so that a stricter wait before it, which runs whenever it does, is enough.
            if any(
                theirs == queue
                and earlier < where
                and stages[earlier, queue] == stages[where, queue]
                and left + sum(1 for end in ends if earlier <= end < where) <= allowed
                for (earlier, theirs), left in pending.items()
            ):
                continue
            self.waiting.setdefault(where, []).append((queue, allowed))
            wait = self.queues[queue].wait(allowed).with_(span=users[where, queue].span)
            waits.setdefault(where, []).append((stages[where, queue], wait))
        return commits, waits

    def _pipes(self) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
        """(producers, consumers) of each pipe, as positions among the effectful statements."""
        groups: dict[tuple[int, ...], set[int]] = {}
        statements = self.schedule.statements
        writers: dict[Buffer, list[int]] = {}
        for i, stmt in enumerate(statements):
            for op in _async_ops(stmt, self.candidates):
                for _, role, region in op.op.operands():
                    if role != "in":
                        writers.setdefault(root_buffer(region.buffer), []).append(i)
        for buffer, producers in writers.items():
            users = {
                i
                for i, stmt in enumerate(statements)
                if i not in producers
                and any(
                    isinstance(n, (BufferLoad, BufferStore, BufferRegion, AccessPtr))
                    and root_buffer(n.buffer) is buffer
                    for n in walk(stmt)
                )
            }
            groups.setdefault(tuple(sorted(set(producers))), set()).update(users)
        merged: dict[tuple[int, ...], list[int]] = {}
        for producers, consumers in groups.items():
            if consumers:
                merged.setdefault(tuple(sorted(consumers)), []).extend(producers)
        return [(tuple(sorted(set(p))), c) for c, p in merged.items()]

    def _queue(self, pipe: tuple[tuple[int, ...], tuple[int, ...]]) -> str | None:
        for index in pipe[0]:
            for op in _async_ops(self.schedule.statements[index], self.candidates):
                queue = _queue_of(op, self.candidates)
                if queue in self.queues:
                    return queue
        return None


def _async_ops(stmt: Stmt, candidates: Any) -> list[TileOpStmt]:
    return [n for n in walk(stmt) if isinstance(n, TileOpStmt) and _queue_of(n, candidates) is not None]


def _queue_of(stmt: TileOpStmt, candidates: Any) -> str | None:
    for candidate in candidates:
        if candidate.name == stmt.candidate and isinstance(stmt.op, candidate.op):
            for effect in candidate.effects(stmt.op):
                if effect.completion.kind == "group":
                    return effect.completion.queue
    return None


def _needed(stmt: Stmt, binds: list[Bind]) -> list[Bind]:
    """The binds that a statement uses, directly or through others."""
    used = {n for n in walk(stmt) if isinstance(n, Var)}
    kept = []
    for bind in reversed(binds):
        if bind.var in used:
            kept.append(bind)
            used |= {n for n in walk(bind.value) if isinstance(n, Var)}
    return kept[::-1]


class _Instance(Rewriter):
    """One statement for one iteration: variables replaced, inner variables fresh, versioned buffers indexed."""

    def __init__(self, versioned: dict[Buffer, Buffer], values: dict[Var, Expr], clock: Expr | None) -> None:
        super().__init__()
        self.vars.update(values)
        self.versioned = versioned
        self.clock = clock
        self.prover = Prover(solver=False)

    def rewrite_For(self, node: For) -> Stmt:
        self._fresh(node.var)
        return self.rewrite_children(node)

    def rewrite_Bind(self, node: Any) -> Stmt:
        value = self.rewrite(node.value)
        self._fresh(node.var)
        return node.with_(var=self.vars[node.var], value=value)

    def rewrite_Let(self, node: Any) -> Expr:
        value = self.rewrite(node.value)
        self._fresh(node.var)
        return node.with_(var=self.vars[node.var], value=value, body=self.rewrite(node.body))

    def rewrite_Block(self, node: Block) -> Stmt:
        for buffer in node.allocations:
            self.buffers[buffer] = buffer.with_()
        layouts = tuple((self.buffer(b), layout) for b, layout in node.annotation("layouts", ()))
        others = tuple(pair for pair in node.annotations if pair[0] != "layouts")
        allocations = tuple(self.buffer(b) for b in node.allocations)
        annotations = (*others, ("layouts", layouts)) if layouts else others
        return node.with_(allocations=allocations, body=self.rewrite(node.body), annotations=annotations)

    def rewrite_BufferLoad(self, node: BufferLoad) -> Expr:
        return self._indexed(node)

    def rewrite_BufferStore(self, node: BufferStore) -> Stmt:
        return self._indexed(node)

    def rewrite_AccessPtr(self, node: AccessPtr) -> Expr:
        return self._indexed(node)

    def rewrite_BufferRegion(self, node: BufferRegion) -> BufferRegion:
        new = self.rewrite_children(node)
        wide = self.versioned.get(node.buffer)
        if wide is None:
            return new
        squeezed = node.squeezed or (False,) * len(node.mins)
        return new.with_(
            buffer=wide,
            mins=(self._version(wide), *new.mins),
            extents=(const(1, "int32"), *new.extents),
            squeezed=(True, *squeezed),
        )

    def buffer(self, buffer: Buffer) -> Buffer:
        if buffer in self.versioned:
            return buffer
        return super().buffer(buffer)

    def _indexed(self, node: Any) -> Any:
        new = self.rewrite_children(node)
        wide = self.versioned.get(node.buffer)
        return new if wide is None else new.with_(buffer=wide, indices=(self._version(wide), *new.indices))

    def _version(self, wide: Buffer) -> Expr:
        assert self.clock is not None
        return self.prover.simplify(binary("floormod", self.clock, wide.shape[0]))

    def _fresh(self, var: Var) -> None:
        self.vars[var] = Var(var.name, var.dtype, span=var.span)
