"""An operator in torch's registry: schema, implementation, fake implementation, gradient, batching.

A `Form` is one operator. Which arguments are tensors and which are numbers decides it, since a schema has types; values
that no schema has a type for (None, tuples, element types) are part of the form.
"""

from __future__ import annotations

import hashlib
import re
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch.autograd import forward_ad

from tile_core.errors import OptionError, declare_codes

from ..jit import value_key
from .functional import batched, functional
from .gradient import NO_BACKWARD, gradient_of
from .subject import Described, is_tensor
from .tangent import Tangent, carries_tangent

if TYPE_CHECKING:
    from .op import TorchOp

__all__ = ["Form", "form_key"]

declare_codes({"E-TORCH-NAME": "a name that a torch operator cannot have"})

_libraries: dict[str, torch.library.Library] = {}
_lock = threading.Lock()


def form_key(values: Sequence[Any]) -> tuple[Any, ...]:
    """What decides the form for these arguments."""
    return tuple("Tensor" if is_tensor(value) else _scalar_type(value) or value_key(value) for value in values)


class Form:
    """See the module's text; registers itself when made.

    Args:
        op: whose operator it is.
        values: arguments of its first call; those of the same `form_key` fit.
        first: whether it may take the op's own name.
    """

    def __init__(self, op: TorchOp, values: Sequence[Any], first: bool) -> None:
        self.op = op
        self.subject = op.subject
        self.values = list(values)
        self.types = ["Tensor" if is_tensor(value) else _scalar_type(value) for value in values]
        self.given = [position for position, type_ in enumerate(self.types) if type_ is not None]
        described = self.subject.describe(values)
        # What is kept must not hold tensors.
        self.values = [value if type_ is None else None for value, type_ in zip(values, self.types)]
        self.outputs = tuple(output.name for output in described.outputs)
        self.written = described.written
        self.gradient = gradient_of(op, self, values, described)
        self.tangent = Tangent(op, values, described)
        self._functional: Any = None
        self.schema = self._schema(described)
        self.name = self._register(first)
        self.overload: torch._ops.OpOverload = getattr(
            getattr(torch.ops, self.name.split("::")[0]), self.name.split("::")[1]
        ).default

    def __call__(self, values: Sequence[Any]) -> Any:
        """The operator's results as the kernel gives them: one tensor, a list of several, or None."""
        given = [values[position] for position in self.given]
        forward_mode = forward_ad._current_level >= 0
        if self.written and forward_mode and any(map(carries_tangent, given)):
            raise self._refusal("E-TORCH-NO-JVP", "forward-mode derivative")
        if (forward_mode or torch._C._are_functorch_transforms_active()) and not self.written:
            if self._functional is None:
                self._functional = functional(self)
            result = self._functional.apply(*given)
        else:
            result = self.overload(*given)
        return list(result) if isinstance(result, (tuple, list)) else result

    def full(self, given: Sequence[Any]) -> list[Any]:
        """All arguments of the subject, from those of the operator."""
        values = list(self.values)
        for position, value in zip(self.given, given):
            values[position] = value
        return values

    def _schema(self, described: Described) -> str:
        params = []
        for position in self.given:
            name, type_ = self.subject.parameters[position], self.types[position]
            if name in self.written:
                type_ = f"Tensor(a{position}!)"
            params.append(f"{type_} {name}")
        count = len(described.outputs)
        returns = "Tensor" if count == 1 else f"({', '.join(['Tensor'] * count)})"
        return f"({', '.join(params)}) -> {returns}"

    def _register(self, first: bool) -> str:
        namespace, name = _names(self.op, self, first)
        with _lock:
            library = _libraries.get(namespace)
            if library is None:
                library = _libraries[namespace] = torch.library.Library(namespace, "FRAGMENT")
            unique, count = name, 1
            while hasattr(getattr(torch.ops, namespace), unique):
                unique, count = f"{name}_{count}", count + 1
            library.define(unique + self.schema, tags=(torch.Tag.pt2_compliant_tag, torch.Tag.needs_exact_strides))
        full = f"{namespace}::{unique}"
        library.impl(unique, self._run, "CompositeExplicitAutograd")
        torch.library.register_fake(full, self._fake, lib=library)
        if not self.written:
            torch.library.register_autograd(
                full, self.gradient.backward, setup_context=self.gradient.setup_context, lib=library
            )
        else:
            library.impl(unique, self._refuse_gradient, "Autograd", with_keyset=True)
        torch.library.register_vmap(full, self._batched, lib=library)
        return full

    def _run(self, *given: Any) -> Any:
        values = self.full(given)
        result = self.subject.run(*values)
        for name in self.written:
            tensor = values[self.subject.parameters.index(name)]
            if not tensor.is_inference():
                torch.autograd.graph.increment_version(tensor)
        if isinstance(result, list):
            return tuple(result)
        return result

    def _fake(self, *given: Any) -> Any:
        values = self.full(given)
        described = self.subject.describe(values)
        self._check_same(described)
        device = next((value.device for value in values if is_tensor(value)), None)
        made = tuple(torch.empty(out.shape, dtype=out.dtype, device=device) for out in described.outputs)
        return made[0] if len(made) == 1 else made or None

    def _check_same(self, described: Described) -> None:
        """The kernel may not write or return other things for other values: torch knows one schema."""
        outputs = tuple(output.name for output in described.outputs)
        if len(outputs) != len(self.outputs) or described.written != self.written:
            raise OptionError(
                "E-TORCH-OP",
                f"{self.subject.name}: what it returns or writes depends on its arguments",
                span=self.subject.span,
                facts=(
                    f"first: returns {', '.join(self.outputs) or 'nothing'}, writes {_listed(self.written)}",
                    f"now: returns {', '.join(outputs) or 'nothing'}, writes {_listed(described.written)}",
                ),
                help="make two operators of it",
            )

    def _refuse_gradient(self, keyset: Any, *given: Any) -> Any:
        """The autograd kernel of an operator that writes its inputs."""
        if torch.is_grad_enabled() and any(is_tensor(value) and value.requires_grad for value in given):
            raise self._refusal(NO_BACKWARD, "gradient")
        with torch._C._AutoDispatchBelowAutograd():
            return self.overload.redispatch(keyset & torch._C._after_autograd_keyset, *given)

    def _refusal(self, code: str, what: str) -> OptionError:
        return OptionError(
            code,
            f"{self.subject.name} writes {', '.join(self.written)}, so torch cannot give its {what}",
            span=self.subject.span,
            help="return what it computes as outputs, or call it under torch.no_grad()",
        )

    def _batched(self, info: Any, in_dims: Sequence[Any], *given: Any) -> Any:
        return batched(self, self.overload, info, in_dims, *given)


def _scalar_type(value: Any) -> str | None:
    """The schema's type for a value that is no tensor; None where there is none."""
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, (int, torch.SymInt)):
        return "SymInt"
    if isinstance(value, (float, torch.SymFloat)):
        return "float"
    return "str" if isinstance(value, str) else None


def _names(op: TorchOp, form: Form, first: bool) -> tuple[str, str]:
    digest = hashlib.sha256(repr((op.subject.identity(), form.types, form.values)).encode()).hexdigest()[:8]
    if op.name is None:
        return "tile", f"{re.sub(r'[^0-9a-zA-Z_]', '_', op.subject.name)}_{digest}"
    namespace, colons, name = op.name.partition("::")
    if not colons or not namespace.isidentifier() or not name.isidentifier():
        raise OptionError(
            "E-TORCH-NAME",
            f"op: name={op.name!r}",
            facts=("allowed: namespace::name, both identifiers",),
            help=f"such as name='mylibrary::{op.subject.name}'",
        )
    return namespace, name if first else f"{name}_{digest}"


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names) or "nothing"
