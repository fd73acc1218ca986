"""`AutoTuner`: tries configurations of a kernel and says which is fastest.

    trace all ─▶ leave out what cannot win ─▶ compile in parallel ─▶ measure, one after the other, in a process apart

Every configuration ends as a `Trial`: one that crashes, hangs, writes out of its memory or gives wrong numbers is a
recorded failure, and the others go on. What was measured is kept on disk at once, so that a run that was interrupted
goes on where it was. With an executor (`concurrent.futures`, or a dask client's), compiling and measuring happen where
it runs.
"""

from __future__ import annotations

import os
import pickle
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any

from tile_core.errors import OptionError, TileError, declare_codes
from tile_core.ir import PrimFunc
from tile_core.plugin.api import Artifact
from tile_core.settings import settings
from tile_core.target import require_this_host

from ..compiler import Request, compile_kernel
from ..jit import JitFunction, Sizes
from ..kernel import Kernel
from ..options import CompileOptions
from ..parallel import Progress, WorkerPool
from ..profile import TensorSupplyType
from .process import MeasuringProcess, measure_here
from .profile_args import ProfileArgs
from .prune import estimate, limits_for, losers
from .result import AutotuneResult, Trial, TuneError, shown
from .samples import Samples
from .store import Store, callback_keys

__all__ = ["AutoTuner"]

declare_codes({"E-TUNE-OPTION": "an argument of the tuner that has no meaning"})

PASS_CONFIGS = "pass_configs"
"""The key of a configuration that is no parameter of the kernel."""
BUILD_SECONDS = 60.0
"""Compiling may always take so long, however short a measurement has to be."""


@dataclass
class _Candidate:
    """A configuration on its way."""

    trial: Trial
    function: PrimFunc | None = None
    options: CompileOptions | None = None
    request: Request | None = None
    inputs: Sequence[Any] | None = None
    key: str = ""
    kernel: Kernel | None = None

    @property
    def open(self) -> bool:
        return not self.trial.state


