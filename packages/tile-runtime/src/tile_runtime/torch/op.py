"""`op`: a kernel as a torch operator.

    @tile.op(backward=attention_backward)
    @tile.jit
    def attention(Q, K, V): …

    y = attention(q, k, v)                    # eager, no gradient asked for: straight into the kernel
    torch.compile(model, fullgraph=True)(x)   # the operator tile::attention_… in the graph

An operator is registered when it is first needed: under torch.compile, with fake tensors, under functorch, a dispatch
mode or autograd. Its schema comes from the traced function (outputs, and which inputs it writes), its fake
implementation computes the outputs' shapes, and its gradient calls `backward`.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch.autograd import forward_ad as _forward_mode
from torch.compiler import is_dynamo_compiling

from tile_core.errors import ArgumentError, OptionError
from tile_core.frontend import EagerFunction, jit_function

from ..identity import Named
from ..jit import JitFunction
from ..kernel import Kernel
from ..options import CompileOptions
from .register import Form, form_key
from .subject import Subject, require_subject

__all__ = ["OpFactory", "TorchOp", "op"]

_transforms_active = torch._C._are_functorch_transforms_active
_dispatch_modes = torch._C._len_torch_dispatch_stack
_Tensor = torch.Tensor
_PLAIN = frozenset({int, float, bool, str, type(None)})  # isinstance(…, Tensor) is slow for what is none


def op(
    function: Any = None,
    *,
    backward: Any = None,
    jvp: Any = None,
    vmap: Callable[..., Any] | None = None,
    name: str | None = None,
) -> Any:
    """Makes a torch operator of a kernel; also a decorator, with or without arguments.

    Args:
        function: a compiled kernel, a jit function, or a function that holds `T.Kernel` (it is jitted). A jit function
            in the lazy style gives operators instead of kernels when it is called.
        backward: what computes the gradients: a kernel, a jit function, another operator, or any Python function. Its
            parameters are matched by name: those of the forward (inputs and constants), its outputs, and
            ``grad_<output>``. It returns a gradient for each floating-point input tensor, in order (or a dict by name;
            None for zero).
        jvp: what computes tangents in forward mode, of the same kinds as `backward`: its parameters are the forward's,
            its outputs, and ``tangent_<input>``. It returns a tangent for each floating-point output, in order (or a
            dict by name; None for zero).
        vmap: ``vmap(info, in_dims, *args) → (outputs, out_dims)``, as `torch.library.register_vmap` takes it, with a
            place for every parameter of the kernel; without one vmap calls the kernel for each element.
        name: ``namespace::name`` of the operator; by default ``tile::<function>_<digest>``.

    Raises:
        OptionError: E-TORCH-OP, E-TORCH-BACKWARD, E-TORCH-JVP, E-TORCH-VMAP, E-TORCH-NAME.
    """
    if function is None:
        return lambda decorated: op(decorated, backward=backward, jvp=jvp, vmap=vmap, name=name)
    if vmap is not None and not callable(vmap):
        raise OptionError(
            "E-TORCH-VMAP", f"vmap={vmap!r} cannot be called", help="pass a function(info, in_dims, *args)"
        )
    rules = Rules(backward, jvp, vmap)
    if isinstance(function, TorchOp):
        function = function.wrapped
    if callable(function) and not isinstance(function, (JitFunction, Kernel)) and hasattr(function, "__code__"):
        if not isinstance(jit_function(function), EagerFunction):
            raise OptionError(
                "E-TORCH-OP",
                f"op was given {function.__name__}, which launches no kernel itself",
                help="decorate the kernels that it calls: torch.compile sees through the rest",
            )
        function = JitFunction(function, CompileOptions())
    if isinstance(function, JitFunction) and function.mode == "lazy":
        return OpFactory(function, rules, name)
    return TorchOp(require_subject(function), function, rules, name)


@dataclass(frozen=True)
class Rules:
    """How torch's transforms go through an operator; see `op`."""

    backward: Any = None
    jvp: Any = None
    vmap: Callable[..., Any] | None = None

    def at(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Rules:
        """Those for some compile-time values: what is in the lazy style is called with them."""
        made = {
            role: given(*args, **kwargs) if _is_factory(given) else given
            for role, given in (("backward", self.backward), ("jvp", self.jvp))
        }
        return replace(self, **made)


class TorchOp(Named):
    """Made by `op`; called like the kernel that it wraps.

    Args:
        subject: what is run and described.
        wrapped: what `op` was given.
        rules: for derivatives and batches.
        name: see `op`.
    """

    # What every call reads stands in slots: from a dictionary as full as this one it takes 0.4 µs more (measured).
    __slots__ = ("__dict__", "__weakref__", "_allow", "_entered", "_fast_of", "subject")

    def __init__(self, subject: Subject, wrapped: Any, rules: Rules | None = None, name: str | None = None) -> None:
        if isinstance(wrapped, JitFunction):
            functools.update_wrapper(self, wrapped.function)
            self.options, self.function = wrapped.options, wrapped.function
        # Everything else that can be asked of the kernel or jit function (compile, get_kernel_source, …). No
        # __getattr__: a class that has one finds all its attributes more slowly (0.2 µs a call, measured).
        for member in dir(type(wrapped)):
            if not member.startswith("_") and callable(getattr(type(wrapped), member)):
                setattr(self, member, getattr(wrapped, member))
        self.subject = subject
        self.wrapped = wrapped
        rules = rules or Rules()
        self.backward, self.jvp, self.vmap = rules.backward, rules.jvp, rules.vmap
        self.name = name
        self._fast_of: Any = _NEVER
        self._forms: dict[Any, Form] = {}
        self._lock = threading.RLock()
        self._written: tuple[int, ...] | None = None  # known from the first call on

        def enter(*args: Any, **kwargs: Any) -> Any:
            return self._enter(args, kwargs)

        def allow() -> None:
            torch._dynamo.allow_in_graph(enter)

        # Dynamo calls `allow` while it traces and then writes `enter` into its graph unseen; AOTAutograd traces through
        # it with tensors of its own, and finds the operator. torch._dynamo is not imported before.
        allow._dynamo_marked_constant = True  # type: ignore[attr-defined]
        self._allow, self._entered = allow, enter

    def __reduce__(self) -> str | tuple[Any, ...]:
        if isinstance(self.wrapped, JitFunction):
            return super().__reduce__()
        return _of_kernel, (self.wrapped, Rules(self.backward, self.jvp, self.vmap), self.name)

    def __repr__(self) -> str:
        return f"<torch operator of {self.wrapped!r}>"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The kernel's results; through torch's dispatcher where somebody watches or a gradient is wanted.

        Raises:
            ArgumentError: an argument does not fit.
        """
        if is_dynamo_compiling():
            self._allow()
            return self._entered(*args, **kwargs)
        if _dispatch_modes() or _transforms_active() or _forward_mode._current_level >= 0:
            return self._enter(args, kwargs)
        fast = self._fast_of._fast  # what a jit function does itself, without a call in between
        if fast is not None and not kwargs and fast.fits(args):
            given = args[: fast.count]
            for value in given:
                if type(value) is _Tensor:
                    if value.requires_grad:
                        break
                elif type(value) not in _PLAIN:
                    break
            else:
                try:
                    return fast.entry(*given)
                except ArgumentError:
                    fast = None  # raised again below, unless these are other tensors than last time
        return self._call(tuple(self.subject.bind(args, kwargs)) if kwargs else args)

    def _call(self, args: tuple[Any, ...]) -> Any:
        """A call that nobody watches, through the dispatcher where a gradient is wanted or a tensor is no plain one."""
        for value in args:
            kind = type(value)
            if kind is _Tensor or kind is torch.nn.Parameter:
                if value.requires_grad and torch.is_grad_enabled():
                    return self._enter(args, {})
            elif kind not in _PLAIN and isinstance(value, _Tensor):
                return self._enter(args, {})
        try:
            if self._written is None:
                return self._first(args)
            _bump(args, self._written)
            return self.subject.run(*args)
        except ArgumentError:
            if any(isinstance(value, _Tensor) and value.device.type == "meta" for value in args):
                return self._enter(args, {})
            raise

    def form(self, *args: Any, **kwargs: Any) -> Form:
        """The operator registered for such arguments; `form.overload` is what torch calls, for `torch.library.opcheck`
        among others."""
        return self._form(self.subject.bind(args, kwargs))

    def _first(self, args: tuple[Any, ...]) -> Any:
        """The first eager call: finds out which inputs the kernel writes."""
        result = self.subject.run(*args)  # what is wrong with the arguments is said by the kernel's own checks
        values = self.subject.bind(args, {})
        written = self.subject.describe(values).written
        self._written = tuple(position for position, name in enumerate(self.subject.parameters) if name in written)
        _bump(args, self._written)
        if not self._written:
            # from now on a plain call can go past all this
            self._fast_of = self.wrapped if isinstance(self.wrapped, JitFunction) else _Always(self.subject)
        return result

    def _enter(self, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        values = self.subject.bind(args, kwargs)
        return self._form(values)(values)

    def _form(self, values: Sequence[Any]) -> Form:
        key = form_key(values)
        form = self._forms.get(key)
        if form is None:
            with self._lock:
                form = self._forms.get(key)
                if form is None:
                    form = self._forms[key] = Form(self, values, first=not self._forms)
        return form


def _of_kernel(kernel: Kernel, rules: Rules, name: str | None) -> TorchOp:
    return TorchOp(require_subject(kernel), kernel, rules, name)


class OpFactory(Named):
    """A jit function in the lazy style, whose kernels are operators: called with its compile-time values it gives the
    `TorchOp` for them. A `backward` or `jvp` in the lazy style is called with the same values."""

    def __init__(self, function: JitFunction, rules: Rules, name: str | None) -> None:
        functools.update_wrapper(self, function.function)
        self.wrapped = function
        self.rules = rules
        self.name = name
        self._ops: dict[int, TorchOp] = {}

    def __call__(self, *args: Any, **kwargs: Any) -> TorchOp:
        """The operator for these compile-time values."""
        kernel = self.wrapped(*args, **kwargs)
        found = self._ops.get(id(kernel))
        if found is None:
            name = self.name if self.name is None or not self._ops else f"{self.name}_{len(self._ops)}"
            found = self._ops[id(kernel)] = TorchOp(require_subject(kernel), kernel, self.rules.at(args, kwargs), name)
        return found

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name == "wrapped":
            raise AttributeError(name)
        return getattr(self.wrapped, name)


def _is_factory(rule: Any) -> bool:
    return isinstance(rule, OpFactory) or (isinstance(rule, JitFunction) and rule.mode == "lazy")


class _Never:
    """No kernel to go straight into."""

    _fast = None


class _Always:
    """A compiled kernel, in the words of a jit function's fast path: it may always be tried."""

    __slots__ = ("_fast", "count", "entry")

    def __init__(self, subject: Subject) -> None:
        self._fast: _Always | None = self
        self.entry = subject.run
        self.count = len(subject.parameters)

    def fits(self, args: tuple[Any, ...]) -> bool:
        return len(args) == self.count


_NEVER = _Never()


def _bump(args: Sequence[Any], written: tuple[int, ...]) -> None:
    """Tells autograd that tensors were written, so that a stale saved one is noticed."""
    for position in written:
        if not args[position].is_inference():
            torch.autograd.graph.increment_version(args[position])
