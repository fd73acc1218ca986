"""Dependence: whether two accesses can touch the same element, and what it means when they do.

`dependences` gives the edges between the statements of a loop's body. An edge has a *distance*: the target's iteration
k + d depends on the source's iteration k. Distance 0 is the same iteration. `UNRESOLVED` stands for an edge from one
iteration to a later one which is there only because the storage is used again: where the storage gets a ring of
versions, the ring's width is its distance, else it is 1. `owner_exclusions` gives the edges between loops that use one
storage in turns: the second may begin to fill it when the first has read it for the last time.

Regions are compared exactly where they are constants, by intervals and moduli where they are not, and by the solver
last; the target's iteration is modelled by its loop variable moved on by d steps. What is not disproved is a
dependence. `ranges_apart` and `versions_apart` are the same questions about byte ranges.

`boxes_apart` compares the boxes that accesses cover over all iterations: it proves that two never meet, cheaply.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ..arith import Interval, Prover
from ..ir import Binary, Bind, Buffer, Expr, For, IntImm, Stmt, Var, binary, const, walk
from .access import AccessSite, root_buffer
from .iteration import IterationAccess, IterationAccesses, iteration_accesses

__all__ = [
    "UNRESOLVED",
    "Box",
    "Dependence",
    "LoopDependences",
    "boxes_apart",
    "covered_box",
    "dependences",
    "fixed_by",
    "owner_exclusions",
    "ranges_apart",
    "reduced",
    "versions_apart",
]

UNRESOLVED = -1
"""Distance of an edge that the width of a ring of versions decides."""

_FARTHEST = 16  # iterations looked ahead for the distance of an edge


@dataclass(frozen=True, slots=True)
class Dependence:
    """`target` must not run before `source`.

    Args:
        source, target: positions of statements in the loop's body (of loops in program order for an exclusion).
        kind: flow (write, read), anti (read, write), output (write, write), value (a name bound by the source), or
            exclusion (two owners of one storage).
        distance: iterations from source to target: 0, a number, or `UNRESOLVED`.
        buffer: the storage; None for a value.
        first, second: what the edge is about, with its places; None for a value.
        least: iterations that an unresolved edge spans at least, whatever the ring (where the kernel itself takes turns
            between parts of a buffer).
    """

    source: int
    target: int
    kind: str
    distance: int
    buffer: Buffer | None = None
    first: AccessSite | None = None
    second: AccessSite | None = None
    least: int = 1

    def resolved(self, width: int = 1) -> int:
        """The distance when the storage has `width` versions."""
        return max(width, self.least) if self.distance == UNRESOLVED else self.distance


@dataclass(frozen=True)
class LoopDependences:
    """The edges of a loop's body.

    Args:
        edges: each pair of statements, kind, distance and storage once.
        rings: storages whose every iteration holds a complete epoch (first written, then read), so that iterations may
            have a version each.
        accesses: what was compared.
    """

    edges: tuple[Dependence, ...]
    rings: frozenset[Buffer]
    accesses: IterationAccesses
    solver_queries: int = 0


def dependences(
    loop: For, statements: Sequence[Stmt], binds: Iterable[Bind], prover: Prover, storages: Iterable[Buffer] = ()
) -> LoopDependences:
    """The edges between the statements of a loop's body.

    Args:
        loop: its variable is what iterations differ by.
        statements: in program order.
        binds: values that are computed ahead of them.
        prover: knows what holds round the loop; may ask the solver where it is allowed to.
        storages: buffers that could have versions, if their epochs allow it.
    """
    step = loop.step.value if isinstance(loop.step, IntImm) else 1
    with prover.bind(loop.var, loop.min, loop.extent, step):
        found = iteration_accesses(statements, binds, prover)
        exposed = {access.root for access in found.exposed}
        rings = frozenset(b for b in storages if root_buffer(b) is b and b not in exposed)
        edges = _Edges(loop, prover, rings)
        for source in found.accesses:
            for target in found.accesses:
                if source.root is target.root and (source.writes or target.writes):
                    edges.between(source, target)
        edges.values(statements)
    return LoopDependences(tuple(edges.found), rings, found, prover.solver_queries)


class _Edges:
    def __init__(self, loop: For, prover: Prover, rings: frozenset[Buffer]) -> None:
        self.loop = loop
        self.prover = prover
        self.rings = rings
        self.found: list[Dependence] = []
        self.known: set[tuple[int, int, str, int, int]] = set()

    def between(self, source: IterationAccess, target: IterationAccess) -> None:
        if source.site.atomic and target.site.atomic:
            return
        if source.statement < target.statement and self.may_meet(source, target, 0):
            self._add(source, target, 0)
        if source.root in self.rings:
            # Every read sees its own iteration's write: what is left is the use of the storage again.
            least = self.carried(source, target) if target.writes else None
            if least is not None:
                self._add(source, target, UNRESOLVED, least)
            return
        distance = self.carried(source, target)
        if distance is not None:
            self._add(source, target, distance)

    def carried(self, source: IterationAccess, target: IterationAccess) -> int | None:
        """The least number of iterations after which `target` may meet what `source` touched; None for never."""
        if not self._moves(source) and not self._moves(target):
            return 1 if self.may_meet(source, target, 1) else None
        limit = self.loop.extent.value if isinstance(self.loop.extent, IntImm) else _FARTHEST + 1
        for distance in range(1, min(limit, _FARTHEST + 1)):
            if self.may_meet(source, target, distance):
                return distance
        if limit <= _FARTHEST + 1 and isinstance(self.loop.extent, IntImm):
            return None
        ahead = Var(f"{self.loop.var.name}_later", self.loop.var.dtype)
        with self.prover.bind(ahead, _FARTHEST + 1, binary("max", self.loop.extent, 1)):
            return _FARTHEST + 1 if self.may_meet(source, target, ahead) else None

    def may_meet(self, source: IterationAccess, target: IterationAccess, distance: int | Expr) -> bool:
        """Whether `target`, that many iterations later, may touch an element that `source` touches."""
        if source.mins is None or target.mins is None or len(source.mins) != len(target.mins):
            return True
        if not (isinstance(distance, int) and distance == 0):
            step = self.loop.step if self.loop.step is not None else const(1, self.loop.var.dtype)
            later = binary("add", self.loop.var, binary("mul", step, distance))
            target = target.moved({self.loop.var: later})
        assert source.mins is not None and target.mins is not None
        unsure: list[Expr] = []
        for low, extent, other, length in zip(source.mins, source.extents, target.mins, target.extents):
            before = binary("le", binary("add", low, extent), other)
            after = binary("le", binary("add", other, length), low)
            gap = self.prover.bounds(binary("sub", other, low))
            if gap.lo >= self.prover.bounds(extent).hi or -gap.hi >= self.prover.bounds(length).hi:
                return False
            unsure.append(binary("or", before, after))
        if all(isinstance(self.prover.simplify(part), IntImm) for part in unsure):
            return not any(self.prover.proves(part) for part in unsure)
        if not any(any(n is self.loop.var for n in walk(part)) for part in unsure):
            return True
        apart = unsure[0]
        for part in unsure[1:]:
            apart = binary("or", apart, part)
        return not self.prover.proves(apart)

    def values(self, statements: Sequence[Stmt]) -> None:
        """Edges from a name that a statement binds to the statements that say it."""
        for position, stmt in enumerate(statements):
            if not isinstance(stmt, Bind):
                continue
            for later in range(position + 1, len(statements)):
                if any(n is stmt.var for n in walk(statements[later])):
                    self.found.append(Dependence(position, later, "value", 0))

    def _moves(self, access: IterationAccess) -> bool:
        parts = (*(access.mins or ()), *access.extents)
        return any(n is self.loop.var for part in parts for n in walk(part))

    def _add(self, source: IterationAccess, target: IterationAccess, distance: int, least: int = 1) -> None:
        if distance == UNRESOLVED:
            kind = "anti" if source.reads else "output"
        else:
            kind = "anti" if not source.writes else "flow" if target.reads else "output"
        key = (source.statement, target.statement, kind, distance, id(source.root))
        if key in self.known:
            return
        self.known.add(key)
        places = (source.site, target.site)
        self.found.append(
            Dependence(source.statement, target.statement, kind, distance, source.root, *places, least=least)
        )


def owner_exclusions(owners: Sequence[Sequence[AccessSite]]) -> list[Dependence]:
    """Edges between loops that use one storage in turns.

    Args:
        owners: for each loop, in program order, its accesses to storages that it fills and reads itself.

    An edge goes from a loop to the next one that uses the storage, from its last access to the other's first write.
    """
    found: list[Dependence] = []
    roots = dict.fromkeys(root_buffer(site.buffer) for sites in owners for site in sites)
    for root in roots:
        previous: tuple[int, AccessSite] | None = None
        for number, sites in enumerate(owners):
            own = [site for site in sites if root_buffer(site.buffer) is root]
            if not own:
                continue
            writes = [site for site in own if site.writes]
            if previous is not None and writes:
                found.append(Dependence(previous[0], number, "exclusion", 0, root, previous[1], writes[0]))
            previous = (number, own[-1])
    return found


def reduced(edges: Iterable[Dependence], count: int, widths: dict[Buffer, int]) -> list[Dependence]:
    """The edges that no others imply: an edge is implied where a path of others leads from its source to its target in
    at most as many iterations.

    Args:
        edges: of one loop.
        count: statements of its body.
        widths: versions of each storage; 1 where not named.
    """
    weighted: dict[tuple[int, int], tuple[int, Dependence]] = {}
    for edge in edges:
        distance = edge.resolved(widths.get(edge.buffer, 1) if edge.buffer is not None else 1)
        if edge.source == edge.target:
            continue  # a statement's own iterations follow one another in every thread
        known = weighted.get((edge.source, edge.target))
        if known is None or distance < known[0]:
            weighted[edge.source, edge.target] = (distance, edge)
    kept: list[Dependence] = []
    live = dict(weighted)
    for (source, target), (distance, edge) in sorted(weighted.items(), key=lambda item: (-item[1][0], item[0])):
        del live[source, target]
        if _shortest(live, source, target, count) > distance:
            live[source, target] = (distance, edge)
            kept.append(edge)
    return kept


def _shortest(edges: dict[tuple[int, int], tuple[int, Dependence]], source: int, target: int, count: int) -> float:
    best = [float("inf")] * count
    best[source] = 0
    for _ in range(count):
        for (a, b), (distance, _edge) in edges.items():
            best[b] = min(best[b], best[a] + distance)
    return best[target]


def ranges_apart(a: tuple[Expr, Expr], b: tuple[Expr, Expr], prover: Prover) -> bool:
    """Whether two ranges [low, high) have nothing in common, by what their ends can be; the solver is not asked."""
    low_a, high_a = prover.bounds(a[0]).lo, prover.bounds(a[1]).hi
    low_b, high_b = prover.bounds(b[0]).lo, prover.bounds(b[1]).hi
    return high_a <= low_b or high_b <= low_a


def versions_apart(a: tuple[Expr, Expr], b: tuple[Expr, Expr], offset: int, prover: Prover) -> bool:
    """Whether two ranges [low, high) of one buffer lie in different versions of it: ``(e % n) * size`` with remainders
    that differ by a constant which n does not divide.

    Args:
        a, b: bytes.
        offset: of the buffer in what the bytes are counted in.
        prover: what is known.
    """
    first, second = _version(a[0]), _version(b[0])
    if first is None or second is None or first[1:] != second[1:]:
        return False
    difference = prover.simplify(binary("sub", first[0], second[0]))
    if not isinstance(difference, IntImm) or difference.value % first[1] == 0:
        return False
    return all(_in_version(x, v, offset, prover) for x, v in ((a, first), (b, second)))


def _in_version(given: tuple[Expr, Expr], version: tuple[Expr, int, int], offset: int, prover: Prover) -> bool:
    index, count, size = version
    length = prover.simplify(binary("sub", given[1], given[0]))
    rest = binary("sub", given[0], binary("mul", binary("floormod", index, count), size))
    bounds = prover.bounds(prover.simplify(rest))
    return isinstance(length, IntImm) and bounds.lo >= offset and bounds.hi + length.value <= offset + size


def _version(low: Expr) -> tuple[Expr, int, int] | None:
    """(e, n, size) of the largest term ``(e % n) * size`` of a sum."""
    best: tuple[Expr, int, int] | None = None
    stack: list[tuple[Expr, int]] = [(low, 1)]
    while stack:
        node, factor = stack.pop()
        if isinstance(node, Binary) and node.op == "add":
            stack += [(node.a, factor), (node.b, factor)]
        elif isinstance(node, Binary) and node.op == "mul" and isinstance(node.b, IntImm):
            stack.append((node.a, factor * node.b.value))
        elif isinstance(node, Binary) and node.op in ("floormod", "truncmod") and isinstance(node.b, IntImm):
            if best is None or factor > best[2]:
                best = (node.a, node.b.value, factor)
    return best


@dataclass(frozen=True, slots=True)
class Box:
    """What an access covers at most, over all iterations: an interval for each axis, or None for "anything" (seen
    through a view)."""

    axes: tuple[Interval, ...] | None

    def apart_from(self, other: Box) -> bool:
        """Whether the two have no element in common."""
        if self.axes is None or other.axes is None or len(self.axes) != len(other.axes):
            return False
        return any(a.hi < b.lo or b.hi < a.lo for a, b in zip(self.axes, other.axes))


def covered_box(site: AccessSite, prover: Prover) -> Box:
    """The box of an access under what the prover knows where it stands."""
    if root_buffer(site.buffer) is not site.buffer:
        return Box(None)
    axes = []
    for low, extent in zip(site.region.mins, site.region.extents):
        axes.append(Interval(_low(low, prover), _high(low, extent, prover)))
    return Box(tuple(axes))


def boxes_apart(first: AccessSite, second: AccessSite, prover: Prover) -> bool:
    """Whether two accesses, at any two points of their loops, never touch one element."""
    if root_buffer(first.buffer) is not root_buffer(second.buffer):
        return True
    return covered_box(first, prover).apart_from(covered_box(second, prover))


def fixed_by(indices: list[Expr], prover: Prover) -> list[Expr]:
    """Expressions whose values are the same wherever the given indices are.

    Two rules that intervals do not know, since the divisors are symbolic: `i*n + j` with 0 ≤ j < n fixes i and j; and
    `m // s` with
    `m % s` fixes m, also where the remainder is itself taken apart (`m % (h*w) // w` with `m % w`).
    """
    known: dict[int, Expr] = {}
    found: list[Expr] = []
    work = [prover.simplify(index) for index in indices]
    while work:
        expr = work.pop()
        if id(expr) in known or not expr.dtype.is_int or expr.dtype.lanes != 1:
            continue
        known[id(expr)] = expr
        found.append(expr)
        work += _parts(expr, prover)
        work += _joined(known, prover)
    return found


def _parts(expr: Expr, prover: Prover) -> list[Expr]:
    """Quotient and remainder by a symbolic factor of the expression, where they come out without division."""
    simplifier = prover.simplifier
    factors: dict[int, None] = {}
    for index in simplifier.linear(expr).terms:
        factors.update(dict.fromkeys(simplifier.factors.get(index, ())))
    found: list[Expr] = []
    for factor in factors:
        divisor = simplifier.atoms[factor]
        if prover.bounds(divisor).lo < 1:
            # A factor of 0 fixes nothing.
            continue
        quotient = prover.simplify(binary("floordiv", expr, divisor))
        if not (isinstance(quotient, Binary) and quotient.op == "floordiv"):
            found += [quotient, prover.simplify(binary("floormod", expr, divisor))]
    return found


def _joined(known: dict[int, Expr], prover: Prover) -> list[Expr]:
    """Dividends whose quotient and remainder by one divisor are both known."""
    quotients = [e for e in known.values() if isinstance(e, Binary) and e.op == "floordiv"]
    remainders = {(id(e.a), id(e.b)) for e in known.values() if isinstance(e, Binary) and e.op == "floormod"}
    found: list[Expr] = []
    for quotient in quotients:
        dividend, divisor = quotient.a, quotient.b
        if (id(dividend), id(divisor)) in remainders:
            found.append(dividend)
        elif isinstance(dividend, Binary) and dividend.op == "floormod" and (id(dividend.a), id(divisor)) in remainders:
            # m % s // w and m % w fix m % s when w divides s.
            if _divides(divisor, dividend.b, prover):
                found.append(dividend)
    return found


def _divides(divisor: Expr, product: Expr, prover: Prover) -> bool:
    if isinstance(divisor, IntImm):
        return divisor.value > 0 and prover.divides(divisor.value, product)
    simplifier = prover.simplifier
    number = simplifier.number(divisor)
    return all(number in simplifier.factors.get(i, (i,)) for i in simplifier.linear(product).terms) and not (
        simplifier.linear(product).const
    )


def _low(low: Expr, prover: Prover) -> int | float:
    return prover.bounds(low).lo


def _high(low: Expr, extent: Expr, prover: Prover) -> int | float:
    return prover.bounds(low + extent - 1).hi
