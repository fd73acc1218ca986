"""`JitFunction`: what ``@tile.jit`` makes of a function.

Lazy style: the function takes compile-time values and returns a `T.prim_func`; calling it gives the compiled kernel.
Eager style: the function holds `T.Kernel` itself; calling it with tensors compiles what these need, runs it and returns
what the function returns.

An eager call first tries the kernel of the last call: the kernel's own checks decide whether the tensors fit, so that
nothing is looked up while shapes stay as they are. Only when they don't fit are Python keys built. What the function
read from outside while it was traced (globals and closure variables that hold plain values) is compared on each call;
when one changed, it is traced anew.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import zip_longest
from typing import Any

from tile_core.errors import ArgumentError, OptionError, TileError, declare_codes
from tile_core.frontend import EagerFunction, LazyFunction, Specialisation, TensorSpec, jit_function
from tile_core.ir import PrimFunc
from tile_core.ir.host import ArgumentRules
from tile_core.transform.make_packed_api import SKIP_VALIDATION, argument_rules
from tile_core.transform.options import Options

from .captures import Captures
from .compiler import compile_kernel
from .identity import Named, outside_graphs
from .kernel import Kernel
from .options import CompileOptions

__all__ = ["JitFunction", "Sizes"]

declare_codes(
    {
        "E-JIT-FUNCTION": "jit was given something that it cannot compile",
        "E-JIT-OUT-IDX": "out_idx together with a function that returns its outputs itself",
    }
)


SKIP = "skip_tensor_validation"
"""Keyword of a call that leaves out checks of tensors."""


class JitFunction(Named):
    """See the module's text. Safe to call from several threads.

    Args:
        function: the decorated Python function.
        options: of `tile.jit`.
    """

    def __init__(self, function: Callable[..., Any], options: CompileOptions) -> None:
        _require_function(function)
        functools.update_wrapper(self, function)
        self.function = function
        self.options = options
        traced = jit_function(function)
        self._style = _Eager(traced, options) if isinstance(traced, EagerFunction) else _Lazy(traced)
        self._captures = Captures(function)
        self._recent: Kernel | None = None
        self._fast: _Fast | None = None
        if self.mode == "eager" and options.out_idx is not None:
            raise OptionError(
                "E-JIT-OUT-IDX",
                f"{function.__name__}: out_idx has no meaning here, the function returns its outputs itself",
                help="make the outputs with T.empty(shape, dtype) and return them",
            )

    @property
    def mode(self) -> str:
        """``lazy`` or ``eager``."""
        return self._style.mode

    @outside_graphs
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Lazy: the kernel for these compile-time values. Eager: the results for these tensors and values; with
        ``skip_tensor_validation=True`` without checks of tensors, as for `Kernel`."""
        fast = self._fast
        if fast is not None and not kwargs and fast.fits(args):
            try:
                return fast.entry(*args[: fast.count])
            except ArgumentError:
                self._fast = None  # other tensors: find their kernel below, or raise the same again
        if SKIP in kwargs and self._style.takes_skip:
            return (self._unvalidated if kwargs.pop(SKIP) else self)(*args, **kwargs)
        kernel, inputs = self._find(args, kwargs)
        return kernel if inputs is None else kernel(*inputs)

    def trace(self, *args: Any, **kwargs: Any) -> PrimFunc:
        """The function traced for these arguments, before any pass; nothing is compiled."""
        return self._trace(self._style.bind_sizes(args, kwargs)).function

    def compile(self, *args: Any, **kwargs: Any) -> Kernel:
        """The kernel for these arguments; nothing is run. An eager function takes tensors, real or on device meta, or
        in place of tensors the sizes that `T.const` names, by keyword: ``matmul.compile(M=64, N=64, K=64)``."""
        return self._find(args, kwargs, self._style.bind_sizes)[0]

    def get_tir(self, *args: Any, **kwargs: Any) -> PrimFunc:
        """`trace` by the name that the peer has for it."""
        return self.trace(*args, **kwargs)

    @property
    def is_lazy_mode(self) -> bool:
        """Whether calls give kernels."""
        return self.mode == "lazy"

    def initialize_jit_mode(self, *args: Any, **kwargs: Any) -> str:
        """The mode. It follows from the function's text when it is decorated, so arguments add nothing to it."""
        return self.mode

    def parse_cache_key(self, *args: Any, **kwargs: Any) -> Hashable:
        """What decides in this process which kernel a call gets: calls with equal keys share one."""
        return self._style.key(self._style.bind_sizes(args, kwargs))

    def par_compile(
        self,
        configs: Iterable[Mapping[str, Any] | Sequence[Any]],
        num_workers: int | None = None,
        ignore_error: bool = False,
    ) -> list[Kernel | None]:
        """The kernels for many sets of arguments, several compiled at once; see `tile_core.par_compile`.

        Args:
            configs: for each kernel its arguments: a dict by name, or a tuple or list in order.
            num_workers: how many at once; one for each core if not given.
            ignore_error: None for one that cannot be compiled, instead of raising.
        """
        from .parallel import compile_all

        if not self._captures.unchanged():
            self._renew()
        bounds = [
            self._style.bind_sizes((), dict(config))
            if isinstance(config, Mapping)
            else self._style.bind(tuple(config), {})
            for config in configs
        ]
        traces: dict[int, _Trace] = {}
        for place, bound in enumerate(bounds):
            if self._style.find(bound) is None:
                try:
                    traces[place] = self._trace(bound)
                except TileError:
                    if not ignore_error:
                        raise
        functions = [trace.function for trace in traces.values()]
        made = dict(zip(traces, compile_all(functions, self.options, num_workers, ignore_error)))
        for place, kernel in made.items():
            if kernel is not None:
                self._style.keep(bounds[place], traces[place], kernel)
        return [known[0] if (known := self._style.find(bound)) is not None else None for bound in bounds]

    def get_kernel_source(self, *args: Any, **kwargs: Any) -> str:
        """The generated device source for these arguments."""
        return self.compile(*args, **kwargs).get_kernel_source()

    @functools.cached_property
    def _unvalidated(self) -> JitFunction:
        """The same function, eager, without checks of tensors."""
        configs = {**self.options.pass_configs, SKIP_VALIDATION.key: True}
        return JitFunction(self.function, replace(self.options, pass_configs=configs))

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else functools.partial(self, instance)

    def _find(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], bind: Callable[..., Any] | None = None
    ) -> tuple[Kernel, list[Any] | None]:
        """The kernel and its inputs for a call; None for inputs in the lazy style."""
        if not self._captures.unchanged():
            self._renew()
        style = self._style
        bound = (bind or style.bind)(args, kwargs)
        known = style.find(bound)
        if known is None:
            trace = self._trace(bound)
            known = style.keep(bound, trace, compile_kernel(trace.function, self.options))
        kernel, positions = known
        if positions is None or bind is not None:
            return kernel, None
        inputs = [bound[position] for position in positions]
        if kernel is self._recent and not kwargs:
            # twice in a row: the next call is likely to want it too
            self._fast = _Fast.of(kernel, args, inputs, self._captures)
        self._recent = kernel
        return kernel, inputs

    def _trace(self, bound: Any) -> _Trace:
        try:
            return self._style.trace(bound)
        finally:
            self._captures.read()  # what the function itself changed while it ran (a list of notes) is no news

    def _renew(self) -> None:
        """Forgets all kernels: what the function reads from outside has changed."""
        self._fast = self._recent = None
        self._style.forget()
        self._captures.read()