class AutoTuner:
    """See the module's text.

    Args:
        function: a jit function, or a plain one that returns a `T.prim_func` or holds `T.Kernel`.
        configs: values of its parameters for each configuration.
    """

    def __init__(self, function: Any, configs: Iterable[Mapping[str, Any]]) -> None:
        self.function = function if isinstance(function, JitFunction) else JitFunction(function, CompileOptions())
        self.configs = _checked(configs, self.function)
        self.options = self.function.options
        self.profile = ProfileArgs()
        self.args: tuple[Any, ...] = ()
        self.kwargs: dict[str, Any] = {}
        self.prune = True
        self._variants: dict[str, JitFunction] = {}

    @classmethod
    def from_kernel(cls, kernel: Any, configs: Iterable[Mapping[str, Any]]) -> AutoTuner:
        """A tuner for a jit function or factory."""
        return cls(kernel, configs)

    def set_compile_args(
        self,
        out_idx: int | Sequence[int] | None = None,
        target: Any = "auto",
        execution_backend: str = "auto",
        target_host: Any = None,
        verbose: bool = False,
        pass_configs: Mapping[str, Any] | None = None,
    ) -> AutoTuner:
        """How kernels are compiled; arguments as for `tile.jit`."""
        require_this_host(target_host)
        given = {
            "out_idx": out_idx,
            "target": None if target == "auto" else target,
            "execution_backend": None if execution_backend == "auto" else execution_backend,
            "verbose": verbose or None,
            "pass_configs": pass_configs,
        }
        read = CompileOptions.read({name: value for name, value in given.items() if value is not None})
        self.options = replace(
            self.options, **{name: getattr(read, name) for name, v in given.items() if v is not None}
        )
        self._variants.clear()
        return self

    def set_profile_args(
        self,
        warmup: float = 25,
        rep: float = 100,
        timeout: float = 30,
        supply_type: TensorSupplyType | None = None,
        ref_prog: Callable[..., Any] | None = None,
        supply_prog: Callable[..., Any] | None = None,
        rtol: float = 1e-2,
        atol: float = 1e-2,
        max_mismatched_ratio: float = 0.01,
        skip_check: bool = False,
        manual_check_prog: Callable[..., None] | None = None,
        cache_input_tensors: bool = False,
        backend: str = "auto",
    ) -> AutoTuner:
        """How kernels are checked and timed; see `tile_core.autotune` and `do_bench`."""
        self.profile = ProfileArgs(
            warmup, rep, timeout, supply_type or TensorSupplyType.Auto, ref_prog, supply_prog, rtol, atol,
            max_mismatched_ratio, skip_check, manual_check_prog, cache_input_tensors, backend,
        ).checked()  # fmt: skip
        return self

    def set_kernel_parameters(
        self, k_parameters: Sequence[Any] = (), f_parameters: Mapping[str, Any] | None = None
    ) -> AutoTuner:
        """The arguments of the call that is tuned: in order, and by name."""
        self.args, self.kwargs = tuple(k_parameters), dict(f_parameters or {})
        return self

    def generate_cache_key(
        self, parameters: Mapping[str, Any] | None = None, extra: Mapping[str, Any] | None = None
    ) -> str | None:
        """The name under which the result of one configuration is kept: `parameters` are its values, `extra` what else
        its results depend on. None where a callback has no key."""
        keys = callback_keys(self.profile.callbacks())
        if keys is None:
            return None
        (candidate,) = self._traced([Trial(dict(parameters or {}))])
        if candidate.request is None:
            raise OptionError("E-TUNE-OPTION", f"{shown(parameters or {})}: {candidate.trial.reason}")
        with Samples(self.profile, self._tensors(), candidate.request.target.kind) as samples:
            return Store().key(
                self._parts(candidate, samples, {**keys, **{k: str(v) for k, v in (extra or {}).items()}})
            )

    def run(
        self,
        warmup: float | None = None,
        rep: float | None = None,
        timeout: float | None = None,
        use_pipeline: bool = False,
        enable_grouped_compile: bool = False,
        group_compile_size: int = 2,
        benchmark_devices: Sequence[Any] | None = None,
        benchmark_multi_gpu: bool = False,
        early_stop: bool = False,
        early_stop_factor: float = 2.0,
        executor: Any = None,
        num_workers: int | None = None,
        progress: bool | None = None,
    ) -> AutotuneResult:
        """Tries every configuration.

        Args:
            warmup, rep, timeout: instead of those of `set_profile_args`.
            use_pipeline: measure a configuration as soon as it is compiled, while others still compile; on a GPU that
                is faster, on the CPU compilers disturb the clock.
            enable_grouped_compile, group_compile_size: configurations in one compile unit: one process takes so many at
                a time and gives them back together; those of a unit that ends badly are compiled again one by one.
            benchmark_devices: GPUs to measure on at the same time; they should be alike.
            benchmark_multi_gpu: measure on all GPUs.
            early_stop, early_stop_factor: see `tile_core.autotune`.
            executor: compiles and measures, through ``submit(function, payload)``; one configuration a task. What it
                runs on one machine at the same time disturbs the clock: one task a machine is right.
            num_workers: processes that compile; default by ``TILE_AUTOTUNE_CPU_SHARE`` and ``…_COUNT``.
            progress: show a bar; by default where standard error is a terminal.

        Raises:
            TuneError: no configuration works.
            OptionError: a wrong argument, or inputs that cannot be made.
        """
        profile = self.profile.with_budgets(warmup, rep, timeout)
        if not early_stop_factor >= 1:
            raise OptionError(
                "E-TUNE-OPTION", f"early_stop_factor={early_stop_factor!r}", facts=("allowed: 1 and more",)
            )
        if group_compile_size < 1:
            raise OptionError(
                "E-TUNE-OPTION", f"group_compile_size={group_compile_size!r}", facts=("allowed: 1 and more",)
            )
        trials = [Trial(dict(config)) for config in self.configs]
        candidates = self._traced(trials)
        self._prune(candidates)
        keys = callback_keys(profile.callbacks())
        store = Store(keys is not None)
        wanted = sys.stderr.isatty() or settings.verbose if progress is None else progress
        kind = next((c.request.target.kind for c in candidates if c.request is not None), "cpu")
        with Samples(profile, self._tensors(), kind) as samples, ExitStack() as stack:
            for candidate in candidates:
                if candidate.open and candidate.function is not None:
                    samples.prepare(candidate.function, candidate.inputs)
                    candidate.key = store.key(self._parts(candidate, samples, keys or {}))
                    store.load(candidate.key, candidate.trial)
            bar = Progress(len(trials), wanted, "tuned")
            for candidate in candidates:
                if not candidate.open:
                    bar.step(candidate.trial.state not in ("ok", "slow"))
            todo = [candidate for candidate in candidates if candidate.open]
            best = _Best(trials, early_stop_factor if early_stop else None)
            run = _Run(profile, samples, store, bar, best)
            if executor is not None:
                run.remotely(todo, executor)
            elif todo:
                devices = _devices(todo, benchmark_devices, benchmark_multi_gpu)
                pool = stack.enter_context(
                    WorkerPool(_workers(num_workers, len(todo)), max(profile.timeout, BUILD_SECONDS))
                )
                run.locally(todo, pool, devices, use_pipeline, group_compile_size if enable_grouped_compile else 1)
            bar.end()
            return self._result(candidates, samples)

    def variant(self, config: Mapping[str, Any]) -> tuple[JitFunction, dict[str, Any]]:
        """The jit function with the pass options of a configuration, and the configuration's other values."""
        values = dict(config)
        added = values.pop(PASS_CONFIGS, None) or {}
        if not added and self.options == self.function.options:
            return self.function, values
        name = repr(sorted((str(getattr(k, "value", k)), v) for k, v in added.items()))
        found = self._variants.get(name)
        if found is None:
            options = replace(self.options, pass_configs={**self.options.pass_configs, **added})
            found = self._variants[name] = JitFunction(self.function.function, options)
        return found, values

    def _traced(self, trials: Sequence[Trial]) -> list[_Candidate]:
        found = []
        for trial in trials:
            candidate = _Candidate(trial)
            found.append(candidate)
            function, values = self.variant(trial.config)
            style: Any = function._style
            try:
                bound = style.bind_sizes(self.args, {**self.kwargs, **values})
                trace = style.trace(bound)
                candidate.function, candidate.options = trace.function, function.options
                candidate.request = Request(trace.function, function.options)
                candidate.function = candidate.request.function
            except TileError as error:
                trial.settle("failed", _line(error))
                continue
            if trace.positions is not None and not (bound and isinstance(bound[-1], Sizes)):
                candidate.inputs = [bound[position] for position in trace.positions]
        return found

    def _prune(self, candidates: Sequence[_Candidate]) -> None:
        if not self.prune:
            return
        estimates = []
        for candidate in candidates:
            limits = limits_for(candidate.request.target) if candidate.open and candidate.request else None
            one = estimate(candidate.function, limits) if limits is not None and candidate.function else None
            estimates.append(one)
            if one is not None and one.refusal:
                candidate.trial.settle("pruned", one.refusal)
        for place, reason in losers(estimates).items():
            candidates[place].trial.settle("pruned", reason)

    def _tensors(self) -> Sequence[Any] | None:
        from .inputs import get_autotune_inputs

        return get_autotune_inputs()

    def _parts(self, candidate: _Candidate, samples: Samples, callbacks: Mapping[str, str]) -> dict[str, Any]:
        assert candidate.request is not None and candidate.function is not None
        return {
            "kernel": candidate.request.base_key(),
            "toolchain": candidate.request._toolchain_identity() or "",
            "device": samples.device_name(candidate.request.target),
            "profile": samples.profile.key_parts(),
            "inputs": samples.describe(candidate.function, candidate.inputs),
            "callbacks": dict(callbacks),
        }

    def _result(self, candidates: Sequence[_Candidate], samples: Samples) -> AutotuneResult:
        trials = [candidate.trial for candidate in candidates]
        measured = [c for c in candidates if c.trial.state == "ok" and c.trial.latency is not None]
        if not measured:
            raise TuneError(
                "E-TUNE",
                f"{self.function.function.__name__}: none of {len(trials)} configurations works",
                facts=[f"{shown(t.config)}: {t.state}: {t.reason}" for t in trials],
                help="see the first failure; every configuration is built and run apart from the others",
            )
        best = min(measured, key=lambda candidate: candidate.trial.latency or 0.0)
        assert best.function is not None and best.options is not None
        kernel = best.kernel or compile_kernel(best.function, best.options)
        ref_latency = samples.ref_latency(best.function)
        assert best.trial.latency is not None
        kernel.update_tuner_result(best.trial.latency, best.trial.config, ref_latency)
        return AutotuneResult(
            best.trial.latency,
            best.trial.config,
            ref_latency,
            kernel.get_kernel_source(),
            kernel.prim_func,
            kernel,
            trials,
        )


