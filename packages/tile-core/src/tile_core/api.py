"""The front door: `jit`, `compile`, `lower`.

`jit` and `compile` are the runtime's work, found through the entry point ``tile.runtime``; here they have their types
and their documentation. `lower` needs no runtime: it takes a function through the passes to source text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Protocol, TypeVar, overload

from .codegen import postprocess
from .errors import OptionError, PluginError, declare_codes
from .instrument import PassTimes, asked_for
from .ir import Buffer, IRModule, PrimFunc
from .plugin import registry
from .plugin.api import Artifact, Backend, resolve
from .settings import settings
from .target import Target, require_this_host
from .transform.base import PassContext
from .transform.options import Options

__all__ = [
    "CompiledKernel",
    "JitFunction",
    "clear_cache",
    "compile",
    "disable_cache",
    "enable_cache",
    "is_cache_enabled",
    "jit",
    "lower",
    "lower_for",
    "par_compile",
]

declare_codes(
    {
        "E-LOWER-FUNCTION": "lower or compile was given something that is not a traced function",
        "E-RUNTIME-LACKS": "the installed runtime is older than what was asked of it",
        "E-OUT-IDX": "out_idx names a parameter that cannot be returned",
    }
)

OutIdx = int | Sequence[int]
TargetLike = str | Mapping[str, Any] | Target
_Function = TypeVar("_Function", bound=Callable[..., Any])


class CompiledKernel(Protocol):
    """A kernel that can be called with tensors, and shown."""

    @property
    def name(self) -> str:
        """Name of the kernel's function."""
        ...

    @property
    def target(self) -> Target:
        """What it was compiled for, every attribute filled in."""
        ...

    @property
    def prim_func(self) -> PrimFunc:
        """The traced function."""
        ...

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Runs it: an argument for each input; gives what `out_idx` names (one tensor, a list, or None).

        Raises:
            ArgumentError: an argument does not fit the parameter.
        """
        ...

    def get_kernel_source(self) -> str:
        """The generated source of the device function."""
        ...

    def get_host_source(self) -> str:
        """The generated source of the function that checks arguments and launches."""
        ...

    def show_source(self, which: Literal["kernel", "host", "both"] = "kernel") -> None:
        """Prints the generated source."""
        ...

    def export_sources(self, kernel_path: str | Path | None = None, host_path: str | Path | None = None) -> None:
        """Writes the generated sources to files."""
        ...

    def export_library(self, path: str | Path) -> None:
        """Writes the compiled library to a file."""
        ...

    def explain(self) -> str:
        """What was chosen for every op and line, what declined and why, and which options had no effect."""
        ...

    def get_profiler(self) -> Any:
        """A profiler: timing and comparison with a reference."""
        ...


class JitFunction(Protocol):
    """A Python function that compiles on call.

    Lazy style (the function returns a `T.prim_func`): called with compile-time values it gives a `CompiledKernel`.
    Eager style: called with tensors it gives the function's results.
    """

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The kernel for these values, or the results for these tensors."""
        ...

    def trace(self, *args: Any, **kwargs: Any) -> PrimFunc:
        """The traced function for these arguments; nothing is compiled."""
        ...

    @property
    def mode(self) -> str:
        """``lazy`` or ``eager``."""
        ...

    def get_tir(self, *args: Any, **kwargs: Any) -> PrimFunc:
        """`trace` by the name that the peer has for it."""
        ...

    def compile(self, *args: Any, **kwargs: Any) -> CompiledKernel:
        """The kernel for these arguments; nothing is run."""
        ...

    def par_compile(
        self,
        configs: Iterable[Mapping[str, Any] | Sequence[Any]],
        num_workers: int | None = None,
        ignore_error: bool = False,
    ) -> list[Any]:
        """The kernels for many sets of arguments (a dict by name or a tuple in order each), several compiled at
        once."""
        ...

    def parse_cache_key(self, *args: Any, **kwargs: Any) -> Any:
        """What decides in this process which kernel a call gets."""
        ...

    def get_kernel_source(self, *args: Any, **kwargs: Any) -> str:
        """The generated device source for these arguments."""
        ...


