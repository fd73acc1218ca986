"""`do_bench`: how long a call takes, in milliseconds.

On CUDA the calls between two events are timed by the device (``backend="event"``) and the L2 cache is overwritten
before each, so that a kernel is not measured on data that its last run left there. On the CPU the wall clock is read
around each call (``backend="wall"``).
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any, Literal

from tile_core.errors import OptionError, declare_codes

__all__ = ["do_bench", "summarize"]

declare_codes({"E-BENCH": "do_bench was asked for something that it cannot measure"})

ReturnMode = Literal["mean", "median", "min", "max"]
_MODES: dict[str, Callable[[Sequence[float]], float]] = {
    "mean": statistics.fmean,
    "median": statistics.median,
    "min": min,
    "max": max,
}
_BACKENDS = ("auto", "wall", "event")


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
) -> float | list[float]:
    """Times `fn()` and returns milliseconds a call.

    Args:
        fn: called without arguments.
        warmup, rep: milliseconds to spend on warming up and on measuring, from which the counts are derived.
        n_warmup, n_repeat: counts, instead of the two budgets.
        quantiles: numbers from 0 to 1; then a list with the quantile for each (or one number for one) is returned.
        return_mode: ``mean``, ``median``, ``min`` or ``max`` of the calls, where `quantiles` is not given.
        backend: ``wall``, ``event``, or ``auto``: event where torch has a CUDA device, else wall.
        device: the CUDA device for ``event`` (default: torch's current one).
        cache_size: megabytes to overwrite before each call; default 256 on CUDA, 0 on the CPU.

    Raises:
        OptionError: an unknown backend or return mode, a quantile outside 0 … 1, or ``event`` without CUDA.
    """
    _check(return_mode, backend, quantiles)
    import torch

    has_cuda = torch.cuda.is_available()
    if backend == "auto":
        backend = "event" if has_cuda else "wall"
    if backend == "event" and not has_cuda:
        raise OptionError(
            "E-BENCH",
            "do_bench: backend 'event' needs a CUDA device and torch sees none",
            help="use backend='wall', or leave backend out",
        )
    if backend == "event":
        times = _event_times(fn, warmup, rep, n_warmup, n_repeat, device, 256 if cache_size is None else cache_size)
    else:
        times = _wall_times(fn, warmup, rep, n_warmup, n_repeat, cache_size or 0)
    return summarize(times, quantiles, return_mode)


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


def _check(return_mode: str, backend: str, quantiles: Sequence[float] | None) -> None:
    for word, value, allowed in (("return_mode", return_mode, tuple(_MODES)), ("backend", backend, _BACKENDS)):
        if value not in allowed:
            raise OptionError("E-BENCH", f"do_bench: {word}={value!r}", facts=(f"allowed: {', '.join(allowed)}",))
    for q in quantiles or ():
        if not 0 <= q <= 1:
            raise OptionError("E-BENCH", f"do_bench: quantile {q!r}", facts=("allowed: numbers from 0 to 1",))


def _counts(estimate_ms: float, warmup: float, rep: float, n_warmup: int, n_repeat: int) -> tuple[int, int]:
    once = max(estimate_ms, 1e-6)
    return n_warmup or max(1, int(warmup / once)), n_repeat or max(1, int(rep / once))


def _wall_times(
    fn: Callable[[], Any], warmup: float, rep: float, n_warmup: int, n_repeat: int, cache_size: int
) -> list[float]:
    import torch

    scratch = torch.empty(cache_size << 20, dtype=torch.int8) if cache_size else None
    clock = time.perf_counter_ns
    fn()  # the first call may compile
    start = clock()
    fn()
    warmups, repeats = _counts((clock() - start) / 1e6, warmup, rep, n_warmup, n_repeat)
    for _ in range(warmups):
        fn()
    times = []
    for _ in range(repeats):
        if scratch is not None:
            scratch.zero_()
        start = clock()
        fn()
        times.append((clock() - start) / 1e6)
    return times


def _event_times(
    fn: Callable[[], Any], warmup: float, rep: float, n_warmup: int, n_repeat: int, device: Any, cache_size: int
) -> list[float]:
    import torch

    with torch.cuda.device(device if device is not None else torch.cuda.current_device()):
        scratch = torch.empty(cache_size << 20, dtype=torch.int8, device="cuda") if cache_size else None

        def event() -> Any:
            return torch.cuda.Event(enable_timing=True)

        fn()  # the first call may compile
        torch.cuda.synchronize()
        start, end = event(), event()
        start.record()
        for _ in range(5):
            if scratch is not None:
                scratch.zero_()
            fn()
        end.record()
        torch.cuda.synchronize()
        warmups, repeats = _counts(start.elapsed_time(end) / 5, warmup, rep, n_warmup, n_repeat)
        for _ in range(warmups):
            fn()
        pairs = [(event(), event()) for _ in range(repeats)]
        for start, end in pairs:
            if scratch is not None:
                scratch.zero_()
            start.record()
            fn()
            end.record()
        torch.cuda.synchronize()
        return [start.elapsed_time(end) for start, end in pairs]
