"""VerifyBufferInit: what is read was written.

Needs TILE, leaves TILE unchanged; stands while statements are in source order. An error is raised only where it is
proven that an on-chip buffer is read although nothing that may run before writes any of the elements read: then what
is read is whatever the memory held. A write on one branch, in a loop that may run or of a part of the region counts
as a write, so correct code is never told off.

In a loop, writes of earlier iterations come before; but the first iteration has none, so a read that the first
iteration always reaches must have been written before the loop (the accumulator that nobody cleared).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from ..analysis import AccessSite, Box, ScopedVisitor, accesses_of, covered_box, root_buffer
from ..arith import Prover
from ..arith.terms import reads_memory
from ..errors import CompileError, declare_codes
from ..ir import (
    AccessPtr,
    Bind,
    Buffer,
    Expr,
    For,
    If,
    IntImm,
    KernelLaunch,
    Let,
    PrimFunc,
    Select,
    Stmt,
    TileOpStmt,
    Var,
    While,
    binary,
    const,
    has_named_barrier,
    substitute,
    walk,
)
from .base import Pass, PassContext, register_pass
from .peer_options import PEER_KEYS

__all__ = ["VerifyBufferInit"]

declare_codes({"E-BUFFER-INIT": "a read of an on-chip buffer that nothing has written"})

_KEY = "tl.disable_buffer_init_check"
assert _KEY in PEER_KEYS


@register_pass("VerifyBufferInit", needs="TILE", leaves="TILE", options=(_KEY,))
class VerifyBufferInit(Pass):
    def function(self, function: PrimFunc, context: PassContext) -> PrimFunc:
        if not context.options[_KEY]:
            _Init(Prover(solver=False)).visit(function.body)
        return function


@dataclass
class _Write:
    site: AccessSite
    box: Box


@dataclass
class _Loop:
    """A loop around: what its body writes anywhere, and how many conditions stand between it and here."""

    node: Any
    carried: dict[Buffer, list[_Write]] = field(default_factory=dict)
    conditions: int = 0

    def __post_init__(self) -> None:
        # What can differ between its iterations: its variable and whatever its body binds.
        self.bound = {n.var for n in walk(self.node) if isinstance(n, (For, Bind, Let))}

    def varies(self, expr: Expr) -> bool:
        """Whether an expression can differ between iterations."""
        return reads_memory(expr) or any(isinstance(v, Var) and v in self.bound for v in walk(expr))


class _Init(ScopedVisitor):
    def __init__(self, prover: Prover) -> None:
        super().__init__(prover)
        self.written: dict[Buffer, list[_Write]] = {}
        self.loops: list[_Loop] = []

    def visit_For(self, node: For) -> None:
        self._reads(node)
        # A loop that may run zero times in the first iteration of one around it is a condition, too.
        runs = binary("gt", node.extent, const(0, node.extent.dtype))
        with self._condition(runs), self.loop(node), self._loop(node):
            self.visit(node.body)

    def visit_While(self, node: While) -> None:
        with self._loop(node):
            self._reads(node)
            self.visit(node.body)

    def visit_KernelLaunch(self, node: KernelLaunch) -> None:
        self.written = {}
        super().visit_KernelLaunch(node)

    def visit_If(self, node: If) -> None:
        self._reads(node)
        if node.else_body is not None and has_named_barrier(node):
            # The branches go on side by side: what the second writes may be there when the first reads.
            _Collect(self.prover, self.written).visit(node.else_body)
        for body, holds in ((node.then_body, True), (node.else_body, False)):
            if body is None:
                continue
            with self._condition(node.condition, holds), self.under(node.condition, holds):
                self.visit(body)

    def visit_Stmt(self, node: Stmt) -> None:
        if isinstance(node, TileOpStmt):
            self._reads(node)
        else:
            self._reads(node)
            for child in node.child_nodes():
                if isinstance(child, Stmt):
                    self.visit(child)
        for site in accesses_of(node):
            if site.writes:
                self._record(site)

    @contextmanager
    def _loop(self, node: Any) -> Iterator[None]:
        loop = _Loop(node, self._carried(node))
        self.loops.append(loop)
        yield
        self.loops.pop()

    @contextmanager
    def _condition(self, condition: Expr, holds: bool = True) -> Iterator[None]:
        """Inside, only some runs come through, unless the first iterations of the loops around do."""
        counted = [
            loop for loop in self.loops if loop.varies(condition) and not self._true_at_first(condition, holds, loop)
        ]
        for loop in counted:
            loop.conditions += 1
        yield
        for loop in counted:
            loop.conditions -= 1

    def _true_at_first(self, condition: Expr, holds: bool, loop: _Loop) -> bool:
        """Whether a condition is known to come out so in the first iterations of a loop and of those inside it."""
        inner = self.loops[self.loops.index(loop) :]
        first: dict[Var, Any] = {item.node.var: item.node.min for item in inner if isinstance(item.node, For)}
        truth = self.prover.simplify(substitute(condition, first))
        return isinstance(truth, IntImm) and bool(truth.value) == holds

    def _carried(self, node: Any) -> dict[Buffer, list[_Write]]:
        found: dict[Buffer, list[_Write]] = {}
        collector = _Collect(self.prover, found)
        collector.visit(node.body)
        if isinstance(node, While):
            collector.visit(node.condition)
        return found

    def _record(self, site: AccessSite) -> None:
        if site.buffer.is_on_chip:
            self.written.setdefault(root_buffer(site.buffer), []).append(_Write(site, covered_box(site, self.prover)))

    # ---- reads

    def _reads(self, stmt: Stmt) -> None:
        if self.prover.contradictory:
            return
        guarded = guarded_loads(stmt)
        for site in accesses_of(stmt):
            if site.reads and _is_checked(site.buffer) and not _may_be_output(site):
                conditions = guarded.get(id(site.node), ())
                self._check(site, stmt, conditions)

    def _check(self, site: AccessSite, stmt: Stmt, conditions: tuple[tuple[Expr, bool], ...]) -> None:
        if conditions:
            condition, holds = conditions[0]
            with self._condition(condition, holds):
                self._check(site, stmt, conditions[1:])
            return
        root = root_buffer(site.buffer)
        box = covered_box(site, self.prover)
        if any(not write.box.apart_from(box) for write in self.written.get(root, ())):
            return
        later: _Write | None = None
        for loop in self.loops:
            carried = [w for w in loop.carried.get(root, ()) if not w.box.apart_from(box)]
            # The loop's own write may be what the read finds, when the first iteration can pass it by.
            if carried and loop.conditions:
                return
            later = later or (carried[0] if carried else None)
        raise self._never_written(site, stmt, later)

    def _never_written(self, site: AccessSite, stmt: Stmt, later: _Write | None) -> CompileError:
        buffer = site.buffer
        places: list[tuple[str, Any]] = [(f"{buffer.name} is declared here", root_buffer(buffer).span)]
        others = self.written.get(root_buffer(buffer), [])
        if later is not None and later.site.node is not site.node:
            places.insert(0, ("it is written only later, here", later.site.span))
        elif others:
            places.insert(0, ("other elements are written here", others[0].site.span))
        accumulates = site.kind == "accumulate" or any(
            other.writes and other.buffer is buffer for other in accesses_of(stmt)
        )
        return CompileError(
            "E-BUFFER-INIT",
            f"{site.describe()} reads {buffer.name}, which nothing has written",
            span=site.span or stmt.span,
            spans=places,
            facts=[
                f"{buffer!r}",
                "the first iteration reads what the memory happened to hold"
                if later is not None
                else "no write can come before",
            ],
            help=f"clear it first with T.clear({buffer.name}), or pass clear_accum=True where the op takes it"
            if accumulates
            else f"fill or copy into {buffer.name} before this",
        )


class _Collect(ScopedVisitor):
    """All writes of a loop's body."""

    def __init__(self, prover: Prover, found: dict[Buffer, list[_Write]]) -> None:
        super().__init__(prover)
        self.found = found

    def visit_Stmt(self, node: Stmt) -> None:
        for site in accesses_of(node):
            if site.writes and site.buffer.is_on_chip:
                # Under the loop's own range: any iteration's write.
                self.found.setdefault(root_buffer(site.buffer), []).append(_Write(site, covered_box(site, self.prover)))
        for child in node.child_nodes():
            if isinstance(child, Stmt):
                self.visit(child)

    def visit_If(self, node: If) -> None:
        self.visit_Stmt(node)

    def visit_While(self, node: While) -> None:
        self.visit_Stmt(node)


