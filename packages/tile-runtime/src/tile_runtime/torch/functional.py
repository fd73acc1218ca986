"""Operators under functorch (`torch.func.grad`, `vmap`, …) and forward mode, which want an autograd function of a newer
form than the one that `torch.library.register_autograd` makes; and what `vmap` does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch

from tile_core.errors import OptionError, declare_codes

from .subject import is_tensor

if TYPE_CHECKING:
    from .register import Form

__all__ = ["batched", "functional"]

declare_codes({"E-TORCH-VMAP": "a vmap rule gives something else than the operator's outputs and their dimensions"})


def functional(form: Form) -> Any:
    """An autograd function of the operator that functorch can transform."""

    def forward(*given: Any) -> Any:
        return form.overload(*given)

    def setup_context(ctx: Any, inputs: Sequence[Any], output: Any) -> None:
        saved = form.gradient.save(ctx, inputs, output, {*form.gradient.asked, *form.tangent.saved})
        if form.tangent.saved:
            ctx.save_for_forward(*saved)

    def jvp(ctx: Any, *tangents: Any) -> Any:
        return form.tangent.jvp(form.given, form.outputs, ctx, tangents)

    def vmap(info: Any, in_dims: Sequence[Any], *given: Any) -> Any:
        return batched(form, function.apply, info, in_dims, *given)

    members = {
        "forward": staticmethod(forward),
        "setup_context": staticmethod(setup_context),
        "backward": staticmethod(form.gradient.backward),
        "jvp": staticmethod(jvp),
        "vmap": staticmethod(vmap),
    }
    function: Any = type(f"Functional_{form.name.replace('::', '_')}", (torch.autograd.Function,), members)
    return function


def batched(form: Form, call: Any, info: Any, in_dims: Sequence[Any], *given: Any) -> Any:
    """vmap by the operator's own rule, else one call for each element of the batch."""
    if form.op.vmap is not None:
        return _by_rule(form, info, in_dims, given)
    results = []
    for index in range(info.batch_size):
        row = []
        for value, dim in zip(given, in_dims):
            if is_tensor(value) and dim is not None:
                value = value.select(dim, index)
                if not form.written:  # a kernel takes what is contiguous; what it writes must stay the same memory
                    value = value.contiguous()
            row.append(value)
        results.append(call(*row))
    if not form.outputs:
        return None, None
    if len(form.outputs) == 1:
        return torch.stack(results), 0
    return tuple(torch.stack(column) for column in zip(*results)), (0,) * len(form.outputs)


def _by_rule(form: Form, info: Any, in_dims: Sequence[Any], given: Sequence[Any]) -> Any:
    """What ``vmap=`` gives, which is told of every parameter of the kernel: None for the dimension of what is no
    tensor."""
    dims = dict(zip(form.given, in_dims))
    values = form.full(given)
    result = form.op.vmap(info, tuple(dims.get(place) for place in range(len(values))), *values)
    outputs, out_dims = result if isinstance(result, tuple) and len(result) == 2 else (None, None)
    count = len(form.outputs)
    made = tuple(outputs) if isinstance(outputs, (tuple, list)) else () if outputs is None else (outputs,)
    out = tuple(out_dims) if isinstance(out_dims, (tuple, list)) else (out_dims,) * count
    if len(made) != count or len(out) != count or not all(map(is_tensor, made)):
        raise OptionError(
            "E-TORCH-VMAP",
            f"{form.subject.name}: its vmap rule gives {result!r:.80}",
            span=form.subject.span,
            facts=(f"outputs: {', '.join(form.outputs) or 'none'}",),
            help="return (outputs, out_dims): for each output a tensor and its batch dimension, None for no batch",
        )
    return (made, out) if count > 1 else (made[0], out[0]) if count else (None, None)
