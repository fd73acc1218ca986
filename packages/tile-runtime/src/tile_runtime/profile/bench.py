"""`do_bench`: how long a call takes, in milliseconds; `timers` has the ways to time it."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from typing import Any, Literal

from tile_core.errors import OptionError

from .timers import BACKENDS, Timer, timer

__all__ = ["do_bench", "summarize"]

ReturnMode = Literal["mean", "median", "min", "max"]
_MODES: dict[str, Callable[[Sequence[float]], float]] = {
    "mean": statistics.fmean,
    "median": statistics.median,
    "min": min,
    "max": max,
}


def do_bench(
    fn: Callable[[], Any],
    warmup: float = 25,
    rep: float = 100,
    n_warmup: int = 0,
    n_repeat: int = 0,
    quantiles: Sequence[float] | None = None,
    return_mode: ReturnMode = "mean",
    backend: str = "auto",
    device: Any = None,
    cache_size: int | None = None,
    early_stop_baseline: float | None = None,
) -> float | list[float]:
    """Times `fn()` and returns milliseconds a call.

    Args:
        fn: called without arguments.
        warmup, rep: milliseconds to spend on warming up and on measuring, from which the counts are derived.
        n_warmup, n_repeat: counts, instead of the two budgets.
        quantiles: numbers from 0 to 1; then a list with the quantile for each (or one number for one) is returned.
        return_mode: ``mean``, ``median``, ``min`` or ``max`` of the calls, where `quantiles` is not given.
        backend: ``wall`` (the host's clock, the device waited for), ``event`` (the device's clock around a call),
            ``cudagraph`` (the same without launches: calls are captured and replayed), ``cupti`` (the kernels' own
            times), or ``auto``: event where torch has a CUDA device, else wall.
        device: the CUDA device (default: torch's current one).
        cache_size: megabytes to overwrite before each call, so that nothing is found in the cache; default 256 on
            CUDA, 0 for ``wall``. A graph keeps its data in the cache.
        early_stop_baseline: milliseconds; a call that takes longer at first sight is not measured further, and that
            first sight is returned.

    Raises:
        OptionError: an unknown backend or return mode, a quantile outside 0 … 1, counts or budgets below 0, or a
            backend for CUDA without a device.
    """
    _check(return_mode, backend, quantiles, (warmup, rep, n_warmup, n_repeat))
    chosen = timer(backend, device, cache_size)
    with chosen.scope():
        return measure(chosen, fn, warmup, rep, n_warmup, n_repeat, quantiles, return_mode, early_stop_baseline)


def measure(
    chosen: Timer,
    fn: Callable[[], Any],
    warmup: float,
    rep: float,
    n_warmup: int,
    n_repeat: int,
    quantiles: Sequence[float] | None,
    return_mode: ReturnMode,
    early_stop_baseline: float | None = None,
) -> float | list[float]:
    """`do_bench` with a timer that is there already."""
    estimate = chosen.estimate(fn)
    if early_stop_baseline is not None and estimate > early_stop_baseline:
        return summarize([estimate], quantiles, return_mode)
    return summarize(chosen.samples(fn, *_counts(estimate, warmup, rep, n_warmup, n_repeat)), quantiles, return_mode)


def summarize(
    times: Sequence[float], quantiles: Sequence[float] | None = None, return_mode: ReturnMode = "mean"
) -> float | list[float]:
    """One number, or the quantiles, of measured times. Quantiles interpolate between neighbours."""
    if quantiles is None:
        return _MODES[return_mode](times)
    ordered = sorted(times)
    found = [_quantile(ordered, q) for q in quantiles]
    return found[0] if len(found) == 1 else found


def _quantile(ordered: Sequence[float], q: float) -> float:
    place = q * (len(ordered) - 1)
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)


def _check(return_mode: str, backend: str, quantiles: Sequence[float] | None, budgets: Sequence[float] = ()) -> None:
    for word, value, allowed in (("return_mode", return_mode, tuple(_MODES)), ("backend", backend, BACKENDS)):
        if value not in allowed:
            raise OptionError("E-BENCH", f"do_bench: {word}={value!r}", facts=(f"allowed: {', '.join(allowed)}",))
    for q in quantiles or ():
        if not 0 <= q <= 1:
            raise OptionError("E-BENCH", f"do_bench: quantile {q!r}", facts=("allowed: numbers from 0 to 1",))
    for word, value in zip(("warmup", "rep", "n_warmup", "n_repeat"), budgets):
        if value < 0:
            raise OptionError("E-BENCH", f"do_bench: {word}={value!r}", facts=("allowed: 0 and more",))


def _counts(estimate_ms: float, warmup: float, rep: float, n_warmup: int, n_repeat: int) -> tuple[int, int]:
    once = max(estimate_ms, 1e-6)
    return n_warmup or max(1, int(warmup / once)), n_repeat or max(1, int(rep / once))
