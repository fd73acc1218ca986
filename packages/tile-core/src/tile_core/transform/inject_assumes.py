"""InjectAssumes: what the kernel assumes about its sizes holds from the start.

Needs TILE, leaves TILE. A T.assume at the top of a kernel that speaks of parameters and shape variables only moves
out to the function's body: every pass then knows it everywhere, and MakePackedAPI checks it when the kernel is
called. Facts about indices stay where they are. That shape variables are ≥ 0 needs no statement: the prover knows it
of every SizeVar.
"""

from __future__ import annotations

from ..analysis import conjuncts
from ..arith.terms import reads_memory
from ..ir import Attr, Block, Expr, IntImm, KernelLaunch, PrimFunc, Seq, SizeVar, Stmt, Var, binary, seq, walk
from .base import Pass, PassContext, register_pass

__all__ = ["InjectAssumes"]


@register_pass("InjectAssumes", needs="TILE", leaves="TILE")
class InjectAssumes(Pass):
    def function(self, function: PrimFunc, context: PassContext) -> PrimFunc:
        known = {p for p in function.params if isinstance(p, Var)} | set(function.size_vars())
        found: list[tuple[Expr, Attr]] = []
        body = _without(function.body, known, found)
        if not found:
            return function
        for condition, source in reversed(found):
            body = Attr("assume", None, condition, body, span=source.span)
        return function.with_(body=body)


def _without(stmt: Stmt, known: set[Var], found: list[tuple[Expr, Attr]]) -> Stmt:
    """The statement without the assumptions that move out, on the paths that every run takes."""
    if isinstance(stmt, Attr) and stmt.key == "assume" and stmt.value is not None:
        stay: list[Expr] = []
        for part in conjuncts(stmt.value):
            if isinstance(part, IntImm) and part.value:
                continue
            if _speaks_of(part, known):
                found.append((part, stmt))
            else:
                stay.append(part)
        body = _without(stmt.body, known, found)
        if not stay:
            return body
        value = stay[0]
        for part in stay[1:]:
            value = binary("and", value, part)
        return stmt.with_(value=value if len(stay) < len(conjuncts(stmt.value)) else stmt.value, body=body)
    if isinstance(stmt, (Attr, KernelLaunch, Block)):
        body = _without(stmt.body, known, found)
        return stmt if body is stmt.body else stmt.with_(body=body)
    if isinstance(stmt, Seq):
        new = [_without(s, known, found) for s in stmt.stmts]
        return stmt if all(a is b for a, b in zip(new, stmt.stmts)) else seq(*new, span=stmt.span)
    return stmt


def _speaks_of(condition: Expr, known: set[Var]) -> bool:
    variables = [v for v in walk(condition) if isinstance(v, Var)]
    return (
        bool(variables) and all(v in known or isinstance(v, SizeVar) for v in variables) and not reads_memory(condition)
    )
