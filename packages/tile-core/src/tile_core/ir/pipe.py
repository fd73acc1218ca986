"""Pipe: a logical queue of buffer versions between the statements that fill them and those that use them.

A producer acquires a version, fills it and commits; a consumer waits, uses it and releases. Which hardware carries
that (async copy groups, mbarriers, flags, program order) is decided when the pipe is lowered; until then it is a fact
about a pipelined loop, kept in the loop's annotation ``pipes``.
"""

from __future__ import annotations

from .buffer import Buffer
from .node import Node, attr, node

__all__ = ["Pipe"]


@node
class Pipe(Node):
    """A queue of `depth` versions of `buffers`.

    Args:
        name: for people and for printing.
        depth: versions that may be in flight; 1 means that producers and consumers take turns.
        producers, consumers: positions of statements in the loop's body, in order.
        buffers: what one version holds.
    """

    name: str = attr()
    depth: int = attr()
    producers: tuple[int, ...] = attr()
    consumers: tuple[int, ...] = attr()
    buffers: tuple[Buffer, ...] = attr()

    def __repr__(self) -> str:
        held = ", ".join(b.name for b in self.buffers)
        return f"Pipe({self.name}, depth={self.depth}, {self.producers} -> {self.consumers}, [{held}])"
