"""What a kernel takes and gives, read from its PrimFunc once.

`Signature` answers what callers of a kernel ask: how many inputs, which parameters are outputs, the shape of a
parameter for given sizes of its symbolic dimensions, and where in the source it was written (for errors).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..errors import OptionError, declare_codes
from ..source import Span
from .buffer import Buffer
from .expr import Binary, Cast, Expr, IntImm, Unary, Var
from .function import PrimFunc

__all__ = ["KernelParam", "Signature", "normalize_out_idx"]

declare_codes(
    {
        "E-OUT-IDX": "out_idx names a parameter that cannot be returned",
        "E-SYMBOLIC-SIZE": "a symbolic dimension has no size here",
    }
)


@dataclass(frozen=True)
class KernelParam:
    """One parameter of a kernel.

    Args:
        name: as the author wrote it.
        dtype: name of the element type (of the value, for a scalar).
        shape: extents, an int or an expression of symbolic dimensions each; None for a scalar or pointer.
        strides: in elements, like `shape`; () for row-major.
        is_output: allocated by the kernel and returned.
        span: where it was written.
    """

    name: str
    dtype: str
    shape: tuple[int | Expr, ...] | None
    strides: tuple[int | Expr, ...]
    is_output: bool
    span: Span | None

    @property
    def is_tensor(self) -> bool:
        return self.shape is not None

    def __str__(self) -> str:
        if self.shape is None:
            return f"{self.name}: {self.dtype}"
        return f"{self.name}: {self.dtype}[{', '.join(map(str, self.shape))}]"


class Signature:
    """The parameters of `function`; those in its ``out_idx`` attribute are outputs."""

    def __init__(self, function: PrimFunc) -> None:
        self.name = function.name
        self.out_idx = normalize_out_idx(function.attr("out_idx", ()), function)
        self.params = tuple(_param(param, index in self.out_idx) for index, param in enumerate(function.params))
        self.inputs = tuple(param for param in self.params if not param.is_output)
        self.outputs = tuple(self.params[index] for index in self.out_idx)
        self.symbols = function.size_vars()

    def find(self, name: str) -> KernelParam | None:
        """The parameter of that name."""
        return next((param for param in self.params if param.name == name), None)

    def shape_of(self, param: KernelParam, sizes: Mapping[str, int] | None = None) -> tuple[int, ...]:
        """The extents of a tensor parameter, with symbolic dimensions (by name) taken from `sizes`.

        Raises:
            OptionError: a dimension that the shape needs is not in `sizes`.
        """
        assert param.shape is not None
        return tuple(evaluate(extent, sizes or {}, param) for extent in param.shape)


def normalize_out_idx(out_idx: int | Sequence[int] | None, function: PrimFunc) -> tuple[int, ...]:
    """`out_idx` as positions from the front, in the order given.

    Raises:
        OptionError: a position outside the parameter list, twice, or of a parameter that is no tensor.
    """
    given = () if out_idx is None else (out_idx,) if isinstance(out_idx, int) else tuple(out_idx)
    count = len(function.params)
    found: list[int] = []
    for position in given:
        problem = None
        if isinstance(position, bool) or not isinstance(position, int) or not -count <= position < count:
            problem = f"{position!r} is no position in a list of {count} parameters"
        elif position % count in found:
            problem = f"parameter {position % count} is named twice"
        elif not isinstance(function.params[position], Buffer):
            problem = f"parameter {position % count} ({function.params[position].name}) is no tensor"
        if problem is not None:
            names = ", ".join(f"{index}: {param.name}" for index, param in enumerate(function.params))
            raise OptionError(
                "E-OUT-IDX",
                f"{function.name}: out_idx={out_idx!r}: {problem}",
                span=function.span,
                facts=(f"parameters: {names}",),
                help=f"name tensors by their position, from 0 to {count - 1} or from -1 to -{count}",
            )
        found.append(position % count)
    return tuple(found)


def evaluate(extent: int | Expr, sizes: Mapping[str, int], param: KernelParam) -> int:
    """The value of a shape expression for the given sizes of its variables, by name."""
    if isinstance(extent, int):
        return extent
    if isinstance(extent, IntImm):
        return extent.value
    if isinstance(extent, Var):
        if extent.name in sizes:
            return int(sizes[extent.name])
        raise OptionError(
            "E-SYMBOLIC-SIZE",
            f"the dimension {extent.name} of {param} has no size",
            span=param.span,
            facts=(f"sizes given: {', '.join(f'{name}={value}' for name, value in sizes.items()) or 'none'}",),
            help=f"pass input tensors, or dynamic_symbolic_constraints={{{extent.name!r}: …}}",
        )
    if isinstance(extent, Cast):
        return evaluate(extent.value, sizes, param)
    if isinstance(extent, Binary) and extent.op in _BINARY:
        return _BINARY[extent.op](evaluate(extent.a, sizes, param), evaluate(extent.b, sizes, param))
    if isinstance(extent, Unary) and extent.op == "neg":
        return -evaluate(extent.a, sizes, param)
    raise OptionError(
        "E-SYMBOLIC-SIZE",
        f"the extent {extent!r} of {param} cannot be computed outside the kernel",
        span=param.span,
        help="pass input tensors instead of asking for generated ones",
    )


_BINARY = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "floordiv": lambda a, b: a // b,
    "floormod": lambda a, b: a % b,
    "truncdiv": lambda a, b: abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1),
    "min": min,
    "max": max,
}


def _param(param: Buffer | Var, is_output: bool) -> KernelParam:
    if isinstance(param, Buffer):
        shape = tuple(_constant(extent) for extent in param.shape)
        strides = tuple(_constant(stride) for stride in param.strides)
        return KernelParam(param.name, param.dtype.name, shape, strides, is_output, param.span)
    return KernelParam(param.name, param.dtype.name, None, (), is_output, param.span)


def _constant(value: Any) -> int | Expr:
    return value.value if isinstance(value, IntImm) else value
