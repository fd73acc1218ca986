"""Evaluating integer expressions on concrete values: the brute force that witnesses and tests stand on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..ir import (
    BINARY_OPERATORS,
    Binary,
    Broadcast,
    Call,
    Cast,
    Expr,
    IntImm,
    Let,
    Ramp,
    Select,
    Shuffle,
    Unary,
    Var,
)
from ..ir.fold import fold_int

__all__ = ["Undefined", "evaluate"]


class Undefined(ValueError):
    """The expression has no value here: a division by zero, a shift out of range, a variable without value, or
    memory."""


def evaluate(expr: Expr, env: Mapping[Var, int]) -> Any:
    """The value of an integer or bool expression for given variables, in Python ints; a list of lanes for a vector.

    Index types (int32, int64) do not wrap, narrower and unsigned ones do.

    Raises:
        Undefined: it has no value for these variables.
    """
    return _Evaluator(env).value(expr)


class _Evaluator:
    def __init__(self, env: Mapping[Var, int]) -> None:
        self.env = dict(env)

    def value(self, node: Expr) -> Any:
        # Left-deep chains without recursion.
        pending: list[Binary] = []
        while type(node) is Binary:
            pending.append(node)
            node = node.a
        result = self._leaf(node)
        for item in reversed(pending):
            result = self._binary(item, result)
        return result

    def _leaf(self, node: Expr) -> Any:
        if isinstance(node, IntImm):
            return node.value
        if isinstance(node, Var):
            if node not in self.env:
                raise Undefined(f"variable {node.name} has no value")
            return self.env[node]
        if isinstance(node, Unary):
            return _lanes(lambda a: _unary(node.op, a, node), self.value(node.a))
        if isinstance(node, Cast) and not node.dtype.is_float and not node.value.dtype.is_float:
            return _lanes(lambda a: _fit(a, node), self.value(node.value))
        if isinstance(node, Select):
            return self._select(node)
        if isinstance(node, Let):
            self.env[node.var] = self.value(node.value)
            return self.value(node.body)
        if isinstance(node, Ramp):
            base, stride = self.value(node.base), self.value(node.stride)
            return [base + stride * lane for lane in range(node.lanes)]
        if isinstance(node, Broadcast):
            value = self.value(node.value)
            return (value if isinstance(value, list) else [value]) * node.lanes
        if isinstance(node, Shuffle):
            joined: list[Any] = []
            for vector in node.vectors:
                value = self.value(vector)
                joined += value if isinstance(value, list) else [value]
            return [joined[i] for i in node.indices]
        if isinstance(node, Call) and node.op == "likely":
            return self.value(node.args[0])
        raise Undefined(f"{type(node).__name__} has no value at compile time")

    def _binary(self, node: Binary, left: Any) -> Any:
        if node.a.dtype.is_float:
            raise Undefined("a float has no value at compile time")
        if node.op in ("and", "or") and not isinstance(left, list) and bool(left) == (node.op == "or"):
            return int(node.op == "or")
        right = self.value(node.b)
        return _lanes(lambda a, b: _apply(node, a, b), left, right)

    def _select(self, node: Select) -> Any:
        condition = self.value(node.condition)
        if not isinstance(condition, list):
            return self.value(node.true_value if condition else node.false_value)
        return _lanes(
            lambda c, a, b: a if c else b, condition, self.value(node.true_value), self.value(node.false_value)
        )


def _apply(node: Binary, a: int, b: int) -> int:
    # fold_int wraps to the type; index arithmetic does not, so it is folded in a type that is never left.
    dtype = node.a.dtype.scalar
    if dtype.name in ("int32", "int64") and not BINARY_OPERATORS[node.op][1]:
        folded = _unbounded(node.op, a, b)
    else:
        folded = fold_int(node.op, a, b, dtype)
    if folded is None:
        raise Undefined(f"{node.op} of {a} and {b} has no value")
    return int(folded)


def _unbounded(op: str, a: int, b: int) -> int | None:
    if op in ("floordiv", "floormod", "truncdiv", "truncmod"):
        if b == 0:
            return None
        if op == "floordiv":
            return a // b
        if op == "floormod":
            return a % b
        quotient = abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
        return quotient if op == "truncdiv" else a - quotient * b
    if op in ("shl", "shr"):
        return None if not 0 <= b < 64 else a << b if op == "shl" else a >> b
    return {
        "add": a + b,
        "sub": a - b,
        "mul": a * b,
        "min": min(a, b),
        "max": max(a, b),
        "bitand": a & b,
        "bitor": a | b,
        "bitxor": a ^ b,
    }.get(op)


def _unary(op: str, a: int, node: Unary) -> int:
    if op == "not":
        return int(not a)
    return _fit(-a if op == "neg" else ~a, node)


def _fit(value: int, node: Expr) -> int:
    dtype = node.dtype.scalar
    if dtype.is_bool:
        return int(bool(value))
    if dtype.name in ("int32", "int64") and not (isinstance(node, Cast) and node.value.dtype.bits > dtype.bits):
        return value
    value &= (1 << dtype.bits) - 1
    return value - (1 << dtype.bits) if dtype.kind == "i" and value >> (dtype.bits - 1) else value


def _lanes(function: Any, *values: Any) -> Any:
    lanes = max((len(v) for v in values if isinstance(v, list)), default=0)
    if not lanes:
        return function(*values)
    spread = [v if isinstance(v, list) else [v] * lanes for v in values]
    return [function(*items) for items in zip(*spread)]
