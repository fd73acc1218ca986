"""PipelinePlanning: a pipelined loop gets its logical pipes.

Needs LAID_OUT, leaves PIPED. In each T.Pipelined loop, a statement that fills an on-chip buffer from a global tensor
is a producer; those that read the buffer are its consumers. Buffers with the same producers' stage and consumers
share a pipe. A pipe's depth is num_stages, else max(stage) + 1, else 1. The loop's annotation ``pipes`` holds them;
how they are carried out is the backend's business.

What the user wrote is checked here: num_stages is a count, order a permutation of the body's statements, stage one
number for each of them, and no pipelined loop stands in another.
"""

from __future__ import annotations

from typing import Any

from ..analysis import root_buffer
from ..errors import CompileError, declare_codes
from ..ir import Buffer, BufferLoad, BufferStore, For, PrimFunc, Rewriter, Stmt, TileOpStmt, walk
from ..ir.pipe import Pipe
from .base import Pass, PassContext, register_pass
from .pipeline_schedule import split_body, written_buffers

__all__ = ["PipelinePlanning", "body_statements"]

declare_codes(
    {
        "E-PIPELINED-STAGES": "a number of pipeline stages that is no integer ≥ 0",
        "E-PIPELINED-ORDER": "an order or stage list that does not fit the statements of a pipelined loop",
        "E-PIPELINED-NESTED": "a pipelined loop inside a pipelined loop",
    }
)


@register_pass("PipelinePlanning", needs="LAID_OUT", leaves="PIPED")
class PipelinePlanning(Pass):
    def function(self, function: PrimFunc, context: PassContext) -> PrimFunc:
        return _Plan(context).rewrite(function)


class _Plan(Rewriter):
    def __init__(self, context: PassContext) -> None:
        super().__init__()
        self.context = context
        self.around: For | None = None
        self.count = 0

    def rewrite_For(self, node: For) -> Stmt:
        if node.kind != "pipelined":
            return self.rewrite_children(node)
        if self.around is not None:
            raise CompileError(
                "E-PIPELINED-NESTED",
                "a T.Pipelined loop stands inside another one",
                span=node.span,
                spans=[("the outer loop", self.around.span)],
                help="make one of them T.serial; pipeline the loop that loads what the work needs",
            )
        statements = body_statements(node.body)
        depth = _depth(node, len(statements))
        stage = list(node.annotation("stage") or ())
        if node.annotation("num_stages") and stage and min(stage) >= 0 and max(stage) + 1 != depth:
            self.context.warn(
                f"{node.span!r}: T.Pipelined has num_stages={depth} and stages up to {max(stage)}; the stages decide, "
                f"so statements run {max(stage)} iterations ahead"
            )
        self.around = node
        body = self.rewrite(node.body)
        self.around = None
        pipes = self._pipes(statements, depth)
        annotations = tuple(pair for pair in node.annotations if pair[0] != "pipes")
        return node.with_(body=body, annotations=(*annotations, ("pipes", pipes)))

    def _pipes(self, statements: list[Stmt], depth: int) -> tuple[Pipe, ...]:
        written = [_written_from_global(s) for s in statements]
        read = [_read(s) for s in statements]
        groups: dict[tuple[tuple[int, ...], tuple[int, ...]], list[Buffer]] = {}
        for buffer in dict.fromkeys(b for group in written for b in group):
            producers = tuple(i for i, group in enumerate(written) if buffer in group)
            consumers = tuple(i for i, group in enumerate(read) if buffer in group and i not in producers)
            if consumers:
                groups.setdefault((producers, consumers), []).append(buffer)
        pipes = []
        for (producers, consumers), buffers in groups.items():
            pipes.append(Pipe(f"pipe_{self.count}", depth, producers, consumers, tuple(buffers)))
            self.count += 1
        return tuple(pipes)


def body_statements(body: Stmt) -> list[Stmt]:
    """The statements of a loop's body that can be ordered: those with effects, through the Blocks round them.

    A bind that can be computed again anywhere in the iteration has none; one that reads what the loop writes is one.
    """
    return split_body(body, written_buffers(body))[2]


def _depth(loop: For, count: int) -> int:
    stages = loop.annotation("num_stages")
    if stages is not None and (isinstance(stages, bool) or not isinstance(stages, int) or stages < 0):
        raise CompileError(
            "E-PIPELINED-STAGES",
            f"num_stages={stages!r} is not a number of stages",
            span=loop.span,
            facts=[f"found {type(stages).__name__}"],
            help="pass 0 for no overlap, or the number of buffers to keep in flight, such as 2 or 3",
        )
    order, stage = _numbers(loop, "order", count), _numbers(loop, "stage", count)
    if order and sorted(n for n in order if n >= 0) != list(range(sum(n >= 0 for n in order))):
        raise _misfit(loop, "order", order, "each position once, from 0, or -1 for a statement that stays where it is")
    if stage and any(n < -1 for n in stage):
        raise _misfit(loop, "stage", stage, "numbers from 0, or -1 for a statement that stays where it is")
    if stages:
        return stages
    return max(stage) + 1 if stage and max(stage) >= 0 else 1


def _numbers(loop: For, key: str, count: int) -> list[int]:
    given = loop.annotation(key)
    if not given:
        return []
    numbers = list(given) if isinstance(given, (list, tuple)) else None
    if numbers is None or any(isinstance(n, bool) or not isinstance(n, int) for n in numbers):
        raise _misfit(loop, key, given, "a list of integers")
    if len(numbers) != count:
        raise _misfit(loop, key, numbers, f"one number for each of the body's {count} statements")
    return numbers


def _misfit(loop: For, key: str, found: Any, allowed: str) -> CompileError:
    return CompileError(
        "E-PIPELINED-ORDER",
        f"{key} of T.Pipelined does not fit the loop's body",
        span=loop.span,
        facts=[f"found {found!r}", f"allowed: {allowed}"],
        help=f"leave out {key} to have it planned, or correct it",
    )


def _written_from_global(stmt: Stmt) -> list[Buffer]:
    """On-chip buffers that a statement fills with what it reads from a global tensor."""
    found: dict[Buffer, None] = {}
    for item in walk(stmt):
        if isinstance(item, TileOpStmt):
            regions = item.op.operands()
            if any(role == "in" and not r.buffer.is_on_chip for _, role, r in regions):
                found.update(
                    (root_buffer(r.buffer), None) for _, role, r in regions if role != "in" and r.buffer.is_on_chip
                )
        elif isinstance(item, BufferStore) and item.buffer.is_on_chip:
            if any(isinstance(i, BufferLoad) and not i.buffer.is_on_chip for i in walk(item.value)):
                found[root_buffer(item.buffer)] = None
    return list(found)


def _read(stmt: Stmt) -> set[Buffer]:
    """On-chip buffers that a statement reads."""
    found: set[Buffer] = set()
    for item in walk(stmt):
        if isinstance(item, TileOpStmt):
            found.update(
                root_buffer(r.buffer) for _, role, r in item.op.operands() if role != "out" and r.buffer.is_on_chip
            )
        elif isinstance(item, BufferLoad) and item.buffer.is_on_chip:
            found.add(root_buffer(item.buffer))
    return found
