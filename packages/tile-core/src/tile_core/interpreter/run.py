"""interpret: a function run in numpy, on the caller's arrays."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..dtypes import DType
from ..ir import Buffer, IRModule, PrimFunc, SizeVar, Var
from .faults import ExecutionFault
from .machine import Machine
from .memory import Nibbles, Storage
from .values import numpy_type

__all__ = ["interpret"]


def interpret(
    function: PrimFunc | IRModule,
    *args: Any,
    strict: bool = False,
    check_written: bool = False,
    sizes: Mapping[str, int] | None = None,
    limit: int = 1_000_000,
    batch: bool = True,
) -> None:
    """Runs a function of any form from TILE to FLAT; arrays are changed in place.

    Args:
        function: the function, or a module with one function. args: one for each parameter, outputs too: numpy arrays
            (bfloat16 and 8-bit floats in their ml_dtypes types) and Python numbers. strict: accesses outside global
            buffers are faults, as they are once a pass has guarded them; else reads give 0 and writes are dropped.
            check_written: reading on-chip memory that nobody wrote is a fault; without, such memory holds NaN or an
            unlikely pattern. sizes: values of shape variables by name, where the parameters' shapes no longer show
            them. limit: iterations after which a while loop is a fault. batch: iterations of a loop that do not depend
            on each other are evaluated together. The results are the same without, later.

    Raises:
        ExecutionFault: an argument does not fit, or the kernel does something that has no defined result.
    """
    if isinstance(function, IRModule):
        if len(function.functions) != 1:
            raise ExecutionFault(
                "E-RUN-ARGUMENT",
                "the module has several functions",
                facts=[f"functions: {', '.join(function.names)}"],
                help="pass one of them",
            )
        function = function.functions[0]
    if len(args) != len(function.params):
        raise ExecutionFault(
            "E-RUN-ARGUMENT",
            f"{function.name} takes {len(function.params)} arguments, found {len(args)}",
            facts=[f"parameters: {', '.join(p.name for p in function.params)}"],
            help="pass an array for each buffer, outputs too, and a number for each scalar",
        )
    machine = Machine(strict, check_written, limit, batch)
    machine.sizes = dict(sizes or {})
    with np.errstate(all="ignore"):
        for param, value in zip(function.params, args):
            _bind(machine, param, value)
        for param, value in zip(function.params, args):
            if isinstance(param, Buffer):
                _check_shape(machine, param, value)
        machine.run(function.body)


def _bind(machine: Machine, param: Buffer | Var, value: Any) -> None:
    if isinstance(param, Var):
        machine.env[param] = numpy_type(param.dtype).type(value)
        return
    if param.dtype.is_packed and isinstance(value, np.ndarray) and value.dtype in (np.uint8, np.int8):
        _bind_packed(machine, param, value)
        return
    if isinstance(value, np.ndarray) and value.dtype == np.uint8 and param.dtype.is_float and param.dtype.bits <= 8:
        value = value.view(numpy_type(param.dtype))
    if not isinstance(value, np.ndarray) or value.dtype != numpy_type(param.dtype) or param.dtype.is_packed:
        found = f"{value.dtype} array" if isinstance(value, np.ndarray) else type(value).__name__
        raise ExecutionFault(
            "E-RUN-ARGUMENT",
            f"{param.name} needs a numpy array of {numpy_type(param.dtype)}, found {found}",
            facts=[f"parameter {param!r}"],
            help="convert the argument; bfloat16 and 8-bit floats are types of ml_dtypes, four-bit types come two a "
            "byte in uint8 or int8",
        )
    flat = param.ndim == 1 and value.ndim != 1
    if not flat:
        shape = value.shape[: param.ndim]
        if param.dtype.lanes > 1 and shape:
            shape = (*shape[:-1], shape[-1] // param.dtype.lanes)
        for expr, extent in zip(param.shape, shape):
            _bind_size(machine, expr, extent)
        for expr, stride in zip(param.strides, value.strides):
            _bind_size(machine, expr, stride // value.itemsize)
    machine.storages[param] = Storage(param, _flat(value, param.dtype))


def _bind_packed(machine: Machine, param: Buffer, value: np.ndarray) -> None:
    """Bytes with two four-bit elements each: the last dimension counts twice."""
    shape = (*value.shape[:-1], value.shape[-1] * 2 // param.dtype.lanes) if value.ndim else ()
    if len(shape) == param.ndim:
        for expr, extent in zip(param.shape, shape):
            _bind_size(machine, expr, extent)
        for axis, (expr, stride) in enumerate(zip(param.strides, value.strides)):
            _bind_size(machine, expr, stride * 2 // param.dtype.lanes if axis < value.ndim - 1 else 1)
    machine.storages[param] = Storage(param, Nibbles(_flat(value, DType("uint8")).view(np.uint8), param.dtype.scalar))


def _bind_size(machine: Machine, expr: Any, value: int) -> None:
    if isinstance(expr, SizeVar) and expr not in machine.env:
        machine.env[expr] = numpy_type(expr.dtype).type(value)
        machine.sizes.setdefault(expr.name, value)


def _flat(value: np.ndarray, dtype: DType) -> np.ndarray:
    """The array's memory from its first element on, in one dimension."""
    if value.flags.c_contiguous:
        return value.reshape(-1)
    if any(stride < 0 or stride % value.itemsize for stride in value.strides):
        raise ExecutionFault(
            "E-RUN-ARGUMENT",
            "an array with negative or fractional strides has no flat memory",
            facts=[f"strides in bytes: {value.strides}, element size {value.itemsize}"],
            help="pass a copy",
        )
    span = 1 + sum((extent - 1) * stride for extent, stride in zip(value.shape, value.strides)) // value.itemsize
    if value.itemsize == 1:
        # numpy knows no typestring for the 8-bit floats: their bytes are strided.
        return np.lib.stride_tricks.as_strided(value.view(np.uint8), (span,), (1,)).view(value.dtype)
    return np.lib.stride_tricks.as_strided(value, (span,), (value.itemsize,))


