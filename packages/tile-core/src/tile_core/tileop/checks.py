"""What the checks of tile ops share: operands as text, extents compared, attributes validated.

Everything raises `CompileError` with the op's line; the facts name each operand with its element type and the shape of
its tile.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ..errors import CompileError, declare_codes
from ..ir import BufferRegion, Expr, IntImm
from .base import TileOp

__all__ = [
    "describe",
    "extents_differ",
    "fail",
    "normal_axis",
    "require_choice",
    "require_dtypes_equal",
    "require_static",
    "require_value_type",
    "same_extent",
    "shape_text",
    "without_unit_axes",
]

declare_codes(
    {
        "E-OP-ATTRIBUTE": "an attribute of a tile op has a value outside what it allows",
        "E-OP-AXIS": "an axis that the operand of a tile op does not have",
        "E-OP-DTYPE": "the element types of a tile op's operands do not go together",
        "E-OP-EXTENT": "a tile op needs extents that are constants",
        "E-OP-SHAPE": "the shapes of a tile op's operands do not fit each other",
        "E-OP-SCOPE": "an operand of a tile op lives in memory that the op does not work on",
    }
)


def fail(
    op: TileOp, code: str, summary: str, facts: Iterable[str] = (), help: str | None = None, public: str | None = None
) -> CompileError:
    """The error to raise: `summary` follows the op's public name and a colon."""
    return CompileError(code, f"T.{public or op.name}: {summary}", span=op.span, facts=facts, help=help)


def shape_text(extents: Iterable[Any]) -> str:
    """Extents as ``[128, 64]``."""
    return "[" + ", ".join(_text(extent) for extent in extents) + "]"


def describe(region: BufferRegion) -> str:
    """An operand as ``name: dtype[extents]``, with the slice after the name where it is not the whole buffer."""
    buffer = region.buffer
    whole = not any(region.squeezed) and len(region.mins) == buffer.ndim
    whole = whole and all(isinstance(low, IntImm) and low.value == 0 for low in region.mins)
    whole = whole and all(same_extent(a, b) for a, b in zip(region.extents, buffer.shape))
    where = "" if whole else _slice_text(region)
    return f"{buffer.name}{where}: {buffer.dtype}{shape_text(region.tile_extents())}"


def same_extent(a: Expr, b: Expr) -> bool | None:
    """Whether two extents are equal; None where that is not known while tracing."""
    if a is b:
        return True
    if isinstance(a, IntImm) and isinstance(b, IntImm):
        return a.value == b.value
    from ..ir.structural import structural_equal

    return True if structural_equal(a, b) else None


def extents_differ(a: Sequence[Expr], b: Sequence[Expr]) -> bool:
    """Whether two shapes are known to be different."""
    return len(a) != len(b) or any(same_extent(x, y) is False for x, y in zip(a, b))


def without_unit_axes(extents: Iterable[Expr]) -> tuple[Expr, ...]:
    """The extents that are not the constant 1."""
    return tuple(e for e in extents if not (isinstance(e, IntImm) and e.value == 1))


def require_static(op: TileOp, operands: Iterable[tuple[str, BufferRegion]]) -> None:
    """Raises where an operand's tile has a symbolic extent."""
    for label, region in operands:
        if any(not isinstance(e, IntImm) for e in region.tile_extents()):
            raise fail(
                op,
                "E-OP-EXTENT",
                f"the extents of {region.buffer.name} must be constants",
                facts=[f"{label} = {describe(region)}"],
                help="work on a tile of constant size allocated on chip; T.copy guards the last one by the bounds",
            )


def require_choice(op: TileOp, label: str, value: Any, allowed: Sequence[Any]) -> None:
    """Raises where an attribute is not one of the allowed values."""
    if value not in allowed:
        raise fail(
            op,
            "E-OP-ATTRIBUTE",
            f"{label} {value!r} is not known",
            facts=[f"allowed: {', '.join(map(str, allowed))}"],
            help=f"pass one of the allowed values as {label}",
        )


def require_dtypes_equal(op: TileOp, operands: Sequence[tuple[str, BufferRegion]]) -> None:
    """Raises where operands differ in element type."""
    if len({region.dtype for _, region in operands}) > 1:
        raise fail(
            op,
            "E-OP-DTYPE",
            "the operands must have one element type",
            facts=[f"{label} = {describe(region)}" for label, region in operands],
            help="convert one of them first; T.copy into a buffer of the other type converts",
        )


def require_value_type(op: TileOp, value: Expr, region: BufferRegion) -> None:
    """Raises where a scalar value cannot be converted to the region's element type without losing what it says."""
    dtype = region.dtype
    constant = getattr(value, "value", None)
    lost = value.dtype.lanes != 1 or value.dtype.kind in "hv"
    if dtype.is_int and isinstance(constant, float):
        lost = constant != constant or constant in (float("inf"), float("-inf")) or constant != int(constant)
    elif dtype.is_int and isinstance(value, IntImm):
        lost = not dtype.min_value <= value.value <= dtype.max_value
    if lost:
        raise fail(
            op,
            "E-OP-DTYPE",
            f"the value does not fit the elements of {region.buffer.name}",
            facts=[f"value: {_text(value)} ({value.dtype})", f"dst = {describe(region)}"],
            help=f"pass a value that {dtype} can hold",
        )


def normal_axis(axis: int, ndim: int) -> int:
    """`axis` counted from the front; a value that no axis has is returned as it is, for `check` to refuse."""
    return axis + ndim if -ndim <= axis < 0 else axis


def require_axis(op: TileOp, axis: int, region: BufferRegion) -> None:
    """Raises where the operand's tile has no such axis."""
    ndim = len(region.tile_extents())
    if not 0 <= axis < ndim:
        raise fail(
            op,
            "E-OP-AXIS",
            f"{region.buffer.name} has no axis {axis}",
            facts=[f"src = {describe(region)}"],
            help=f"pass dim between {-ndim} and {ndim - 1}" if ndim else "pass a region with at least one axis",
        )


def _text(value: Any) -> str:
    if isinstance(value, IntImm) or type(value).__name__ == "FloatImm":
        return str(value.value)
    return repr(value)


def _slice_text(region: BufferRegion) -> str:
    squeezed = region.squeezed or (False,) * len(region.mins)
    parts = []
    for low, extent, one in zip(region.mins, region.extents, squeezed):
        if one:
            parts.append(_text(low))
        elif isinstance(low, IntImm) and isinstance(extent, IntImm):
            parts.append(f"{low.value}:{low.value + extent.value}")
        else:
            parts.append(f"{_text(low)}:+{_text(extent)}")
    return f"[{', '.join(parts)}]"
