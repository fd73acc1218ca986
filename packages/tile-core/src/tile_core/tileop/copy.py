"""Copy: one tile to another place, converting the element type on the way."""

from __future__ import annotations

from typing import Any, ClassVar

from ..errors import declare_codes
from ..ir import BufferRegion, IntImm, attr, node, operand
from .base import TileOp, register_tile_op
from .checks import describe, extents_differ, fail, shape_text, without_unit_axes

__all__ = ["Copy"]

declare_codes(
    {
        "E-COPY-SHAPE": "a copy between regions of different shapes",
        "E-COPY-DTYPE": "a copy between element types that do not convert",
        "E-COPY-OVERLAP": "a copy between overlapping parts of one buffer",
    }
)


@register_tile_op
@node
class Copy(TileOp):
    """``dst[…] = src[…]``, element by element, in no particular order.

    The extents agree once axes of extent 1 are dropped. Elements convert as by a cast. Reading outside a global tensor
    gives 0, writing outside one is dropped. `annotations` is a tuple of pairs; known keys: coalesced_width,
    disable_tma, eviction_policy, prefer_instruction, loop_layout.
    """

    name: ClassVar[str] = "copy"
    src: BufferRegion = operand("in")
    dst: BufferRegion = operand("out")
    annotations: tuple[tuple[str, Any], ...] = attr(default=())

    def check(self) -> None:
        """Raises CompileError: shapes differ (E-COPY-SHAPE), types do not convert (E-COPY-DTYPE), the regions overlap
        (E-COPY-OVERLAP)."""
        facts = [f"src = {describe(self.src)}", f"dst = {describe(self.dst)}"]
        source = without_unit_axes(self.src.tile_extents())
        target = without_unit_axes(self.dst.tile_extents())
        if extents_differ(source, target):
            raise fail(
                self,
                "E-COPY-SHAPE",
                f"the shapes differ: {shape_text(source)} and {shape_text(target)}, axes of extent 1 aside",
                facts=facts,
                help=_shape_help(self, source, target),
            )
        for region in (self.src, self.dst):
            if region.dtype.kind in "hv":
                raise fail(
                    self,
                    "E-COPY-DTYPE",
                    f"{region.buffer.name} holds {region.dtype}, which has no values to copy",
                    facts=facts,
                    help="copy between buffers of numbers or bools",
                )
        if self._overlaps():
            raise fail(
                self,
                "E-COPY-OVERLAP",
                f"src and dst are overlapping parts of {self.src.buffer.name}",
                facts=facts,
                help="copy through another buffer: the elements are copied in no particular order",
            )

    def _overlaps(self) -> bool:
        if self.src.buffer is not self.dst.buffer:
            # Two views of one memory: what they have in common is not known.
            return _storage(self.src.buffer) is _storage(self.dst.buffer)
        same = True
        for low_a, extent_a, low_b, extent_b in zip(self.src.mins, self.src.extents, self.dst.mins, self.dst.extents):
            if not all(isinstance(e, IntImm) for e in (low_a, extent_a, low_b, extent_b)):
                return False
            a, b = low_a.value, low_b.value  # type: ignore[attr-defined]
            if a + extent_a.value <= b or b + extent_b.value <= a:  # type: ignore[attr-defined]
                return False
            same = same and a == b
        return not same

    def reference(self, arrays: dict[str, Any], scalars: Any) -> dict[str, Any]:
        """The source tile in the shape of the destination; the caller converts to its element type."""
        return {"dst": arrays["src"].reshape(arrays["dst"].shape)}


def _storage(buffer: Any) -> Any:
    while buffer.data is not None:
        buffer = buffer.data
    return buffer


def _shape_help(op: Copy, source: tuple[Any, ...], target: tuple[Any, ...]) -> str:
    big, small = (op.src, op.dst) if len(source) >= len(target) else (op.dst, op.src)
    if len(source) == len(target) and not extents_differ(source, tuple(reversed(target))):
        return "the axes are in another order; write a T.Parallel loop that swaps the indices"
    name = big.buffer.name
    if not small.tile_extents():
        return f"pass one element of {name}, such as {name}[i, j], or a whole tile as the other side"
    sizes = shape_text(small.tile_extents())[1:-1]
    return f"pass a slice of {name} that has the extents {sizes}, or its first element {name}[…] alone"
