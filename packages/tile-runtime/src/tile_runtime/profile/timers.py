"""The backends of `do_bench`: four ways to time calls, each from a clock that it is handed.

| backend | what a sample is |
|---|---|
| wall | the host's clock around a call, with the device's work waited for |
| event | the device's clock between two events around a call: kernel time and what the host delays it |
| cudagraph | the device's clock around a replayed graph of calls, divided: kernel time without launches |
| cupti | the sum of the kernels' own times, as the driver's tracer saw them |

A `Device` is what they need of a GPU, so that a test can hand them another one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol

from tile_core.errors import OptionError, declare_codes

__all__ = ["BACKENDS", "CudaDevice", "Device", "Kernel", "per_call_times", "timer"]

declare_codes({"E-BENCH": "do_bench was asked for something that it cannot measure"})

BACKENDS = ("auto", "wall", "event", "cudagraph", "cupti")

Call = Callable[[], Any]
Kernel = tuple[str, float, float]
"""(name, start, milliseconds) of one kernel on the device."""


class Device(Protocol):
    """A GPU, as far as timing needs it. Times are milliseconds."""

    def synchronize(self) -> None: ...
    def event(self) -> Any: ...
    def between(self, start: Any, end: Any) -> float: ...
    def flush(self) -> None: ...
    def graph(self, call: Call, count: int) -> Call: ...
    def traced(self, run: Call) -> list[Kernel]: ...


class Timer:
    """A way to time: `estimate` a call roughly, then take `samples`, both inside `scope()`."""

    scope: Callable[[], AbstractContextManager[Any]] = nullcontext

    def estimate(self, call: Call) -> float:
        raise TypeError(f"{type(self).__name__} has no estimate")

    def samples(self, call: Call, warmups: int, repeats: int) -> list[float]:
        raise TypeError(f"{type(self).__name__} has no samples")


class WallTimer(Timer):
    """The host's clock.

    Args:
        wait: waits for the device's work, if there is a device.
        flush: called before each sample.
    """

    def __init__(
        self,
        wait: Call | None = None,
        flush: Call | None = None,
        clock: Callable[[], int] = time.perf_counter_ns,
    ) -> None:
        self.wait, self.flush, self.clock = wait, flush, clock

    def estimate(self, call: Call) -> float:
        call()  # the first call may compile
        times = [self._once(call)]
        while len(times) < 5 and sum(times) < 10:  # one alone may have been interrupted
            times.append(self._once(call))
        return min(times)

    def samples(self, call: Call, warmups: int, repeats: int) -> list[float]:
        for _ in range(warmups):
            call()
        return [self._once(call) for _ in range(repeats)]

    def _once(self, call: Call) -> float:
        clock, wait = self.clock, self.wait
        if self.flush is not None:
            self.flush()
        if wait is None:
            start = clock()
            call()
            return (clock() - start) / 1e6
        wait()
        start = clock()
        call()
        wait()
        return (clock() - start) / 1e6


class EventTimer(Timer):
    """The device's clock, between events."""

    def __init__(self, device: Device) -> None:
        self.device = device

    def estimate(self, call: Call) -> float:
        device = self.device
        call()
        device.synchronize()
        start, end = device.event(), device.event()
        start.record()
        for _ in range(5):
            device.flush()
            call()
        end.record()
        device.synchronize()
        return device.between(start, end) / 5

    def samples(self, call: Call, warmups: int, repeats: int) -> list[float]:
        device = self.device
        for _ in range(warmups):
            call()
        pairs = [(device.event(), device.event()) for _ in range(repeats)]
        for start, end in pairs:
            device.flush()
            start.record()
            call()
            end.record()
        device.synchronize()
        return [device.between(start, end) for start, end in pairs]


