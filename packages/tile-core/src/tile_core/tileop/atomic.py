"""AtomicUpdate: a tile combined into another one that several blocks may update at once."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar

from ..errors import declare_codes
from ..ir import Access, BufferRegion, Expr, attr, node, operand
from .base import TileOp, register_tile_op
from .checks import describe, extents_differ, fail, require_choice, require_value_type, without_unit_axes

__all__ = ["ATOMIC_KINDS", "MEMORY_ORDERS", "AtomicUpdate"]

declare_codes({"E-ATOMIC-SHAPE": "an atomic update by a tile of another shape than the destination"})

ATOMIC_KINDS = ("add", "max", "min", "and", "or", "xor")
MEMORY_ORDERS = ("relaxed", "consume", "acquire", "release", "acq_rel", "seq_cst")


@register_tile_op
@node
class AtomicUpdate(TileOp):
    """``dst[…] = dst[…] op value`` with each element's update indivisible.

    `value` is a region of the destination's shape or one scalar for all elements; it is converted to the destination's
    type. Updates commute, so any number of blocks may update one element; float sums then depend on the order in the
    last bits. `max` and `min` skip NaN as reductions do.
    """

    name: ClassVar[str] = "atomic_update"
    dst: BufferRegion = operand("inout")
    value: BufferRegion | Expr = operand("in")
    kind: str = attr(default="add")
    memory_order: str = attr(default="relaxed")
    annotations: tuple[tuple[str, Any], ...] = attr(default=())

    def operands(self) -> list[tuple[str, str, BufferRegion]]:
        """The destination and, where it is a region, the value."""
        found = [("dst", "inout", self.dst)]
        return [*found, ("value", "in", self.value)] if isinstance(self.value, BufferRegion) else found

    def effects(self) -> Iterable[Access]:
        """The value is read, the destination accumulated into."""
        if isinstance(self.value, BufferRegion):
            yield Access("read", self.value)
        yield Access("accumulate", self.dst)

    def expressions(self) -> Iterable[Expr]:
        """The value, where it is a scalar."""
        return () if isinstance(self.value, BufferRegion) else (self.value,)

    def check(self) -> None:
        """Raises CompileError: unknown kind or memory order, shapes (E-ATOMIC-SHAPE) or element types (E-OP-DTYPE)
        that do not fit."""
        public = f"atomic_{self.kind}"
        require_choice(self, "kind", self.kind, ATOMIC_KINDS)
        require_choice(self, "memory_order", self.memory_order, MEMORY_ORDERS)
        target = self.dst.dtype
        if target.kind not in ("iu" if self.kind in ("and", "or", "xor") else "iuf"):
            raise fail(
                self,
                "E-OP-DTYPE",
                f"{target} elements are not updated by {self.kind}",
                facts=[f"dst = {describe(self.dst)}"],
                help="update integers or, for add, max and min, floats",
                public=public,
            )
        if not isinstance(self.value, BufferRegion):
            require_value_type(self, self.value, self.dst)
            return
        facts = [f"dst = {describe(self.dst)}", f"value = {describe(self.value)}"]
        extents = without_unit_axes(self.value.tile_extents())
        if extents_differ(without_unit_axes(self.dst.tile_extents()), extents):
            raise fail(
                self,
                "E-ATOMIC-SHAPE",
                "value and destination differ in shape",
                facts=facts,
                help=f"pass a slice of {self.dst.buffer.name} that has the value's extents, or a scalar value",
                public=public,
            )
        if self.value.dtype.is_float != target.is_float:
            raise fail(
                self,
                "E-OP-DTYPE",
                f"{self.value.dtype} values do not update {target} elements",
                facts=facts,
                help="give both floats or both integers; T.copy converts",
                public=public,
            )

    def reference(self, arrays: dict[str, Any], scalars: Any) -> dict[str, Any]:
        """The destination after the update."""
        import numpy

        held = arrays["dst"]
        if isinstance(self.value, BufferRegion):
            value = arrays["value"].astype(held.dtype).reshape(held.shape)
        else:
            value = numpy.asarray(scalars(self.value)).astype(held.dtype)
        return {"dst": _functions(numpy)[self.kind](held, value)}


def _functions(numpy: Any) -> dict[str, Any]:
    return {
        "add": numpy.add,
        "max": numpy.fmax,
        "min": numpy.fmin,
        "and": numpy.bitwise_and,
        "or": numpy.bitwise_or,
        "xor": numpy.bitwise_xor,
    }
