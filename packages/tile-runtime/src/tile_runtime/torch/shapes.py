"""Shapes of a kernel's outputs from those of its inputs, where these may be torch's symbolic integers.

The traced function says both: an input's extent that is a variable gives that variable its value; any other extent is a
condition. Nothing here turns a symbolic size into a number unless the kernel was traced for that number.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tile_core.analysis import accesses_of, root_buffer
from tile_core.errors import OptionError, declare_codes
from tile_core.ir import Binary, Buffer, Cast, Expr, IntImm, PrimFunc, Stmt, Unary, Var, walk

from ..arguments import argument_error
from ..signature import Signature

__all__ = ["bound_sizes", "extent_value", "hint", "written_inputs"]

declare_codes({"E-TORCH-SHAPE": "a torch operator cannot tell the shape of an output"})


def bound_sizes(function: PrimFunc, signature: Signature, inputs: Sequence[Any]) -> dict[int, Any]:
    """The value of each shape variable (by id) for these inputs.

    Raises:
        ArgumentError: an input whose rank, type or extent is not the declared one.
    """
    sizes: dict[int, Any] = {}
    conditions: list[tuple[str, int, Expr, Any]] = []
    params = [param for index, param in enumerate(function.params) if index not in signature.out_idx]
    for param, value in zip(params, inputs):
        if not isinstance(param, Buffer) or value is None:
            continue
        dtype = str(value.dtype).removeprefix("torch.")
        if len(value.shape) != len(param.shape):
            raise argument_error(signature, param.name, "ndim", str(len(param.shape)), str(len(value.shape)))
        if dtype != param.dtype.name:
            raise argument_error(signature, param.name, "dtype", param.dtype.name, dtype)
        for axis, (extent, size) in enumerate(zip(param.shape, value.shape)):
            if isinstance(extent, Var) and id(extent) not in sizes:
                sizes[id(extent)] = size
            else:
                conditions.append((param.name, axis, extent, size))
    for name, axis, extent, size in conditions:
        wanted = extent_value(extent, sizes, signature)
        if bool(wanted != size):  # a symbolic size gets its guard here
            raise argument_error(signature, name, f"shape[{axis}]", str(wanted), str(size))
    return sizes


def extent_value(extent: int | Expr, sizes: Mapping[int, Any], signature: Signature) -> Any:
    """An extent as an int, or as one of torch's symbolic integers.

    Raises:
        OptionError: a variable that no input's shape tells.
    """
    if isinstance(extent, int):
        return extent
    if isinstance(extent, IntImm):
        return extent.value
    if isinstance(extent, Var) and id(extent) in sizes:
        return sizes[id(extent)]
    if isinstance(extent, Cast):
        return extent_value(extent.value, sizes, signature)
    if isinstance(extent, Binary) and extent.op in _OPERATORS:
        return _OPERATORS[extent.op](extent_value(extent.a, sizes, signature), extent_value(extent.b, sizes, signature))
    if isinstance(extent, Unary) and extent.op == "neg":
        return -extent_value(extent.a, sizes, signature)
    raise OptionError(
        "E-TORCH-SHAPE",
        f"{signature.name}: the extent {extent!r} of an output is not told by the inputs' shapes",
        facts=(f"inputs: {', '.join(map(str, signature.inputs)) or 'none'}",),
        help="use the dimension alone as an extent of an input tensor",
    )


def written_inputs(function: PrimFunc, out_idx: Sequence[int]) -> tuple[str, ...]:
    """Names of the input tensors that the kernel writes, from the effects of its statements."""
    written = {
        id(root_buffer(site.buffer))
        for stmt in walk(function.body)
        if isinstance(stmt, Stmt)
        for site in accesses_of(stmt)
        if site.writes
    }
    return tuple(
        param.name
        for index, param in enumerate(function.params)
        if index not in out_idx and isinstance(param, Buffer) and id(param) in written
    )


def hint(size: Any) -> int:
    """A number for a size: itself, or what torch's symbolic integer stands for in this trace; makes no guard.

    Raises:
        OptionError: a size that depends on data.
    """
    if isinstance(size, int):
        return size
    known = size.node.hint
    if known is None:
        raise OptionError(
            "E-TORCH-SHAPE",
            f"the size {size} depends on data, and a kernel is traced for known sizes",
            help="give the operator tensors whose sizes torch can tell, or leave it out of the compiled region",
        )
    return int(known)


def _minimum(a: Any, b: Any) -> Any:
    import torch

    return torch.sym_min(a, b)


def _maximum(a: Any, b: Any) -> Any:
    import torch

    return torch.sym_max(a, b)


_OPERATORS = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "floordiv": lambda a, b: a // b,
    "floormod": lambda a, b: a % b,
    "truncdiv": lambda a, b: a // b,  # extents are not negative
    "truncmod": lambda a, b: a % b,
    "min": _minimum,
    "max": _maximum,
}
