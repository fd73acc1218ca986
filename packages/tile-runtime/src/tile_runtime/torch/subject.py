"""What an operator wraps: a compiled kernel, an eager jit function, or the function that gives its gradients.

A `Subject` binds arguments, runs on real tensors, and describes what a run would give without running: that
description makes the operator's schema and its fake implementation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from tile_core.errors import OptionError, declare_codes
from tile_core.source import Span

from ..jit import JitFunction, value_key
from ..kernel import Kernel
from ..profile.supply import torch_dtype
from ..signature import Signature
from .shapes import bound_sizes, extent_value, hint, written_inputs

__all__ = ["Described", "JitSubject", "KernelSubject", "Output", "Subject", "is_tensor"]

declare_codes({"E-TORCH-OP": "a function or kernel that cannot be a torch operator"})


@dataclass(frozen=True)
class Output:
    """A tensor that a run gives: its name, extents (ints, or torch's symbolic ones) and torch dtype."""

    name: str
    shape: tuple[Any, ...]
    dtype: Any


@dataclass(frozen=True)
class Described:
    """What a run does.

    Args:
        outputs: what it returns.
        written: names of input tensors that it writes.
    """

    outputs: tuple[Output, ...]
    written: tuple[str, ...]


class Subject(Protocol):
    """See the module's text."""

    name: str
    span: Span | None
    parameters: tuple[str, ...]

    def bind(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Sequence[Any]:
        """A value for each parameter."""
        ...

    def run(self, *values: Any) -> Any:
        """The plain call."""
        ...

    def describe(self, values: Sequence[Any]) -> Described:
        """What a run with these values (real, fake or meta tensors) gives."""
        ...

    def identity(self) -> str:
        """A text that differs for subjects that do different things, and is the same in every process."""
        ...


class KernelSubject:
    """A compiled kernel."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.name = kernel.name
        self.span: Span | None = kernel.prim_func.span
        self.parameters = tuple(param.name for param in kernel.signature.inputs)
        self.run = kernel.entry
        _refuse_pointers(kernel.signature, self.span)

    def bind(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Sequence[Any]:
        if len(args) != len(self.parameters) or kwargs:
            return self.kernel._in_order(args, kwargs)
        return args

    def describe(self, values: Sequence[Any]) -> Described:
        return _described(self.kernel.prim_func, self.kernel.signature, values)

    def identity(self) -> str:
        return f"{self.kernel.prim_func.script()}\n{self.kernel.target}"


class JitSubject:
    """A jit function in the eager style."""

    def __init__(self, function: JitFunction) -> None:
        self.function = function
        self.name = function.function.__name__
        self.span: Span | None = None
        self.style: Any = function._style
        self.parameters = tuple(parameter.name for parameter in self.style.function.parameters)
        self.run = function.__call__
        self._traces: dict[Any, Any] = {}

    def bind(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Sequence[Any]:
        if not kwargs and len(args) == len(self.parameters):
            return args
        return self.style.bind(tuple(args), dict(kwargs))

    def describe(self, values: Sequence[Any]) -> Described:
        stand_ins = [_StandIn(value) if is_tensor(value) else _plain(value) for value in values]
        if not self.function._captures.unchanged():
            self._traces.clear()  # the next call traces anew, and so does this
        key = tuple(one.key if isinstance(one, _StandIn) else value_key(one) for one in stand_ins)
        trace = self._traces.get(key)
        if trace is None:
            trace = self._traces[key] = self.function._trace(stand_ins)
        for position, axis in trace.static:
            _fix(values[position].shape[axis], stand_ins[position].shape[axis])
        signature = Signature(trace.function)
        _refuse_pointers(signature, trace.function.span)
        return _described(trace.function, signature, [values[position] for position in trace.positions])

    def identity(self) -> str:
        import inspect

        function = self.function.function
        try:
            source = inspect.getsource(function)
        except OSError:
            source = repr(function.__code__.co_code)
        return f"{function.__module__}.{function.__qualname__}\n{source}"


class _StandIn:
    """A tensor's type and sizes as plain numbers, for a trace."""

    __slots__ = ("dtype", "key", "shape", "strides")

    def __init__(self, tensor: Any) -> None:
        self.dtype = tensor.dtype
        self.shape = tuple(hint(size) for size in tensor.shape)
        self.strides = tuple(hint(step) for step in tensor.stride())
        self.key = (self.dtype, self.shape, self.strides)

    def stride(self) -> tuple[int, ...]:
        return self.strides


def is_tensor(value: Any) -> bool:
    """Whether a value is a torch tensor of any kind."""
    import torch

    return isinstance(value, torch.Tensor)


def require_subject(function: Any) -> Subject:
    """The subject for what `tile.op` was given.

    Raises:
        OptionError: something that cannot be an operator.
    """
    if isinstance(function, Kernel):
        return KernelSubject(function)
    if isinstance(function, JitFunction) and function.mode == "eager":
        return JitSubject(function)
    raise OptionError(
        "E-TORCH-OP",
        f"op was given {function!r}, which is neither a kernel nor a jit function",
        help="decorate a function that holds T.Kernel, a jit function, or pass a compiled kernel",
    )


def _described(function: Any, signature: Signature, inputs: Sequence[Any]) -> Described:
    sizes = bound_sizes(function, signature, inputs)
    outputs = tuple(
        Output(
            param.name,
            tuple(extent_value(extent, sizes, signature) for extent in param.shape or ()),
            torch_dtype(param.dtype),
        )
        for param in signature.outputs
    )
    return Described(outputs, written_inputs(function, signature.out_idx))


def _refuse_pointers(signature: Signature, span: Span | None) -> None:
    for param in signature.inputs:
        if not param.is_tensor and param.dtype == "handle":
            raise OptionError(
                "E-TORCH-OP",
                f"{signature.name}: {param.name} is a raw pointer, which torch operators cannot take",
                span=param.span or span,
                help="declare it as a T.Tensor",
            )


def _plain(value: Any) -> Any:
    """A symbolic int or float as the number that it stands for: constants are burned in."""
    import torch

    if isinstance(value, torch.SymInt):
        return int(value)
    if isinstance(value, torch.SymFloat):
        return float(value)
    return value


def _fix(size: Any, value: int) -> None:
    """Guards a symbolic size that the trace burned in."""
    if not isinstance(size, int) and bool(size != value):
        raise AssertionError("a size differs from its own hint")


Gradient = Callable[..., Any]
