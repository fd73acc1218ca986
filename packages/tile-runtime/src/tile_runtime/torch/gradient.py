"""Gradients: from what `backward=` was given to what torch's autograd calls.

The parameters of `backward` are matched by name, so that only what it asks for is saved. It becomes an operator of its
own: torch.compile need not see inside, and its fake implementation is known: a gradient looks like its input.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch

from tile_core.errors import OptionError, declare_codes
from tile_core.source import Span

from ..jit import JitFunction
from ..kernel import Kernel
from .subject import Described, Output, is_tensor, require_subject

if TYPE_CHECKING:
    from .op import TorchOp
    from .register import Form

__all__ = ["NO_BACKWARD", "Gradient", "as_operator", "asked_names", "gradient_of"]

NO_BACKWARD = "E-TORCH-NO-BACKWARD"

declare_codes(
    {
        NO_BACKWARD: "a gradient is wanted of an operator that has none",
        "E-TORCH-BACKWARD": "a backward function whose parameters are not those that it can have",
        "E-TORCH-GRADIENTS": "a backward function gives other gradients than its operator has inputs",
    }
)


def gradient_of(op: TorchOp, form: Form, values: Sequence[Any], described: Described) -> Gradient:
    """The gradient of an operator's form.

    Raises:
        OptionError: E-TORCH-BACKWARD.
    """
    names = op.subject.parameters
    wanted = tuple(
        name
        for name, value in zip(names, values)
        if is_tensor(value) and (value.dtype.is_floating_point or value.dtype.is_complex)
    )
    return Gradient(op, form, wanted, tuple(output.name for output in described.outputs))


class Gradient:
    """What autograd needs of one form.

    Args:
        op, form: whose gradient.
        wanted: names of the inputs that have a gradient.
        outputs: names of the outputs.
    """

    def __init__(self, op: TorchOp, form: Form, wanted: tuple[str, ...], outputs: tuple[str, ...]) -> None:
        self.op = op
        self.form = form
        self.wanted = wanted
        self.outputs = outputs
        self.asked: tuple[str, ...] = ()
        self.call: Callable[..., Any] | None = None
        if op.backward is not None:
            self._take(op.backward)

    def setup_context(self, ctx: Any, inputs: Sequence[Any], output: Any) -> None:
        """Saves what the backward function asks for."""
        self.save(ctx, inputs, output, self.asked)

    def save(self, ctx: Any, inputs: Sequence[Any], output: Any, asked: Sequence[str]) -> list[Any]:
        """Saves what is asked for, for `backward`; gives the saved tensors."""
        results = output if isinstance(output, (tuple, list)) else (output,)
        values = dict(zip(self.op.subject.parameters, self.form.full(inputs)))
        values.update(zip(self.outputs, results))
        kept = [name for name in values if name in asked]
        ctx.names = [name for name in kept if is_tensor(values[name])]
        ctx.constants = {name: values[name] for name in kept if not is_tensor(values[name])}
        saved = [values[name] for name in ctx.names]
        ctx.save_for_backward(*saved)
        return saved

    def backward(self, ctx: Any, *grads: Any) -> Any:
        """A gradient for each argument of the operator."""
        if self.call is None:
            raise self._missing()
        values = {**dict(zip(ctx.names, ctx.saved_tensors)), **ctx.constants}
        # a gradient of a sum is an expanded scalar, and kernels take what is contiguous
        values.update((f"grad_{name}", g.contiguous()) for name, g in zip(self.outputs, grads) if g is not None)
        given = self.call(**{name: values[name] for name in self.asked})
        found = dict(zip(self.wanted, given if isinstance(given, (tuple, list)) else (given,)))
        names = [self.op.subject.parameters[position] for position in self.form.given]
        result: tuple[Any, ...] = tuple([found.get(name) for name in names])
        return result if len(result) > 1 else result[0]

    def _take(self, backward: Any) -> None:
        """Makes `backward` an operator (`call`) and finds what it asks for."""
        from .op import TorchOp

        known = (*self.op.subject.parameters, *self.outputs, *(f"grad_{output}" for output in self.outputs))
        backward = as_operator(backward)
        self.asked = asked_names(self.op, "backward", "E-TORCH-BACKWARD", backward, known)
        if isinstance(backward, TorchOp):
            self.call = _Counted(backward, self)
            return
        name = f"{self.op.subject.name}_backward"
        subject = _BackwardSubject(name, backward, self.asked, self.wanted, self)
        inner = TorchOp(subject, backward, None, None if self.op.name is None else f"{self.op.name}_backward")
        self.asked = subject.parameters
        self.call = inner

    def _missing(self) -> OptionError:
        return OptionError(
            NO_BACKWARD,
            f"{self.op.subject.name} has no backward, and a gradient is wanted of {', '.join(self.wanted) or 'it'}",
            span=self.op.subject.span,
            help="give one: @tile.op(backward=…); or call it under torch.no_grad() or with detached tensors",
        )

    def checked(self, given: Any, values: Mapping[str, Any] | None = None) -> list[Any]:
        """The gradients as a list in the order of `wanted`, zeros for None where `values` has the inputs.

        Raises:
            OptionError: another number, a name that is no input, or a gradient unlike its input (E-TORCH-GRADIENTS).
        """
        if isinstance(given, Mapping):
            strangers = [name for name in given if name not in self.wanted]
            if strangers:
                raise self._wrong(f"a gradient of {', '.join(strangers)}, no floating-point input")
            given = [given.get(name) for name in self.wanted]
        found = list(given) if isinstance(given, (tuple, list)) else [given]
        if len(found) != len(self.wanted):
            raise self._wrong(f"{len(found)} gradients")
        for place, (name, grad) in enumerate(zip(self.wanted, found)):
            if values is None:
                continue
            like = values[name]
            if grad is None:
                found[place] = torch.zeros_like(like)
            elif not is_tensor(grad) or grad.shape != like.shape or grad.dtype != like.dtype:
                found_text = (
                    f"{str(grad.dtype).removeprefix('torch.')}{list(grad.shape)}" if is_tensor(grad) else repr(grad)
                )
                raise self._wrong(
                    f"{found_text} for {name}, which is {str(like.dtype).removeprefix('torch.')}{list(like.shape)}"
                )
        return found

    def _wrong(self, what: str) -> OptionError:
        return OptionError(
            "E-TORCH-GRADIENTS",
            f"{self.op.subject.name}: backward gives {what}",
            span=self.op.subject.span,
            facts=(f"wanted: a gradient for each of {', '.join(self.wanted) or 'no input'}, in this order",),
            help="return one for each floating-point input, shaped and typed like it; None for zero",
        )


class _Counted:
    """An operator as the backward of another one, with its results counted."""

    def __init__(self, op: TorchOp, gradient: Gradient) -> None:
        self.op = op
        self.gradient = gradient

    def __call__(self, **values: Any) -> list[Any]:
        return self.gradient.checked(self.op(**values))


class _BackwardSubject:
    """A Python function that gives gradients, as what an operator wraps."""

    def __init__(
        self,
        name: str,
        function: Callable[..., Any],
        asked: tuple[str, ...],
        wanted: tuple[str, ...],
        gradient: Gradient,
    ) -> None:
        self.name = name
        self.span: Span | None = gradient.op.subject.span
        self.function = function
        self.asked = asked
        self.gradient = gradient
        # the inputs themselves tell what their gradients look like
        self.parameters = (*asked, *(name for name in wanted if name not in asked))

    def bind(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Sequence[Any]:
        return (*args, *(kwargs[name] for name in self.parameters[len(args) :]))

    def run(self, *values: Any) -> Any:
        named = dict(zip(self.parameters, values))
        found = self.gradient.checked(self.function(**{name: named[name] for name in self.asked}), named)
        taken = {value.untyped_storage().data_ptr() for value in values if is_tensor(value)}
        for place, grad in enumerate(found):
            storage = grad.untyped_storage().data_ptr()
            if storage in taken:  # an operator's results are its own
                found[place] = grad.clone()
            taken.add(storage)
            if not grad.is_contiguous():
                found[place] = grad.contiguous()
        return found[0] if len(found) == 1 else found

    def describe(self, values: Sequence[Any]) -> Described:
        named = dict(zip(self.parameters, values))
        outputs = [Output(name, tuple(named[name].shape), named[name].dtype) for name in self.gradient.wanted]
        return Described(tuple(outputs), ())

    def identity(self) -> str:
        function = getattr(self.function, "__qualname__", type(self.function).__qualname__)
        return f"{self.gradient.op.subject.identity()}\n{function}"


def as_operator(function: Any) -> Any:
    """A derivative's function, as an operator where it is a kernel: torch's transforms see through operators only."""
    from .op import TorchOp

    return TorchOp(require_subject(function), function) if isinstance(function, (Kernel, JitFunction)) else function


def asked_names(op: TorchOp, role: str, code: str, function: Any, known: Sequence[str]) -> tuple[str, ...]:
    """What the function of a derivative (`role`: backward or jvp) asks for by its parameters' names.

    Raises:
        OptionError: `code`, where that is nothing it can ask for.
    """
    asked, optional = _parameters(function, f"{op.subject.name}_{role}", code)
    strangers = [parameter for parameter in asked if parameter not in known and parameter not in optional]
    if strangers:
        prefix = known[-1].partition("_")[0] if known else ""
        raise OptionError(
            code,
            f"{op.subject.name}: {role} asks for {', '.join(strangers)}",
            span=op.subject.span,
            facts=(f"it can ask for: {', '.join(known)}",),
            help=f"name its parameters after the forward's inputs and outputs, and {prefix}_<name>",
        )
    return tuple(parameter for parameter in asked if parameter in known)


def _parameters(given: Any, name: str, code: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Names of the parameters of a derivative's function, and of those that may be left out."""
    from .op import TorchOp

    if isinstance(given, TorchOp) and isinstance(given.wrapped, Kernel):
        return given.subject.parameters, ()
    function = given.wrapped.function if isinstance(given, TorchOp) else given
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        raise OptionError(
            code,
            f"{name}: {given!r} cannot be called",
            help="pass a function, a kernel or an operator",
        ) from None
    if any(parameter.kind in (parameter.VAR_POSITIONAL, parameter.POSITIONAL_ONLY) for parameter in parameters):
        raise OptionError(
            code, f"{name}: its parameters are matched by name, and it has some without", help="name them"
        )
    named = [parameter for parameter in parameters if parameter.kind is not parameter.VAR_KEYWORD]
    return (
        tuple(parameter.name for parameter in named),
        tuple(parameter.name for parameter in named if parameter.default is not parameter.empty),
    )
