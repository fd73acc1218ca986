"""From a failed check of a kernel's entry to an error that shows the parameter.

The entry says (argument, field, expected, got); the fields are those of the packed ABI: argument count, type, ndim,
dtype, shape[i], strides[i], device, storage, condition. The table below gives each its code, its sentence and its fix.
"""

from __future__ import annotations

import re
from typing import Any

from ..errors import ArgumentError, declare_codes
from ..ir.signature import KernelParam, Signature

__all__ = ["argument_error", "call_error", "lazily_negatable", "lazy_argument", "refused_argument"]

declare_codes(
    {
        "E-ARG-COUNT": "a kernel was called with the wrong number of arguments",
        "E-ARG-NONE": "None was passed for a tensor that the kernel uses",
        "E-ARG-TYPE": "an argument is of the wrong kind (tensor, number, …)",
        "E-ARG-RANGE": "an integer that its parameter's type cannot hold",
        "E-ARG-NDIM": "a tensor has the wrong number of dimensions",
        "E-ARG-DTYPE": "a tensor has the wrong element type",
        "E-ARG-SHAPE": "a tensor has the wrong shape",
        "E-ARG-STRIDE": "a tensor has strides that the kernel does not take",
        "E-ARG-DEVICE": "a tensor is on the wrong device",
        "E-ARG-LAZY": "a tensor whose elements in memory are not its values yet",
        "E-ARG-ALIGNMENT": "a tensor that starts beside the addresses that a kernel's vectors need",
        "E-ARG-STORAGE": "a tensor has no memory (fake, meta or functional)",
        "E-ARG-CONDITION": "the arguments break a condition that the kernel states",
    }
)


def argument_error(signature: Signature, argument: str, field: str, expected: str, got: str) -> ArgumentError:
    """The error for a check of `field` of `argument` ("" for the call as a whole) that wanted `expected` and met
    `got`."""
    param = signature.find(argument)
    word, _, axis = field.partition("[")
    if word == "type":
        word = "none" if got == "None" and (param is None or param.is_tensor) else word
        expected = {"int": "an int", "float": "a float", "bool": "a bool"}.get(expected, expected)
    got = re.sub(r"dtype code 5 of (\d+) bits", r"complex\1", got)  # DLPack's code
    code, sentence, help = _FIELDS.get(word, _FIELDS["condition"])
    names = {"argument": argument, "field": field, "expected": expected, "got": got, "kernel": signature.name}
    # Types that other tensors may carry list those: "float8_e4m3fn or uint8", "uint8 with the bits of …".
    names["torch_dtype"] = f"torch.{expected.partition(' ')[0]}"
    if word == "dtype" and " with " in expected:
        help = "pass {expected}, such as {argument}.view({torch_dtype}) of packed bytes"
    names["dimensions"] = "1 dimension" if expected == "1" else f"{expected} dimensions"
    names["arguments"] = "1 argument" if expected == "1" else f"{expected} arguments"
    facts = [f"expected: {expected}", f"got:      {got}"]
    if word == "argument count":
        facts += [f"inputs:   {', '.join(map(str, signature.inputs)) or 'none'}"]
        help = _count_help(signature, int(expected), int(got))
    elif param is not None:
        facts.insert(0, f"declared: {param}")
        if word == "shape":
            help = _shape_help(signature, param, int(axis.rstrip("]")))
    return ArgumentError(
        code,
        f"{signature.name}: {sentence.format(**names)}",
        span=param.span if param is not None else None,
        facts=facts,
        help=help.format(**names) if help else None,
    )


def call_error(signature: Signature, problem: str) -> ArgumentError:
    """The error for a call whose arguments don't even match the parameter names."""
    return ArgumentError(
        "E-ARG-COUNT",
        f"{signature.name}: {problem}",
        facts=(f"inputs:   {', '.join(map(str, signature.inputs)) or 'none'}",),
    )


def refused_argument(error: Exception, args: tuple[Any, ...], signature: Signature) -> ArgumentError | None:
    """The error for an argument that never reached the entry, because its framework refused to hand it over; None
    when no argument explains `error`."""
    import numpy
    import torch

    for param, value in zip(signature.inputs, args):
        if not param.is_tensor:
            continue
        if isinstance(error, BufferError) and isinstance(value, numpy.ndarray):
            if not value.dtype.isnative:
                return argument_error(signature, param.name, "dtype", param.dtype, f"{value.dtype.str} (swapped bytes)")
            if not value.flags.writeable:
                return argument_error(signature, param.name, "type", "a writable array", "a read-only array")
        if not isinstance(value, torch.Tensor):
            continue
        if torch._C._functorch.is_functorch_wrapped_tensor(value):  # type: ignore[attr-defined]
            what = "a tensor inside a transform of torch.func"
            return argument_error(signature, param.name, "storage", "a tensor with storage", what)
        if value.is_nested:
            return argument_error(signature, param.name, "type", "a dense tensor", "a nested tensor")
        if value.device.type == "meta":
            return argument_error(signature, param.name, "storage", "a tensor with storage", "a tensor on device meta")
        if value.layout is not torch.strided:
            return argument_error(signature, param.name, "type", "a dense tensor", f"a {value.layout} tensor")
        if "pack" in str(error) or "DLPack" in str(error) or isinstance(error, BufferError):
            if str(value.dtype) != f"torch.{param.dtype}":
                got = str(value.dtype).removeprefix("torch.")
                return argument_error(signature, param.name, "dtype", param.dtype, got)
    return None


