"""The schedule of one pipelined loop: which statement runs in which stage, in which order, on how many versions.

Statement `s` of iteration k runs in time slot k + stage(s), within a slot by order. Two statements that depend on each
other must keep their order, in the same iteration and from one iteration to the next; a buffer that is filled in an
earlier stage than it is used gets ``use - def + 1`` versions, which lets the filling run ahead.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ..analysis import AccessSite, accesses_of, boxes_apart, root_buffer
from ..arith import Prover
from ..errors import CompileError, declare_codes
from ..ir import (
    Bind,
    Block,
    Buffer,
    For,
    Seq,
    Stmt,
    find_intrinsic,
    walk,
)
from ..ir.expr import Call

__all__ = ["Schedule", "Versioned", "is_replayable", "schedule_loop", "split_body", "written_buffers"]

declare_codes(
    {
        "E-PIPELINED-DEPENDENCE": "stages or order of a pipelined loop that break a dependence between two statements",
        "E-PIPELINED-VERSIONS": "a buffer that would need several versions and cannot have them",
    }
)


@dataclass(frozen=True)
class Versioned:
    """A buffer with several versions, and the statements that make it need them."""

    buffer: Buffer
    count: int
    writer: Stmt
    reader: Stmt


@dataclass
class Schedule:
    """Where each effectful statement of a loop runs.

    Args:
        statements: effectful statements in program order.
        binds: replayable binds, which are computed anew wherever their value is used.
        blocks: the Blocks round the statements, outermost first; their buffers outlive an iteration now.
        stages: one for each statement.
        order: positions of statements in the order in which a slot runs them.
        versions: buffers with more than one version.
    """

    loop: For
    statements: list[Stmt]
    binds: list[Bind]
    blocks: list[Block]
    stages: list[int]
    order: list[int]
    versions: list[Versioned] = field(default_factory=list)

    @property
    def last_stage(self) -> int:
        return max(self.stages, default=0)


def split_body(body: Stmt, written: set[Buffer]) -> tuple[list[Block], list[Bind], list[Stmt]]:
    """(Blocks round the body, replayable binds, effectful statements)."""
    blocks: list[Block] = []
    while isinstance(body, Block):
        blocks.append(body)
        body = body.body
    binds: list[Bind] = []
    statements: list[Stmt] = []
    for stmt in body.stmts if isinstance(body, Seq) else (body,):
        if isinstance(stmt, Bind) and is_replayable(stmt, written):
            binds.append(stmt)
        else:
            statements.append(stmt)
    return blocks, binds, statements


def is_replayable(bind: Bind, written: set[Buffer]) -> bool:
    """Whether a bind's value is the same wherever in the iteration it is computed: it reads nothing that the loop
    writes and calls nothing that has an effect."""
    for node in walk(bind.value):
        if isinstance(node, Call) and not find_intrinsic(node.op).pure:
            return False
    return all(root_buffer(site.buffer) not in written for site in accesses_of(bind))


def written_buffers(body: Stmt) -> set[Buffer]:
    """Roots of the buffers that a statement or anything in it writes."""
    return {root_buffer(site.buffer) for site in _sites(body) if site.writes}


def schedule_loop(
    loop: For, depth: int, asked_stages: list[int], asked_order: list[int], shared: set[Buffer]
) -> Schedule:
    """The schedule of a loop.

    Args:
        loop: a pipelined loop.
        depth: number of stages to spread over, 1 for none.
        asked_stages, asked_order: what the user wrote, or empty.
        shared: buffers that may get versions: on chip, addressable, and used in this loop only.

    Raises:
        CompileError: the user's stages or order break a dependence, naming both statements.
    """
    written = written_buffers(loop.body)
    blocks, binds, statements = split_body(loop.body, written)
    sites = [_sites(s) for s in statements]
    with_prover = Prover(solver=False)
    with_prover.bind(loop.var, loop.min, loop.extent)
    conflicts = _conflicts(sites, with_prover)
    if asked_stages:
        stages = list(asked_stages)
        order = _given_order(asked_order, len(statements))
        schedule = Schedule(loop, statements, binds, blocks, stages, order)
        _check(schedule, conflicts, sites)
    else:
        stages = _automatic_stages(sites, depth, conflicts, shared)
        if asked_order:
            order = _given_order(asked_order, len(statements))
        else:
            ahead = [i for i, s in enumerate(stages) if s == 0]
            order = [*ahead, *(i for i, s in enumerate(stages) if s != 0)]
        schedule = Schedule(loop, statements, binds, blocks, stages, order)
        if asked_order:
            _check(schedule, conflicts, sites)
    schedule.versions = _versions(schedule, sites, shared)
    return schedule


def _given_order(asked: list[int], count: int) -> list[int]:
    if not asked:
        return list(range(count))
    order = [0] * count
    for statement, position in enumerate(asked):
        order[position] = statement
    return order


def _automatic_stages(
    sites: list[list[AccessSite]], depth: int, conflicts: set[tuple[int, int]], shared: set[Buffer]
) -> list[int]:
    """Statements that fill shared tiles from global memory go first, the rest last; one that needs what the rest
    makes stays with it."""
    last = depth - 1
    stages = [0 if _loads_ahead(group, shared) else last for group in sites]
    changed = last > 0
    while changed:
        changed = False
        for i, j in sorted(conflicts):
            # In one iteration i comes before j; in the next, j before i.
            early, late = min(i, j), max(i, j)
            if stages[early] > stages[late]:
                stages[late] = last
                changed = True
            if stages[late] > stages[early] and _flows_back(sites[late], sites[early], shared):
                stages[early] = last
                changed = True
    return stages


def _loads_ahead(group: list[AccessSite], shared: set[Buffer]) -> bool:
    writes = [site.buffer for site in group if site.writes]
    reads_global = any(site.reads and not site.buffer.is_on_chip for site in group)
    return bool(writes) and reads_global and all(root_buffer(b) in shared for b in writes)


def _flows_back(late: list[AccessSite], early: list[AccessSite], shared: set[Buffer]) -> bool:
    """Whether the next iteration's early statement reads or overwrites what the late one makes, other than a buffer
    that versions keep apart."""
    for a in late:
        for b in early:
            if root_buffer(a.buffer) is root_buffer(b.buffer):
                if a.writes and (b.reads or b.writes):
                    return True
                if b.writes and a.reads and root_buffer(a.buffer) not in shared:
                    return True
    return False


def _conflicts(sites: list[list[AccessSite]], prover: Prover) -> set[tuple[int, int]]:
    """Pairs (earlier, later) of statements that touch one element, one of them writing. Unknown overlap counts."""
    found = set()
    for i in range(len(sites)):
        for j in range(i + 1, len(sites)):
            if any(_may_conflict(a, b, prover) for a in sites[i] for b in sites[j]):
                found.add((i, j))
    return found


def _may_conflict(a: AccessSite, b: AccessSite, prover: Prover) -> bool:
    if root_buffer(a.buffer) is not root_buffer(b.buffer) or not (a.writes or b.writes):
        return False
    return not boxes_apart(a, b, prover)


def _check(schedule: Schedule, conflicts: set[tuple[int, int]], sites: list[list[AccessSite]]) -> None:
    position = {statement: p for p, statement in enumerate(schedule.order)}
    for early, late in sorted(conflicts):
        first, second = schedule.stages[early], schedule.stages[late]
        if first > second:
            raise _broken(schedule, early, late, f"stage {first} comes after stage {second}")
        if first == second and position[early] > position[late]:
            raise _broken(schedule, early, late, "in one stage, order has them the other way round")


def _broken(schedule: Schedule, early: int, late: int, reason: str) -> CompileError:
    a, b = schedule.statements[early], schedule.statements[late]
    return CompileError(
        "E-PIPELINED-DEPENDENCE",
        f"statement {late} of the pipelined loop needs statement {early}, which the given schedule runs later",
        span=b.span or schedule.loop.span,
        spans=[(f"statement {early}", a.span)],
        facts=[reason, f"stage: {schedule.stages}", f"order (statements as they run): {schedule.order}"],
        help="give a statement a stage that is not before that of what it uses, or leave out stage and order",
    )


def _versions(schedule: Schedule, sites: list[list[AccessSite]], shared: set[Buffer]) -> list[Versioned]:
    position = {statement: p for p, statement in enumerate(schedule.order)}
    found = []
    buffers: dict[Buffer, None] = {}
    for group in sites:
        buffers.update((root_buffer(site.buffer), None) for site in group if site.writes and site.buffer.is_on_chip)
    for buffer in buffers:
        touching = [(i, s) for i, group in enumerate(sites) for s in group if root_buffer(s.buffer) is buffer]
        writers = [i for i, s in touching if s.writes]
        readers = [i for i, s in touching if s.reads]
        if not readers:
            continue
        first = min(writers, key=lambda i: schedule.stages[i])
        final = max(readers, key=lambda i: schedule.stages[i])
        count = schedule.stages[final] - schedule.stages[first] + 1
        if count < 2:
            continue
        # use - def + 1 is what a reader that runs after the writer in its slot needs; otherwise one fewer will do.
        if not any(
            position[w] < position[r] and schedule.stages[w] < schedule.stages[r] for w in writers for r in readers
        ):
            count -= 1
        if count < 2:
            continue
        if buffer not in shared:
            raise _unversionable(schedule, buffer, first, final)
        found.append(Versioned(buffer, count, schedule.statements[first], schedule.statements[final]))
    return found


def _unversionable(schedule: Schedule, buffer: Buffer, writer: int, reader: int) -> CompileError:
    return CompileError(
        "E-PIPELINED-VERSIONS",
        f"{buffer.name} is written in stage {schedule.stages[writer]} and read in stage {schedule.stages[reader]}, "
        "so it needs several versions",
        span=schedule.statements[writer].span,
        spans=[("read here", schedule.statements[reader].span)],
        facts=[f"{buffer!r}", "only shared tiles that no statement outside the loop uses can have versions"],
        help=f"put both statements into one stage, or keep {buffer.name} in shared memory for this loop alone",
    )


def _sites(stmt: Stmt) -> list[AccessSite]:
    found: list[AccessSite] = []
    for node in walk(stmt):
        if isinstance(node, Stmt):
            found += accesses_of(node)
    return found
