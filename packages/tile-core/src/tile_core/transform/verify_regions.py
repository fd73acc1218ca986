"""VerifyRegions: what is accessed is there.

Needs TILE, leaves TILE unchanged. On chip, every element access and every operand region must satisfy min ≥ 0 and min
+ extent ≤ shape: a witness against it is an error, and where neither proof nor witness is found one warning is given.
In a global tensor elements outside read as 0 and are not written, so only an access that is always outside is an
error.
"""

from __future__ import annotations

from typing import Any

from ..analysis import AccessSite, ScopedVisitor, accesses_of
from ..arith import Prover
from ..errors import CompileError, declare_codes
from ..ir import AccessPtr, Expr, PrimFunc, Stmt, TileOpStmt, Var, binary, const
from .base import Pass, PassContext, register_pass
from .peer_options import PEER_KEYS

__all__ = ["VerifyRegions"]

declare_codes(
    {
        "E-REGION-BOUNDS": "an access to an on-chip buffer outside its shape",
        "E-REGION-OUTSIDE": "an access to a global tensor that is outside for every value of its indices",
    }
)

_KEY = "tl.disable_out_of_bound_warning"
assert _KEY in PEER_KEYS


@register_pass("VerifyRegions", needs="TILE", leaves="TILE", options=(_KEY,))
class VerifyRegions(Pass):
    def function(self, function: PrimFunc, context: PassContext) -> PrimFunc:
        prover = Prover()
        _Regions(prover, context).visit(function.body)
        context.solver_queries += prover.solver_queries
        return function


class _Regions(ScopedVisitor):
    def __init__(self, prover: Prover, context: PassContext) -> None:
        super().__init__(prover)
        self.context = context

    def visit_BufferLoad(self, node: Any) -> None:
        self._sites(node)
        self.visit_children(node)

    def visit_BufferStore(self, node: Any) -> None:
        self.visit_children(node)
        self._sites(node)

    def visit_TileOpStmt(self, node: TileOpStmt) -> None:
        for site in accesses_of(node):
            if site.node is node.op:
                self._check(site)
        for region in node.op.child_nodes():
            self.visit_children(region) if not isinstance(region, Expr) else self.visit(region)

    def visit_AccessPtr(self, node: AccessPtr) -> None:
        from ..analysis import element_region

        region, exact = element_region(node.buffer, node.indices, node.span)
        self._check(AccessSite("read", region, node, node.span, exact=exact))
        self.visit_children(node)

    def _sites(self, node: Any) -> None:
        from ..analysis import element_region

        kind = ("read", "write")[isinstance(node, Stmt)]
        region, exact = element_region(node.buffer, node.indices, node.span)
        if node.predicate is None:
            self._check(AccessSite(kind, region, node, node.span, exact=exact))

    def _check(self, site: AccessSite) -> None:
        if self.prover.contradictory:
            return
        if site.buffer.is_on_chip:
            self._check_on_chip(site)
        else:
            self._check_global(site)

    def _check_on_chip(self, site: AccessSite) -> None:
        region = site.region
        for axis, (low, extent, size) in enumerate(zip(region.mins, region.extents, site.buffer.shape)):
            end = binary("add", low, extent)
            for condition in (binary("ge", low, const(0, low.dtype)), binary("le", end, size)):
                decision = self.prover.decide(condition)
                if decision.proven:
                    continue
                if decision.refuted and not self.hidden:
                    raise self._outside(site, axis, decision.witness or {})
                self._unknown(site, axis)
                return

    def _check_global(self, site: AccessSite) -> None:
        region = site.region
        for axis, (low, extent, size) in enumerate(zip(region.mins, region.extents, site.buffer.shape)):
            before = self.prover.bounds(binary("add", low, extent)).hi <= 0
            beyond = self.prover.bounds(binary("sub", low, size)).lo >= 0
            # A tensor of extent 0 has no inside; that is no fault of the access.
            empty = self.prover.bounds(size).lo <= 0
            if (before or beyond) and not empty and not self.hidden:
                raise CompileError(
                    "E-REGION-OUTSIDE",
                    f"{site.describe()} is always outside {site.buffer.name}",
                    span=site.span,
                    facts=[
                        f"axis {axis}: {_range_text(low, extent)}",
                        f"{site.buffer.name} has extent {size!r} there",
                    ],
                    help="elements outside a tensor read as 0 and are not written; correct the index",
                )

    def _outside(self, site: AccessSite, axis: int, witness: dict[Var, int]) -> CompileError:
        from ..arith import evaluate

        region = site.region
        low, extent, size = region.mins[axis], region.extents[axis], site.buffer.shape[axis]
        # A range may end at the size, an index may not reach it.
        single = getattr(extent, "value", None) == 1
        last = self.prover.simplify(binary("sub", size, 1)) if single else size
        facts = [f"axis {axis}: {_range_text(low, extent)}, allowed 0 … {last!r}"]
        used = _mentioned(witness, low, extent, size)
        if used:
            values = {**witness}
            where = ", ".join(f"{v.name} = {used[v]}" for v in used)
            try:
                first, count = evaluate(low, values), evaluate(extent, values)
                facts.append(f"for example with {where}: " + _range_text(first, count))
            except ValueError:
                facts.append(f"for example with {where}")
        facts.append(f"{site.buffer!r}")
        symbolic = any(not _is_loop_like(v) for v in used)
        return CompileError(
            "E-REGION-BOUNDS",
            f"{site.describe()} leaves {site.buffer.name}",
            span=site.span,
            spans=[(f"{site.buffer.name} is declared here", site.buffer.span)],
            facts=facts,
            help="state what holds with T.assume(…), or guard the access with `if`"
            if symbolic
            else "correct the index, enlarge the tile, or guard the access with `if`",
        )

    def _unknown(self, site: AccessSite, axis: int) -> None:
        if self.context.options[_KEY]:
            return
        where = f" at {site.span!r}" if site.span is not None else ""
        self.context.warn(
            f"{site.describe()}{where} is not proven to stay inside {site.buffer.name} on axis {axis}; "
            f"guard it, state what holds with T.assume, or set {_KEY}"
        )


def _range_text(low: Any, extent: Any) -> str:
    if isinstance(low, int):
        return f"index {low}" if extent == 1 else f"{low} … {low + extent}"
    single = getattr(extent, "value", None) == 1
    return f"index {low!r}" if single else f"{low!r} … {binary('add', low, extent)!r}"


def _mentioned(witness: dict[Var, int], *exprs: Expr) -> dict[Var, int]:
    """The witness values of the variables in the expressions, in order of mention."""
    from ..ir import walk

    found: dict[Var, int] = {}
    for expr in exprs:
        for item in walk(expr):
            if isinstance(item, Var) and item in witness:
                found.setdefault(item, witness[item])
    return found


def _is_loop_like(var: Var) -> bool:
    from ..ir import SizeVar

    return not isinstance(var, SizeVar)