@overload
def jit(function: Callable[..., Any]) -> JitFunction: ...
@overload
def jit(
    function: None = None,
    *,
    out_idx: OutIdx | None = None,
    target: TargetLike | None = None,
    target_host: TargetLike | None = None,
    execution_backend: str | None = None,
    pass_configs: Mapping[Any, Any] | None = None,
    compile_flags: str | Sequence[str] | None = None,
    verbose: bool | None = None,
    debug_root_path: str | Path | None = None,
) -> Callable[[Callable[..., Any]], JitFunction]: ...
def jit(
    function: Callable[..., Any] | None = None,
    *,
    out_idx: OutIdx | None = None,
    target: TargetLike | None = None,
    target_host: TargetLike | None = None,
    execution_backend: str | None = None,
    pass_configs: Mapping[Any, Any] | None = None,
    compile_flags: str | Sequence[str] | None = None,
    verbose: bool | None = None,
    debug_root_path: str | Path | None = None,
) -> JitFunction | Callable[[Callable[..., Any]], JitFunction]:
    """Decorator: makes a function compile on call; see `JitFunction` for the two styles.

    Args:
        function: the function; left out in ``@tile.jit(…)``.
        out_idx: positions of parameters that the kernel allocates and returns (negative from the end); lazy style.
        target: ``"auto"``, ``"cpu"``, ``"cuda -arch=sm_90a"``, …; ``TILE_DEFAULT_TARGET`` if not given.
        target_host: the machine that calls, if it is to be said: ``"c"`` or ``"cpu"``, with ``-mtriple=`` of this one.
        execution_backend: how kernels are called, by name; ``TILE_EXECUTION_BACKEND`` if not given.
        pass_configs: pass options by key; docs/reference/options.md lists them.
        compile_flags: added to the toolchain's command.
        verbose: say what is compiled and what the cache did.
        debug_root_path: a folder to write the generated sources to.

    Raises:
        PluginError: no runtime is installed.
        OptionError: an argument is of the wrong kind.
    """
    require_this_host(target_host)
    options = _options(
        out_idx=out_idx,
        target=target,
        execution_backend=execution_backend,
        pass_configs=pass_configs,
        compile_flags=compile_flags,
        verbose=verbose,
        debug_root_path=debug_root_path,
    )
    runtime = registry.runtime()
    if function is not None:
        return runtime.jit(function, options)
    return lambda decorated: runtime.jit(decorated, options)


def compile(
    function: PrimFunc,
    *,
    out_idx: OutIdx | None = None,
    target: TargetLike | None = None,
    target_host: TargetLike | None = None,
    execution_backend: str | None = None,
    pass_configs: Mapping[Any, Any] | None = None,
    compile_flags: str | Sequence[str] | None = None,
    verbose: bool | None = None,
    debug_root_path: str | Path | None = None,
) -> CompiledKernel:
    """The kernel for a traced function (a `T.prim_func`), from the caches where it is there; arguments as for `jit`.

    Raises:
        UserError: what is wrong with the function, the options, the target or the machine.
    """
    require_this_host(target_host)
    options = _options(
        out_idx=out_idx,
        target=target,
        execution_backend=execution_backend,
        pass_configs=pass_configs,
        compile_flags=compile_flags,
        verbose=verbose,
        debug_root_path=debug_root_path,
    )
    return registry.runtime().compile(_traced(function, "compile"), options)


def par_compile(
    functions: Iterable[PrimFunc],
    *,
    out_idx: OutIdx | None = None,
    target: TargetLike | None = None,
    target_host: TargetLike | None = None,
    execution_backend: str | None = None,
    pass_configs: Mapping[Any, Any] | None = None,
    compile_flags: str | Sequence[str] | None = None,
    verbose: bool | None = None,
    num_workers: int | None = None,
    ignore_error: bool = False,
) -> list[Any]:
    """A kernel for each of the traced functions, several compiled at once; arguments as for `compile`.

    Args:
        functions: what `T.prim_func` gives, in any number.
        num_workers: how many at once; one for each core if not given.
        ignore_error: give None for a function that cannot be compiled, instead of raising the first error.

    Raises:
        UserError: what is wrong with a function, the options, the target or the machine.
    """
    require_this_host(target_host)
    options = _options(
        out_idx=out_idx,
        target=target,
        execution_backend=execution_backend,
        pass_configs=pass_configs,
        compile_flags=compile_flags,
        verbose=verbose,
    )
    traced = [_traced(function, "par_compile") for function in functions]
    return _offered("par_compile")(traced, options, num_workers, ignore_error)


def disable_cache() -> None:
    """From now on this process compiles every kernel anew; before ``TILE_DISABLE_CACHE``."""
    settings.hold(disable_cache=True)


def enable_cache() -> None:
    """From now on this process uses the kernel caches; before ``TILE_DISABLE_CACHE``."""
    settings.hold(disable_cache=False)


def is_cache_enabled() -> bool:
    """Whether compiled kernels are kept and found again."""
    return not settings.disable_cache


def clear_cache() -> None:
    """Forgets the kernels of this process, and removes those of this version and machine from ``TILE_CACHE_DIR``.

    Kernels that are held somewhere stay usable; device binaries are kept, other machines may be reading them.
    """
    _offered("clear_cache")()


