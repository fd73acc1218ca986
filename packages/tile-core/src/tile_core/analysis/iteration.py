"""What one iteration of a loop touches: accesses of each statement of the body, as boxes in the loop's variable.

Loops inside a statement are taken together: the box of an access covers what it touches over all their iterations.
The walk also finds *exposed* reads, those that may see what an earlier iteration (or something before the loop) wrote:
a storage without them holds a complete epoch in every iteration, write and reads, and can be given several versions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace

from ..arith import Prover
from ..ir import (
    Bind,
    Buffer,
    BufferLoad,
    BufferRegion,
    Call,
    Expr,
    For,
    If,
    IntImm,
    Let,
    Seq,
    Stmt,
    Var,
    While,
    binary,
    const,
    find_intrinsic,
    walk,
)
from ..ir import substitute as replaced
from .access import AccessSite, accesses_of, root_buffer

__all__ = ["IterationAccess", "IterationAccesses", "iteration_accesses"]


@dataclass(frozen=True)
class IterationAccess:
    """One access of one statement.

    Args:
        statement: position of the statement in the body.
        site: the access as it stands.
        mins, extents: the box that it covers over all loops inside the statement; None through a view.
        whole: whether all elements of the box are touched.
    """

    statement: int
    site: AccessSite
    mins: tuple[Expr, ...] | None
    extents: tuple[Expr, ...]
    whole: bool = True

    @property
    def root(self) -> Buffer:
        return root_buffer(self.site.buffer)

    @property
    def reads(self) -> bool:
        return self.site.reads

    @property
    def writes(self) -> bool:
        return self.site.writes

    def moved(self, values: Mapping[Var, Expr]) -> IterationAccess:
        """The same access with variables replaced: what another iteration does."""
        if self.mins is None:
            return self
        given = dict(values)
        mins = tuple(replaced(m, given) for m in self.mins)
        return replace(self, mins=mins, extents=tuple(replaced(e, given) for e in self.extents))


@dataclass(frozen=True)
class IterationAccesses:
    """Accesses in program order, and the reads among them that may see an earlier iteration's value."""

    accesses: tuple[IterationAccess, ...]
    exposed: tuple[IterationAccess, ...]

    def of(self, buffer: Buffer) -> list[IterationAccess]:
        """Those to the storage of `buffer`."""
        root = root_buffer(buffer)
        return [a for a in self.accesses if a.root is root]

    def roots(self) -> list[Buffer]:
        """The storages, in the order in which they are touched first."""
        return list(dict.fromkeys(a.root for a in self.accesses))


def iteration_accesses(statements: Sequence[Stmt], binds: Iterable[Bind], prover: Prover) -> IterationAccesses:
    """What an iteration's statements touch.

    Args:
        statements: in program order.
        binds: values computed ahead of them, in order; they are put where their names stand.
        prover: knows the ranges of the loop's variable and of those around it.
    """
    values: dict[Var, Expr] = {}
    for bind in binds:
        values[bind.var] = replaced(bind.value, values) if values else bind.value
    walker = _Walk(values, prover)
    for position, stmt in enumerate(statements):
        walker.position = position
        walker.statement(stmt)
    return IterationAccesses(tuple(walker.accesses), tuple(walker.exposed))


