"""Operands of tile ops: what a kernel author writes, brought to regions.

A whole buffer is its full region. A slice is itself. An element ``A[i, k]`` stands for the tile that begins there,
where the op's other operand says
how large it is. Extents are looked through names (``row = by * 64`` … ``A[row : row + 64, :]``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..errors import CompileError, declare_codes
from ..frontend.builder import ScalarRef, require_builder
from ..frontend.placeholder import Placeholder
from ..frontend.regions import static_value
from ..ir import Buffer, BufferLoad, BufferRegion, Expr, IntImm, Ramp, const, full_region
from ..layout import Fragment

__all__ = ["annotation_pairs", "paired_regions", "scalar_or_region", "tile_region"]

declare_codes(
    {
        "E-OPERAND": "an operand of a tile op that is no buffer, slice or element",
        "E-OPERAND-EXTENT": "an operand whose extents cannot be told",
        "E-OPERAND-OPTION": "an option of a tile op with a value that it does not take",
    }
)


def tile_region(op: str, label: str, value: Any) -> BufferRegion:
    """The region of an operand that says its own extents: a buffer or a slice; an element counts as a tile of one.

    Raises:
        CompileError: it is something else (E-OPERAND).
    """
    require_builder(op)
    if isinstance(value, Buffer):
        return full_region(value, require_builder(op).span)
    if isinstance(value, BufferRegion):
        return value
    if isinstance(value, ScalarRef):
        value = value.__tile_expr__()
    if isinstance(value, BufferLoad) and not _has_ramp(value):
        one = const(1, "int32")
        return BufferRegion(
            value.buffer, value.indices, (one,) * len(value.indices), (True,) * len(value.indices), span=value.span
        )
    raise operand_error(op, label, value)


def operand_error(op: str, label: str, value: Any) -> CompileError:
    """The error for an operand that is no place in memory."""
    if isinstance(value, Placeholder):
        return value.error()
    found = f"{value!r}, an expression" if isinstance(value, Expr) else f"{value!r}, a {type(value).__name__}"
    return CompileError(
        "E-OPERAND",
        f"{op}: {label} is no buffer, slice or element of a buffer",
        facts=[f"found {found}"],
        help="pass a buffer A, a slice A[i:j, k:l], or the first element A[i, k] of a tile",
    )


def paired_regions(op: str, first: tuple[str, Any], second: tuple[str, Any]) -> tuple[BufferRegion, BufferRegion]:
    """The regions of two operands of one shape; an element takes its extents from the other operand.

    Raises:
        CompileError: neither operand says extents (E-OPERAND-EXTENT), or an operand is none (E-OPERAND).
    """
    bases = [_base_element(value) for _, value in (first, second)]
    if bases[0] is not None and bases[1] is not None:
        facts = [f"{label} = {base!r}" for (label, _), base in zip((first, second), bases)]
        raise CompileError(
            "E-OPERAND-EXTENT",
            f"{op}: both operands are single elements, so the size of the tile is not known",
            facts=facts,
            help="pass a whole buffer or a slice for one of them; to move one element, assign it",
        )
    if bases[0] is not None:
        other = tile_region(op, *second)
        return _grown(op, first[0], bases[0], second[0], other), other
    if bases[1] is not None:
        other = tile_region(op, *first)
        return other, _grown(op, second[0], bases[1], first[0], other)
    return tile_region(op, *first), tile_region(op, *second)


def scalar_or_region(op: str, label: str, value: Any) -> Any:
    """A tile operand as a region, anything else as it is."""
    return tile_region(op, label, value) if isinstance(value, (Buffer, BufferRegion)) else value


def annotation_pairs(op: str, given: Mapping[str, Any], more: Mapping[str, Any] | None) -> tuple[tuple[str, Any], ...]:
    """Options that were given, as pairs; `more` is the user's own dict."""
    pairs = {key: value for key, value in given.items() if value is not None}
    if more is not None and not (isinstance(more, Mapping) and all(isinstance(key, str) for key in more)):
        raise CompileError(
            "E-OPERAND-OPTION",
            f"{op}: annotations={more!r} is no dict of names",
            help="pass a dict such as {'name': value}",
        )
    pairs.update(more or {})
    return tuple(pairs.items())


