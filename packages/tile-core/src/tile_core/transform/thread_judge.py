"""Whether two accesses to shared memory by different threads may meet on a byte: the question that ThreadSync asks."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from ..analysis.access import root_buffer
from ..analysis.dependence import ranges_apart, versions_apart
from ..analysis.memory_access import SharedAccess
from ..arith import Prover
from ..ir import (
    AccessPtr,
    Binary,
    Bind,
    Buffer,
    BufferLoad,
    BufferStore,
    Call,
    Expr,
    For,
    IntImm,
    KernelLaunch,
    Stmt,
    Var,
    binary,
    const,
    walk,
)
from .thread_variance import gives_each, variant_symbols

__all__ = ["ThreadJudge"]


class ThreadJudge:
    """Decides whether two accesses by different threads may meet on a byte."""

    def __init__(self, launch: KernelLaunch, threads: list[Var], extents: list[int]) -> None:
        self.threads = threads
        self.extents = extents
        self.extent_of = dict(zip(threads, extents))
        self.prover = Prover()
        self.divergent_vars: set[Var] = set(threads)
        self.divergent_arrays = _divergent_arrays(launch)
        self.active: list[For] = []
        self.independent = False
        self.ranges: dict[Var, tuple[Expr, Expr]] = {}
        for var, extent in zip(launch.grid_vars, launch.grid):
            self.prover.bind(var, 0, extent)
        self.known: dict[tuple[Any, ...], bool] = {}
        self.keys: dict[int, tuple[Expr, tuple[Any, ...]]] = {}
        self.reaches: dict[tuple[Any, ...], tuple[Any, Any]] = {}

    @property
    def queries(self) -> int:
        return self.prover.solver_queries

    def note(self, node: Stmt) -> None:
        """Remembers binds whose values differ between threads."""
        if isinstance(node, Bind) and not self.uniform(node.value):
            self.divergent_vars.add(node.var)

    def uniform(self, expr: Expr) -> bool:
        """Whether all threads of a block compute the same value: it depends on no thread index, and on a thread's own
        memory only where that holds the same for all."""
        for item in walk(expr):
            if isinstance(item, Var) and item in self.divergent_vars:
                return False
            if isinstance(item, BufferLoad) and item.buffer.memory.level == "thread":
                if root_buffer(item.buffer) in self.divergent_arrays:
                    return False
            if isinstance(item, Call) and gives_each(item):
                return False
        return True

    def enter(self, loop: For) -> None:
        """A loop whose variable is the same for both accesses, while inside."""
        self.active.append(loop)
        self.ranges[loop.var] = _values(loop)
        if not (self.uniform(loop.min) and self.uniform(loop.extent)):
            self.divergent_vars.add(loop.var)

    def leave(self, loop: For) -> None:
        self.active.pop()

    def first_conflict(
        self, earlier: list[SharedAccess], later: list[SharedAccess]
    ) -> tuple[SharedAccess, SharedAccess] | None:
        """The first pair that may race."""
        if self.independent:
            return None
        for b in later:
            for a in earlier:
                if a.root is b.root and (a.writes or b.writes) and not (a.atomic and b.atomic):
                    if self.may_meet(a, b):
                        return a, b
        return None

    def may_meet(self, a: SharedAccess, b: SharedAccess, threads: str = "distinct") -> bool:
        """Whether two threads, distinct ones or any, or the same one twice, may touch one byte. What is not disproved
        may be."""
        low_a, high_a = self._reach(a)
        low_b, high_b = self._reach(b)
        if high_a <= low_b or high_b <= low_a:
            return False
        parts = (a.low, a.high, b.low, b.high, *a.conditions, *b.conditions)
        key = (*map(self.key, parts), len(a.conditions), len(self.active), threads)
        known = self.known.get(key)
        if known is None:
            known = self.known[key] = not self._apart(a, b, threads)
        return known

    def key(self, expr: Expr) -> tuple[Any, ...]:
        """The same for equal expressions of the same variables: their names do not tell them apart."""
        found = self.keys.get(id(expr))
        if found is None:
            variables = (id(node) for node in walk(expr) if isinstance(node, Var))
            found = self.keys[id(expr)] = (expr, (repr(expr), *variables))
        return found[1]

    def mentions(self, access: SharedAccess, var: Var) -> bool:
        """Whether an access depends on a variable."""
        return any(id(var) in self.key(e)[1:] for e in (access.low, access.high, *access.conditions))

    def _reach(self, access: SharedAccess) -> tuple[Any, Any]:
        """The bytes [low, high) that all threads touch at most, in all iterations."""
        key = (self.key(access.low), self.key(access.high))
        found = self.reaches.get(key)
        if found is None:
            with _Scope(self.prover) as scope:
                for var in _variables(replace(access, conditions=())):
                    self._range(scope, var, {})
                ends = self.prover.bounds(access.low).lo, self.prover.bounds(access.high).hi
            found = self.reaches[key] = ends
        return found

    def _apart(self, a: SharedAccess, b: SharedAccess, threads: str) -> bool:
        shared = {loop.var for loop in self.active}
        renamed: dict[Any, Expr] = {}
        kept = set(self.threads) if threads == "same" else set()
        for var in _variables(a):
            if var not in kept and (var in self.divergent_vars or (var in self.ranges and var not in shared)):
                renamed[var] = Var(f"{var.name}_other", var.dtype)
        moved = a.moved(renamed)
        with _Scope(self.prover) as scope:
            for var in {*_variables(moved), *_variables(b)}:
                self._range(scope, var, renamed)
            # That their bounds meet without the conditions is known here.
            ranges = (moved.low, moved.high), (b.low, b.high)
            if a.buffer is b.buffer and versions_apart(*ranges, _offset(a.buffer), self.prover):
                return True
            conditions = (*moved.conditions, *b.conditions)
            for condition in conditions:
                scope.assume(condition)
            if conditions and (self.prover.contradictory or ranges_apart(*ranges, self.prover)):
                return True
            # Threads or iterations that leave their version are often those that a condition leaves out.
            if conditions and a.buffer is b.buffer and versions_apart(*ranges, _offset(a.buffer), self.prover):
                return True
            different: Expr | None = None
            for thread in self.threads:
                if thread in renamed:
                    other = binary("ne", thread, renamed[thread])
                    different = other if different is None else binary("or", different, other)
            if (
                threads == "distinct"
                and different is not None
                and all(t in renamed or e == 1 for t, e in zip(self.threads, self.extents))
            ):
                scope.assume(different)
            if threads != "same" and self._meet_in_tables(a, b, shared, threads == "distinct"):
                return False
            disjoint = binary("or", binary("le", moved.high, b.low), binary("le", b.high, moved.low))
            return self.prover.proves(disjoint)

    def _meet_in_tables(self, a: SharedAccess, b: SharedAccess, shared: set[Var], distinct: bool) -> bool:
        """Whether two threads are found that do meet, by the addresses of all threads and iterations with the variables
        that both share at one value; sparing the prover the search for a counterexample. Found none, nothing is known.
        """
        variables = list(dict.fromkeys((*_variables(a), *_variables(b))))
        extents = {v: self._constant_range(v) for v in variables}
        if any(e is None or e[1] <= 0 for e in extents.values()):
            return False
        ranges = {v: e for v, e in extents.items() if e is not None}
        own = {v for v in variables if v in self.divergent_vars or (v in self.ranges and v not in shared)}
        fixed = {v: low + (extent - 1) // 2 for v, (low, extent) in ranges.items() if v not in own}
        tables = [_addresses(access, ranges, fixed, self.threads) for access in (a, b)]
        if tables[0] is None or tables[1] is None:
            return False
        return _overlap(tables[0], tables[1], distinct)

    def _constant_range(self, var: Var) -> tuple[int, int] | None:
        if var in self.extent_of:
            return 0, self.extent_of[var]
        low, extent = self.ranges.get(var, (None, None))
        if isinstance(low, IntImm) and isinstance(extent, IntImm):
            return low.value, extent.value
        return None

    def _range(self, scope: _Scope, var: Var, renamed: dict[Any, Expr]) -> None:
        original = next((k for k, v in renamed.items() if v is var), var)
        if original in self.extent_of:
            scope.bind(var, const(0, var.dtype), const(self.extent_of[original], var.dtype))
        elif original in self.ranges:
            low, extent = self.ranges[original]
            scope.bind(var, low, extent)

    def threads_where(self, conditions: list[Expr]) -> tuple[int, int] | None:
        """(first, count) of the threads for which conditions of the forms ``tx < n``, ``tx >= n`` hold, or None."""
        if len(self.threads) != 1:
            return None
        low, high = 0, self.extents[0]
        for condition in conditions:
            bound = _bound_on(condition, self.threads[0])
            if bound is None:
                return None
            low, high = max(low, bound[0]), min(high, bound[1])
        return (low, high - low) if high > low else None


_MOST_POINTS = 1 << 14


def _addresses(
    access: SharedAccess, ranges: dict[Var, tuple[int, int]], fixed: dict[Var, int], threads: list[Var]
) -> tuple[Any, Any, Any] | None:
    """(first bytes, bytes after the last, threads) of an access at all values of its own variables, or None."""
    import numpy as np

    from ..layout.tables import evaluate_map

    used = list(dict.fromkeys((*_variables(access), *(t for t in threads if t in ranges))))
    axes = [np.arange(ranges[v][0], ranges[v][0] + ranges[v][1]) for v in used if v not in fixed]
    if math.prod(len(axis) for axis in axes) > _MOST_POINTS:
        return None
    grids = iter(np.meshgrid(*axes, indexing="ij"))
    points = [np.asarray(fixed[v]) if v in fixed else next(grids).ravel() for v in used]
    size = max((p.size for p in points), default=1)
    try:
        found = evaluate_map(tuple(used), (access.low, access.high, *access.conditions), points)
    except (TypeError, KeyError, ZeroDivisionError):
        return None
    low, high, *conditions = (np.broadcast_to(x, (size,)) for x in found)
    number: Any = np.zeros(size, dtype=np.int64)
    place = {v: i for i, v in enumerate(used)}
    for thread in reversed(threads):
        if thread in place:
            number = number * ranges[thread][1] + np.broadcast_to(points[place[thread]], (size,))
    taken = np.ones(size, dtype=bool)
    for condition in conditions:
        taken &= condition.astype(bool)
    return low[taken], high[taken], number[taken]


def _overlap(a: tuple[Any, Any, Any], b: tuple[Any, Any, Any], distinct: bool) -> bool:
    """Whether an interval of `a` surely meets one of `b`, of another thread if asked."""
    import numpy as np

    (low, high, owner), (start, stop, other) = a, b
    if not low.size or not start.size:
        return False
    order = np.argsort(low, kind="stable")
    low, high, owner = low[order], high[order], owner[order]
    least = int((high - low).min())
    # Those that begin before an interval's end and less than the shortest length before its start.
    first, after = np.searchsorted(low, start - least, "right"), np.searchsorted(low, stop, "left")
    some = after > first
    if not distinct or not some.any():
        return bool(some.any())
    return bool(((owner[first[some]] != other[some]) | (owner[after[some] - 1] != other[some])).any())


def _values(loop: For) -> tuple[Expr, Expr]:
    """(least value, extent) of an interval that a loop's variable stays in."""
    if loop.step is None:
        return loop.min, loop.extent
    reach = binary("mul", binary("sub", loop.extent, 1), loop.step)
    if isinstance(loop.step, IntImm) and loop.step.value < 0:
        return binary("add", loop.min, reach), binary("sub", const(1, reach.dtype), reach)
    return loop.min, binary("add", reach, 1)