class GraphTimer(EventTimer):
    """A captured graph of calls, replayed. Data stays in the L2 cache from one call to the next."""

    CALLS = 20
    """In a graph: enough that the gap between two replays does not count."""

    def samples(self, call: Call, warmups: int, repeats: int) -> list[float]:
        device = self.device
        count = min(self.CALLS, max(1, repeats))
        replay = device.graph(call, count)
        for _ in range(max(1, warmups // count)):
            replay()
        pairs = [(device.event(), device.event()) for _ in range(max(1, repeats // count))]
        for start, end in pairs:
            start.record()
            replay()
            end.record()
        device.synchronize()
        return [device.between(start, end) / count for start, end in pairs]


class CuptiTimer(EventTimer):
    """The tracer's times of kernels, without what lies between them."""

    def samples(self, call: Call, warmups: int, repeats: int) -> list[float]:
        device = self.device
        for _ in range(warmups):
            call()
        device.synchronize()
        flushes = {name for name, _, _ in device.traced(device.flush)}

        def run() -> None:
            for _ in range(repeats):
                device.flush()
                call()

        return per_call_times(device.traced(run), flushes, repeats)


def per_call_times(kernels: Sequence[Kernel], flushes: set[str], repeats: int) -> list[float]:
    """Milliseconds of each of `repeats` calls, from the kernels of a trace: a kernel of the flush begins a call.

    Where there was no flush, or the calls run the flush's kernels themselves, all calls get the mean.

    Raises:
        OptionError: the trace has no kernels of the calls.
    """
    own = [kernel for kernel in kernels if kernel[0] not in flushes]
    if not own:
        raise OptionError(
            "E-BENCH",
            "do_bench: backend 'cupti' saw no kernel",
            facts=(f"kernels in the trace: {', '.join(sorted({k[0] for k in kernels})) or 'none'}",),
            help="time what launches kernels on this device, or use backend='event'",
        )
    calls: list[float] = []
    between = True
    for name, _, duration in sorted(kernels, key=lambda kernel: kernel[1]):
        if name in flushes:
            between = True
        elif between:
            calls.append(duration)
            between = False
        else:
            calls[-1] += duration
    if len(calls) == repeats:
        return calls
    return [sum(duration for _, _, duration in own) / repeats] * repeats


class CudaDevice:
    """A GPU through torch.

    Args:
        device: as torch takes it; the current one for None.
        cache_size: megabytes to overwrite in a flush.
    """

    def __init__(self, device: Any = None, cache_size: int = 256) -> None:
        import torch

        self.torch = torch
        self.device = torch.device("cuda", torch.cuda.current_device()) if device is None else torch.device(device)
        self.scratch = torch.empty(cache_size << 18, dtype=torch.int32, device=self.device) if cache_size > 0 else None

    def synchronize(self) -> None:
        self.torch.cuda.synchronize(self.device)

    def event(self) -> Any:
        return self.torch.cuda.Event(enable_timing=True)

    def between(self, start: Any, end: Any) -> float:
        return start.elapsed_time(end)

    def flush(self) -> None:
        if self.scratch is not None:
            self.scratch.zero_()

    def graph(self, call: Call, count: int) -> Call:
        torch = self.torch
        side = torch.cuda.Stream(self.device)
        side.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(side):
            call()  # what is made at the first call must not be captured
        torch.cuda.current_stream(self.device).wait_stream(side)
        captured = torch.cuda.CUDAGraph()
        try:
            with torch.cuda.graph(captured):
                for _ in range(count):
                    call()
        except RuntimeError as error:
            raise OptionError(
                "E-BENCH",
                "do_bench: backend 'cudagraph' cannot capture the call",
                facts=(
                    f"found: {str(error).splitlines()[0]}",
                    "torch's random numbers on this device may be of no use any more in this process",
                ),
                help="a call that synchronises or reads results cannot be captured; use backend='event'",
            ) from error
        return captured.replay

    def traced(self, run: Call) -> list[Kernel]:
        profiler = self.torch.profiler
        with profiler.profile(activities=[profiler.ProfilerActivity.CUDA]) as trace:
            run()
            self.synchronize()
        return [
            (event.name, event.time_range.start / 1e3, event.time_range.elapsed_us() / 1e3)
            for event in trace.events() or ()
            if event.device_type.name == "CUDA"
        ]


def timer(backend: str, device: Any, cache_size: int | None) -> Timer:
    """The timer of that name; ``auto`` is event where torch has a GPU, else wall.

    Raises:
        OptionError: a backend for GPUs where torch sees none.
    """
    import torch

    has_cuda = torch.cuda.is_available()
    if backend == "auto":
        backend = "event" if has_cuda else "wall"
    if backend != "wall":
        if not has_cuda:
            raise OptionError(
                "E-BENCH",
                f"do_bench: backend {backend!r} needs a CUDA device and torch sees none",
                help="use backend='wall', or leave backend out",
            )
        gpu = CudaDevice(device, 256 if cache_size is None else cache_size)
        found = {"event": EventTimer, "cudagraph": GraphTimer, "cupti": CuptiTimer}[backend](gpu)
        found.scope = lambda: torch.cuda.device(gpu.device)
        return found
    if has_cuda and device is not None and torch.device(device).type == "cuda":
        gpu = CudaDevice(device, cache_size or 0)
        return WallTimer(gpu.synchronize, gpu.flush if cache_size else None)
    scratch = torch.empty(cache_size << 20, dtype=torch.int8) if cache_size else None
    return WallTimer(torch.cuda.synchronize if has_cuda else None, None if scratch is None else scratch.zero_)