class _Best:
    """The fastest so far, and from where on another one is given up."""

    def __init__(self, trials: Sequence[Trial], factor: float | None) -> None:
        self.trials, self.factor = trials, factor

    def baseline(self) -> float | None:
        times = [t.latency for t in self.trials if t.state == "ok" and t.latency is not None]
        return min(times) * self.factor if times and self.factor is not None else None


class _Run:
    """Compiles and measures the candidates that are open."""

    def __init__(self, profile: ProfileArgs, samples: Samples, store: Store, bar: Progress, best: _Best) -> None:
        self.profile, self.samples, self.store, self.bar, self.best = profile, samples, store, bar, best

    def locally(
        self, todo: Sequence[_Candidate], pool: WorkerPool, devices: Sequence[str], pipelined: bool, size: int
    ) -> None:
        """Compiles with `pool` in units of `size`, measures on `devices`, each in a process of its own."""
        units = [todo[start : start + size] for start in range(0, len(todo), size)]
        with ThreadPoolExecutor(pool.count, thread_name_prefix="tile-tune") as compilers:
            futures = {compilers.submit(_build, unit, pool): unit for unit in units}
            try:
                with _measuring(devices, self._measure) as measure:
                    ready: list[_Candidate] = []
                    for future in as_completed(futures):
                        future.result()
                        for candidate in futures[future]:
                            if not candidate.open:
                                self._done(candidate)
                            elif pipelined:
                                measure(candidate)
                            else:
                                ready.append(candidate)
                    for one in ready:
                        measure(one)
            except BaseException:
                for future in futures:
                    future.cancel()
                pool.close()  # threads that wait for a compiler end
                raise

    def remotely(self, todo: Sequence[_Candidate], executor: Any) -> None:
        """Both in tasks of an executor; the baseline of an early stop is what is known when a task is sent."""
        futures: list[tuple[Any, _Candidate]] = []
        for candidate in todo:
            job = self._job(candidate, device=self.samples.device(candidate.request.target), inline=True)  # type: ignore[union-attr]
            seconds = self.profile.timeout + max(self.profile.timeout, BUILD_SECONDS)  # it builds, too
            futures.append((executor.submit(measure_here, pickle.dumps((job, seconds))), candidate))
        by_future = dict(futures) if all(isinstance(future, Future) for future, _ in futures) else None
        order: Iterable[Any] = as_completed(by_future) if by_future is not None else [future for future, _ in futures]
        where = by_future or {id(future): candidate for future, candidate in futures}
        for future in order:
            candidate = where[future if by_future is not None else id(future)]
            try:
                reply = future.result()
            except Exception as error:
                reply = {"state": "failed", "reason": f"the executor: {type(error).__name__}: {error}"}
            self._take(candidate, reply)
            self._done(candidate)

    def _measure(self, candidate: _Candidate, process: MeasuringProcess, device: str) -> None:
        self._take(candidate, process.ask(self._job(candidate, device), self.profile.timeout))
        self._done(candidate)

    def _job(self, candidate: _Candidate, device: str, inline: bool = False) -> dict[str, Any]:
        request = candidate.request
        assert request is not None and candidate.function is not None
        baseline = self.best.baseline()
        return {
            "function": pickle.dumps(candidate.function),
            "target": (request.target.kind, dict(request.target.attrs)),
            "execution_backend": request.execution.name,
            "settings": settings.held(),
            "device": device,
            "data": self.samples.data(candidate.function, candidate.inputs, inline),
            "tolerance": self.profile.tolerance(),
            "return_results": self.samples.by_hand,
            "profile": {
                "warmup": self.profile.warmup,
                "rep": self.profile.rep,
                "backend": self.profile.backend if self.profile.backend != "auto" or device != "cpu" else "wall",
                **({} if baseline is None else {"early_stop_baseline": baseline}),
            },
        }

    def _take(self, candidate: _Candidate, reply: Mapping[str, Any]) -> None:
        trial = candidate.trial
        trial.latency, trial.spread = reply.get("latency"), reply.get("spread")
        trial.build_seconds = trial.build_seconds or reply.get("build_seconds")
        reason = str(reply.get("reason", ""))
        if reply["state"] == "slow":
            reason = f"{trial.latency:.3g} ms at first sight"
        trial.settle(reply["state"], reason)
        if trial.state in ("ok", "slow") and candidate.function is not None:
            wrong = self.samples.check_by_hand(candidate.function, candidate.inputs, reply.get("results"))
            if wrong is not None:
                trial.latency = trial.spread = None
                trial.settle("wrong", wrong)

    def _done(self, candidate: _Candidate) -> None:
        self.store.save(candidate.key, candidate.trial)
        self.bar.step(candidate.trial.state not in ("ok", "slow"))


