"""Element-wise operations: what each is in the language and in torch, on which types, and which operands make sense.

`OPERATIONS` is the table. A row's torch function may be None for a type that torch lacks; then the row's numpy
function answers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

import tile_core.language as T

from .harness import FLOATS, INTEGERS

__all__ = ["OPERATIONS", "Operation", "cast_kernel", "element_kernel", "operands"]


@dataclass(frozen=True)
class Operation:
    """A row.

    Args:
        name: for reports.
        ours: (x, y) → expression.
        theirs: (x, y) → tensor, or None where torch has no such function; then `numpy` answers.
        numpy: (x, y) → array.
        types: element types that it takes.
        domain: range of x, for floats.
        second: range of y; for integers, too.
    """

    name: str
    ours: Callable[[Any, Any], Any]
    theirs: Callable[[Any, Any], Any] | None = None
    numpy: Callable[[Any, Any], Any] | None = None
    types: tuple[str, ...] = FLOATS
    domain: tuple[float, float] = (-8.0, 8.0)
    second: tuple[float, float] | None = None


def _truncdiv(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return (np.sign(x) * np.sign(y) * (np.abs(x.astype(object)) // np.abs(y.astype(object)))).astype(x.dtype)


_SIGNED = tuple(t for t in INTEGERS if t.startswith("i"))
_ALL = (*INTEGERS, *FLOATS)

OPERATIONS: tuple[Operation, ...] = (
    Operation("add", lambda x, y: x + y, lambda x, y: x + y, np.add, _ALL),
    Operation("sub", lambda x, y: x - y, lambda x, y: x - y, np.subtract, _ALL),
    Operation("mul", lambda x, y: x * y, lambda x, y: x * y, np.multiply, _ALL),
    Operation("div", lambda x, y: x / y, lambda x, y: x / y, second=(0.5, 8.0)),
    Operation("min", lambda x, y: T.min(x, y), torch.minimum, np.minimum, _ALL),
    Operation("max", lambda x, y: T.max(x, y), torch.maximum, np.maximum, _ALL),
    Operation("neg", lambda x, y: -x, lambda x, y: -x, lambda x, y: np.negative(x), (*_SIGNED, *FLOATS)),
    Operation("abs", lambda x, y: T.abs(x), lambda x, y: torch.abs(x), lambda x, y: np.abs(x), (*_SIGNED, *FLOATS)),
    Operation("floordiv", lambda x, y: x // y, None, np.floor_divide, INTEGERS, second=(1, 100)),
    Operation("floormod", lambda x, y: x % y, None, np.remainder, INTEGERS, second=(1, 100)),
    Operation("truncdiv", lambda x, y: T.truncdiv(x, y), None, _truncdiv, INTEGERS, second=(1, 100)),
    Operation("truncmod", lambda x, y: T.truncmod(x, y), None, np.fmod, INTEGERS, second=(1, 100)),
    Operation("and", lambda x, y: x & y, None, np.bitwise_and, INTEGERS),
    Operation("or", lambda x, y: x | y, None, np.bitwise_or, INTEGERS),
    Operation("xor", lambda x, y: x ^ y, None, np.bitwise_xor, INTEGERS),
    Operation("not", lambda x, y: ~x, None, lambda x, y: np.invert(x), INTEGERS),
    Operation("shl", lambda x, y: x << y, None, np.left_shift, INTEGERS, second=(0, 7)),
    Operation("shr", lambda x, y: x >> y, None, np.right_shift, INTEGERS, second=(0, 7)),
    Operation(
        "select",
        lambda x, y: T.Select(x < y, x, y + y),
        lambda x, y: torch.where(x < y, x, y + y),
        types=FLOATS,
    ),
    Operation("if_then_else", lambda x, y: T.if_then_else(x >= y, x, y), lambda x, y: torch.where(x >= y, x, y)),
    Operation("exp", lambda x, y: T.exp(x), lambda x, y: torch.exp(x)),
    Operation("exp2", lambda x, y: T.exp2(x), lambda x, y: torch.exp2(x)),
    Operation("log", lambda x, y: T.log(x), lambda x, y: torch.log(x), domain=(0.01, 50.0)),
    Operation("log2", lambda x, y: T.log2(x), lambda x, y: torch.log2(x), domain=(0.01, 50.0)),
    Operation("log10", lambda x, y: T.log10(x), lambda x, y: torch.log10(x), domain=(0.01, 50.0)),
    Operation("log1p", lambda x, y: T.log1p(x), lambda x, y: torch.log1p(x), domain=(-0.5, 50.0)),
    Operation("sqrt", lambda x, y: T.sqrt(x), lambda x, y: torch.sqrt(x), domain=(0.0, 100.0)),
    Operation("rsqrt", lambda x, y: T.rsqrt(x), lambda x, y: torch.rsqrt(x), domain=(0.01, 100.0)),
    Operation("sin", lambda x, y: T.sin(x), lambda x, y: torch.sin(x)),
    Operation("cos", lambda x, y: T.cos(x), lambda x, y: torch.cos(x)),
    Operation("tan", lambda x, y: T.tan(x), lambda x, y: torch.tan(x), domain=(-1.4, 1.4)),
    Operation("asin", lambda x, y: T.asin(x), lambda x, y: torch.asin(x), domain=(-1.0, 1.0)),
    Operation("acos", lambda x, y: T.acos(x), lambda x, y: torch.acos(x), domain=(-1.0, 1.0)),
    Operation("atan", lambda x, y: T.atan(x), lambda x, y: torch.atan(x)),
    Operation("sinh", lambda x, y: T.sinh(x), lambda x, y: torch.sinh(x), domain=(-4.0, 4.0)),
    Operation("cosh", lambda x, y: T.cosh(x), lambda x, y: torch.cosh(x), domain=(-4.0, 4.0)),
    Operation("tanh", lambda x, y: T.tanh(x), lambda x, y: torch.tanh(x)),
    Operation("asinh", lambda x, y: T.asinh(x), lambda x, y: torch.asinh(x)),
    Operation("acosh", lambda x, y: T.acosh(x), lambda x, y: torch.acosh(x), domain=(1.1, 50.0)),
    Operation("atanh", lambda x, y: T.atanh(x), lambda x, y: torch.atanh(x), domain=(-0.9, 0.9)),
    Operation("erf", lambda x, y: T.erf(x), lambda x, y: torch.erf(x)),
    Operation("sigmoid", lambda x, y: T.sigmoid(x), lambda x, y: torch.sigmoid(x)),
    Operation("floor", lambda x, y: T.floor(x), lambda x, y: torch.floor(x)),
    Operation("ceil", lambda x, y: T.ceil(x), lambda x, y: torch.ceil(x)),
    Operation("trunc", lambda x, y: T.trunc(x), lambda x, y: torch.trunc(x)),
    Operation("round", lambda x, y: T.round(x), lambda x, y: torch.round(x)),
    Operation("pow", lambda x, y: T.pow(x, y), lambda x, y: torch.pow(x, y), domain=(0.1, 4.0), second=(-3.0, 3.0)),
    Operation("fmod", lambda x, y: T.fmod(x, y), lambda x, y: torch.fmod(x, y), second=(0.5, 4.0)),
    Operation("atan2", lambda x, y: T.atan2(x, y), lambda x, y: torch.atan2(x, y)),
    Operation("hypot", lambda x, y: T.hypot(x, y), None, np.hypot),
    Operation("copysign", lambda x, y: T.copysign(x, y), lambda x, y: torch.copysign(x, y)),
)


def operands(operation: Operation, dtype: str, count: int, rng: np.random.Generator) -> tuple[Any, Any]:
    """Operands of an operation as numpy arrays; integers over their whole range unless the row says otherwise."""
    from tile_core.testing.supply import random_array

    low, high = operation.domain
    integer = dtype in INTEGERS
    x = random_array((count,), dtype, rng) if integer else random_array((count,), dtype, rng, low=low, high=high)
    if operation.second is not None:
        a, b = operation.second
        y = random_array((count,), dtype, rng, low=int(a) if integer else a, high=int(b) if integer else b)
    else:
        y = random_array((count,), dtype, rng) if integer else random_array((count,), dtype, rng, low=low, high=high)
    return x, y


def element_kernel(count: int, dtype: str, functions: tuple[Callable[[Any, Any], Any], ...]) -> Any:
    """OUT[k, i] = functions[k](X[k, i], Y[k, i])."""
    block = 256
    rows = len(functions)

    @T.prim_func
    def elements(
        X: T.Tensor((rows, count), dtype), Y: T.Tensor((rows, count), dtype), OUT: T.Tensor((rows, count), dtype)
    ):
        with T.Kernel(T.ceildiv(count, block), threads=128) as bx:
            for k, function in enumerate(functions):
                for i in T.Parallel(block):
                    OUT[k, bx * block + i] = function(X[k, bx * block + i], Y[k, bx * block + i])

    return elements


def cast_kernel(count: int, source: str, targets: tuple[str, ...]) -> Any:
    """A function of X and one output for each target type: OUT_k[i] = X[i] converted."""
    from tile_core.frontend import from_source

    block = 256
    names = [f"OUT_{t}" for t in targets]
    parameters = ", ".join(f'{n}: T.Tensor(({count},), "{t}")' for n, t in zip(names, targets))
    body = "\n".join(
        f'            {n}[bx * {block} + i] = T.cast(X[bx * {block} + i], "{t}")' for n, t in zip(names, targets)
    )
    text = f"""
@T.prim_func
def casts(X: T.Tensor(({count},), "{source}"), {parameters}):
    with T.Kernel(T.ceildiv({count}, {block}), threads=128) as bx:
        for i in T.Parallel({block}):
{body}
"""
    return from_source(text, {"T": T})