class _Trace:
    """A traced function, the places of its inputs among the bound values, and the extents that were burned in."""

    __slots__ = ("function", "positions", "static")

    def __init__(
        self, function: PrimFunc, positions: tuple[int, ...] | None, static: tuple[tuple[int, int], ...] = ()
    ) -> None:
        self.function = function
        self.positions = positions
        self.static = static


Known = tuple[Kernel, "tuple[int, ...] | None"]


class _Lazy:
    """Kernels by the values of the call."""

    mode = "lazy"
    takes_skip = False

    def __init__(self, function: LazyFunction) -> None:
        self.function = function
        self.signature = inspect.signature(function.function)
        self.kernels: dict[Hashable, Known] = {}

    def bind(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return args, kwargs

    bind_sizes = bind

    def find(self, bound: Any) -> Known | None:
        written = value_key(bound)
        known = self.kernels.get(written)
        if known is None:
            known = self.kernels.get(self.key(bound))
            if known is not None:
                self.kernels[written] = known
        return known

    def key(self, bound: Any) -> Hashable:
        """The same for every way to write the same arguments."""
        args, kwargs = bound
        try:
            whole = self.signature.bind(*args, **kwargs)
        except TypeError:
            return value_key(bound)  # tracing will say what is wrong
        whole.apply_defaults()
        return value_key((whole.args, whole.kwargs))

    def trace(self, bound: Any) -> _Trace:
        args, kwargs = bound
        return _Trace(self.function.trace(*args, **kwargs), None)

    def keep(self, bound: Any, trace: _Trace, kernel: Kernel) -> Known:
        return self.kernels.setdefault(self.key(bound), (kernel, None))

    def forget(self) -> None:
        self.kernels = {}


class _Eager:
    """Kernels by compile-time values, then by element type and rank of each tensor, then by the extents burned in."""

    mode = "eager"

    def __init__(self, function: EagerFunction, options: CompileOptions) -> None:
        self.function = function
        self.options = options
        self.kinds = tuple(parameter.kind for parameter in function.parameters)
        self.takes_skip = SKIP not in function.signature.parameters
        # constants and types → places of the fixed extents → these extents → the kernel
        self.kernels: dict[Hashable, dict[tuple[tuple[int, int], ...], dict[tuple[int, ...], Known]]] = {}

    def bind(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
        return self.function.bind(args, kwargs)

    def bind_sizes(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
        """`bind` for a call that may give sizes in place of tensors; these are one value more, at the end."""
        values, sizes = self.function.bind_sizes(args, kwargs)
        return [*values, Sizes(sizes)] if sizes else values

    def find(self, bound: list[Any]) -> Known | None:
        for static, by_extents in list(self.kernels.get(self._types(bound), {}).items()):
            known = by_extents.get(_extents(bound, static))
            if known is not None:
                return known
        return None

    def trace(self, bound: list[Any]) -> _Trace:
        values = [
            _spec(value) if kind == "tensor" or (kind == "open" and _is_tensor(value)) else value
            for kind, value in zip(self.kinds, bound)
        ]
        sizes = {"constants": bound[-1]} if len(bound) > len(values) else {}
        found: Specialisation = self.function.specialise(values, rules=self._rules, **sizes)
        return _Trace(found.prim_func, tuple(found.arguments), tuple(found.static))

    def _rules(self, own: Mapping[Any, Any]) -> ArgumentRules:
        """What the options of the caller and of the function let pass in a call."""
        return argument_rules(Options(self.options.configs(own)))

    def keep(self, bound: list[Any], trace: _Trace, kernel: Kernel) -> Known:
        by_static = self.kernels.setdefault(self._types(bound), {})
        by_extents = by_static.setdefault(trace.static, {})
        return by_extents.setdefault(_extents(bound, trace.static), (kernel, trace.positions))

    def forget(self) -> None:
        self.kernels = {}

    def key(self, bound: list[Any]) -> Hashable:
        """Types, and the extents that are burned in; before the first trace for these types all extents."""
        types = self._types(bound)
        for static in list(self.kernels.get(types, {})):
            return types, _extents(bound, static)
        places = [(p, d) for p, value in enumerate(bound) if _is_tensor(value) for d in range(len(value.shape))]
        return types, _extents(bound, tuple(places))

    def _types(self, bound: list[Any]) -> Hashable:
        """What decides the trace besides extents."""
        parts: list[Hashable] = []
        for kind, value in zip_longest(self.kinds, bound, fillvalue="constant"):
            if kind == "scalar":
                continue
            if kind != "constant" and _is_tensor(value):
                parts.append((value.dtype, len(value.shape)))
                if kind == "open":
                    parts.append(_spec(value).strides)
            else:
                parts.append(value_key(value))
        return tuple(parts)


class _Fast:
    """The last kernel, and when it may be tried: as many arguments, the same compile-time values after the tensors."""

    __slots__ = ("captures", "count", "entry", "total", "values")

    def __init__(self, entry: Callable[..., Any], count: int, values: tuple[Any, ...], captures: Captures) -> None:
        self.entry = entry
        self.count = count
        self.values = values
        self.total = count + len(values)
        self.captures = captures

    @classmethod
    def of(cls, kernel: Kernel, args: tuple[Any, ...], inputs: list[Any], captures: Captures) -> _Fast | None:
        """None where the kernel's inputs are not simply the first arguments."""
        count = len(inputs)
        if len(args) < count or any(one is not other for one, other in zip(args, inputs)):
            return None
        return cls(kernel.entry, count, args[count:], captures)

    def fits(self, args: tuple[Any, ...]) -> bool:
        if len(args) != self.total:
            return False
        if self.values:
            for given, value in zip(args[self.count :], self.values):
                if given is not value and (type(given) is not type(value) or not _same(given, value)):
                    return False
        return self.captures.unchanged()


def value_key(value: Any) -> Hashable:
    """A compile-time value with its type (1, 1.0 and True trace differently): lists and dicts by content, what cannot
    be
    hashed by identity."""
    if isinstance(value, (list, tuple)):
        return type(value), tuple(map(value_key, value))
    if isinstance(value, dict):
        return dict, tuple((value_key(name), value_key(item)) for name, item in value.items())
    try:
        hash(value)
    except TypeError:
        return _Identity(value)
    return type(value), value


class Sizes(dict[str, int]):
    """Values of T.const names that a call gives in place of tensors, equal in any order."""

    def __init__(self, given: Mapping[str, int]) -> None:
        super().__init__(sorted(given.items()))


class _Identity:
    """An unhashable object, equal to itself only; holds it, so that its id cannot be taken over."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Identity) and other.value is self.value

    def __hash__(self) -> int:
        return id(self.value)


def _same(one: Any, other: Any) -> bool:
    """Whether two compile-time values are equal; what has no truth (an array, an expression) only to itself."""
    return isinstance(one, (int, float, str, bytes, bool, tuple)) and one == other


def _is_tensor(value: Any) -> bool:
    return hasattr(value, "shape") and hasattr(value, "dtype") and not isinstance(value, (int, float, str))


def _spec(value: Any) -> TensorSpec:
    """What the frontend is told of a tensor (torch or numpy)."""
    if not _is_tensor(value):
        return value  # None or a number for a tensor: the frontend says what is wrong
    shape = tuple(map(int, value.shape))
    dtype = str(value.dtype).removeprefix("torch.")
    return TensorSpec(shape, dtype, _strides(value, shape))


def _strides(value: Any, shape: tuple[int, ...]) -> tuple[int, ...] | None:
    """Strides in elements, or None for a contiguous tensor."""
    stride: Any = getattr(value, "stride", None)
    strides = tuple(stride()) if stride is not None else tuple(step // value.itemsize for step in value.strides)
    running = 1
    for extent, step in zip(reversed(shape), reversed(strides)):
        if extent != 1 and step != running:
            return strides
        running *= extent
    return None


def _extents(bound: list[Any], static: tuple[tuple[int, int], ...]) -> tuple[int, ...]:
    return tuple([bound[position].shape[dim] for position, dim in static])


def _require_function(function: Any) -> None:
    if isinstance(function, PrimFunc):
        raise OptionError(
            "E-JIT-FUNCTION",
            f"jit was given {function.name}, which is traced already",
            span=function.span,
            help="call tile.compile on it, or decorate the function that makes it",
        )
    if not hasattr(function, "__code__"):
        raise OptionError(
            "E-JIT-FUNCTION",
            f"jit was given {function!r}, which is no Python function",
            help="decorate a function defined with def",
        )
