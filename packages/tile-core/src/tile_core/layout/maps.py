"""Index maps: tuples of expressions over index variables, made from Python functions and brought to canonical form."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING, Any

from ..errors import CompileError, declare_codes
from ..ir import (
    Binary,
    BufferLoad,
    Call,
    Cast,
    Expr,
    FloatImm,
    IntImm,
    Select,
    Unary,
    Var,
    as_expr,
    binary,
    cast,
    const,
    select,
    substitute,
    unary,
    walk,
)
from ..ir.values import IndexMap

if TYPE_CHECKING:
    from ..arith import Simplifier

__all__ = ["Affine", "affine_of", "apply_map", "flat_index", "make_map", "static_extents", "trace", "unflatten"]

declare_codes(
    {
        "E-LAYOUT-SHAPE": "a layout's shape is no tuple of constant positive extents",
        "E-LAYOUT-MAP": "a layout's function does not map indices to indices",
    }
)

INT32 = "int32"
_NAMES = "ijklmnpqrs"
# One output of an affine map: a coefficient for each axis, and a constant.
Affine = tuple[tuple[int, ...], int]


def static_extents(shape: Any, what: str) -> tuple[int, ...]:
    """A shape as a tuple of positive ints.

    Raises:
        CompileError: an extent is symbolic, not an integer, or not positive.
    """
    items = shape if isinstance(shape, (tuple, list)) else (shape,)
    extents = []
    for item in items:
        value = item.value if isinstance(item, IntImm) else item
        if isinstance(value, bool) or not hasattr(value, "__index__") or int(value) < 1:
            raise CompileError(
                "E-LAYOUT-SHAPE",
                f"{what}: {item!r} is no constant positive extent",
                facts=[f"found shape {tuple(items)!r}"],
                help="lay out tiles of constant size; sizes known only at run time belong to global tensors",
            )
        extents.append(int(value))
    return tuple(extents)


def trace(forward: Any, variables: Sequence[Var], what: str) -> tuple[Expr, ...]:
    """The results of a Python function, or of an IndexMap, on index variables.

    Raises:
        CompileError: the function does not take that many indices, or gives something that is no index.
    """
    if isinstance(forward, IndexMap):
        renamed = dict(zip(forward.vars, variables))
        return tuple(substitute(r, renamed) for r in forward.results)
    if not callable(forward):
        raise _no_map(what, f"{forward!r} is no function")
    try:
        inspect.signature(forward).bind(*variables)
    except TypeError as error:
        raise _no_map(what, f"it is called with {len(variables)} indices: {error}") from error
    except ValueError:
        # A builtin without a signature: calling it tells.
        pass
    given = forward(*variables)
    results = tuple(given) if isinstance(given, (tuple, list)) else (given,)
    if not results:
        raise _no_map(what, "it returned an empty tuple")
    found = []
    for result in results:
        if isinstance(result, bool) or not isinstance(result, (int, Expr)):
            raise _no_map(what, f"it returned {result!r}")
        expr = as_expr(result)
        if not expr.dtype.is_int or expr.dtype.lanes != 1:
            raise _no_map(what, f"it returned {expr!r}, which is {expr.dtype}")
        for item in walk(expr):
            if isinstance(item, Var) and not any(item is v for v in variables):
                raise _no_map(what, f"it uses {item.name}, which is none of its indices")
            if isinstance(item, (BufferLoad, Call, FloatImm)):
                raise _no_map(what, f"it uses {item!r}, which is no arithmetic on indices")
        found.append(expr)
    return tuple(found)


def make_map(
    forward: Any, extents: tuple[int, ...], what: str
) -> tuple[IndexMap, tuple[Affine | None, ...], tuple[tuple[int, int], ...]]:
    """(canonical map, affine form of each result or None, bounds of each result) on the box `extents`."""
    # The language exports Layout; importing it should not load the arithmetic before a layout is made.
    from ..arith import Simplifier

    variables = tuple(Var(name) for name in index_names(len(extents)))
    simplifier = Simplifier({v: (0, e) for v, e in zip(variables, extents)})
    results = tuple(simplifier.simplify(r) for r in trace(forward, variables, what))
    affine = tuple(affine_of(simplifier, r, variables) for r in results)
    bounds = []
    for result in results:
        values = simplifier.sharp_interval(simplifier.linear(result))
        bounds.append((values.lo, values.hi))
    return IndexMap(variables, results), affine, tuple(bounds)


def affine_of(simplifier: Simplifier, result: Expr, variables: tuple[Var, ...]) -> Affine | None:
    """Coefficients and constant of an affine result."""
    sum_ = simplifier.linear(result)
    numbers = {simplifier.number(v): axis for axis, v in enumerate(variables)}
    coefficients = [0] * len(variables)
    for index, k in sum_.terms.items():
        axis = numbers.get(index)
        if axis is None:
            return None
        coefficients[axis] = k
    return tuple(coefficients), sum_.const


def index_names(count: int) -> tuple[str, ...]:
    """Names for index variables: i, j, k …"""
    return tuple(_NAMES[k] if k < len(_NAMES) else f"i{k}" for k in range(count))


def apply_map(index_map: IndexMap, indices: Sequence[Any]) -> tuple[Expr, ...]:
    """The results of a map at given indices (expressions of any integer type, or ints); constants are folded."""
    values: dict[int, Any] = {id(v): as_expr(i) for v, i in zip(index_map.vars, indices)}
    return tuple(_rebuilt(r, values) for r in index_map.results)


def _rebuilt(node: Any, values: dict[int, Any]) -> Any:
    found = values.get(id(node))
    if found is not None:
        return found
    if isinstance(node, Binary):
        # binary() brings index types together: a map is written over int32, indices may be int64.
        return binary(node.op, _rebuilt(node.a, values), _rebuilt(node.b, values))
    if isinstance(node, Unary):
        return unary(node.op, _rebuilt(node.a, values))
    if isinstance(node, Select):
        parts = [_rebuilt(part, values) for part in (node.condition, node.true_value, node.false_value)]
        return select(*parts)
    if isinstance(node, Cast):
        return cast(_rebuilt(node.value, values), node.dtype)
    return node


def flat_index(indices: Sequence[Any], extents: Sequence[int]) -> Expr:
    """The row-major offset of indices."""
    offset: Any = const(0, INT32)
    for index, extent in zip(indices, extents):
        offset = offset * extent + index
    return as_expr(offset)


def unflatten(offset: Any, extents: Sequence[int]) -> tuple[Any, ...]:
    """Indices of a row-major offset; the first index is not reduced."""
    found = []
    for axis in range(len(extents)):
        inner = prod(extents[axis + 1 :])
        index = offset // inner if inner != 1 else offset
        found.append(index % extents[axis] if axis else index)
    return tuple(found)


def _no_map(what: str, found: str) -> CompileError:
    return CompileError(
        "E-LAYOUT-MAP",
        f"{what}: the function does not map indices to indices",
        facts=[found],
        help="give a function of one index an axis that returns an index or a tuple of indices, "
        "made with + - * // % and ^",
    )