def _bound_on(condition: Expr, thread: Var) -> tuple[int, int] | None:
    if not isinstance(condition, Binary) or condition.a is not thread or not isinstance(condition.b, IntImm):
        return None
    value, top = condition.b.value, 1 << 30
    return {"lt": (0, value), "le": (0, value + 1), "ge": (value, top), "gt": (value + 1, top)}.get(condition.op)


class _Scope:
    """Facts that hold while two accesses are compared."""

    def __init__(self, prover: Prover) -> None:
        self.prover = prover
        self.opened: list[Any] = []

    def __enter__(self) -> _Scope:
        return self

    def bind(self, var: Var, low: Expr, extent: Expr) -> None:
        self._open(self.prover.bind(var, low, extent))

    def assume(self, condition: Expr) -> None:
        self._open(self.prover.assume(condition))

    def _open(self, fact: Any) -> None:
        fact.__enter__()
        self.opened.append(fact)

    def __exit__(self, *error: Any) -> None:
        while self.opened:
            self.opened.pop().__exit__(None, None, None)


def _variables(access: SharedAccess) -> list[Var]:
    found: dict[Var, None] = {}
    for expr in (access.low, access.high, *access.conditions):
        found.update((n, None) for n in walk(expr) if isinstance(n, Var))
    return list(found)


def _offset(buffer: Buffer) -> int:
    """Bytes from the start of the arena to that of a view in it."""
    offset = 0
    while buffer.data is not None:
        if isinstance(buffer.offset, IntImm):
            offset += buffer.offset.value * buffer.data.dtype.storage_bits // 8
        buffer = buffer.data
    return offset


def _divergent_arrays(launch: KernelLaunch) -> set[Buffer]:
    """Threads' own memory that does not hold the same for all: what is stored there, or where, or whether, differs; or
    an instruction fills it."""
    found = {root_buffer(b) for b in variant_symbols(launch, True) if isinstance(b, Buffer)}
    for node in walk(launch.body):
        if isinstance(node, AccessPtr) and node.mode != "r":
            found.add(root_buffer(node.buffer))
        elif isinstance(node, BufferStore) and node.buffer.data is not None:
            # What is stored through a view is seen through others.
            found.add(root_buffer(node.buffer))
    return found
