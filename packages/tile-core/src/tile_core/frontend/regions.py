"""Indexing: ``A[i, j]`` is an element, ``A[i:j, k]`` a region with constant extents where the difference of its
bounds is one.

`A[...]` on a buffer comes here. An index axis of a region is squeezed: the tile that an op sees does not have it.
"""

from __future__ import annotations

from typing import Any

from ..errors import CompileError, declare_codes
from ..ir import Binary, Buffer, BufferLoad, BufferRegion, Cast, Expr, IntImm, Select, Unary, Var, binary, const
from ..source import Span
from .builder import current_builder, index_of

__all__ = ["element_indices", "item", "linear_terms", "static_value"]

declare_codes(
    {
        "E-REGION-STEP": "a slice with a step",
        "E-REGION-EMPTY": "a slice whose extent is not positive",
    }
)


def item(buffer: Buffer, index: Any, span: Span | None = None) -> BufferLoad | BufferRegion:
    """The element or region of `buffer` that `index` names.

    Indices may be fewer than the dimensions when at least the leading ones are given: the rest is taken whole. An
    Ellipsis stands for as many whole axes as are missing.

    Raises:
        CompileError: too many indices (E-INDEX-RANK), an index that is no integer (E-INDEX-TYPE), a step
            (E-REGION-STEP), an empty slice (E-REGION-EMPTY).
    """
    parts = index if isinstance(index, tuple) else (index,)
    if any(part is Ellipsis for part in parts):
        parts = _expand_ellipsis(buffer, parts, span)
    if len(parts) > len(buffer.shape):
        raise rank_error(buffer, len(parts), span)
    if len(parts) == len(buffer.shape) and not any(type(part) is slice for part in parts):
        return BufferLoad(buffer, element_indices(buffer, parts, span), span=span)
    mins, extents, squeezed = [], [], []
    for axis, size in enumerate(buffer.shape):
        part = parts[axis] if axis < len(parts) else slice(None)
        if isinstance(part, slice):
            low, extent = _slice_bounds(buffer, axis, part, size, span)
            mins.append(low)
            extents.append(extent)
            squeezed.append(False)
        else:
            mins.append(_from_start(index_of(buffer, part, span), size, span))
            extents.append(const(1, "int32", span))
            squeezed.append(True)
    return BufferRegion(buffer, tuple(mins), tuple(extents), tuple(squeezed), span=span)


def element_indices(buffer: Buffer, parts: tuple[Any, ...], span: Span | None = None) -> tuple[Expr, ...]:
    """The indices of an element, one for each dimension; negative constants count from the end."""
    return tuple([_from_start(index_of(buffer, p, span), size, span) for p, size in zip(parts, buffer.shape)])


def _from_start(index: Expr, size: Expr, span: Span | None) -> Expr:
    if not isinstance(index, IntImm) or index.value >= 0:
        return index
    if isinstance(size, IntImm) and size.value + index.value < 0:
        return index  # before the first element: the checks of regions say so
    return binary("add", size, index, span)


def rank_error(buffer: Buffer, count: int, span: Span | None) -> CompileError:
    """The error for an access with the wrong number of indices."""
    return CompileError(
        "E-INDEX-RANK",
        f"{buffer.name} has {buffer.ndim} dimension{'' if buffer.ndim == 1 else 's'} and is indexed with {count}",
        span=span,
        facts=[f"{buffer!r}"],
        help=f"give {buffer.ndim} ind{'ex' if buffer.ndim == 1 else 'ices'}, one a dimension",
    )


def _expand_ellipsis(buffer: Buffer, parts: tuple[Any, ...], span: Span | None) -> tuple[Any, ...]:
    at = [i for i, part in enumerate(parts) if part is Ellipsis]
    missing = buffer.ndim - (len(parts) - 1)
    if len(at) > 1 or missing < 0:
        raise rank_error(buffer, len(parts) - len(at), span)
    return (*parts[: at[0]], *(slice(None),) * missing, *parts[at[0] + 1 :])


