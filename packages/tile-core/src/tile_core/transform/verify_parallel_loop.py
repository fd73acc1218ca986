"""VerifyParallelLoop: no two iterations of T.Parallel touch one element when one of them writes it.

Needs TILE, leaves TILE unchanged. For each pair of accesses to a buffer, two iterations are modelled side by side:
each has its own copies of the loop variables and of what is bound inside, under its own conditions. If equal indices
force equal iterations, the pair is safe. Iterations that meet are a race, reported with their values; where neither
is shown, one warning is given. Atomic updates do not race with each other, nor do stores of one and the same value;
what belongs to a single thread (T.alloc_local, T.alloc_var) is each iteration's own.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from math import prod
from typing import Any

from ..analysis import AccessSite, ScopedVisitor, accesses_of, fixed_by, root_buffer
from ..arith import Prover
from ..arith.terms import reads_memory
from ..errors import CompileError, declare_codes
from ..ir import (
    Binary,
    Bind,
    Block,
    Buffer,
    BufferLoad,
    BufferStore,
    Call,
    Expr,
    For,
    If,
    IntImm,
    Let,
    PrimFunc,
    Seq,
    Stmt,
    Var,
    While,
    binary,
    const,
    structural_equal,
    substitute,
    unary,
    walk,
)
from .base import Pass, PassContext, register_pass
from .peer_options import PEER_KEYS

__all__ = ["VerifyParallelLoop"]

declare_codes({"E-PARALLEL-RACE": "two iterations of a parallel loop touch one element and one of them writes it"})

_KEY = "tl.disable_data_race_check"
assert _KEY in PEER_KEYS


@register_pass("VerifyParallelLoop", needs="TILE", leaves="TILE", options=(_KEY,))
class VerifyParallelLoop(Pass):
    def function(self, function: PrimFunc, context: PassContext) -> PrimFunc:
        if not context.options[_KEY]:
            prover = Prover()
            _Races(prover, context).visit(function.body)
            context.solver_queries += prover.solver_queries
        return function


@dataclass
class _Instance:
    """An access in a parallel nest, with what stands between it and the nest."""

    site: AccessSite
    conditions: tuple[tuple[Expr, bool], ...]
    bound: tuple[For | Bind | Let, ...]
    hidden: bool


class _Races(ScopedVisitor):
    def __init__(self, prover: Prover, context: PassContext) -> None:
        super().__init__(prover)
        self.context = context

    def visit_For(self, node: For) -> None:
        if node.kind != "parallel":
            super().visit_For(node)
            return
        nest, body = _nest(node)
        axes = [loop for loop in nest if not (isinstance(loop.extent, IntImm) and loop.extent.value == 1)]
        if not axes or self.prover.contradictory:
            return
        found = _Instances()
        found.collect(nest, body)
        with ExitStack() as stack:
            for loop in nest:
                stack.enter_context(self.loop(loop))
            for position, first in enumerate(found.instances):
                for second in found.instances[position:]:
                    if _may_conflict(first, second, found):
                        self._compare(first, second, nest, axes, found)

    def _compare(
        self, first: _Instance, second: _Instance, nest: list[For], axes: list[For], found: _Instances
    ) -> None:
        if self._same_index(first, second, axes, found):
            return
        if first.site.buffer is not second.site.buffer or not (first.site.exact and second.site.exact):
            self._unknown(first, second)
            return
        names: dict[Var, Var] = {loop.var: Var(f"{loop.var.name}_other", loop.var.dtype) for loop in nest}
        if _is_tabulated(first, second, nest):
            met = _meeting(first, second, nest)
            if met is not None:
                witness = {**met[0], **{names[var]: value for var, value in met[1].items()}}
                raise _race(first, second, nest, names, witness)
            return
        with ExitStack() as stack:
            for loop in nest:
                other = names[loop.var]
                stack.enter_context(
                    self.prover.bind(other, substitute(loop.min, names), substitute(loop.extent, names))
                )
            # The first access keeps the loop's own variables, the second has copies.
            own: dict[Var, Any] = {}
            other_names: dict[Var, Any] = dict(names)
            hidden = bool(self.hidden) or first.hidden or second.hidden
            hidden |= self._enter(stack, first, own, "")
            hidden |= self._enter(stack, second, other_names, "_other")
            hidden |= self._meet(stack, first.site, second.site, own, other_names)
            open_axes = self._undetermined(stack, axes, names)
            if not open_axes:
                return
            same: Expr = const(1, "bool")
            for loop in open_axes:
                same = binary("and", same, binary("eq", loop.var, names[loop.var]))
            decision = self.prover.decide(same)
        if decision.proven:
            return
        if decision.refuted and not hidden:
            raise _race(first, second, nest, names, decision.witness or {})
        self._unknown(first, second)

    def _undetermined(self, stack: ExitStack, axes: list[For], names: dict[Var, Var]) -> list[For]:
        """The axes that equal elements do not quickly force to be equal; one that is forced helps with the next."""
        waiting = list(axes)
        progress = True
        while waiting and progress:
            progress = False
            for loop in list(waiting):
                equal = binary("eq", loop.var, names[loop.var])
                truth = self.prover.simplify(equal)
                if self.prover.contradictory or (isinstance(truth, IntImm) and truth.value):
                    stack.enter_context(self.prover.bind_value(names[loop.var], loop.var))
                    waiting.remove(loop)
                    progress = True
        return waiting

    def _same_index(self, first: _Instance, second: _Instance, axes: list[For], found: _Instances) -> bool:
        """Whether equal indices are one loop variable each, so that equal elements mean equal iterations: the common
        case, without any proof."""
        if first.site.buffer is not second.site.buffer:
            return False
        determined: set[Var] = set()
        inner = {loop.var for loop in axes} | found.bound
        for a, b in zip(first.site.region.mins, second.site.region.mins):
            x, y = self.prover.simplify(a), self.prover.simplify(b)
            if x is not y:
                continue
            mentioned = [v for v in walk(x) if isinstance(v, Var) and v in inner]
            sum_ = self.prover.simplifier.linear(x) if x.dtype.is_int and x.dtype.lanes == 1 else None
            if sum_ is None or len(mentioned) != 1 or reads_memory(x):
                continue
            number = self.prover.simplifier.number(mentioned[0])
            if number in sum_.terms and first.site.exact and second.site.exact:
                determined.add(mentioned[0])
        return all(loop.var in determined for loop in axes) and _single(first.site) and _single(second.site)

    def _enter(self, stack: ExitStack, instance: _Instance, names: dict[Var, Any], mark: str) -> bool:
        """Binds what stands between the nest and an access, adding to `names`; returns whether memory decides any of
        it."""
        hidden = False
        for item in instance.bound:
            if isinstance(item, For):
                low, extent = substitute(item.min, names), substitute(item.extent, names)
                hidden |= reads_memory(low) or reads_memory(extent)
                step = item.step.value if isinstance(item.step, IntImm) and item.step.value > 0 else 1
                hidden |= item.step is not None and not isinstance(item.step, IntImm)
                var = Var(f"{item.var.name}{mark}", item.var.dtype) if mark else item.var
                names[item.var] = var
                stack.enter_context(self.prover.bind(var, low, extent, step))
                continue
            value = substitute(item.value, names)
            if reads_memory(value):
                hidden = True
                names[item.var] = var = Var(f"{item.var.name}{mark}", item.var.dtype) if mark else item.var
                stack.enter_context(self.prover.bind_value(var, value))
            else:
                names[item.var] = value
        for condition, holds in instance.conditions:
            renamed = substitute(condition, names)
            hidden |= reads_memory(renamed)
            stack.enter_context(self.prover.assume(renamed if holds else unary("not", renamed)))
        return hidden

    def _meet(
        self, stack: ExitStack, first: AccessSite, second: AccessSite, own: dict[Var, Any], names: dict[Var, Any]
    ) -> bool:
        """Assumes that two accesses have an element in common; returns whether memory decides that."""
        hidden = False
        region, other = first.region, second.region
        for a, m, b, n, size in zip(region.mins, region.extents, other.mins, other.extents, first.buffer.shape):
            a, b = substitute(a, own), substitute(b, names)
            hidden |= reads_memory(a) or reads_memory(b)
            if _one(m) and _one(n):
                stack.enter_context(self.prover.assume(binary("eq", a, b)))
            else:
                stack.enter_context(self.prover.assume(binary("lt", a, binary("add", b, n))))
                stack.enter_context(self.prover.assume(binary("lt", b, binary("add", a, m))))
            if not first.buffer.is_on_chip:
                # Outside a global tensor nothing is written.
                inside = binary("and", binary("ge", a, const(0, a.dtype)), binary("lt", a, size))
                stack.enter_context(self.prover.assume(inside))
        self._meet_in_parts(stack, first, second, own, names)
        return hidden

    def _meet_in_parts(
        self, stack: ExitStack, first: AccessSite, second: AccessSite, own: dict[Var, Any], names: dict[Var, Any]
    ) -> None:
        """What equal indices fix besides: quotients and remainders by sizes, for indices that are one function of the
        iteration."""
        alike = []
        for a, b in zip(first.region.mins, second.region.mins):
            a = self.prover.simplify(substitute(a, own))
            if self.prover.simplify(substitute(a, names)) is self.prover.simplify(substitute(b, names)):
                alike.append(a)
        if not (alike and _single(first) and _single(second)):
            return
        for expr in fixed_by(alike, self.prover):
            if not any(expr is a for a in alike):
                stack.enter_context(self.prover.assume(binary("eq", expr, substitute(expr, names))))

    def _unknown(self, first: _Instance, second: _Instance) -> None:
        buffer = first.site.buffer
        where = f" at {first.site.span!r}" if first.site.span is not None else ""
        self.context.warn(
            f"iterations of T.Parallel may race on {buffer.name}: {_doing(first.site)}{where} and "
            f"{_doing(second.site)} are not proven to touch different elements; use T.atomic_add where they meet, "
            f"or set {_KEY}"
        )


class _Instances(ScopedVisitor):
    """The accesses of a nest's body."""

    def __init__(self) -> None:
        super().__init__(Prover(solver=False))
        self.instances: list[_Instance] = []
        self.private: set[Buffer] = set()
        # Variables bound in the body, and those together with the nest's.
        self.bound: set[Var] = set()
        self.inner: set[Var] = set()
        self._conditions: list[tuple[Expr, bool]] = []
        self._scope: list[For | Bind | Let] = []
        self._while = 0

    def collect(self, nest: list[For], body: Stmt) -> None:
        """Fills `instances` from the body of a nest."""
        self.visit(body)
        self.inner = self.bound | {loop.var for loop in nest}

    def visit_Stmt(self, node: Stmt) -> None:
        self._take(node)
        for child in node.child_nodes():
            if isinstance(child, Stmt):
                self.visit(child)

    def visit_Block(self, node: Block) -> None:
        self.private.update(node.allocations)
        self.visit_Stmt(node)

    def visit_Seq(self, node: Seq) -> None:
        depth = len(self._scope)
        for stmt in node.stmts:
            self.visit(stmt)
            if isinstance(stmt, Bind):
                self.bound.add(stmt.var)
                self._scope.append(stmt)
        del self._scope[depth:]

    def visit_For(self, node: For) -> None:
        self._take(node)
        self.bound.add(node.var)
        self._scope.append(node)
        self.visit(node.body)
        self._scope.pop()

    def visit_While(self, node: While) -> None:
        self._while += 1
        self.visit_Stmt(node)
        self._while -= 1

    def visit_If(self, node: If) -> None:
        self._take(node)
        for body, holds in ((node.then_body, True), (node.else_body, False)):
            if body is not None:
                self._conditions.append((node.condition, holds))
                self.visit(body)
                self._conditions.pop()

    def _take(self, stmt: Stmt) -> None:
        from .verify_buffer_init import guarded_loads

        guarded = guarded_loads(stmt)
        for site in accesses_of(stmt):
            conditions = (*self._conditions, *guarded.get(id(site.node), ()))
            self.instances.append(_Instance(site, conditions, tuple(self._scope), bool(self._while)))


