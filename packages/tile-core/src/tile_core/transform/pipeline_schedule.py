"""The schedule of one pipelined loop: which statement runs in which stage, in which order, on how many versions.

Statement `s` of iteration k runs in time slot k + stage(s), within a slot by order. An edge of distance d from one
statement to another (`analysis.dependence`) asks that slot(source, k) comes before slot(target, k + d): that the
source's stage is at most the target's plus d, and where they are equal that the source comes first in the slot. Edges
that are there only because a buffer is used again have the number of its versions as distance; a buffer gets the least
number for which all of them hold, which is at most ``use - def + 1``.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ..analysis import Dependence, LoopDependences, accesses_of, dependences, root_buffer
from ..analysis.dependence import UNRESOLVED
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
    """A buffer that the loop fills: how many versions it has, and why.

    Args:
        buffer: the storage.
        count: its versions.
        writer, reader: the statements between which the count comes about: what is written must not be overwritten by
            the writer before the reader is through (the reader may itself be a writer).
        reason: why there are not more, where that is not plain; "" else.
    """

    buffer: Buffer
    count: int
    writer: Stmt
    reader: Stmt
    reason: str = ""


@dataclass
class Schedule:
    """Where each effectful statement of a loop runs.

    Args:
        statements: effectful statements in program order.
        binds: replayable binds, which are computed anew wherever their value is used.
        blocks: the Blocks round the statements, outermost first; their buffers outlive an iteration now.
        stages: one for each statement.
        order: positions of statements in the order in which a slot runs them.
        versions: block-wide buffers that the loop fills, in the order in which it touches them.
        found: what the loop's statements touch and depend on.
    """

    loop: For
    statements: list[Stmt]
    binds: list[Bind]
    blocks: list[Block]
    stages: list[int]
    order: list[int]
    versions: list[Versioned] = field(default_factory=list)
    found: LoopDependences | None = None

    @property
    def edges(self) -> tuple[Dependence, ...]:
        return self.found.edges if self.found is not None else ()

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
    sites = [site for node in walk(body) if isinstance(node, Stmt) for site in accesses_of(node)]
    return {root_buffer(site.buffer) for site in sites if site.writes}


def schedule_loop(
    loop: For,
    depth: int,
    asked_stages: list[int],
    asked_order: list[int],
    shared: set[Buffer],
    prover: Prover | None = None,
) -> Schedule:
    """The schedule of a loop.

    Args:
        loop: a pipelined loop.
        depth: number of stages to spread over, 1 for none.
        asked_stages, asked_order: what the user wrote, or empty.
        shared: buffers that may get versions: on chip, addressable, and used in pipelined loops only.
        prover: knows what holds round the loop.

    Raises:
        CompileError: the user's stages or order break a dependence, naming both statements.
    """
    written = written_buffers(loop.body)
    blocks, binds, statements = split_body(loop.body, written)
    found = dependences(loop, statements, binds, prover or Prover(), shared)
    if asked_stages:
        stages = list(asked_stages)
        order = _given_order(asked_order, len(statements))
    else:
        stages = _automatic_stages(found, len(statements), depth)
        if asked_order:
            order = _given_order(asked_order, len(statements))
        else:
            ahead = [i for i, s in enumerate(stages) if s == 0]
            order = [*ahead, *(i for i, s in enumerate(stages) if s != 0)]
    schedule = Schedule(loop, statements, binds, blocks, stages, order, found=found)
    _check(schedule, found)
    schedule.versions = _versions(schedule, found, shared)
    return schedule


def _given_order(asked: list[int], count: int) -> list[int]:
    if not asked:
        return list(range(count))
    order = [0] * count
    for statement, position in enumerate(asked):
        order[position] = statement
    return order


def _automatic_stages(found: LoopDependences, count: int, depth: int) -> list[int]:
    """Statements that fill shared tiles from global memory go first, the rest last; one that needs what the rest
    makes, in its own iteration or too soon after, stays with it."""
    last = depth - 1
    stages = [0 if _loads_ahead(found, i) else last for i in range(count)]
    changed = last > 0
    while changed:
        changed = False
        for edge in found.edges:
            if edge.distance == UNRESOLVED or stages[edge.target] == last:
                continue
            # In a slot, what runs ahead comes first: a tie is in order only within one stage.
            late = stages[edge.source] - edge.distance
            if late > stages[edge.target] or (late == stages[edge.target] and edge.distance > 0):
                stages[edge.target] = last
                changed = True
    return stages


def _loads_ahead(found: LoopDependences, statement: int) -> bool:
    own = [a for a in found.accesses.accesses if a.statement == statement]
    writes = [a.root for a in own if a.writes]
    reads_global = any(a.reads and not a.site.buffer.is_on_chip for a in own)
    return bool(writes) and reads_global and all(root in found.rings for root in writes)


def _check(schedule: Schedule, found: LoopDependences) -> None:
    position = {statement: p for p, statement in enumerate(schedule.order)}
    for edge in sorted(found.edges, key=lambda e: (e.distance, e.source, e.target)):
        if edge.distance == UNRESOLVED or edge.source == edge.target:
            continue
        first, second = schedule.stages[edge.source], schedule.stages[edge.target] + edge.distance
        if edge.kind == "value" and first < second:
            raise _value_apart(schedule, edge)
        if first < second or (first == second and position[edge.source] < position[edge.target]):
            continue
        if edge.distance and edge.kind != "flow" and edge.buffer is not None and edge.buffer.is_on_chip:
            # That the storage is used again too soon could be mended by versions, which it cannot have.
            raise _unversionable(schedule, edge.buffer, edge.target, edge.source)
        raise _broken(schedule, edge, first > second)


def _broken(schedule: Schedule, edge: Dependence, apart: bool) -> CompileError:
    a, b = schedule.statements[edge.source], schedule.statements[edge.target]
    if edge.distance == 0:
        what = f"statement {edge.target} of the pipelined loop needs statement {edge.source}"
        place = f"stage {schedule.stages[edge.source]} comes after stage {schedule.stages[edge.target]}"
    else:
        later = "the next iteration" if edge.distance == 1 else f"{edge.distance} iterations later"
        what = f"statement {edge.target} of the pipelined loop needs statement {edge.source} of an earlier iteration"
        place = (
            f"{edge.buffer.name if edge.buffer is not None else 'a value'} goes from stage "
            f"{schedule.stages[edge.source]} to stage {schedule.stages[edge.target]} of {later}"
        )
    reason = place if apart else "they run in one time slot, where order has them the other way round"
    return CompileError(
        "E-PIPELINED-DEPENDENCE",
        f"{what}, which the given schedule runs later",
        span=b.span or schedule.loop.span,
        spans=[(f"statement {edge.source}", a.span)],
        facts=[reason, f"stage: {schedule.stages}", f"order (statements as they run): {schedule.order}"],
        help="give a statement a stage that is not before that of what it uses, or leave out stage and order",
    )


def _value_apart(schedule: Schedule, edge: Dependence) -> CompileError:
    bind, user = schedule.statements[edge.source], schedule.statements[edge.target]
    name = bind.var.name if isinstance(bind, Bind) else "a value"
    return CompileError(
        "E-PIPELINED-DEPENDENCE",
        f"statement {edge.target} of the pipelined loop uses {name} in another stage than statement {edge.source} "
        "computes it in",
        span=user.span or schedule.loop.span,
        spans=[(f"statement {edge.source}", bind.span)],
        facts=[f"stage: {schedule.stages}", f"{name} depends on what the loop writes and has one version"],
        help="give both statements the same stage",
    )


def _versions(schedule: Schedule, found: LoopDependences, shared: set[Buffer]) -> list[Versioned]:
    """Versions of the storages that the loop fills: the least number for which every edge of the ring holds."""
    position = {statement: p for p, statement in enumerate(schedule.order)}
    result: list[Versioned] = []
    for root in found.accesses.roots():
        own = found.accesses.of(root)
        memory = root.memory
        if memory.level != "block" or not memory.addressable or not any(a.writes for a in own):
            continue
        count, cause = 1, None
        for edge in found.edges:
            if edge.buffer is not root or edge.distance != UNRESOLVED:
                continue
            behind = schedule.stages[edge.source] - schedule.stages[edge.target]
            needed = behind if position[edge.source] < position[edge.target] else behind + 1
            width = needed if needed > edge.least else 1
            if cause is None or width > count:
                cause, count = edge, width
        if cause is not None:
            writer, reader = cause.target, cause.source
        else:
            writer = next(a.statement for a in own if a.writes)
            reader = next((a.statement for a in own if a.reads), writer)
        reason = ""
        exposed = [a for a in found.accesses.exposed if a.root is root]
        if root not in found.rings and exposed:
            reader = exposed[0].statement
            reason = "an iteration may read what an earlier one wrote"
            if root not in shared:
                reason = "statements outside of the loop use it too"
        elif root not in shared:
            reason = "statements outside of the loop use it too"
        statements = schedule.statements
        result.append(Versioned(root, count, statements[writer], statements[reader], reason))
    return result


def _unversionable(schedule: Schedule, buffer: Buffer, writer: int, reader: int) -> CompileError:
    return CompileError(
        "E-PIPELINED-VERSIONS",
        f"{buffer.name} is written in stage {schedule.stages[writer]} and read in stage {schedule.stages[reader]}, "
        "so it needs several versions",
        span=schedule.statements[writer].span,
        spans=[("read here", schedule.statements[reader].span)],
        facts=[
            f"{buffer!r}",
            "only shared tiles that no statement outside the loop uses, and that every iteration fills before it reads "
            "them, can have versions",
        ],
        help=f"put both statements into one stage, or keep {buffer.name} in shared memory for this loop alone",
    )
