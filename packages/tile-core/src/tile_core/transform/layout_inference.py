"""LayoutInference: every on-chip buffer gets its layout.

Needs CHOSEN, leaves LAID_OUT: each Block says ``layouts`` for what it allocates. The chosen candidates state
constraints, ``strict`` before ``common`` before ``free``; an op is asked again when a buffer of its gets a layout, so
that layouts spread through a kernel. What nobody asks for is row-major. The user's T.annotate_layout is strict and
never gives way.

When two strict constraints differ, the op whose choice is worth less (what its next candidate would cost more) takes
its next candidate and inference starts again; there are finitely many candidates, so it ends. A conflict that remains
names both ops, lines and layouts.

A backend whose blocks have threads passes a `placement` (see `Placement`): tiles in registers then get Fragments, and
parallel loops take part like ops.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from ..analysis import root_buffer
from ..arith import Prover
from ..errors import CompileError, declare_codes
from ..ir import (
    AccessPtr,
    Attr,
    Block,
    Buffer,
    BufferLoad,
    BufferStore,
    For,
    KernelLaunch,
    PrimFunc,
    Stmt,
    TileOpStmt,
    Visitor,
    walk,
)
from ..layout import Fragment, Layout, row_major
from ..tileop import Candidate, Constraint, Facts
from .base import Pass, PassContext, Rewriter, register_pass
from .select_instructions import block_threads, narrowed, rank_candidates

__all__ = ["LayoutInference", "Placement"]

declare_codes(
    {
        "E-LAYOUT-CONFLICT": "two uses of a buffer need different layouts",
        "E-LAYOUT-PART": "a tile in registers that different threads of a block use",
        "E-LAYOUT-VIEW": "a view of a tile in registers as elements of another type",
    }
)

_STRENGTHS = ("strict", "common", "free")


class Placement(Protocol):
    """What a backend with threads says about tiles in registers and about parallel loops."""

    def takes(self, buffer: Buffer) -> bool:
        """Whether a buffer is laid out as a Fragment."""
        ...

    def loop(self, loop: For, facts: Facts) -> Iterable[Constraint]:
        """What the nest of parallel loops that begins at `loop` wants."""
        ...

    def outside(self, buffer: Buffer, facts: Facts) -> Fragment:
        """The fragment of a tile of which elements are used outside of ops and parallel loops."""
        ...

    def default(self, buffer: Buffer, facts: Facts) -> Fragment:
        """The fragment of a tile that nobody asked about."""
        ...

    def memory(self, buffer: Buffer, uses: list[tuple[Candidate | None, Stmt]], facts: Facts) -> Layout | None:
        """The layout of a tile in memory that nobody asked about, or None for row-major; `uses` are nests of parallel
        loops (with None) and ops with their candidates."""
        ...

    def size(self, buffers: Iterable[Buffer]) -> int:
        """A key: of the uses without a stronger wish, those with larger ones choose first."""
        ...


@register_pass("LayoutInference", needs="CHOSEN", leaves="LAID_OUT")
class LayoutInference(Pass):
    """Args: placement: of a backend with threads."""

    def __init__(self, placement: Placement | None = None) -> None:
        self.placement = placement

    def function(self, function: PrimFunc, context: PassContext) -> PrimFunc:
        annotate = _Annotate()
        # Each launch is a problem of its own: its threads and its tiles are its own.
        for launch in [n for n in walk(function.body) if isinstance(n, KernelLaunch)]:
            prover = Prover()
            problem = _Problem(context, prover, self.placement)
            problem.visit(launch)
            problem.check_parts()
            annotate.layouts.update(problem.solve())
            context.solver_queries += prover.solver_queries
            problem.report()
            uses = [use for use in problem.uses if not isinstance(use, _LoopUse)]
            annotate.taken.update((id(use.stmt), use.candidate.name) for use in uses)
            annotate.views.update(problem.views)
        return annotate.rewrite(function)


@dataclass(eq=False)
class _Use:
    """An op with its candidates, best first; `position` is the one in use."""

    stmt: Any
    ranked: list[tuple[Candidate, float]]
    position: int = 0
    narrowing: Any = None
    given_up: list[tuple[str, str]] = field(default_factory=list)

    @property
    def candidate(self) -> Candidate:
        return self.ranked[self.position][0]

    @property
    def value(self) -> float:
        """What giving up the choice would cost."""
        if self.position + 1 == len(self.ranked):
            return math.inf
        return self.ranked[self.position + 1][1] - self.ranked[self.position][1]

    @property
    def label(self) -> str:
        return f"T.{self.stmt.op.name} ({self.candidate.name})"

    def constraints(self, facts: Facts) -> Iterable[Constraint]:
        """What the choice in use wants."""
        return self.candidate.constraints(self.stmt.op, facts)

    def buffers(self) -> list[Buffer]:
        """The buffers that it uses."""
        return [region.buffer for _, _, region in self.stmt.op.operands()]


@dataclass(eq=False)
class _LoopUse(_Use):
    """A nest of parallel loops; it has no candidates to choose from."""

    placement: Any = None

    @property
    def value(self) -> float:
        return math.inf

    @property
    def label(self) -> str:
        return "T.Parallel"

    def constraints(self, facts: Facts) -> Iterable[Constraint]:
        return self.placement.loop(self.stmt, facts)

    def buffers(self) -> list[Buffer]:
        accesses = (BufferLoad, BufferStore, AccessPtr)
        return list(dict.fromkeys(n.buffer for n in walk(self.stmt) if isinstance(n, accesses)))


@dataclass
class _Demand:
    """A layout that someone asks for: an op, or (use None) the user or a raw access."""

    layout: Layout | Fragment
    strength: str
    use: _Use | None
    label: str
    span: Any = None


class _Problem(Visitor):
    """Collects ops, buffers and fixed demands in one walk, then solves."""

    def __init__(self, context: PassContext, prover: Prover, placement: Placement | None) -> None:
        super().__init__()
        self.context = context
        self.placement = placement
        self.in_parallel = False
        # The statement round this point that says which threads execute, or None.
        self.narrowing: Attr | None = None
        # A variable is bound once in a function, so all ranges may hold at the same time.
        self.facts = Facts(context.target, prover, context.options)
        self.uses: list[_Use] = []
        self.buffers: list[Buffer] = []
        self.fixed: dict[Buffer, list[_Demand]] = {}
        self.users: dict[Buffer, list[_Use]] = {}
        # Tile → its views that show the same elements in another shape: a layout of one is a layout of all.
        self.views: dict[Buffer, dict[Buffer, None]] = {}
        self.reason = ""

    # Collecting

    def visit_KernelLaunch(self, node: KernelLaunch) -> None:
        self.facts.threads = block_threads(node)
        self.facts.launch = node
        for var, extent in (*zip(node.grid_vars, node.grid), *zip(node.thread_vars, node.threads)):
            self.facts.prover.bind(var, 0, extent)
        self.visit_children(node)

    def visit_Attr(self, node: Attr) -> None:
        outer = self.narrowing
        if node.key == "executors":
            self.narrowing = node
        with narrowed(self.facts, node):
            self.visit_children(node)
        self.narrowing = outer

    def visit_For(self, node: For) -> None:
        if node.step is None:
            self.facts.prover.bind(node.var, node.min, node.extent)
        if self.placement is None or node.kind != "parallel" or self.in_parallel:
            self.visit_children(node)
            return
        use = _LoopUse(node, [], narrowing=self.narrowing, placement=self.placement)
        self.uses.append(use)
        for buffer in use.buffers():
            self.users.setdefault(buffer, []).append(use)
        self.in_parallel = True
        self.visit_children(node)
        self.in_parallel = False

    def visit_Block(self, node: Block) -> None:
        self.buffers += [b for b in node.allocations if needs_layout(b)]
        for buffer, layout in node.annotation("layouts", ()):
            # A Fragment says which thread holds what, not where it lies in memory: that is for backends with threads.
            in_registers = self.placement is not None and self.placement.takes(buffer)
            if isinstance(layout, Fragment if in_registers else Layout):
                if isinstance(layout, Layout):
                    layout.require_injective(buffer.name, node.span)
                else:
                    layout.require_distinct(buffer.name, node.span)
                demand = _Demand(layout, "strict", None, "T.annotate_layout", node.span)
                self.fixed.setdefault(buffer, []).append(demand)
        self.visit_children(node)

    def visit_TileOpStmt(self, node: TileOpStmt) -> None:
        ranked = list(rank_candidates(node.op, self.facts, self.context).legal)
        names = [c.name for c, _ in ranked]
        use = _Use(node, ranked, names.index(node.candidate) if node.candidate in names else 0, self.narrowing)
        self.uses.append(use)
        for _, _, region in node.op.operands():
            self.users.setdefault(region.buffer, []).append(use)
            self._view(region.buffer, node)
        self.visit_children(node)

    def visit_BufferLoad(self, node: BufferLoad) -> None:
        self._element(node)

    def visit_BufferStore(self, node: BufferStore) -> None:
        self._element(node)

    def _element(self, node: Any) -> None:
        self._view(node.buffer, node)
        if self.placement is not None and not self.in_parallel and self.placement.takes(node.buffer):
            fragment = self.placement.outside(node.buffer, self.facts)
            self._demand(node.buffer, fragment, node, "a use of single elements outside of T.Parallel")
        self.visit_children(node)

    def visit_AccessPtr(self, node: AccessPtr) -> None:
        self._plain(root_buffer(node.buffer), node, "a pointer taken to it")
        self.visit_children(node)

    def _view(self, buffer: Buffer, node: Any) -> None:
        if buffer.data is None:
            return
        root = root_buffer(buffer)
        if not needs_layout(root):
            return
        if reshapes(buffer):
            self.views.setdefault(root, {}).setdefault(buffer)
        elif self.placement is not None and self.placement.takes(root):
            raise CompileError(
                "E-LAYOUT-VIEW",
                f"{buffer.name} shows {root.name}, a tile in registers, as {buffer.dtype}",
                span=node.span,
                facts=[f"{root!r} is spread over the threads of the block, element by element"],
                help=f"T.copy {root.name} to shared memory and view it there, or convert values with T.reinterpret",
            )
        else:
            self._plain(root, node, f"its view {buffer.name}")

    def _plain(self, buffer: Buffer, node: Any, label: str) -> None:
        """A use that sees storage as it lies keeps a buffer row-major."""
        if needs_layout(buffer):
            self._demand(buffer, plain_layout(buffer), node, label)

    def _demand(self, buffer: Buffer, layout: Layout | Fragment, node: Any, label: str) -> None:
        if not any(d.label == label for d in self.fixed.get(buffer, ())):
            self.fixed.setdefault(buffer, []).append(_Demand(layout, "strict", None, label, node.span))

    def check_parts(self) -> None:
        """Refuses tiles in registers that different parts of a block use: each part has registers of its own."""
        if self.placement is None:
            return
        for buffer, uses in self.users.items():
            if not self.placement.takes(buffer):
                continue
            seen: dict[Any, _Use] = {}
            for use in uses:
                seen.setdefault(None if use.narrowing is None else use.narrowing.subject[:2], use)
            if len(seen) > 1:
                first, second = list(seen.values())[:2]
                raise CompileError(
                    "E-LAYOUT-PART",
                    f"{buffer.name} is a tile in registers that different threads of the block use",
                    span=second.stmt.span,
                    spans=[("the other use", first.stmt.span)],
                    facts=[_part_text(part) for part in seen],
                    help=f"pass the values on through shared memory, or use {buffer.name} in one T.ws alone",
                )

    # Solving

    def solve(self) -> dict[Buffer, Layout | Fragment]:
        """A layout for each on-chip buffer."""
        # Each round but the last takes a candidate away from some op.
        for _ in range(1 + sum(len(use.ranked) for use in self.uses)):
            demoted, layouts = self._attempt()
            if demoted is None:
                break
            demoted.given_up.append((demoted.candidate.name, self.reason))
            demoted.position += 1
        found = {b: layouts[b].layout for b in self.buffers if b in layouts}
        # Registers first: how a tile in memory is used follows from them.
        for buffer in sorted(self.buffers, key=lambda b: self.placement is None or not self.placement.takes(b)):
            if buffer not in found:
                self.facts.layouts[buffer] = found[buffer] = self._default(buffer)
        for root, views in self.views.items():
            if root in found:
                found.update((view, seen_as(found[root], root, view)) for view in views)
        return found

    def _default(self, buffer: Buffer) -> Layout | Fragment:
        parts = {use.narrowing for use in self.users.get(buffer, ())}
        if len(parts) == 1 and None not in parts:
            with narrowed(self.facts, parts.pop()):
                return self._default_for(buffer)
        return self._default_for(buffer)

    def _default_for(self, buffer: Buffer) -> Layout | Fragment:
        if self.placement is not None and self.placement.takes(buffer):
            return self.placement.default(buffer, self.facts)
        if self.placement is not None and buffer not in self.views:
            uses = [(None if isinstance(u, _LoopUse) else u.candidate, u.stmt) for u in self.users.get(buffer, ())]
            return self.placement.memory(buffer, uses, self.facts) or plain_layout(buffer)
        return plain_layout(buffer)

    def _attempt(self) -> tuple[_Use | None, dict[Buffer, _Demand]]:
        """(the op to demote, or None when all demands agree; the layouts)."""
        layouts: dict[Buffer, _Demand] = {}
        self.facts.layouts = {}
        for buffer, demands in self.fixed.items():
            for demand in demands:
                loser = self._place(buffer, demand, layouts)
                if loser is not None:
                    return loser, layouts
        for strength in _STRENGTHS:
            loser = self._spread(self._in_order(strength), strength, layouts)
            if loser is not None:
                return loser, layouts
        return None, layouts

    def _spread(self, uses: Iterable[_Use], strength: str, layouts: dict[Buffer, _Demand]) -> _Use | None:
        """Takes the wishes of one strength, first those of `uses`, then those of who shares a buffer that got a layout;
        returns the op that has to give way, or None."""
        queue = deque(uses)
        waiting = set(queue)
        while queue:
            use = queue.popleft()
            waiting.discard(use)
            for constraint in self._wishes(use):
                if constraint.strength != strength:
                    continue
                root = root_buffer(constraint.buffer)
                known = layouts.get(root)
                demand = _Demand(constraint.layout, strength, use, use.label, use.stmt.span)
                loser = self._place(constraint.buffer, demand, layouts)
                if loser is not None:
                    return loser
                if layouts.get(root) is known:
                    continue
                users = [u for b in (root, *self.views.get(root, ())) for u in self.users.get(b, ())]
                others = [u for u in dict.fromkeys(users) if u is not use]
                if strength == "free":
                    # What follows from this choice comes before the next choice that follows from nothing.
                    loser = self._spread(others, "common", layouts)
                    if loser is not None:
                        return loser
                queue.extend(u for u in others if u not in waiting)
                waiting.update(others)
        return None

    def _wishes(self, use: _Use) -> list[Constraint]:
        """What a use wants, for the threads that execute it."""
        if use.narrowing is None:
            return list(use.constraints(self.facts))
        with narrowed(self.facts, use.narrowing):
            return list(use.constraints(self.facts))

    def _in_order(self, strength: str) -> list[_Use]:
        if self.placement is None or strength != "free":
            return self.uses
        placement = self.placement
        return sorted(self.uses, key=lambda use: -placement.size(use.buffers()))

    def _place(self, buffer: Buffer, demand: _Demand, layouts: dict[Buffer, _Demand]) -> _Use | None:
        """Takes the demand unless a stronger one holds; returns the op that has to give way on a conflict of strict
        ones."""
        root = root_buffer(buffer)
        if root is not buffer:
            if not reshapes(buffer):
                return None
            demand = replace(demand, layout=seen_as(demand.layout, buffer, root))
            buffer = root
        held = layouts.get(buffer)
        if held is None or (held.strength != "strict" and demand.strength == "strict"):
            layouts[buffer] = demand
            self.facts.layouts[buffer] = demand.layout
            for view in self.views.get(buffer, ()):
                self.facts.layouts[view] = seen_as(demand.layout, buffer, view)
            return None
        if demand.strength != "strict" or held.layout == demand.layout:
            return None
        self.reason = f"{held.label} and {demand.label} need different layouts of {buffer.name}"
        losers = [d.use for d in (held, demand) if d.use is not None and d.use.value < math.inf]
        if not losers:
            raise _conflict(buffer, held, demand)
        return min(losers, key=lambda use: use.value)

    def report(self) -> None:
        """Corrects what `explain()` shows for the ops that had to give way."""
        demoted = {use.stmt.op: use for use in self.uses if use.given_up}
        for choice in self.context.choices:
            use = demoted.get(choice.op)
            if use is not None:
                choice.taken, choice.cost = use.candidate.name, use.ranked[use.position][1]
                names = {name for name, _ in use.given_up} | {choice.taken}
                choice.considered = [*use.given_up, *(c for c in choice.considered if c[0] not in names)]


class _Annotate(Rewriter):
    def __init__(self) -> None:
        super().__init__()
        self.layouts: dict[Buffer, Layout | Fragment] = {}
        self.taken: dict[int, str] = {}
        self.views: dict[Buffer, dict[Buffer, None]] = {}

    def rewrite_TileOpStmt(self, node: TileOpStmt) -> Stmt:
        name = self.taken[id(node)]
        return node if name == node.candidate else node.with_(candidate=name)

    def rewrite_Block(self, node: Block) -> Stmt:
        new = self.rewrite_children(node)
        shown = [v for b in new.allocations for v in (b, *self.views.get(b, ()))]
        own = tuple((b, self.layouts[b]) for b in shown if b in self.layouts)
        others = tuple(pair for pair in new.annotations if pair[0] != "layouts")
        return new.with_(annotations=(*others, ("layouts", own)) if own else others)

    def buffer(self, buffer: Buffer) -> Buffer:
        return buffer


def reshapes(buffer: Buffer) -> bool:
    """Whether a buffer shows the elements of the tile that owns its storage in another shape."""
    while buffer.data is not None:
        if buffer.dtype is not buffer.data.dtype or buffer.strides or buffer.offset is not None:
            return False
        buffer = buffer.data
    return True


def seen_as(layout: Any, buffer: Buffer, other: Buffer) -> Any:
    """The layout of `other`, which shows the elements of `buffer` in another shape, when this is that of `buffer`."""
    shape = other.static_shape()
    if shape is None or shape == buffer.static_shape():
        return layout
    if isinstance(layout, Layout) and layout == row_major(tuple(layout.domain)):
        return row_major(shape)
    return layout.reshape(shape)


def _part_text(part: Any) -> str:
    return "used by all threads" if part is None else f"used by threads {part[0]} to {part[0] + part[1] - 1}"


def needs_layout(buffer: Buffer) -> bool:
    """Whether a buffer is a tile on chip with storage of its own, shared by a block's threads."""
    return buffer.data is None and buffer.memory.level in ("block", "core", "cluster") and buffer.scope != "barrier"


def plain_layout(buffer: Buffer) -> Layout:
    """Row-major storage without gaps."""
    shape = buffer.static_shape()
    if shape is None:
        raise CompileError(
            "E-LAYOUT-CONFLICT",
            f"the tile {buffer.name} needs constant extents to be laid out",
            span=buffer.span,
            facts=[f"found {buffer!r}"],
            help="allocate on-chip tiles with constants; pass sizes as Python numbers",
        )
    return row_major(shape)


def _conflict(buffer: Buffer, held: _Demand, demand: _Demand) -> CompileError:
    return CompileError(
        "E-LAYOUT-CONFLICT",
        f"{held.label} and {demand.label} need different layouts of {buffer.name}",
        span=demand.span,
        spans=[("the other use", held.span)],
        facts=[f"{held.label} needs {held.layout!r}", f"{demand.label} needs {demand.layout!r}", f"{buffer!r}"],
        help=f"copy {buffer.name} into a second tile for one of them"
        if demand.label != "T.annotate_layout" and held.label != "T.annotate_layout"
        else f"leave out T.annotate_layout for {buffer.name}, or give it the layout that the op needs",
    )