def _may_be_output(site: AccessSite) -> bool:
    """A pointer for reading and writing, handed to foreign code: that may well only write."""
    return isinstance(site.node, AccessPtr) and "w" in site.node.mode and not site.atomic


def _is_checked(buffer: Buffer) -> bool:
    return buffer.is_on_chip and buffer.scope not in ("barrier", "param")


def guarded_loads(stmt: Stmt) -> dict[int, tuple[tuple[Expr, bool], ...]]:
    """For loads under T.if_then_else (or on the right of `and` and `or`): the conditions under which they happen."""
    found: dict[int, tuple[tuple[Expr, bool], ...]] = {}
    stack: list[tuple[Any, tuple[tuple[Expr, bool], ...]]] = [
        (child, ()) for child in stmt.child_nodes() if not isinstance(child, Stmt)
    ]
    while stack:
        node, conditions = stack.pop()
        if conditions:
            found[id(node)] = conditions
        if isinstance(node, Select):
            stack.append((node.condition, conditions))
            stack.append((node.true_value, (*conditions, (node.condition, True))))
            stack.append((node.false_value, (*conditions, (node.condition, False))))
        elif getattr(node, "op", None) in ("and", "or"):
            stack.append((node.a, conditions))
            stack.append((node.b, (*conditions, (node.a, node.op == "and"))))
        else:
            stack += [(child, conditions) for child in node.child_nodes()]
    return found
