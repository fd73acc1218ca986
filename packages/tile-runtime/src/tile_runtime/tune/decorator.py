"""`autotune`: a jit function that finds its own configuration."""

from __future__ import annotations

import functools
import inspect
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from tile_core.errors import OptionError

from ..identity import Named, outside_graphs
from ..jit import JitFunction, value_key
from ..kernel import Kernel
from .result import AutotuneResult
from .tuner import AutoTuner

__all__ = ["TunedFunction", "autotune"]


def autotune(function: Any, **options: Any) -> TunedFunction:
    """See `tile_core.autotune`.

    Raises:
        OptionError: `function` is no jit function.
    """
    if not isinstance(function, JitFunction):
        raise OptionError(
            "E-TUNE-OPTION",
            f"autotune was given {function!r}, which is no jit function",
            help="put @tile.autotune(…) above @tile.jit",
        )
    return TunedFunction(function, **options)


class TunedFunction(Named):
    """Called like the jit function, without the parameters that are tuned. Where the caller gives one of them, nothing
    is tuned. `result` tells what was found for a call."""

    def __init__(
        self,
        function: JitFunction,
        configs: Iterable[Mapping[str, Any]] | Callable[..., Iterable[Mapping[str, Any]]],
        warmup: float,
        rep: float,
        timeout: float,
        do_not_specialize: Sequence[str] | None,
        early_stop: bool,
        early_stop_factor: float,
        executor: Any,
        prune: bool,
        **profile: Any,
    ) -> None:
        functools.update_wrapper(self, function.function)
        self.jit = function
        self.options, self.function = function.options, function.function
        self.configs: Callable[..., Iterable[Mapping[str, Any]]] | list[dict[str, Any]] = (
            configs if callable(configs) else [dict(config) for config in configs]
        )
        self._profile = {"warmup": warmup, "rep": rep, "timeout": timeout, **profile}
        self._run = {"early_stop": early_stop, "early_stop_factor": early_stop_factor, "executor": executor}
        self._prune = prune
        self._names = list(inspect.signature(function.function).parameters)
        self._ignored = frozenset(do_not_specialize or ())
        strangers = self._ignored - set(self._names)
        if strangers:
            raise OptionError(
                "E-TUNE-OPTION",
                f"do_not_specialize names {', '.join(sorted(strangers))}, no parameter of {function.function.__name__}",
                facts=(f"parameters: {', '.join(self._names)}",),
            )
        if isinstance(self.configs, list):
            AutoTuner(function, self.configs)  # a wrong list is an error here, not at the first call
        self._found: dict[Any, tuple[JitFunction, dict[str, Any], AutotuneResult]] = {}
        self._lock = threading.RLock()

    @outside_graphs
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """What the jit function gives with the best configuration.

        Raises:
            TuneError: none works.
        """
        configs = self._configs(args, kwargs)
        if self._decided(args, kwargs, configs):
            return self.jit(*args, **kwargs)
        function, config, result = self._best(args, kwargs, configs)
        if function.mode == "lazy":
            return result.kernel
        return function(*args, **{**kwargs, **config})

    def result(self, *args: Any, **kwargs: Any) -> AutotuneResult:
        """What tuning for such a call found; tunes where it has not yet."""
        configs = self._configs(args, kwargs)
        return self._best(args, kwargs, configs)[2]

    def compile(self, *args: Any, **kwargs: Any) -> Kernel:
        """The kernel with the best configuration; nothing is run but the tuning. It has `config`, `latency` and
        `ref_latency`. An eager function takes sizes by name in place of tensors, and is then tuned on generated ones.
        Where the caller gives a parameter that is tuned, it is the jit function's kernel.

        Raises:
            TuneError: no configuration works.
        """
        configs = self._configs(args, kwargs)
        if self._decided(args, kwargs, configs):
            return self.jit.compile(*args, **kwargs)
        kernel = self._best(args, kwargs, configs)[2].kernel
        assert kernel is not None
        return kernel

    def trace(self, *args: Any, **kwargs: Any) -> Any:
        """The traced function, as the jit function's; nothing is tuned."""
        return self.jit.trace(*args, **kwargs)

    def _configs(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[dict[str, Any]]:
        """The configurations to try for a call."""
        given = self.configs if isinstance(self.configs, list) else self.configs(*args, **kwargs)
        return [dict(config) for config in given]

    def _decided(self, args: Sequence[Any], kwargs: Mapping[str, Any], configs: Sequence[Mapping[str, Any]]) -> bool:
        given = {*self._names[: len(args)], *kwargs}
        return any(name in given for config in configs for name in config)

    def _best(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], configs: list[dict[str, Any]]
    ) -> tuple[JitFunction, dict[str, Any], AutotuneResult]:
        if not self.jit._captures.unchanged():  # what the function reads from outside: other kernels, other times
            with self._lock:
                self._found.clear()
                self.jit._renew()
        key = self._key(args, kwargs)
        found = self._found.get(key)
        if found is None:
            with self._lock:
                found = self._found.get(key)
                if found is None:
                    found = self._found[key] = self._tune(args, kwargs, configs)
        return found

    def _tune(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], configs: list[dict[str, Any]]
    ) -> tuple[JitFunction, dict[str, Any], AutotuneResult]:
        tuner = AutoTuner(self.jit, configs).set_profile_args(**self._profile).set_kernel_parameters(args, kwargs)
        tuner.prune = self._prune
        result = tuner.run(**self._run)
        assert result.config is not None
        function, config = tuner.variant(result.config)
        return function, config, result

    def _key(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """A call form: types, shapes and strides of tensors, and all other values."""
        named = [*zip(self._names, args), *sorted(kwargs.items())]
        return tuple(
            (name, value.dtype, tuple(value.shape), tuple(value.stride()))
            if hasattr(value, "shape") and hasattr(value, "stride")
            else (name, value_key(value))
            for name, value in named
            if name not in self._ignored
        )