def _nest(node: For) -> tuple[list[For], Stmt]:
    """The loops of a tight parallel nest, outermost first, and its body."""
    nest = [node]
    body = node.body
    while True:
        inner = body
        while isinstance(inner, Block) and not inner.allocations:
            inner = inner.body
        if not (isinstance(inner, For) and inner.kind == "parallel"):
            return nest, body
        nest.append(inner)
        body = inner.body


def _may_conflict(first: _Instance, second: _Instance, found: _Instances) -> bool:
    a, b = first.site, second.site
    if root_buffer(a.buffer) is not root_buffer(b.buffer) or not (a.writes or b.writes):
        return False
    if a.buffer.memory.level == "thread" or root_buffer(a.buffer) in found.private:
        return False
    if a.atomic and b.atomic:
        return False
    return not _store_the_same(a, b, found)


_BIT_OPERATORS = ("bitxor", "bitand", "bitor", "shl", "shr")
_MOST_ITERATIONS = 1 << 20


def _is_tabulated(first: _Instance, second: _Instance, nest: list[For]) -> bool:
    """Whether both indices are functions of the nest's constant axes alone and use bits, which no proof but a table
    knows."""
    if first.conditions or second.conditions or first.bound or second.bound:
        return False
    if not (_single(first.site) and _single(second.site)):
        return False
    if not all(isinstance(e, IntImm) and loop.step is None for loop in nest for e in (loop.min, loop.extent)):
        return False
    if prod(loop.extent.value for loop in nest) > _MOST_ITERATIONS:  # type: ignore[attr-defined]
        return False
    variables = {loop.var for loop in nest}
    bits = False
    for index in (*first.site.region.mins, *second.site.region.mins):
        for node in walk(index):
            if isinstance(node, (BufferLoad, Call)) or (isinstance(node, Var) and node not in variables):
                return False
            bits |= isinstance(node, Binary) and node.op in _BIT_OPERATORS
    return bits