def require_option(op: str, label: str, value: Any, allowed: Sequence[Any]) -> Any:
    """`value` when it is one of the allowed."""
    if value in allowed:
        return value
    raise CompileError(
        "E-OPERAND-OPTION",
        f"{op} does not take {label}={value!r}",
        facts=[f"allowed: {', '.join(map(repr, allowed))}"],
        help=f"pass one of them, or leave {label} out",
    )


def require_width(op: str, width: Any) -> None:
    """A coalesced_width: a positive number of elements, or None."""
    if width is None or (type(width) is int and width > 0):
        return
    raise CompileError(
        "E-OPERAND-OPTION",
        f"{op} does not take coalesced_width={width!r}",
        facts=["allowed: a positive integer"],
        help="leave coalesced_width out",
    )


def require_loop_layout(op: str, layout: Any, extents: Sequence[Any]) -> None:
    """A loop_layout: a T.Fragment over the iterations, on no more threads than the block has; or None."""
    if layout is None:
        return
    facts = [f"iterations: {list(extents)!r}", f"found {layout!r}"]
    if not isinstance(layout, Fragment):
        raise CompileError(
            "E-OPERAND-OPTION",
            f"{op} does not take loop_layout={layout!r}",
            facts=facts,
            help="pass a T.Fragment that says which thread runs which iteration",
        )
    sizes = [e.value if isinstance(e, IntImm) else e for e in extents]
    kernel = require_builder(op).kernel
    threads = 1
    for extent in kernel.threads if kernel is not None else ():
        threads *= extent
    if list(layout.domain) == sizes and (kernel is None or not kernel.threads or layout.threads <= threads):
        return
    raise CompileError(
        "E-OPERAND-OPTION",
        f"the loop_layout of {op} does not fit",
        facts=[*facts, f"threads of a block: {threads if kernel is not None and kernel.threads else 'not known'}"],
        help=f"make a T.Fragment of shape {sizes} on the threads of the block",
    )


def require_flag(op: str, label: str, value: Any) -> bool:
    """A bool option."""
    number = value.value if isinstance(value, IntImm) else value
    return bool(require_option(op, label, number, (True, False)))


def _base_element(value: Any) -> BufferLoad | None:
    if isinstance(value, ScalarRef):
        value = value.__tile_expr__()
    return value if isinstance(value, BufferLoad) and not _has_ramp(value) else None


def _has_ramp(load: BufferLoad) -> bool:
    return any(isinstance(index, Ramp) for index in load.indices)


def _grown(op: str, label: str, base: BufferLoad, other_label: str, other: BufferRegion) -> BufferRegion:
    """The tile that begins at `base` and has the other operand's extents, matched from the last axis."""
    extents = [static_value(extent) for extent in other.tile_extents()]
    ndim = len(base.indices)
    while len(extents) > ndim and isinstance(extents[0], IntImm) and extents[0].value == 1:
        extents.pop(0)
    if len(extents) > ndim:
        raise CompileError(
            "E-OPERAND-EXTENT",
            f"{op}: {base.buffer.name} has {ndim} dimension{'' if ndim == 1 else 's'}, the other tile {len(extents)}",
            facts=[f"{label} = {base!r}", f"{other_label} = {other!r}: {list(extents)}"],
            help=f"pass a slice of {other.buffer.name} with at most {ndim} axes",
        )
    leading = ndim - len(extents)
    one = const(1, "int32")
    return BufferRegion(
        base.buffer,
        base.indices,
        (*(one,) * leading, *extents),
        (*(True,) * leading, *(False,) * len(extents)),
        span=base.span,
    )
