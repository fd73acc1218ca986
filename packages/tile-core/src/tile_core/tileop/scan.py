"""Scan: running sums and maxima along an axis of a tile."""

from __future__ import annotations

from typing import Any, ClassVar

from ..ir import BufferRegion, attr, node, operand
from .base import TileOp, register_tile_op
from .checks import (
    describe,
    extents_differ,
    fail,
    require_axis,
    require_choice,
    require_dtypes_equal,
    require_static,
    without_unit_axes,
)
from .numerics import accumulator_type

__all__ = ["SCAN_KINDS", "Scan"]

SCAN_KINDS = ("sum", "max")


@register_tile_op
@node
class Scan(TileOp):
    """``dst[i] = combine of src[0 … i]`` along `axis`, inclusive; from the end with `reverse`. The destination may be
    the source itself.

    The running value is kept in the accumulator's type. A running maximum skips NaN elements; before the first number
    it is -inf.
    """

    name: ClassVar[str] = "scan"
    src: BufferRegion = operand("in")
    dst: BufferRegion = operand("out")
    kind: str = attr()
    axis: int = attr()
    reverse: bool = attr(default=False)
    annotations: tuple[tuple[str, Any], ...] = attr(default=())

    def check(self) -> None:
        """Raises CompileError: unknown kind, no such axis, symbolic extents, shapes or element types that differ,
        bools or handles."""
        require_choice(self, "kind", self.kind, SCAN_KINDS)
        operands = (("src", self.src), ("dst", self.dst))
        require_static(self, operands)
        require_axis(self, self.axis, self.src)
        facts = [f"{label} = {describe(region)}" for label, region in operands]
        source, target = self.src.tile_extents(), self.dst.tile_extents()
        if extents_differ(without_unit_axes(source), without_unit_axes(target)):
            raise fail(
                self,
                "E-OP-SHAPE",
                "source and destination differ in shape",
                facts=facts,
                help=f"allocate {self.dst.buffer.name} with the source's shape, or leave dst out to scan in place",
                public=f"cum{self.kind}",
            )
        require_dtypes_equal(self, operands)
        if self.src.dtype.kind not in "iuf":
            raise fail(
                self,
                "E-OP-DTYPE",
                f"{self.src.dtype} values have no running {self.kind}",
                facts=facts,
                help="scan numbers; T.copy converts bools to integers",
                public=f"cum{self.kind}",
            )

    def reference(self, arrays: dict[str, Any], scalars: Any) -> dict[str, Any]:
        """The scan in the accumulator's type."""
        import numpy

        values = arrays["src"].astype(accumulator_type(self.dst.dtype))
        if self.reverse:
            values = numpy.flip(values, self.axis)
        if self.kind == "sum":
            wide = values.astype(numpy.float64) if values.dtype == numpy.float32 else values
            result = numpy.cumsum(wide, axis=self.axis, dtype=wide.dtype).astype(values.dtype)
        else:
            if values.dtype.kind == "f":
                values = numpy.where(numpy.isnan(values), values.dtype.type("-inf"), values)
            result = numpy.maximum.accumulate(values, axis=self.axis)
        if self.reverse:
            result = numpy.flip(result, self.axis)
        return {"dst": result.reshape(arrays["dst"].shape)}