def _meeting(first: _Instance, second: _Instance, nest: list[For]) -> tuple[dict[Var, int], dict[Var, int]] | None:
    """Two different iterations that touch one element, found by comparing all."""
    import numpy as np

    from ..layout.tables import evaluate_map

    variables = tuple(loop.var for loop in nest)
    ranges = [range(loop.min.value, loop.min.value + loop.extent.value) for loop in nest]  # type: ignore[attr-defined]
    points = [g.ravel() for g in np.meshgrid(*ranges, indexing="ij")]
    keys = []
    for instance in (first, second):
        parts = evaluate_map(variables, instance.site.region.mins, points)
        parts = [np.broadcast_to(p, points[0].shape) for p in parts]
        keys.append(np.stack(parts, axis=-1))
    both = np.concatenate(keys)
    _, ids = np.unique(both, axis=0, return_inverse=True)
    mine, other = np.asarray(ids).reshape(2, -1)
    order = np.argsort(mine, kind="stable")
    left = np.searchsorted(mine[order], other, "left")
    count = np.searchsorted(mine[order], other, "right") - left
    for q in np.flatnonzero(count):
        for p in order[left[q] : left[q] + min(2, count[q])]:
            if p != q:
                return tuple({v: int(g[k]) for v, g in zip(variables, points)} for k in (p, q))  # type: ignore[return-value]
    return None