def _check_shape(machine: Machine, param: Buffer, value: np.ndarray) -> None:
    shape = tuple(machine.integer(e) for e in param.shape)
    if param.dtype.is_packed:
        found = (*value.shape[:-1], value.shape[-1] * 2 // param.dtype.lanes) if value.ndim else ()
        if found == shape or (param.ndim == 1 and (int(np.prod(found)),) == shape):
            return
        wanted = [*shape[:-1], shape[-1] * param.dtype.lanes // 2]
        raise ExecutionFault(
            "E-RUN-ARGUMENT",
            f"{param.name} needs bytes of shape {wanted}, found {list(value.shape)}",
            facts=[f"parameter {param!r}", "two elements of four bits lie in a byte"],
            help="pack the last dimension, the first element in the low half",
        )
    flat = param.ndim == 1 and value.ndim != 1
    lanes = param.dtype.lanes
    if lanes > 1 and shape:
        # Vectors lie side by side in the last dimension.
        shape = (*shape[:-1], shape[-1] * lanes)
    if (int(np.prod(value.shape)),) == shape if flat else value.shape == shape:
        strides = tuple(machine.integer(e) * lanes for e in param.element_strides())
        strides = (*strides[:-1], 1) if lanes > 1 else strides
        found = tuple(s // value.itemsize for s in value.strides)
        if flat or 0 in shape or all(a == b for a, b, extent in zip(strides, found, shape) if extent > 1):
            return
        raise ExecutionFault(
            "E-RUN-ARGUMENT",
            f"{param.name} needs strides {list(strides)}, found {list(found)} (in elements)",
            facts=[f"parameter {param!r}"],
            help="pass a contiguous copy, or declare the parameter as a T.StridedTensor",
        )
    raise ExecutionFault(
        "E-RUN-ARGUMENT",
        f"{param.name} needs shape {list(shape)}, found {list(value.shape)}",
        facts=[f"parameter {param!r}"],
        help="pass an array of the declared shape",
    )
