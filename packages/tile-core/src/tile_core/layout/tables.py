"""Tables: what a layout means, as numbers. This is the one module of the room that loads numpy, on first use.

A table is an int64 array of the domain's shape. Equal tables are kept once, so comparing two of them is an identity
test the second time.
"""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np

from ..ir import Binary, Broadcast, Cast, Expr, IntImm, Select, Unary, Var

__all__ = ["evaluate_map", "flatten", "intern", "tabulate"]

_interned: dict[tuple[Any, ...], np.ndarray] = {}
_MOST_KEPT = 4096


def intern(table: np.ndarray) -> np.ndarray:
    """The one array with these contents; it is read-only."""
    table = np.ascontiguousarray(table, dtype=np.int64)
    key = (table.shape, hashlib.blake2b(table.tobytes(), digest_size=16).digest())
    found = _interned.get(key)
    if found is None:
        if len(_interned) >= _MOST_KEPT:
            _interned.clear()
        table.setflags(write=False)
        found = _interned[key] = table
    return found


def tabulate(variables: tuple[Var, ...], results: tuple[Expr, ...], extents: tuple[int, ...]) -> list[np.ndarray]:
    """Each result for all values of the variables, as arrays of shape `extents`."""
    grids = np.meshgrid(*(np.arange(e, dtype=np.int64) for e in extents), indexing="ij", sparse=True)
    env = dict(zip(variables, grids))
    return [np.broadcast_to(_value(r, env), extents) for r in results]


def evaluate_map(variables: tuple[Var, ...], results: tuple[Expr, ...], points: list[np.ndarray]) -> list[np.ndarray]:
    """Each result at given points: one array for each variable, all of one shape."""
    env = dict(zip(variables, (np.asarray(p, dtype=np.int64) for p in points)))
    return [np.asarray(_value(r, env), dtype=np.int64) for r in results]


def flatten(parts: list[np.ndarray], extents: tuple[int, ...]) -> np.ndarray:
    """Row-major offsets of points given by coordinate arrays."""
    offset = np.zeros_like(np.asarray(parts[0], dtype=np.int64)) if parts else np.zeros((), dtype=np.int64)
    for part, extent in zip(parts, extents):
        offset = offset * extent + part
    return offset


def _value(node: Expr, env: dict[Var, Any]) -> Any:
    pending: list[Binary] = []
    while type(node) is Binary:
        pending.append(node)
        node = node.a
    result = _leaf(node, env)
    for item in reversed(pending):
        result = _OPERATIONS[item.op](result, _value(item.b, env))
    return result


def _leaf(node: Expr, env: dict[Var, Any]) -> Any:
    if isinstance(node, IntImm):
        return np.int64(node.value)
    if isinstance(node, Var):
        return env[node]
    if isinstance(node, Unary):
        inner = _value(node.a, env)
        return -inner if node.op == "neg" else ~inner if node.op == "bitnot" else np.logical_not(inner)
    if isinstance(node, Select):
        return np.where(_value(node.condition, env), _value(node.true_value, env), _value(node.false_value, env))
    if isinstance(node, (Cast, Broadcast)):
        return _value(node.value, env)
    raise TypeError(f"{type(node).__name__} in an index map")


def _truncdiv(a: Any, b: Any) -> Any:
    return np.sign(a) * np.sign(b) * (np.abs(a) // np.abs(b))


_OPERATIONS: dict[str, Any] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "floordiv": np.floor_divide,
    "floormod": np.mod,
    "truncdiv": _truncdiv,
    "truncmod": lambda a, b: a - _truncdiv(a, b) * b,
    "min": np.minimum,
    "max": np.maximum,
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "and": np.logical_and,
    "or": np.logical_or,
    "bitand": np.bitwise_and,
    "bitor": np.bitwise_or,
    "bitxor": np.bitwise_xor,
    "shl": np.left_shift,
    "shr": np.right_shift,
}
