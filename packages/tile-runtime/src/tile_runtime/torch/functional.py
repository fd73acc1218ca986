"""Operators under functorch (`torch.func.grad`, `vmap`, …), whose transforms want an autograd function of a newer form
than the one that `torch.library.register_autograd` makes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch

from .subject import is_tensor

if TYPE_CHECKING:
    from .register import Form

__all__ = ["batched", "functional"]


def functional(form: Form) -> Any:
    """An autograd function of the operator that functorch can transform."""

    def forward(*given: Any) -> Any:
        return form.overload(*given)

    def vmap(info: Any, in_dims: Sequence[Any], *given: Any) -> Any:
        return batched(form, function.apply, info, in_dims, *given)

    members = {
        "forward": staticmethod(forward),
        "setup_context": staticmethod(form.gradient.setup_context),
        "backward": staticmethod(form.gradient.backward),
        "vmap": staticmethod(vmap),
    }
    function: Any = type(f"Functional_{form.name.replace('::', '_')}", (torch.autograd.Function,), members)
    return function


def batched(form: Form, call: Any, info: Any, in_dims: Sequence[Any], *given: Any) -> Any:
    """vmap: one call for each element of the batch."""
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
