"""Candidates: the ways in which a backend can carry out a tile op.

`SelectInstructions` asks every candidate of an op's class whether it is `legal` on the facts; the cheapest legal one
is chosen, ties by order, and
the last must always be legal. `LayoutInference` asks the choice for its `constraints`; `LowerTileOp` calls its
`lower`, which may not fail.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ..ir import Buffer, Execution, Expr, Stmt
from ..source import Span
from ..target import Target
from .base import TileOp

if TYPE_CHECKING:
    from ..ir import For, KernelLaunch
    from ..layout import Fragment, Layout

__all__ = ["Candidate", "Choice", "Constraint", "Declined", "Facts", "LowerContext", "Ok"]


@dataclass(frozen=True, slots=True)
class Ok:
    """Legal, at a cost in clocks for one execution of the op (comparable between candidates of one op)."""

    cost: float = 1.0


@dataclass(frozen=True, slots=True)
class Declined:
    """Not legal; `reason` is a sentence for the kernel's author."""

    reason: str


class Facts:
    """What a candidate may know: the target, options, what can be proven where the op stands.

    `layouts` holds, while layouts are inferred, those that are known so far. `launch` is the kernel launch round the
    op, known where candidates are judged and lowered; `pipelined` the T.Pipelined loop round it, known where they are
    judged.
    """

    def __init__(self, target: Target, prover: Any, options: Any = None, threads: int | None = None) -> None:
        self.target = target
        self.prover = prover
        self.options = options
        self.threads = threads
        self.layouts: dict[Buffer, Any] = {}
        self.launch: KernelLaunch | None = None
        self.pipelined: For | None = None

    def divides(self, divisor: int, expr: Expr) -> bool:
        """Whether `expr` is known to be a multiple of `divisor`."""
        return self.prover.divides(divisor, expr)

    def proves(self, condition: Expr) -> bool:
        """Whether `condition` is known to hold."""
        return self.prover.proves(condition)


@dataclass(frozen=True, slots=True)
class Constraint:
    """A wish of a candidate about the layout of a buffer.

    Strength: ``strict`` (the candidate is illegal otherwise), ``common`` (wanted by this op, shared with others),
        ``free`` (a preference).
    """

    buffer: Buffer
    layout: Layout | Fragment
    strength: str = "strict"


class LowerContext:
    """What `lower` works with: layouts, target, facts, fresh buffers.

    `allocate` gives a scratch buffer that lives in the enclosing block.
    """

    def __init__(self, target: Target, layouts: dict[Buffer, Any], facts: Facts) -> None:
        self.target = target
        self.layouts = layouts
        self.facts = facts
        self.scratch: list[Buffer] = []

    def allocate(self, name: str, shape: tuple[int, ...], dtype: Any, scope: str = "local") -> Buffer:
        """A scratch buffer with a row-major layout."""
        from ..dtypes import as_dtype
        from ..ir import as_shape

        buffer = Buffer(name, as_shape(shape), as_dtype(dtype), scope)
        self.scratch.append(buffer)
        return buffer


class Candidate:
    """One way to carry out ops of class `op`. Stateless; subclasses override what they need."""

    op: type[TileOp]
    name: str = ""

    def legal(self, op: Any, facts: Facts) -> Ok | Declined:
        """Whether this way fits the op, judged on facts only: no side effect, no exception."""
        return Ok()

    def constraints(self, op: Any, facts: Facts) -> Iterable[Constraint]:
        """Layout wishes for the op's buffers."""
        return ()

    def effects(self, op: Any) -> Iterable[Execution]:
        """Execution effects; the default performs the semantic ones with the generic engine, done at return."""
        return [Execution(access) for access in op.effects()]

    def lower(self, op: Any, context: LowerContext) -> Stmt:
        """The statements that carry it out, in form THREAD, indexing buffers logically (layouts are applied later)."""
        raise TypeError(f"candidate {self.name} defines no lowering")


@dataclass(slots=True)
class Choice:
    """What `explain()` shows for one op: what was taken and what declined, with reasons."""

    op: TileOp
    span: Span | None
    taken: str
    cost: float
    considered: list[tuple[str, str]] = field(default_factory=list)
