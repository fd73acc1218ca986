"""Reduce: one axis of a tile combined away.

NaN. `max`, `min` and `absmax` skip NaN elements, whether in the source or (with clear=False) in the destination; where
nothing else is left the result is the identity: -inf, +inf, 0. With `nan_propagate` one NaN makes the result NaN. Sums
follow IEEE arithmetic. The rule costs no instruction: a running maximum kept as ``x > acc ? x : acc`` obeys it.
"""

from __future__ import annotations

from typing import Any, ClassVar

from ..errors import declare_codes
from ..ir import BufferRegion, attr, node, operand
from .base import TileOp, register_tile_op
from .checks import (
    describe,
    extents_differ,
    fail,
    require_axis,
    require_choice,
    require_static,
    shape_text,
    without_unit_axes,
)
from .numerics import accumulator_type, identity_value

__all__ = ["REDUCE_KINDS", "Reduce"]

declare_codes({"E-REDUCE-SHAPE": "a reduction into a tile of another shape than the source without its axis"})

REDUCE_KINDS = ("sum", "max", "min", "abssum", "absmax", "bitand", "bitor", "bitxor")


@register_tile_op
@node
class Reduce(TileOp):
    """``dst[…] = combine over axis of src[…]``; with `clear` False what `dst` holds takes part too.

    `axis` counts the axes of the source's tile from the front. The destination has the source's shape without that
    axis, or with extent 1 there. Both hold floats or both integers; the elements are converted to the accumulator's
    type first (`tileop.numerics`), so int8 values sum in an int32 destination without wrapping.
    """

    name: ClassVar[str] = "reduce"
    src: BufferRegion = operand("in")
    dst: BufferRegion = operand("inout")
    kind: str = attr()
    axis: int = attr()
    clear: bool = attr(default=True)
    nan_propagate: bool = attr(default=False)
    annotations: tuple[tuple[str, Any], ...] = attr(default=())

    def operands(self) -> list[tuple[str, str, BufferRegion]]:
        """The operands; `dst` is read only when it is not cleared first."""
        return [("src", "in", self.src), ("dst", "out" if self.clear else "inout", self.dst)]

    def check(self) -> None:
        """Raises CompileError: unknown kind, no such axis, symbolic extents, shapes (E-REDUCE-SHAPE) or element types
        (E-OP-DTYPE) that do not fit."""
        require_choice(self, "kind", self.kind, REDUCE_KINDS)
        require_static(self, (("src", self.src), ("dst", self.dst)))
        require_axis(self, self.axis, self.src)
        self._check_shape()
        self._check_dtypes()

    def _check_shape(self) -> None:
        source, target = self.src.tile_extents(), self.dst.tile_extents()
        expected = source[: self.axis] + source[self.axis + 1 :]
        if extents_differ(without_unit_axes(expected), without_unit_axes(target)):
            other = [
                i
                for i in range(len(source))
                if not extents_differ(without_unit_axes(source[:i] + source[i + 1 :]), without_unit_axes(target))
            ]
            raise fail(
                self,
                "E-REDUCE-SHAPE",
                f"reducing axis {self.axis} leaves {shape_text(expected)}, but the destination is {shape_text(target)}",
                facts=[f"src = {describe(self.src)}", f"dst = {describe(self.dst)}"],
                help=f"pass dim={other[0]}"
                if other
                else f"allocate {self.dst.buffer.name} with shape {shape_text(expected)}",
                public=f"reduce_{self.kind}",
            )

    def _check_dtypes(self) -> None:
        source, target = self.src.dtype, self.dst.dtype
        facts = [f"src = {describe(self.src)}", f"dst = {describe(self.dst)}"]
        if self.kind.startswith("bit") and source.is_float:
            raise fail(
                self,
                "E-OP-DTYPE",
                "bits of floats are not combined",
                facts=facts,
                help="reduce integers or bools, or T.reinterpret the values as integers first",
                public=f"reduce_{self.kind}",
            )
        if source.kind in "hv" or source.is_float != target.is_float or (target.is_bool and not source.is_bool):
            raise fail(
                self,
                "E-OP-DTYPE",
                f"{source} values do not reduce into {target}",
                facts=facts,
                help="give both floats or both integers; T.copy converts",
                public=f"reduce_{self.kind}",
            )
        if target.is_bool and self.kind in ("sum", "abssum", "absmax"):
            raise fail(
                self,
                "E-OP-DTYPE",
                "bools are not summed into bools",
                facts=facts,
                help="count into int32, or use reduce_bitor or reduce_bitand",
                public=f"reduce_{self.kind}",
            )

    def reference(self, arrays: dict[str, Any], scalars: Any) -> dict[str, Any]:
        """The reduction in the accumulator's type."""
        import numpy

        values = arrays["src"].astype(accumulator_type(self.dst.dtype))
        result = self._combine(numpy, values, self.axis).reshape(arrays["dst"].shape)
        if not self.clear:
            held = arrays["dst"].astype(result.dtype)
            kind = {"abssum": "sum", "absmax": "max"}.get(self.kind, self.kind)
            result = _combine(numpy, kind, numpy.stack([held, result]), 0, self.nan_propagate, self.dst.dtype)
        return {"dst": result}

    def _combine(self, numpy: Any, values: Any, axis: int) -> Any:
        if self.kind in ("abssum", "absmax") and self.dst.dtype.kind in "if":
            values = numpy.abs(values)
            if self.dst.dtype.name == "int4":
                # Its container is wider: the least value's absolute value wraps to itself.
                values = ((values & 15) ^ 8) - 8
        kind = {"abssum": "sum"}.get(self.kind, self.kind)
        return _combine(numpy, kind, values, axis, self.nan_propagate, self.dst.dtype)


def _combine(numpy: Any, kind: str, values: Any, axis: int, nan_propagate: bool, dtype: Any) -> Any:
    if kind == "sum":
        # Pairwise in float64 and rounded once: the value that every order of float32 additions approximates.
        wide = values.astype(numpy.float64) if values.dtype == numpy.float32 else values
        return numpy.sum(wide, axis=axis, dtype=wide.dtype).astype(values.dtype)
    if kind.startswith("bit"):
        function = {"bitand": numpy.bitwise_and, "bitor": numpy.bitwise_or, "bitxor": numpy.bitwise_xor}[kind]
        return function.reduce(values, axis=axis)
    function = numpy.minimum if kind == "min" else numpy.maximum
    initial = identity_value(kind, dtype)
    if values.dtype.kind == "f" and not nan_propagate:
        values = numpy.where(numpy.isnan(values), values.dtype.type(initial), values)
    if values.dtype == numpy.bool_:
        return (numpy.all if kind == "min" else numpy.any)(values, axis=axis)
    return function.reduce(values, axis=axis, initial=values.dtype.type(initial))