class _Walk:
    """Keeps the boxes that have surely been written in this iteration."""

    def __init__(self, values: dict[Var, Expr], prover: Prover) -> None:
        self.values = values
        self.prover = prover
        self.position = 0
        self.named: set[Var] = set()  # by Let, inside expressions
        self.loops: list[For] = []
        self.accesses: list[IterationAccess] = []
        self.exposed: list[IterationAccess] = []
        self.written: list[IterationAccess] = []

    def statement(self, stmt: Stmt) -> None:
        if isinstance(stmt, Seq):
            for part in stmt.stmts:
                self.statement(part)
            return
        for expr in stmt.child_nodes():
            if isinstance(expr, Expr):
                self.named.update(n.var for n in walk(expr) if isinstance(n, Let))
        for site in accesses_of(stmt):
            self._access(site)
        if isinstance(stmt, Bind):
            self.values[stmt.var] = self._value(stmt.value)
        if isinstance(stmt, For):
            self._loop(stmt)
        elif isinstance(stmt, If):
            self._branches(stmt)
        elif isinstance(stmt, While):
            before = list(self.written)
            self.statement(stmt.body)
            self.written = before  # it may run not at all
        else:
            for child in stmt.child_nodes():
                if isinstance(child, Stmt):
                    self.statement(child)

    def _access(self, site: AccessSite) -> None:
        here = self._boxed(site)
        if here.reads and not self._covered(here):
            self.exposed.append(self._widened(here, self.loops))
        self.accesses.append(self._widened(here, self.loops))
        if here.writes and here.whole and here.site.kind == "write" and here.mins is not None:
            self._note(here)

    def _boxed(self, site: AccessSite) -> IterationAccess:
        region = site.region
        buffer = site.buffer
        predicated = getattr(site.node, "predicate", None) is not None
        whole = site.exact and not predicated
        if buffer.data is None:
            mins: list[Expr] = []
            extents: list[Expr] = []
            for axis, (low, extent) in enumerate(zip(region.mins, region.extents)):
                low, extent = self._value(low), self._value(extent)
                if self._is_open(low) or self._is_open(extent):
                    low, extent, whole = const(0, "int32"), buffer.shape[axis], False
                mins.append(low)
                extents.append(extent)
            return IterationAccess(self.position, site, tuple(mins), tuple(extents), whole)
        root = root_buffer(buffer)
        if whole and _is_all(region) and _bytes(buffer) is not None and _bytes(buffer) == _bytes(root):
            zero = tuple(const(0, "int32") for _ in root.shape)
            return IterationAccess(self.position, site, zero, root.shape, True)
        return IterationAccess(self.position, site, None, (), False)

    def _value(self, expr: Expr) -> Expr:
        return replaced(expr, self.values) if self.values else expr

    def _is_open(self, index: Expr) -> bool:
        """Whether an index can have other values than its loops tell: it reads memory, or a value that an expression
        names inside itself."""
        return any(
            isinstance(n, (BufferLoad, Let))
            or (isinstance(n, Call) and not find_intrinsic(n.op).pure)
            or (isinstance(n, Var) and n in self.named)
            for n in walk(index)
        )

    # Loops and branches inside a statement.

    def _loop(self, loop: For) -> None:
        kept = list(self.written)
        with self._in_range(loop):
            self.loops.append(loop)
            self.statement(loop.body)
            self.loops.pop()
        added = [a for a in self.written if not any(a is k for k in kept)]
        self.written = kept
        runs = self.prover.proves(binary("ge", loop.extent, 1))
        for access in added if runs else ():
            wide = self._widened(access, [loop])
            if wide.whole:
                self._note(wide)

    def _in_range(self, loop: For) -> ExitStack:
        stack = ExitStack()
        step = loop.step.value if isinstance(loop.step, IntImm) else 1
        if loop.step is None or isinstance(loop.step, IntImm):
            stack.enter_context(self.prover.bind(loop.var, loop.min, loop.extent, step))
        return stack

    def _branches(self, stmt: If) -> None:
        kept = list(self.written)
        self.statement(stmt.then_body)
        then, self.written = self.written, list(kept)
        if stmt.else_body is not None:
            self.statement(stmt.else_body)
        other = self.written
        self.written = [a for a in then if any(a is b or self._inside(a, b) for b in other)]

    def _widened(self, access: IterationAccess, loops: Sequence[For]) -> IterationAccess:
        """The access over all iterations of `loops`, innermost last."""
        if access.mins is None:
            return access
        mins, extents, whole = list(access.mins), list(access.extents), access.whole
        for loop in reversed(loops):
            moving = 0
            for axis, low in enumerate(mins):
                grown = self._grown(low, extents[axis], loop)
                if grown is None:
                    mins[axis], extents[axis] = const(0, "int32"), access.root.shape[axis]
                    whole = False
                elif grown[3]:
                    moving += 1
                    mins[axis], extents[axis] = grown[0], grown[1]
                    whole = whole and grown[2]
            # A diagonal touches fewer elements than its box has.
            whole = whole and moving <= 1
        return replace(access, mins=tuple(mins), extents=tuple(extents), whole=whole)

    def _grown(self, low: Expr, extent: Expr, loop: For) -> tuple[Expr, Expr, bool, bool] | None:
        """(min, extent, whether all of it is touched, whether the loop moves it) over a loop, None where the index is
        not linear in the loop's variable."""
        if not any(n is loop.var for n in walk(low)) and not any(n is loop.var for n in walk(extent)):
            return low, extent, True, False
        if any(n is loop.var for n in walk(extent)):
            return None
        simplifier = self.prover.simplifier
        total = simplifier.linear(low)
        number = simplifier.number(loop.var)
        factor = total.terms.get(number, 0)
        if any(index != number and any(n is loop.var for n in walk(simplifier.atoms[index])) for index in total.terms):
            return None
        if loop.step is not None and not isinstance(loop.step, IntImm):
            return None
        step = factor * (loop.step.value if isinstance(loop.step, IntImm) else 1)
        if factor == 0:
            return low, extent, True, False
        last = binary("sub", loop.extent, 1)
        start = replaced(low, {loop.var: loop.min})
        reach = binary("mul", last, abs(step))
        if step < 0:
            start = binary("sub", start, reach)
        dense = isinstance(extent, IntImm) and abs(step) <= extent.value
        grown = self.prover.simplify(binary("add", extent, reach))
        return self.prover.simplify(start), grown, dense, True

    # What has been written.

    def _note(self, access: IterationAccess) -> None:
        """Adds a written box, joined with a neighbour where the two make one."""
        for other in self.written:
            joined = self._joined(access, other)
            if joined is not None:
                self.written.append(access)
                access = joined
                break
        self.written.append(access)

    def _joined(self, a: IterationAccess, b: IterationAccess) -> IterationAccess | None:
        if a.root is not b.root or a.mins is None or b.mins is None or len(a.mins) != len(b.mins):
            return None
        different = [
            axis
            for axis in range(len(a.mins))
            if not (self._same(a.mins[axis], b.mins[axis]) and self._same(a.extents[axis], b.extents[axis]))
        ]
        if len(different) != 1:
            return None
        axis = different[0]
        for low, high in ((a, b), (b, a)):
            assert low.mins is not None and high.mins is not None
            if self._same(binary("add", low.mins[axis], low.extents[axis]), high.mins[axis]):
                mins, extents = list(low.mins), list(low.extents)
                extents[axis] = self.prover.simplify(binary("add", low.extents[axis], high.extents[axis]))
                return replace(low, mins=tuple(mins), extents=tuple(extents))
        return None

    def _covered(self, read: IterationAccess) -> bool:
        return any(w.root is read.root and self._inside(read, w) for w in self.written)

    def _inside(self, inner: IterationAccess, outer: IterationAccess) -> bool:
        if inner.root is not outer.root or outer.mins is None:
            return False
        if all(isinstance(m, IntImm) and m.value == 0 for m in outer.mins):
            if all(self._same(e, s) for e, s in zip(outer.extents, outer.root.shape)):
                return True
        if inner.mins is None or len(inner.mins) != len(outer.mins):
            return False
        for a, b, m, n in zip(inner.mins, outer.mins, inner.extents, outer.extents):
            if not self._at_most(b, a) or not self._at_most(binary("add", a, m), binary("add", b, n)):
                return False
        return True

    def _same(self, a: Expr, b: Expr) -> bool:
        difference = self.prover.simplify(binary("sub", a, b))
        return isinstance(difference, IntImm) and difference.value == 0

    def _at_most(self, a: Expr, b: Expr) -> bool:
        return self.prover.bounds(binary("sub", a, b)).hi <= 0


def _is_all(region: BufferRegion) -> bool:
    shape = region.buffer.static_shape()
    return (
        shape is not None
        and region.static_extents() == tuple(shape)
        and all(isinstance(m, IntImm) and m.value == 0 for m in region.mins)
    )


def _bytes(buffer: Buffer) -> int | None:
    shape = buffer.static_shape()
    if shape is None:
        return None
    count = buffer.dtype.bits * buffer.dtype.lanes
    for extent in shape:
        count *= extent
    return count