def lower(
    function: PrimFunc,
    target: TargetLike | None = None,
    target_host: TargetLike | None = None,
    *,
    out_idx: OutIdx | None = None,
    pass_configs: Mapping[Any, Any] | None = None,
    instruments: Iterable[Any] = (),
) -> Artifact:
    """A traced function taken through the passes and printed as source; no toolchain, no device, no runtime.

    Args:
        function: a `T.prim_func`.
        target, target_host: as for `jit`.
        out_idx: as for `jit`.
        pass_configs: as for `jit`; those in the function's own attributes hold where they are not given here.
        instruments: objects with ``before_pass(pass_, module)`` or ``after_pass(pass_, module, seconds)``.

    Raises:
        UserError: what is wrong with the function, the options or the target.
    """
    require_this_host(target_host)
    function = _traced(function, "lower")
    if out_idx is not None:
        function = function.with_attr("out_idx", _positions(out_idx, function) or None)
    given = {**dict(function.attr("pass_configs", ())), **{_key(k): v for k, v in (pass_configs or {}).items()}}
    options = Options(given)
    wanted = target if target is not None else function.attr("target") or settings.default_target
    backend, resolved = registry.resolve_target(wanted)
    return lower_for(function, backend, resolved, options, instruments)


def lower_for(
    function: PrimFunc, backend: Backend, target: Target, options: Options, instruments: Iterable[Any] = ()
) -> Artifact:
    """`lower` with everything resolved; what runtimes call. Instruments of plugins and of the environment
    (``TILE_DUMP_IR_DIR``, ``TILE_PASS_DIFF``, ``TILE_PASS_PROFILE``) count too.

    The artifact's notes hold: pass_seconds (by name of the pass), solver_queries, diagnostics, inert_options, pipelines
    (lines for `explain`), reports (what passes found out, by subject; not kept on disk).
    """
    times = PassTimes()
    with asked_for(function, times) as asked:
        context = PassContext(target, options, (times, *asked, *registry.instruments(), *instruments), backend)
        pipeline = registry.pipeline(backend, target, options)
        module = pipeline.run(IRModule((function,)), context)
    sources = postprocess(resolve(backend.codegen)(module, target), target)
    read = {key for pass_ in pipeline.passes for key in pass_.option_keys}
    return Artifact(
        target=target,
        name=function.name,
        function=function,
        module=module,
        sources=sources,
        entry=function.name,
        choices=list(context.choices),
        notes={
            "pass_seconds": times.by_pass(),
            "solver_queries": context.solver_queries,
            "diagnostics": list(context.diagnostics),
            "inert_options": sorted(set(options.given) - read),
            "pipelines": [line for report in context.reports.get("pipelines", ()) for line in report.lines()],
            "reports": context.reports,
        },
    )


def _offered(name: str) -> Callable[..., Any]:
    """A function that runtimes may have."""
    runtime = registry.runtime()
    found = getattr(runtime, name, None)
    if found is None:
        raise PluginError(
            "E-RUNTIME-LACKS",
            f"the runtime {runtime.name} has no {name}",
            facts=[f"it was built for version {'.'.join(map(str, runtime.api))} of the plugin API"],
            help="install a newer release of it",
        )
    return found


def _options(**given: Any) -> dict[str, Any]:
    return {name: value for name, value in given.items() if value is not None}


def _key(key: Any) -> str:
    return str(getattr(key, "value", key))


def _traced(function: Any, what: str) -> PrimFunc:
    if isinstance(function, PrimFunc):
        return function
    trace = getattr(function, "trace", None)
    raise OptionError(
        "E-LOWER-FUNCTION",
        f"tile.{what} was given a {type(function).__name__}, not a traced function",
        facts=[f"found {function!r}"],
        help="pass what its .trace(…) gives, or call it"
        if trace is not None
        else "pass a function decorated with @T.prim_func, or what a factory of one returns",
    )


def _positions(out_idx: OutIdx, function: PrimFunc) -> tuple[int, ...]:
    """`out_idx` as positions from the start.

    Raises:
        OptionError: a position outside the parameters, one that is no tensor, or one given twice.
    """
    count = len(function.params)
    given = (out_idx,) if isinstance(out_idx, int) else tuple(out_idx)
    found: list[int] = []
    for index in given:
        place = index + count if index < 0 else index
        if not 0 <= place < count or not isinstance(function.params[place], Buffer) or place in found:
            what = "names no tensor" if place not in found else "is given twice"
            raise OptionError(
                "E-OUT-IDX",
                f"out_idx: {index} {what} among the {count} parameters of {function.name}",
                span=function.span,
                facts=[f"{i}: {p.name}" for i, p in enumerate(function.params)],
                help="name each output tensor once, by its position; -1 is the last",
            )
        found.append(place)
    return tuple(found)
