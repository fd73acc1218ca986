"""ThreadSync: threads of a block meet where, and only where, one may touch bytes that another touched.

Needs FLAT, leaves FLAT; shared memory has been planned, so that what is compared are byte ranges of the arena. Two
accesses conflict when two distinct threads may make them on one byte, one of them writing, and nothing orders them.
Overlap that is not disproved is a conflict. The threads are modelled explicitly: the later access by thread t, the
earlier by another thread; variables of loops round both are the same, except that for a loop's back edge the earlier
access belongs to the previous iteration.

A meeting stands in front of the statement that would conflict, on the level of the sequence which holds both accesses,
outside of branches that threads may take differently. Inside an Attr ``independent`` (a nest of parallel loops, whose
iterations touch no byte of each other's) nothing conflicts. Asynchronous accesses need a wait by their own thread
first; if there is none, a full wait is put in front of the meeting. A conflict inside such a branch is left to a
partial barrier over the threads that take it when they are whole warps, else it is an error: a barrier is never
dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ..analysis.memory_access import SharedAccess, shared_steps
from ..errors import CompileError, declare_codes
from ..ir import (
    Attr,
    Binary,
    Block,
    Evaluate,
    Expr,
    For,
    If,
    IntImm,
    KernelLaunch,
    PrimFunc,
    Rewriter,
    Seq,
    Stmt,
    While,
    binary,
    const,
    has_named_barrier,
    seq,
    walk,
)
from ..ir.effects import CommitGroup, Rendezvous
from ..source import Span
from .base import Pass, PassContext, register_pass
from .thread_judge import ThreadJudge

__all__ = ["MeetingRow", "Meetings", "ThreadSync"]

declare_codes(
    {
        "E-SYNC-DIVERGENT": "threads would have to meet where not all of them come",
        "E-SYNC-WAIT": "an asynchronous copy's bytes are used before a wait, and the target has no wait to put in",
    }
)

# A state that still changes after so many rounds of a loop more than its waits leave groups unfinished is taken as it
# is, with all its accesses pending.
_ROUNDS = 4


@dataclass(frozen=True)
class Meetings:
    """How a backend makes threads meet.

    Args:
        block: all threads of the block.
        partial: (first thread, count, barrier number) → those threads only; None where the target has no such barrier.
        wait_all: queue → waits for all of the executing thread's asynchronous accesses that were committed.
        commit: queue → closes a group of the executing thread's accesses, where a wait knows only whole groups.
        warp: threads of a warp.
    """

    block: Callable[[], Stmt]
    partial: Callable[[int, int, int], Stmt] | None = None
    wait_all: Callable[[str], Stmt] | None = None
    commit: Callable[[str], Stmt] | None = None
    warp: int = 32


@dataclass(frozen=True)
class MeetingRow:
    """A synchronisation that was put in.

    Args:
        unit: block, part of the block, or wait (of each thread for its copies).
        span: in front of what.
        buffer: what it is about.
        first, second: kind and place of the two accesses that it orders.
    """

    unit: str
    span: Span | None
    buffer: str
    first: tuple[str, Span | None]
    second: tuple[str, Span | None]


@register_pass("ThreadSync", needs="FLAT", leaves="same", options=("tl.disable_thread_storage_sync",))
class ThreadSync(Pass):
    def __init__(self, meetings: Meetings) -> None:
        self.meetings = meetings

    def function(self, function: PrimFunc, context: PassContext) -> PrimFunc:
        if context.options["tl.disable_thread_storage_sync"]:
            return function
        return _Function(self.meetings, context).rewrite(function)


class _Function(Rewriter):
    def __init__(self, meetings: Meetings, context: PassContext) -> None:
        super().__init__()
        self.meetings = meetings
        self.context = context

    def rewrite_KernelLaunch(self, node: KernelLaunch) -> Stmt:
        threads = list(node.thread_vars)
        extents = [e.value if isinstance(e, IntImm) else 1 for e in node.threads]
        count = 1
        for extent in extents:
            count *= extent
        if count <= 1:
            return node
        judge = ThreadJudge(node, threads, extents)
        body, _ = _Walk(judge, self.meetings, self.context).statement(node.body, [])
        self.context.solver_queries += judge.queries
        return node.with_(body=body)


@dataclass
class _Flow:
    """What a statement leaves behind.

    Args:
        exposed: accesses that can be made before any meeting inside, from the entry.
        pending: accesses that no meeting inside has ordered, at the exit.
        meets: whether every way through meets.
        effects: commits, waits and meetings in order, for accesses that were pending before.
        survivors: accesses of the previous iteration that nothing has ordered.
        reached: all accesses, each with the effects in front of it: a meeting does not end a copy, so copies that are
            under way at the entry are compared with all of them.
        courses: for a loop whose trip count is not known, its effects by the number of trips, each with the condition
            under which they are; empty where `effects` are sure.
    """

    exposed: list[SharedAccess] = field(default_factory=list)
    pending: list[SharedAccess] = field(default_factory=list)
    meets: bool = False
    effects: list[Any] = field(default_factory=list)
    survivors: list[SharedAccess] = field(default_factory=list)
    reached: list[tuple[SharedAccess, tuple[Any, ...]]] = field(default_factory=list)
    courses: list[tuple[Expr, list[Any]]] = field(default_factory=list)


class _Walk:
    """Walks a kernel's statements, inserting meetings; `statement` returns the new statement and its flow."""

    def __init__(self, judge: ThreadJudge, meetings: Meetings, context: PassContext) -> None:
        self.judge = judge
        self.meetings = meetings
        self.context = context
        self.divergent: list[Expr] = []
        self.loops: list[For] = []
        # Threads that meet in a branch → their barrier; number 0 is the block's own.
        self.barrier_of: dict[tuple[int, int], int] = {}
        self.flows: dict[Any, tuple[Stmt, Stmt, _Flow]] = {}

    def statement(self, node: Stmt, before: list[SharedAccess]) -> tuple[Stmt, _Flow]:
        """`before` are the accesses pending at the entry; a conflict with them inside is met in front of the innermost
        statement that makes it."""
        if isinstance(node, Seq):
            return self._sequence(node, before)
        if isinstance(node, Attr) and node.key == "independent":
            outer, self.judge.independent = self.judge.independent, True
            _, flow = self.statement(node.body, [])
            self.judge.independent = outer
            return node, flow
        if isinstance(node, (Block, Attr)):
            body, flow = self.statement(node.body, before)
            return (node if body is node.body else node.with_(body=body)), flow
        if isinstance(node, For):
            return self._loop(node, before)
        if isinstance(node, While):
            return self._while(node, before)
        if isinstance(node, If):
            return self._branch(node, before)
        return node, self._leaf(node)

    def _afresh(self, node: Stmt) -> tuple[Stmt, _Flow]:
        """`statement` with nothing pending at the entry, which gives the same however often a loop round it is walked:
        flows are not changed once they are made."""
        place = tuple(id(loop.var) for loop in self.judge.active)
        key = (id(node), self.judge.independent, len(self.divergent), place)
        found = self.flows.get(key)
        if found is None:
            # With the node, so that its id is not given away.
            found = self.flows[key] = (node, *self.statement(node, []))
        return found[1:]

    def _leaf(self, node: Stmt) -> _Flow:
        self.judge.note(node)
        flow = _Flow()
        for step in shared_steps(node):
            if isinstance(step, SharedAccess):
                if not flow.meets:
                    flow.exposed.append(step)
                flow.reached.append((step, tuple(flow.effects)))
                flow.pending.append(step)
            else:
                _apply(step, flow)
        return flow

    def _sequence(self, node: Seq, before: list[SharedAccess]) -> tuple[Stmt, _Flow]:
        out: list[Stmt] = []
        flow = _Flow()
        pending = list(before)
        changed = False
        for stmt in node.stmts:
            # What is pending here and would conflict deeper inside conflicts here, so inner walks start afresh.
            new, inner = self._afresh(stmt)
            for queue, (first, second) in self._unfinished(pending, inner.reached).items():
                changed = True
                effects: list[Any] = [(queue, 0)]
                if first.age is None:
                    effects.insert(0, CommitGroup(queue))
                out += self._wait(queue, first, second)
                pending = _after(pending, _Flow(effects=effects))
                flow.pending = _after(flow.pending, _Flow(effects=effects))
                flow.effects += effects
            conflict = self.judge.first_conflict(pending, inner.exposed)
            if conflict is not None:
                changed = True
                out += self._meeting(conflict)
                if self.divergent:
                    # Only the threads of this branch have met.
                    pending = []
                else:
                    waited = {conflict[0].queue} - {None} if self.meetings.wait_all else set()
                    pending = [a for a in pending if a.queue and a.queue not in waited]
                    flow.pending = [a for a in flow.pending if a.queue and a.queue not in waited]
                    if waited and conflict[0].age is None:
                        flow.effects += [CommitGroup(q) for q in waited if q]
                    flow.effects += [*((q, 0) for q in sorted(q for q in waited if q)), Rendezvous("block")]
                    flow.meets = True
            changed |= new is not stmt
            out.append(new)
            if not flow.meets:
                flow.exposed += inner.exposed
            pending = _after(pending, inner)
            flow.pending = _after(flow.pending, inner)
            before_it = tuple(flow.effects)
            flow.reached += [(access, (*before_it, *effects)) for access, effects in inner.reached]
            flow.effects += inner.effects
            flow.meets |= inner.meets
        flow.survivors = [a for a in pending if a.moved_from is not None]
        return (seq(*out) if changed else node), flow

    def _loop(self, node: For, before: list[SharedAccess]) -> tuple[Stmt, _Flow]:
        uniform = self.judge.uniform(node.min) and self.judge.uniform(node.extent)
        if not uniform:
            self.divergent.append(node.extent)
        self.loops.append(node)
        self.judge.enter(node)
        body, flow = self.statement(node.body, [])
        carried = self._previous(node, flow.pending)
        settled = not carried
        for _ in range(_ROUNDS + self._most_pending(body)):
            if settled:
                break
            again, flow = self._with_entry(body, carried)
            following = self._previous(node, [*flow.pending, *flow.survivors])
            # Accesses that nothing orders look the same in every round but for the shift of the loop's variable.
            settled = again is body and len(following) == len(carried) and not any(a.queue for a in following)
            settled |= again is body and _ages(following) == _ages(carried)
            body, carried = again, following
        self.judge.leave(node)
        self.loops.pop()
        if not uniform:
            self.divergent.pop()
        # The loop may run not at all, so it never surely meets; groups are counted in as many rounds as matter.
        rounds = min(node.extent.value, self._most_pending(body) + 1) if isinstance(node.extent, IntImm) else 0
        # Behind a meeting in the body, only the first iteration's accesses can be reached from the entry.
        exposed = [a.moved({node.var: node.min}) for a in flow.exposed] if flow.meets else flow.exposed
        pending = self._at_exit(node, flow) if flow.meets and settled else flow.pending
        reached = self._reached(node, flow)
        result = _Flow(exposed, pending, flow.meets and rounds > 0, flow.effects * rounds, reached=reached)
        if uniform and not isinstance(node.extent, IntImm):
            result.courses = _courses(node.extent, flow.effects, self._most_pending(body) + 1)
        return (node if body is node.body else node.with_(body=body)), result

    def _reached(self, loop: For, flow: _Flow) -> list[tuple[SharedAccess, tuple[Any, ...]]]:
        """The accesses of a loop, each with the effects in front of it: the first iterations one by one, since copies
        from before the loop are completed one by one in them."""
        if not any(isinstance(effect, (CommitGroup, tuple)) for effect in flow.effects):
            return flow.reached
        step = loop.step if loop.step is not None else const(1, loop.var.dtype)
        rounds = self._most_pending(loop.body) + 1
        found: list[tuple[SharedAccess, tuple[Any, ...]]] = []
        for number in range(rounds):
            at = binary("add", loop.min, binary("mul", step, number))
            done = tuple(flow.effects) * number
            found += [(access.moved({loop.var: at}), (*done, *effects)) for access, effects in flow.reached]
        done = tuple(flow.effects) * rounds
        return found + [(access, (*done, *effects)) for access, effects in flow.reached]

    def _most_pending(self, body: Stmt) -> int:
        """The most groups that a wait in a loop's body leaves unfinished: an access is followed so many rounds."""
        steps = [step for node in walk(body) if isinstance(node, Evaluate) for step in shared_steps(node)]
        return max([step[1] for step in steps if isinstance(step, tuple) and step[1] <= 16], default=0)

    def _with_entry(self, body: Stmt, carried: list[SharedAccess]) -> tuple[Stmt, _Flow]:
        """The body walked again with accesses of the previous iteration pending."""
        if isinstance(body, Block) or (isinstance(body, Attr) and body.key != "independent"):
            inner, flow = self._with_entry(body.body, carried)
            return (body if inner is body.body else body.with_(body=inner)), flow
        sequence = body if isinstance(body, Seq) else Seq((body,))
        new, flow = self._sequence(sequence, carried)
        if new is sequence:
            return body, flow
        return new, flow

    def _at_exit(self, loop: For, flow: _Flow) -> list[SharedAccess]:
        """What a loop whose body meets leaves pending: the last iteration's accesses, and asynchronous ones of those
        shortly before, at places that are known."""
        if loop.step is None:
            last = binary("sub", self._end(loop), 1)
        else:
            last = binary("add", loop.min, binary("mul", binary("sub", loop.extent, 1), loop.step))
        return [replace(access.moved({loop.var: last}), moved_from=None) for access in (*flow.pending, *flow.survivors)]

    def _end(self, loop: For) -> Expr:
        """Where the variable of a loop by ones stops. ``min + max(n - min, 0)`` is said as ``max(n, min)``, as the
        statements behind a pipelined loop say it."""
        extent = loop.extent
        if isinstance(extent, Binary) and extent.op == "max" and isinstance(extent.b, IntImm) and extent.b.value == 0:
            return binary("max", self.judge.prover.simplify(binary("add", extent.a, loop.min)), loop.min)
        return binary("add", loop.min, extent)

    def _previous(self, loop: For, accesses: list[SharedAccess]) -> list[SharedAccess]:
        step = loop.step if loop.step is not None else const(1, loop.var.dtype)
        earlier = binary("sub", loop.var, step)
        moved = [
            replace(a.moved({loop.var: earlier}) if self.judge.mentions(a, loop.var) else a, moved_from=loop)
            for a in accesses
        ]
        seen: dict[Any, SharedAccess] = {}
        for access in moved:
            place = self.judge.key(access.low)
            seen.setdefault((access.buffer, access.kind, place, access.queue, access.age), access)
        return list(seen.values())

    def _while(self, node: While, before: list[SharedAccess]) -> tuple[Stmt, _Flow]:
        uniform = self.judge.uniform(node.condition)
        head = self._leaf(node)
        if not uniform:
            self.divergent.append(node.condition)
        body, flow = self.statement(node.body, [])
        again, flow = self._with_entry(body, list(flow.pending))
        if not uniform:
            self.divergent.pop()
        result = _Flow(
            [*head.exposed, *flow.exposed], [*head.pending, *flow.pending], reached=[*head.reached, *flow.reached]
        )
        return (node if again is node.body else node.with_(body=again)), result

    def _branch(self, node: If, before: list[SharedAccess]) -> tuple[Stmt, _Flow]:
        head = self._leaf_of(node.condition, node)
        uniform = self.judge.uniform(node.condition)
        if not uniform:
            self.divergent.append(node.condition)
        then, taken = self.statement(node.then_body, [])
        other, skipped = (None, _Flow()) if node.else_body is None else self.statement(node.else_body, [])
        if not uniform:
            self.divergent.pop()
        negated = binary("eq", node.condition, const(False, "bool"))
        taken_exposed = [a.where(node.condition) for a in taken.exposed]
        skipped_exposed = [a.where(negated) for a in skipped.exposed]
        pending = [*(a.where(node.condition) for a in taken.pending), *(a.where(negated) for a in skipped.pending)]
        # Branches that meet at named barriers are ordered by these, as the kernel says.
        if not uniform and not (node.else_body is not None and has_named_barrier(node)):
            conflict = self.judge.first_conflict([a.where(node.condition) for a in taken.pending], skipped_exposed)
            if conflict is not None:
                raise self._divergent(conflict)
        flow = _Flow(
            [*head.exposed, *taken_exposed, *skipped_exposed],
            [*head.pending, *pending],
            taken.meets and skipped.meets and other is not None,
            # Only what both branches do is sure; a wait in one of them is not.
            [e for e in taken.effects if e in skipped.effects],
            reached=[
                *head.reached,
                *((a.where(node.condition), effects) for a, effects in taken.reached),
                *((a.where(negated), effects) for a, effects in skipped.reached),
            ],
        )
        changed = then is not node.then_body or other is not node.else_body
        return (node.with_(then_body=then, else_body=other) if changed else node), flow

    def _leaf_of(self, expr: Expr, node: Stmt) -> _Flow:
        return self._leaf(Evaluate(expr, span=node.span))

    def _unfinished(
        self, pending: list[SharedAccess], reached: list[tuple[SharedAccess, tuple[Any, ...]]]
    ) -> dict[str, tuple[SharedAccess, SharedAccess]]:
        """Queue → a copy that is under way and the access that needs it to be complete, by whatever thread.

        Copies of one queue that different threads make into one place are left to the meetings; those of one thread
        land in any order, so the second must not be issued before the first is complete.
        """
        found: dict[str, tuple[SharedAccess, SharedAccess]] = {}
        for a in pending:
            if a.queue is None or self.judge.independent or (a.queue in found and found[a.queue][0].age is None):
                continue
            for b, effects in reached:
                if a.root is not b.root or not (a.writes or b.writes):
                    continue
                (now,) = _after([a], _Flow(effects=list(effects))) or (None,)
                threads = "same" if b.queue == a.queue else "any"
                if now is not None and now.queue is not None and self.judge.may_meet(a, b, threads):
                    found[a.queue] = (a, b)
                    break
        return found

    def _wait(self, queue: str, first: SharedAccess, second: SharedAccess) -> list[Stmt]:
        """Statements after which the executing thread's copies are complete."""
        uncommitted = first.age is None
        if self.meetings.wait_all is None or (uncommitted and self.meetings.commit is None):
            raise CompileError(
                "E-SYNC-WAIT",
                f"{second.buffer.name} is used before its asynchronous copy is known to be complete",
                span=second.span,
                spans=[("the copy", first.span)],
                facts=[f"the copy's group is {'not committed' if uncommitted else 'committed, and not waited for'}"],
                help=f"wait for the copies of {queue} between the two, after a commit",
            )
        commits = [self.meetings.commit(queue)] if uncommitted and self.meetings.commit is not None else []
        self._note("wait", first, second)
        return [stmt.with_(span=second.span) for stmt in (*commits, self.meetings.wait_all(queue))]

    def _note(self, unit: str, first: SharedAccess, second: SharedAccess) -> None:
        """Keeps why a synchronisation was put in."""
        rows = self.context.reports.setdefault("meetings", [])
        rows.append(
            MeetingRow(unit, second.span, second.buffer.name, (first.kind, first.span), (second.kind, second.span))
        )

    def _meeting(self, conflict: tuple[SharedAccess, SharedAccess]) -> list[Stmt]:
        """Statements that order the two accesses."""
        first, second = conflict
        if self.divergent:
            stmts = self._partial(conflict)
            self._note("part of the block", first, second)
        else:
            stmts = [self.meetings.block()]
            if first.queue is not None and self.meetings.wait_all is not None:
                stmts = self._wait(first.queue, first, second) + stmts
            self._note("block", first, second)
        # Whoever asks where a synchronisation comes from is shown the statement that needs it.
        return [stmt.with_(span=second.span) for stmt in stmts]

    def _partial(self, conflict: tuple[SharedAccess, SharedAccess]) -> list[Stmt]:
        interval = self.judge.threads_where(self.divergent)
        warp = self.meetings.warp
        if interval is None or self.meetings.partial is None or interval[0] % warp or interval[1] % warp:
            raise self._divergent(conflict)
        # The same threads may meet at one barrier again and again.
        number = self.barrier_of.setdefault(interval, len(self.barrier_of) + 1)
        if number > 15:
            raise self._divergent(conflict)
        meeting = self.meetings.partial(interval[0], interval[1], number)
        first, second = conflict
        if first.queue is None or self.meetings.wait_all is None:
            return [meeting]
        return [*self._wait(first.queue, first, second), meeting]

    def _divergent(self, conflict: tuple[SharedAccess, SharedAccess]) -> CompileError:
        first, second = conflict
        return CompileError(
            "E-SYNC-DIVERGENT",
            f"threads must meet between two accesses to {second.buffer.name}, where not all of them come",
            span=second.span,
            spans=[(f"the other access, a {first.kind}", first.span)],
            facts=[f"threads part at: {' and '.join(repr(c) for c in self.divergent) or repr(second.conditions)}"],
            help="move the accesses out of the branch, or take whole warps by a condition such as tx < 64",
        )


