"""SerializePipelines: pipelined and persistent loops become serial ones.

Needs PIPED, leaves PIPED. For targets without asynchronous copies: one version of each buffer, statements in program
order. `order` and `stage` describe an overlap that computes the same as program order, so nothing else is needed of
them; the pipes disappear with the loops.
"""

from __future__ import annotations

from ..ir import For, Stmt
from .base import Pass, register_pass

__all__ = ["SerializePipelines"]

_OVERLAP = ("num_stages", "order", "stage", "pipes", "group", "sync", "prefer_async")


@register_pass("SerializePipelines", needs="PIPED", leaves="same")
class SerializePipelines(Pass):
    def statement(self, stmt: Stmt) -> Stmt:
        if not isinstance(stmt, For) or stmt.kind not in ("pipelined", "persistent"):
            return stmt
        kept = tuple(pair for pair in stmt.annotations if pair[0] not in _OVERLAP)
        return stmt.with_(kind="serial", annotations=kept)