class _NotThere(Exception):
    """A kernel that no cache has."""


def _build(unit: Sequence[_Candidate], pool: WorkerPool) -> None:
    """Compiles the candidates of a unit, those that no cache has in one process; what goes wrong is their trials'."""
    missing: dict[int, Request] = {}
    for place, candidate in enumerate(unit):

        def note(request: Request, place: int = place) -> Artifact:
            missing[place] = request
            raise _NotThere

        with suppress(_NotThere), _settling(candidate):
            _make(candidate, note)
    made = dict(zip(missing, pool.build_unit(list(missing.values()))))
    for place, outcome in made.items():

        def give(request: Request, outcome: Artifact | TileError = outcome) -> Artifact:
            if isinstance(outcome, TileError):
                raise outcome
            return outcome

        with _settling(unit[place]):
            _make(unit[place], give)


def _make(candidate: _Candidate, build: Callable[[Request], Artifact]) -> None:
    assert candidate.function is not None and candidate.options is not None
    candidate.kernel = compile_kernel(candidate.function, candidate.options, build)
    seconds = candidate.kernel.artifact.notes.get("seconds", {})
    candidate.trial.build_seconds = sum(seconds.values()) or None


@contextmanager
def _settling(candidate: _Candidate) -> Iterator[None]:
    """What is raised while a candidate is compiled ends its trial."""
    try:
        yield
    except _NotThere:
        raise
    except TileError as error:
        late = error.code == "E-WORKER-TIMEOUT"
        candidate.trial.settle("timeout" if late else "failed", _line(error))
    except Exception as error:
        candidate.trial.settle("failed", f"{type(error).__name__}: {error}")