def _store_the_same(a: AccessSite, b: AccessSite, found: _Instances) -> bool:
    """Whether both store one value that does not depend on the iteration."""
    if not isinstance(a.node, BufferStore) or not isinstance(b.node, BufferStore):
        return False
    value = a.node.value
    if not structural_equal(value, b.node.value):
        return False
    return not reads_memory(value) and not any(isinstance(n, Var) and n in found.inner for n in walk(value))


def _single(site: AccessSite) -> bool:
    return all(_one(e) for e in site.region.extents)


def _one(extent: Expr) -> bool:
    return isinstance(extent, IntImm) and extent.value == 1


def _doing(site: AccessSite) -> str:
    verb = "the update of" if site.kind == "accumulate" else "the write of" if site.writes else "the read of"
    return f"{verb} {site.describe()}"


def _done(site: AccessSite) -> str:
    return "updated" if site.kind == "accumulate" else "written" if site.writes else "read"


def _race(
    first: _Instance, second: _Instance, nest: list[For], names: dict[Var, Var], witness: dict[Var, int]
) -> CompileError:
    # The write is the place of the error, the other access is named after it.
    a, b = first.site, second.site
    own = {loop.var: witness.get(loop.var, 0) for loop in nest}
    other = {loop.var: witness.get(names[loop.var], 0) for loop in nest}
    if not a.writes:
        a, b, own, other = b, a, other, own
    outer = {v: x for v, x in witness.items() if v not in own and all(v is not n for n in names.values())}
    facts = [
        f"{a.describe()} is {_done(a)} in iteration {_values(own)}",
        f"{b.describe()}, the same element, is {_done(b)} in iteration {_values(other)}",
    ]
    if outer:
        facts.append(f"with {_values(outer)}")
    updates = isinstance(a.node, BufferStore) and any(
        isinstance(n, BufferLoad) and root_buffer(n.buffer) is root_buffer(a.buffer) for n in walk(a.node.value)
    )
    return CompileError(
        "E-PARALLEL-RACE",
        f"iterations of T.Parallel race on {a.buffer.name}",
        span=a.span,
        spans=[("the other access", b.span)] if b.node is not a.node else [],
        facts=facts,
        help="reduce with T.reduce_sum and its like, use T.atomic_add, or make the axis that is summed a T.serial loop"
        if updates
        else "give every iteration its own element, or make the loop T.serial",
    )


def _values(values: dict[Var, int]) -> str:
    return ", ".join(f"{var.name} = {value}" for var, value in values.items())
