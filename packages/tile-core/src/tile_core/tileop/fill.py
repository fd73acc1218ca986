"""Fill: every element of a tile set to one value."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar

from ..ir import BufferRegion, Expr, attr, child, node, operand
from .base import TileOp, register_tile_op
from .checks import require_value_type

__all__ = ["Fill"]


@register_tile_op
@node
class Fill(TileOp):
    """``dst[…] = value``, the value converted as by a cast. ``T.clear`` is a fill with 0."""

    name: ClassVar[str] = "fill"
    dst: BufferRegion = operand("out")
    value: Expr = child()
    annotations: tuple[tuple[str, Any], ...] = attr(default=())

    def check(self) -> None:
        """Raises CompileError: the value is a vector, no number, or a constant that the element type cannot hold
        (E-OP-DTYPE)."""
        require_value_type(self, self.value, self.dst)

    def expressions(self) -> Iterable[Expr]:
        """The value."""
        return (self.value,)

    def reference(self, arrays: dict[str, Any], scalars: Any) -> dict[str, Any]:
        """A tile full of the value."""
        import numpy

        return {"dst": numpy.full(arrays["dst"].shape, scalars(self.value))}
