"""What a runtime offers besides compiling: torch operators, timing, tuning.

`op` and `autotune` have their documentation here; the classes are the runtime's own, fetched when they are asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from .api import _offered
from .errors import PluginError
from .plugin import registry

__all__ = ["OFFERED", "autotune", "named_part", "op", "part"]

OFFERED = (
    "AutoTuner",
    "AutotuneResult",
    "Profiler",
    "TensorSupplyType",
    "do_bench",
    "get_autotune_inputs",
    "set_autotune_inputs",
)
"""Names that `tile_core` has and the runtime holds."""


def op(
    function: Any = None,
    *,
    backward: Any = None,
    jvp: Any = None,
    vmap: Callable[..., Any] | None = None,
    name: str | None = None,
) -> Any:
    """Makes a torch operator of a kernel, a jit function, or a function that holds `T.Kernel`; also a decorator.

    Args:
        function: what becomes an operator. A lazy jit function gives operators instead of kernels when it is called.
        backward: gives the gradients: a kernel, a jit function, another operator, or a Python function. Its parameters
            are matched by name: inputs and constants of the forward, its outputs, and ``grad_<output>``. It returns a
            gradient for each floating-point input tensor, in order (or a dict by name); None for zero.
        jvp: gives the tangents of forward mode, likewise: inputs, constants, outputs and ``tangent_<input>`` in, a
            tangent for each floating-point output out.
        vmap: ``vmap(info, in_dims, *args) → (outputs, out_dims)``; without it a batch is one call for each element.
        name: ``namespace::name``; by default ``tile::<function>_<digest>``.

    Raises:
        PluginError: no runtime is installed, or one without torch operators.
        OptionError: what was given cannot be an operator.
    """
    if function is None:
        return lambda decorated: op(decorated, backward=backward, jvp=jvp, vmap=vmap, name=name)
    given = {"backward": backward, "jvp": jvp, "vmap": vmap, "name": name}
    return part("op")(function, **given)


def autotune(
    function: Any = None,
    *,
    configs: Iterable[Mapping[str, Any]] | Callable[..., Iterable[Mapping[str, Any]]],
    warmup: float = 25,
    rep: float = 100,
    timeout: float = 100,
    supply_type: Any = None,
    ref_prog: Callable[..., Any] | None = None,
    supply_prog: Callable[..., Sequence[Any]] | None = None,
    rtol: float = 1e-2,
    atol: float = 1e-2,
    max_mismatched_ratio: float = 0.01,
    skip_check: bool = False,
    manual_check_prog: Callable[..., None] | None = None,
    cache_input_tensors: bool = False,
    do_not_specialize: Sequence[str] | None = None,
    early_stop: bool = False,
    early_stop_factor: float = 2.0,
    executor: Any = None,
    prune: bool = True,
) -> Any:
    """Decorator above ``@tile.jit``: each new call form is tuned once over `configs`, then the fastest is used.

    Args:
        function: a jit function.
        configs: values for parameters that the caller leaves out, a dict a configuration (its key ``pass_configs`` adds
            pass options); or a function of the call's arguments that gives them.
        warmup, rep: milliseconds to warm up and to measure.
        timeout: seconds for running one configuration (building may take as long, or a minute); taking longer is
            a recorded failure.
        supply_type: what generated inputs hold (`TensorSupplyType`).
        ref_prog: computes what the kernel should, from the same inputs.
        supply_prog: makes the inputs, from the kernel's parameters.
        rtol, atol, max_mismatched_ratio: how close a result has to be, and the share of elements that may be farther.
        skip_check: do not compare with `ref_prog`.
        manual_check_prog: compares instead: a function of (results, expected), which raises.
        cache_input_tensors: make inputs once for all configurations whose parameters are the same.
        do_not_specialize: parameters whose value does not ask for another tuning.
        early_stop: stop timing a configuration that is `early_stop_factor` times slower than the best so far.
        executor: a `concurrent.futures` executor (or a dask client's) that compiles and times; by default processes of
            this machine.
        prune: leave out, without compiling, what cannot run here or is sure to lose, with the reason.

    Raises:
        PluginError: no runtime is installed, or one without a tuner.
        OptionError: a wrong argument.
        TuneError: no configuration works.
    """
    given = {name: value for name, value in locals().items() if name != "function"}
    if function is None:
        return lambda decorated: autotune(decorated, **given)
    return part("autotune")(function, **given)


def part(name: str) -> Any:
    """What the runtime offers under `name`.

    Raises:
        PluginError: no runtime is installed, or one without it.
    """
    found = _offered("part")(name)
    if found is None:
        runtime = registry.runtime()
        raise PluginError(
            "E-RUNTIME-LACKS",
            f"the runtime {runtime.name} has no {name}",
            facts=[f"it was built for version {'.'.join(map(str, runtime.api))} of the plugin API"],
            help="install a newer release of it",
        )
    return found


def named_part(module: str, name: str, names: Iterable[str]) -> Any:
    """`part` for the `__getattr__` of a module that offers `names`."""
    if name in names:
        return part(name)
    raise AttributeError(f"module {module!r} has no attribute {name!r}")


def __getattr__(name: str) -> Any:
    return named_part(__name__, name, OFFERED)
