"""BindTarget: each function says what it is compiled for.

Needs TILE, leaves TILE. Runs first, so that every later pass and every dump of the IR knows the target.
"""

from __future__ import annotations

from ..ir import PrimFunc
from .base import Pass, PassContext, register_pass

__all__ = ["BindTarget"]


@register_pass("BindTarget", needs="TILE", leaves="same")
class BindTarget(Pass):
    def function(self, function: PrimFunc, context: PassContext) -> PrimFunc:
        if function.attr("target") == context.target:
            return function
        return function.with_attr("target", context.target)