def _ages(accesses: list[SharedAccess]) -> list[tuple[int, int]]:
    return sorted((id(a.buffer), -1 if a.age is None else a.age) for a in accesses if a.queue)


def _apply(step: Any, flow: _Flow) -> None:
    if isinstance(step, CommitGroup):
        flow.pending = [a.committed(step.queue) for a in flow.pending]
        flow.effects.append(step)
    elif isinstance(step, Rendezvous):
        if step.unit == "block" and step.waits:
            flow.pending = [a for a in flow.pending if a.queue]
            flow.meets = True
            flow.effects.append(step)
    elif isinstance(step, tuple):
        flow.pending = [a.waited(*step) for a in flow.pending]
        flow.effects.append(step)


def _after(pending: list[SharedAccess], flow: _Flow) -> list[SharedAccess]:
    """What is pending after a statement with this flow."""
    if flow.courses and any(a.queue for a in pending):
        pending = [later for a in pending for later in _after_courses(a, flow.courses)]
    else:
        pending = _effected(pending, flow.effects)
    return [*pending, *flow.pending]


def _effected(pending: list[SharedAccess], effects: Sequence[Any]) -> list[SharedAccess]:
    for effect in effects:
        if isinstance(effect, CommitGroup):
            pending = [a.committed(effect.queue) for a in pending]
        elif isinstance(effect, Rendezvous):
            pending = [a for a in pending if a.queue]
        else:
            pending = [a.waited(*effect) for a in pending]
    return pending