def _slice_bounds(buffer: Buffer, axis: int, part: slice, size: Expr, span: Span | None) -> tuple[Expr, Expr]:
    if part.step is not None and not (isinstance(part.step, int) and part.step == 1):
        raise CompileError(
            "E-REGION-STEP",
            f"a slice of {buffer.name} has a step",
            span=span,
            facts=[f"dimension {axis}: step {part.step!r}"],
            help="slices take consecutive elements; use a T.Parallel loop with strided indices",
        )
    low = const(0, "int32", span) if part.start is None else _bound(buffer, part.start, size, span)
    high = size if part.stop is None else _bound(buffer, part.stop, size, span)
    if part.start is None or (isinstance(low, IntImm) and low.value == 0):
        extent = high
    else:
        extent = static_value(binary("sub", high, low, span))
    if isinstance(extent, IntImm) and extent.value <= 0:
        raise CompileError(
            "E-REGION-EMPTY",
            f"a slice of {buffer.name} is empty",
            span=span,
            facts=[f"dimension {axis}: from {low!r} to {high!r}", f"{buffer!r}"],
            help="give a stop after the start",
        )
    return low, extent


def _bound(buffer: Buffer, value: Any, size: Expr, span: Span | None) -> Expr:
    bound = index_of(buffer, value, span)
    if isinstance(bound, IntImm) and bound.value < 0:
        return binary("add", size, bound, span)
    return bound


def static_value(expr: Expr) -> Expr:
    """`expr` as a constant where its terms cancel, else as it was."""
    if isinstance(expr, IntImm):
        return expr
    builder = current_builder()
    constant, terms = linear_terms(expr, builder.values if builder is not None else {})
    return expr if terms else const(constant, expr.dtype, expr.span)


def linear_terms(expr: Expr, values: dict[Var, Expr]) -> tuple[int, dict[Any, int]]:
    """An integer expression as constant + Σ coefficient · term; bound names in `values` are looked through."""
    constant = 0
    terms: dict[Any, int] = {}
    stack: list[tuple[Expr, int]] = [(expr, 1)]
    while stack:
        node, scale = stack.pop()
        if isinstance(node, IntImm):
            constant += scale * node.value
            continue
        if isinstance(node, Var) and node in values:
            stack.append((values[node], scale))
            continue
        if (
            isinstance(node, Cast)
            and node.dtype.is_int
            and node.value.dtype.is_int
            and node.dtype.bits >= node.value.dtype.bits
        ):
            stack.append((node.value, scale))
            continue
        if isinstance(node, Unary) and node.op == "neg":
            stack.append((node.a, -scale))
            continue
        if isinstance(node, Binary):
            if node.op in ("add", "sub"):
                stack.append((node.a, scale))
                stack.append((node.b, scale if node.op == "add" else -scale))
                continue
            if node.op == "mul":
                factors = [f for f in (node.a, node.b) if isinstance(f, IntImm)]
                if factors:
                    other = node.b if factors[0] is node.a else node.a
                    stack.append((other, scale * factors[0].value))
                    continue
        key = _key(node, values)
        total = terms.get(key, 0) + scale
        if total:
            terms[key] = total
        else:
            terms.pop(key, None)
    return constant, terms


def _key(node: Any, values: dict[Var, Expr]) -> Any:
    """A value equal for terms that are the same by construction; loads are only equal to themselves."""
    if isinstance(node, IntImm):
        return ("int", node.value)
    if isinstance(node, Var):
        return _key(values[node], values) if node in values else id(node)
    if isinstance(node, Binary):
        if node.op in ("add", "sub", "mul"):
            constant, terms = linear_terms(node, values) if node.op != "mul" else (0, {})
            if node.op != "mul":
                return ("sum", constant, tuple(sorted(terms.items(), key=repr)))
        return (node.op, _key(node.a, values), _key(node.b, values))
    if isinstance(node, Unary):
        return (node.op, _key(node.a, values))
    if isinstance(node, Cast):
        return ("cast", node.dtype.name, _key(node.value, values))
    if isinstance(node, Select):
        return ("select", *(_key(n, values) for n in (node.condition, node.true_value, node.false_value)))
    return id(node)
