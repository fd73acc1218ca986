"""How long a pipelined loop takes, by a small greedy model of two lanes: one copies, one computes.

A copy is issued when the lane is free and its version of the tile is; its data arrive `latency` cycles after the issue.
A computation starts when its data may be read and the computation before it is over. What a synchronisation costs
depends on where it stands, and that is what the protocols tell apart:

- ``none``: a copy waits for nobody. Wrong, and the bound that no right schedule beats.
- ``war``: a copy waits until its version has been read, and for the barrier after that.
- ``war+raw``: so that what was copied may be read, a barrier follows its arrival too.
- ``war+raw+consumer``: one more barrier after every computation, in the lane of the computations.
- ``sync-copy``: nothing overlaps among copies: each is waited for, and then a barrier.

Cycles are the model's own. They compare schedules with each other, and say nothing of a device.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["PROTOCOLS", "Costs", "Estimate", "Iteration", "Rates", "estimate"]

PROTOCOLS = ("none", "war", "war+raw", "war+raw+consumer", "sync-copy")


@dataclass(frozen=True)
class Costs:
    """Cycles of one iteration's parts.

    Args:
        issue: until the next copy can be issued.
        latency: from the issue of a copy to the arrival of its data.
        compute: of one iteration's computation.
        barrier: of a meeting of all threads.
    """

    issue: int = 1
    latency: int = 30
    compute: int = 20
    barrier: int = 8

    def __post_init__(self) -> None:
        for name in ("issue", "latency", "compute", "barrier"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name}={getattr(self, name)} is not a number of cycles")


@dataclass(frozen=True)
class Iteration:
    """When what happens: the copy is issued, its data are there and may be read, the computation starts and ends."""

    issued: int
    arrived: int
    readable: int
    started: int
    ended: int


@dataclass(frozen=True)
class Estimate:
    """All iterations of a loop."""

    protocol: str
    iterations: tuple[Iteration, ...]

    @property
    def cycles(self) -> int:
        """From the first issue to the end of the last computation."""
        return self.iterations[-1].ended if self.iterations else 0

    @property
    def step(self) -> float:
        """Cycles from one iteration to the next in the second half of the loop, where it has come to a steady state."""
        half = self.iterations[len(self.iterations) // 2 :]
        if len(half) < 2:
            return float(self.cycles)
        return (half[-1].started - half[0].started) / (len(half) - 1)


def estimate(costs: Costs, depth: int, trips: int, protocol: str = "war+raw") -> Estimate:
    """What a loop of `trips` iterations takes on `depth` versions.

    Raises:
        ValueError: a depth below 1, negative trips, or no such protocol.
    """
    if depth < 1 or trips < 0 or protocol not in PROTOCOLS:
        raise ValueError(f"depth={depth}, trips={trips}, protocol={protocol!r}; protocols: {', '.join(PROTOCOLS)}")
    done: list[Iteration] = []
    lane = 0  # when the next copy can be issued
    free = 0  # when the next computation can start
    for number in range(trips):
        issued = max(lane, _released(costs, depth, protocol, done, number))
        arrived = issued + costs.latency
        readable = arrived if protocol in ("none", "war") else arrived + costs.barrier
        lane = readable if protocol == "sync-copy" else issued + costs.issue
        started = max(readable, free)
        ended = started + costs.compute
        free = ended + costs.barrier if protocol == "war+raw+consumer" else ended
        done.append(Iteration(issued, arrived, readable, started, ended))
    return Estimate(protocol, tuple(done))


def _released(costs: Costs, depth: int, protocol: str, done: Sequence[Iteration], number: int) -> int:
    """When the version that iteration `number` fills has been read."""
    if protocol == "none" or number < depth:
        return 0
    return done[number - depth].ended + costs.barrier


@dataclass(frozen=True)
class Rates:
    """What turns the work of an iteration into cycles, where nobody measured it: round numbers of a recent GPU."""

    latency: int = 600  # of a load from memory
    barrier: int = 30
    bytes_per_copy: int = 16  # of one thread's copy instruction
    multiply_adds: int = 1024  # a cycle, in matrix instructions
    elements: int = 128  # a cycle, in plain arithmetic

    def costs(self, copied_bytes: int, multiply_adds: int, elements: int, threads: int) -> Costs:
        """The costs of an iteration that copies, multiplies and computes so much with so many threads."""
        issue = -(-copied_bytes // (self.bytes_per_copy * max(1, threads)))
        compute = -(-multiply_adds // self.multiply_adds) + -(-elements // self.elements)
        return Costs(issue, self.latency, compute, self.barrier)