def lazily_negatable(signature: Signature) -> tuple[int, ...]:
    """Places of the inputs for which a tensor with torch's negative bit would pass the checks.

    Such a tensor is the imaginary part of a conjugate, so its elements lie two apart: it passes where strides are free
    or all extents may be 1.
    """
    return tuple(
        place
        for place, param in enumerate(signature.inputs)
        if param.shape is not None
        and param.dtype in ("float16", "float32", "float64")
        and (param.strides or not any(isinstance(extent, int) and extent > 1 for extent in param.shape))
    )


def lazy_argument(signature: Signature, args: tuple[Any, ...]) -> ArgumentError | None:
    """The error for a tensor whose elements are to be negated before use; None where there is none."""
    import torch

    for param, value in zip(signature.inputs, args):
        if isinstance(value, torch.Tensor) and value.is_neg():
            return argument_error(signature, param.name, "lazy", "its elements in memory", "their negatives")
    return None


_FIELDS: dict[str, tuple[str, str, str | None]] = {
    "argument count": ("E-ARG-COUNT", "takes {arguments}, got {got}", None),
    "none": ("E-ARG-NONE", "{argument} is None, and the kernel uses it", "pass a tensor for {argument}"),
    "type": ("E-ARG-TYPE", "{argument} must be {expected}, got {got}", "pass {expected} for {argument}"),
    "range": (
        "E-ARG-RANGE",
        "{argument} must be {expected}, got {got}",
        "pass a number of that range, or declare {argument} as a wider type",
    ),
    "ndim": ("E-ARG-NDIM", "{argument} must have {dimensions}, got {got}", "reshape {argument}"),
    "dtype": (
        "E-ARG-DTYPE",
        "{argument} must be of type {expected}, got {got}",
        "convert it: {argument}.to({torch_dtype}), or compile the kernel for {got}",
    ),
    "shape": ("E-ARG-SHAPE", "{field} of {argument} must be {expected}, got {got}", None),
    "strides": (
        "E-ARG-STRIDE",
        "{field} of {argument} must be {expected}, got {got}",
        "pass {argument}.contiguous(), or declare the parameter as T.StridedTensor",
    ),
    "device": (
        "E-ARG-DEVICE",
        "{argument} must be on {expected}, got {got}",
        "move it: {argument}.to(…), or compile the kernel for that device",
    ),
    "storage": (
        "E-ARG-STORAGE",
        "{argument} has no memory",
        "pass a real tensor; under torch.compile, torch.func or fake tensors, make the kernel an operator: tile.op",
    ),
    "alignment": (
        "E-ARG-ALIGNMENT",
        "{argument} must start at {expected}, got one {got} bytes past it",
        "pass {argument}.clone(), which starts at one; this is a part of another tensor",
    ),
    "lazy": (
        "E-ARG-LAZY",
        "{argument} has the negative bit: torch would negate its elements when it reads them",
        "pass {argument}.resolve_neg()",
    ),
    "arguments": ("E-ARG-COUNT", "the arguments are {got}", "pass an array of TVMFFIAny"),
    "condition": (
        "E-ARG-CONDITION",
        "the arguments break the condition {expected}",
        "the kernel states it with T.assume; pass arguments that fulfil it, or remove it",
    ),
}


def _count_help(signature: Signature, expected: int, got: int) -> str:
    if signature.outputs and got == expected + len(signature.outputs):
        names = ", ".join(param.name for param in signature.outputs)
        return f"do not pass {names}: the kernel allocates and returns what out_idx names"
    return f"call {signature.name}({', '.join(param.name for param in signature.inputs)})"


def _shape_help(signature: Signature, param: KernelParam, axis: int) -> str | None:
    extent = param.shape[axis] if param.shape else None
    if extent is None or isinstance(extent, int):
        return "the kernel was compiled for this extent; compile it for {got}, or declare the dimension with T.dynamic"
    others = [
        f"{other.name}.shape[{place}]"
        for other in signature.inputs
        if other.shape is not None and other is not param
        for place, its in enumerate(other.shape)
        if its is extent
    ]
    return f"{extent!r} is also {', '.join(others)}" if others else None
