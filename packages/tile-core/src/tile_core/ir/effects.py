"""Effects: what an operation does to memory, declared once and read by every analysis.

*Semantic* effects belong to an op: which regions it reads, writes, accumulates into. *Execution* effects belong to
the candidate (or intrinsic) that
carries it out: the engine, who executes, and how completion is known. Sync insertion, memory reuse, pipelining, the
    checks and the emulator read
these and nothing else; an operation that declares none does not compile.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .buffer import BufferRegion
from .expr import Expr

__all__ = [
    "ACCESSES",
    "Access",
    "Collective",
    "CommitGroup",
    "Completion",
    "Execution",
    "Executors",
    "OperandEffect",
    "Rendezvous",
    "WaitGroup",
]

ACCESSES = ("read", "write", "accumulate")


@dataclass(frozen=True, slots=True)
class Access:
    """A semantic effect: `kind` (read, write, accumulate) on a region. Accumulating reads and writes, and commutes
    with itself."""

    kind: str
    region: BufferRegion

    def __post_init__(self) -> None:
        if self.kind not in ACCESSES:
            raise ValueError(f"access {self.kind!r} is not one of {', '.join(ACCESSES)}")

    @property
    def reads(self) -> bool:
        return self.kind != "write"

    @property
    def writes(self) -> bool:
        return self.kind != "read"


@dataclass(frozen=True, slots=True)
class Executors:
    """Who executes a statement: units `first` … `first + count - 1` of a kind (thread, warp, core), of those where
    `predicate` holds.

    `count` None means all of a block's.
    """

    kind: str = "thread"
    first: int = 0
    count: int | None = None
    predicate: Expr | None = None

    def narrowed(self, first: int, count: int) -> Executors:
        """The part of this set inside [first, first + count)."""
        low = max(self.first, first)
        if self.count is None:
            return Executors(self.kind, low, count - (low - first), self.predicate)
        high = min(self.first + self.count, first + count)
        return Executors(self.kind, low, max(0, high - low), self.predicate)


@dataclass(frozen=True, slots=True)
class Completion:
    """How others know that an effect is done: sync (at return), group (a queue of committed groups), barrier (bytes
    arriving), pipe (in order)."""

    kind: str = "sync"
    queue: str | None = None
    barrier: Any = None
    bytes: Expr | None = None

    def __post_init__(self) -> None:
        if self.kind not in ("sync", "group", "barrier", "pipe"):
            raise ValueError(f"completion {self.kind!r} is not one of sync, group, barrier, pipe")


@dataclass(frozen=True, slots=True)
class Execution:
    """An execution effect: an access, the engine that performs it, by whom, and how completion is known."""

    access: Access
    engine: str = "generic"
    executors: Executors = Executors()
    completion: Completion = Completion()


# Effects of intrinsics. Operands are named by their position among the call's arguments.


@dataclass(frozen=True, slots=True)
class OperandEffect:
    """What an intrinsic does to the memory behind an AccessPtr argument: `kind` (read, write, accumulate), the engine
    that does it, and how its end is known. An argument without one is accessed as its AccessPtr's mode says, by the
    generic engine, done at return."""

    argument: int
    kind: str
    engine: str = "generic"
    completion: Completion = Completion()

    def __post_init__(self) -> None:
        if self.kind not in ACCESSES:
            raise ValueError(f"access {self.kind!r} is not one of {', '.join(ACCESSES)}")


@dataclass(frozen=True, slots=True)
class CommitGroup:
    """Closes the group of operations that the executing thread has issued into `queue` since the last commit."""

    queue: str


@dataclass(frozen=True, slots=True)
class WaitGroup:
    """Returns when at most as many of the newest groups of `queue` are unfinished as argument `pending` says (None:
    0). What finished is then visible to the executing thread only."""

    queue: str
    pending: int | None = None


@dataclass(frozen=True, slots=True)
class Rendezvous:
    """Threads meet: what each did before is visible to each that waits, after.

    Args:
        unit: ``block`` (all its threads), ``warp`` (the lanes of the mask in argument `count`), or ``named`` (as many
            threads as argument `count` says meet at the barrier with the number in argument `barrier`).
        waits: whether the executing thread waits for the others, or only arrives.
    """

    unit: str
    barrier: int | None = None
    count: int | None = None
    waits: bool = True

    def __post_init__(self) -> None:
        if self.unit not in ("block", "warp", "named"):
            raise ValueError(f"rendezvous of {self.unit!r} is not one of block, warp, named")


@dataclass(frozen=True, slots=True)
class Collective:
    """All threads of the unit (``warp``, or ``block``) must reach the call together; it orders nothing but itself."""

    unit: str = "warp"
