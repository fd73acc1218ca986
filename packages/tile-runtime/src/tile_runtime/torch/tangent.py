"""Tangents: from what `jvp=` was given to what torch's forward-mode differentiation calls.

Torch keeps no forward-mode rule for an operator, only for autograd functions, so an operator is entered through one
(`functional`) where tangents may come: under `torch.autograd.forward_ad` and `torch.func.jvp`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch.autograd import forward_ad

from tile_core.errors import OptionError, declare_codes

from .gradient import as_operator, asked_names
from .subject import Described, is_tensor

if TYPE_CHECKING:
    from .op import TorchOp

__all__ = ["Tangent", "carries_tangent"]

declare_codes(
    {
        "E-TORCH-NO-JVP": "a forward-mode derivative is wanted of an operator that has none",
        "E-TORCH-JVP": "a jvp function whose parameters are not those that it can have",
        "E-TORCH-TANGENTS": "a jvp function gives other tangents than its operator has outputs",
    }
)


class Tangent:
    """What forward mode needs of one form.

    Args:
        op: whose operator it is.
        values: arguments of its first call.
        described: what it gives.
    """

    def __init__(self, op: TorchOp, values: Sequence[Any], described: Described) -> None:
        self.op = op
        self.wanted = tuple(output.name for output in described.outputs if _is_continuous(output.dtype))
        inputs = [name for name, value in zip(op.subject.parameters, values) if is_tensor(value)]
        self.inputs = tuple(inputs)
        self.asked: tuple[str, ...] = ()
        self.call: Callable[..., Any] | None = None
        if op.jvp is not None:
            outputs = tuple(output.name for output in described.outputs)
            known = (*op.subject.parameters, *outputs, *(f"tangent_{name}" for name in inputs))
            self.call = as_operator(op.jvp)
            self.asked = asked_names(op, "jvp", "E-TORCH-JVP", self.call, known)

    @property
    def saved(self) -> tuple[str, ...]:
        """Values that `jvp` needs: those it asks for, and the outputs, which its results are compared with."""
        return () if self.call is None else (*self.asked, *self.wanted)

    def jvp(self, form_given: Sequence[int], outputs: Sequence[str], ctx: Any, tangents: Sequence[Any]) -> Any:
        """A tangent for each output; `form_given` are the places of the operator's arguments in the subject's."""
        if self.call is None:
            raise OptionError(
                "E-TORCH-NO-JVP",
                f"{self.op.subject.name} has no jvp, and forward-mode differentiation wants one",
                span=self.op.subject.span,
                help="give one: @tile.op(backward=…, jvp=…); or use reverse mode (torch.func.vjp, grad, jacrev)",
            )
        values = {**dict(zip(ctx.names, ctx.saved_tensors)), **ctx.constants}
        given = {self.op.subject.parameters[place]: tangent for place, tangent in zip(form_given, tangents)}
        # torch fills in zeros for arguments without a tangent; kernels take what is contiguous
        values.update((f"tangent_{name}", given[name].contiguous()) for name in self.inputs if is_tensor(given[name]))
        made = self._checked(self.call(**{name: values[name] for name in self.asked}), values)
        result: tuple[Any, ...] = tuple([made.get(name) for name in outputs])
        return result if len(result) > 1 else result[0]

    def _checked(self, given: Any, values: Mapping[str, Any]) -> dict[str, Any]:
        """Tangents by the outputs' names, zeros for None."""
        if isinstance(given, Mapping):
            strangers = [name for name in given if name not in self.wanted]
            if strangers:
                raise self._wrong(f"a tangent of {', '.join(strangers)}, no floating-point output")
            given = [given.get(name) for name in self.wanted]
        found = list(given) if isinstance(given, (tuple, list)) else [given]
        if len(found) != len(self.wanted):
            raise self._wrong(f"{len(found)} tangents")
        for place, (name, tangent) in enumerate(zip(self.wanted, found)):
            like = values[name]
            if tangent is None:
                found[place] = torch.zeros_like(like)
            elif not is_tensor(tangent) or tangent.shape != like.shape or tangent.dtype != like.dtype:
                raise self._wrong(f"{_text(tangent)} for {name}, which is {_text(like)}")
        return dict(zip(self.wanted, found))

    def _wrong(self, what: str) -> OptionError:
        return OptionError(
            "E-TORCH-TANGENTS",
            f"{self.op.subject.name}: jvp gives {what}",
            span=self.op.subject.span,
            facts=(f"wanted: a tangent for each of {', '.join(self.wanted) or 'no output'}, in this order",),
            help="return one for each floating-point output, shaped and typed like it; None for zero",
        )


def carries_tangent(value: Any) -> bool:
    """Whether forward-mode differentiation follows a tensor."""
    return is_tensor(value) and forward_ad.unpack_dual(value).tangent is not None


def _is_continuous(dtype: torch.dtype) -> bool:
    return dtype.is_floating_point or dtype.is_complex


def _text(value: Any) -> str:
    return f"{str(value.dtype).removeprefix('torch.')}{list(value.shape)}" if is_tensor(value) else repr(value)
