"""SelectInstructions: every tile op gets the candidate that carries it out.

Needs TILE, leaves CHOSEN. All candidates of the op's class are asked whether they are legal where the op stands; the
cheapest legal one is taken, ties by order (the backend's before the defaults). An op annotation
``prefer_instruction`` forces one by name; forcing one that declines is an error with its reason. What was taken and
what declined, and why, is recorded for `explain()`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from ..arith import Prover
from ..errors import CompileError, InternalError, declare_codes
from ..ir import Attr, For, IntImm, KernelLaunch, PrimFunc, Stmt, TileOpStmt, const
from ..plugin.api import resolve
from ..tileop import Candidate, Choice, Declined, Facts, TileOp
from ..tileop.default_candidates import default_candidates
from .base import Pass, PassContext, register_pass
from .scoped import ScopedRewriter

__all__ = ["Ranking", "SelectInstructions", "rank_candidates"]

declare_codes(
    {
        "E-CANDIDATE-NAME": "an op asks for an instruction that no candidate is called by",
        "E-CANDIDATE-DECLINED": "an op asks for an instruction that is not legal there",
    }
)


@dataclass(frozen=True)
class Ranking:
    """The legal candidates of one op, best first, with their costs, and those that declined with their reasons."""

    legal: tuple[tuple[Candidate, float], ...]
    declined: tuple[tuple[str, str], ...]


@register_pass("SelectInstructions", needs="TILE", leaves="CHOSEN")
class SelectInstructions(Pass):
    def function(self, function: PrimFunc, context: PassContext) -> PrimFunc:
        prover = Prover()
        new = _Select(context, prover).rewrite(function)
        context.solver_queries += prover.solver_queries
        return new


class _Select(ScopedRewriter):
    def __init__(self, context: PassContext, prover: Prover) -> None:
        super().__init__(prover)
        self.context = context
        self.here = Facts(context.target, prover, context.options)

    def rewrite_KernelLaunch(self, node: KernelLaunch) -> Stmt:
        self.here.threads = block_threads(node)
        self.here.launch = node
        return super().rewrite_KernelLaunch(node)

    def rewrite_For(self, node: For) -> Stmt | None:
        outer = self.here.pipelined
        if node.kind == "pipelined":
            self.here.pipelined = node
        try:
            return super().rewrite_For(node)
        finally:
            self.here.pipelined = outer

    def rewrite_Attr(self, node: Attr) -> Stmt | None:
        with narrowed(self.here, node):
            return super().rewrite_Attr(node)

    def rewrite_TileOpStmt(self, node: TileOpStmt) -> TileOpStmt:
        op = node.op
        ranking = rank_candidates(op, self.here, self.context)
        candidate, cost = ranking.legal[0]
        considered = [(c.name, f"legal at cost {price:g}") for c, price in ranking.legal[1:]]
        self.context.choices.append(Choice(op, node.span, candidate.name, cost, [*considered, *ranking.declined]))
        return node.with_(candidate=candidate.name)


def rank_candidates(op: TileOp, facts: Facts, context: PassContext) -> Ranking:
    """The candidates of `op` judged on `facts`; computed once an op and compilation.

    Raises:
        CompileError: the op names a candidate that does not exist or declines.
    """
    return context.analysis("ranked_candidates", op, lambda: _rank(op, facts, context))


def _rank(op: TileOp, facts: Facts, context: PassContext) -> Ranking:
    candidates = [c for c in known_candidates(context) if isinstance(op, c.op)]
    verdicts = [(c, c.legal(op, facts)) for c in candidates]
    forced = dict(op.attributes().get("annotations") or ()).get("prefer_instruction")
    if forced == "sync":
        reason = "prefer_instruction asks for a copy that is done when it returns"
        verdicts = [(c, v) if _synchronous(c, op) else (c, Declined(reason)) for c, v in verdicts]
    elif forced in _COPY_ENGINES and all(c.name != forced for c in candidates):
        # Code for other targets keeps its meaning: how a copy is made is no part of it.
        forced = None
    elif forced is not None:
        verdicts = [_forced(op, str(forced), verdicts)]
    legal = [(c, v.cost) for c, v in verdicts if not isinstance(v, Declined)]
    declined = tuple((c.name, v.reason) for c, v in verdicts if isinstance(v, Declined))
    if not legal:
        raise InternalError(
            "E-INTERNAL",
            f"no candidate carries out T.{op.name}",
            span=op.span,
            facts=[f"{name} declined: {reason}" for name, reason in declined],
            help="give the op a candidate that is always legal with register_default_candidate",
        )
    # sorted() is stable, so equal costs keep the order in which candidates are listed.
    return Ranking(tuple(sorted(legal, key=lambda pair: pair[1])), declined)


# What T.copy may ask for; a target that has no such engine copies in its own way.
_COPY_ENGINES = ("tma", "cp_async")


def _synchronous(candidate: Candidate, op: TileOp) -> bool:
    return all(effect.completion.kind == "sync" for effect in candidate.effects(op))


def _forced(op: TileOp, name: str, verdicts: list[tuple[Candidate, Any]]) -> tuple[Candidate, Any]:
    for candidate, verdict in verdicts:
        if candidate.name != name:
            continue
        if isinstance(verdict, Declined):
            raise CompileError(
                "E-CANDIDATE-DECLINED",
                f"T.{op.name}: {name} is asked for, but is not legal here",
                span=op.span,
                facts=[f"reason: {verdict.reason}"],
                help="leave out prefer_instruction to take the best legal one, or change what the reason names",
            )
        return candidate, verdict
    raise CompileError(
        "E-CANDIDATE-NAME",
        f"T.{op.name}: there is no instruction {name!r} for this target",
        span=op.span,
        facts=[f"known: {', '.join(c.name for c, _ in verdicts)}"],
        help="name one of the known ones, or leave out prefer_instruction",
    )


def known_candidates(context: PassContext) -> tuple[Candidate, ...]:
    """The backend's candidates in its order, then the defaults."""

    def load() -> tuple[Candidate, ...]:
        own = resolve(context.backend.candidates)() if context.backend is not None else ()
        return (*own, *default_candidates())

    return context.analysis("candidates", context.backend, load)


@contextmanager
def narrowed(facts: Facts, node: Attr) -> Iterator[None]:
    """Inside statements that some threads of the block execute, these are the launch's threads."""
    if node.key != "executors" or len(node.subject) < 3 or facts.launch is None:
        yield
        return
    threads, launch = facts.threads, facts.launch
    _, count, index = node.subject
    facts.threads = count
    facts.launch = launch.with_(thread_vars=(index,), threads=(const(count, index.dtype),))
    try:
        yield
    finally:
        facts.threads, facts.launch = threads, launch


def block_threads(node: KernelLaunch) -> int | None:
    """Threads of a block, or None where the target chooses."""
    count = 1
    for extent in node.threads:
        if not isinstance(extent, IntImm):
            return None
        count *= extent.value
    return count if node.threads else None