@contextmanager
def _measuring(
    devices: Sequence[str], measure: Callable[[_Candidate, MeasuringProcess, str], None]
) -> Iterator[Callable[[_Candidate], None]]:
    """A function that measures a candidate: now, where there is one device, else on the next that is free."""
    with ExitStack() as stack:
        processes = [(stack.enter_context(MeasuringProcess()), device) for device in devices]
        if len(processes) == 1:
            yield lambda candidate: measure(candidate, *processes[0])
            return
        free = list(processes)
        lock = threading.Lock()

        def on_one(candidate: _Candidate) -> None:
            with lock:
                mine = free.pop()
            try:
                measure(candidate, *mine)
            finally:
                with lock:
                    free.append(mine)

        threads = stack.enter_context(ThreadPoolExecutor(len(processes), thread_name_prefix="tile-measure"))
        waiting: list[Future[None]] = []
        yield lambda candidate: waiting.append(threads.submit(on_one, candidate))
        for future in waiting:
            future.result()


def _devices(todo: Sequence[_Candidate], given: Sequence[Any] | None, all_gpus: bool) -> list[str]:
    kind = todo[0].request.target.kind if todo[0].request is not None else "cpu"
    if kind != "cuda":
        if given is not None or all_gpus:
            raise OptionError(
                "E-TUNE-OPTION", f"benchmark_devices: kernels for {kind} are measured on this machine's CPU"
            )
        return ["cpu"]
    import torch

    if given is None:
        return [f"cuda:{index}" for index in range(torch.cuda.device_count())] if all_gpus else ["cuda"]
    if not given:
        raise OptionError("E-TUNE-OPTION", "benchmark_devices is empty", help="name a device, or leave it out")
    return [f"cuda:{device}" if isinstance(device, int) else str(device) for device in given]


def _workers(wanted: int | None, jobs: int) -> int:
    """How many processes compile: as said, else ``TILE_AUTOTUNE_CPU_COUNT``, else a share of the cores."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    count = wanted or settings.autotune_cpu_count or max(1, round(cores * settings.autotune_cpu_share))
    if settings.autotune_max_cpu_count is not None:
        count = min(count, settings.autotune_max_cpu_count)
    return max(1, min(count, jobs))


def _checked(configs: Iterable[Mapping[str, Any]], function: JitFunction) -> list[dict[str, Any]]:
    """Configurations as dicts.

    Raises:
        OptionError: none, one that is no dict, or a name that is no parameter.
    """
    import inspect

    found = []
    parameters = inspect.signature(function.function).parameters
    for config in configs:
        if not isinstance(config, Mapping):
            raise OptionError(
                "E-TUNE-OPTION", f"the configuration {config!r} is no dict", help="write {'block_M': 64, …}"
            )
        strangers = [name for name in config if name not in parameters and name != PASS_CONFIGS]
        if strangers:
            raise OptionError(
                "E-TUNE-OPTION",
                f"{function.function.__name__} has no parameter {', '.join(map(repr, strangers))}",
                facts=(f"parameters: {', '.join(parameters)}", f"configuration: {shown(config)}"),
            )
        found.append(dict(config))
    if not found:
        raise OptionError("E-TUNE-OPTION", f"{function.function.__name__}: there are no configurations to try")
    return found


def _line(error: TileError) -> str:
    return f"{error.code}: {error.summary}"