def _after_courses(access: SharedAccess, courses: list[tuple[Expr, list[Any]]]) -> list[SharedAccess]:
    """An access after a loop, for each course that the loop can take: how far a copy is depends on it."""
    if access.queue is None:
        return [access]
    found: list[SharedAccess] = []
    done = False
    for condition, effects in courses:
        for later in _effected([access], effects):
            done |= later.queue is None
            if later.queue is not None:
                found.append(later.where(condition))
    return [*found, *([replace(access, queue=None, age=None)] if done else [])]


def _courses(extent: Expr, effects: list[Any], rounds: int) -> list[tuple[Expr, list[Any]]]:
    """What a loop of unknown extent does in 0, 1, …, and in at least `rounds` trips."""
    if not any(isinstance(effect, (CommitGroup, tuple)) for effect in effects):
        return []
    inner = extent
    if isinstance(extent, Binary) and extent.op == "max" and isinstance(extent.b, IntImm) and extent.b.value == 0:
        inner = extent.a  # plainer facts, with the same meaning for the comparisons below
    found: list[tuple[Expr, list[Any]]] = [(binary("le", inner, 0), [])]
    found += [(binary("eq", inner, trips), effects * trips) for trips in range(1, rounds)]
    return [*found, (binary("ge", inner, rounds), effects * rounds)]
