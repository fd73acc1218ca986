"""What `tile profile` finds out about a kernel: numbers, and a diagnosis.

The diagnosis goes in three steps, and each excludes one kind of cause: is it compiling that takes the time (a first
call is not a call), is it launching (a call against the kernel alone), or is it the device (and then its memory or its
arithmetic).
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from tile_core.analysis.work import Work, count_work
from tile_core.errors import TileError
from tile_core.ir import Evaluate, IntImm, KernelLaunch, PrimFunc, Rewriter

from ..compiler import compile_kernel
from ..kernel import Kernel
from ..options import CompileOptions
from .bench import do_bench
from .devices import Peaks, peaks_of

__all__ = ["KernelReport", "Limit", "diagnose", "limits_of", "profile_kernel"]

LAUNCH_BOUND = 0.2
"""From this share of a call on, what the host does around the kernel is called the cause."""


@dataclass
class Limit:
    """A time that a kernel cannot be below: `what` sets it, `milliseconds` long."""

    what: str
    milliseconds: float


@dataclass
class KernelReport:
    """One kernel, measured. Times are milliseconds.

    Args:
        name, target, device: which kernel, for what, on what.
        origin: ``compiled`` now, or found on ``disk``.
        phases: compiling, by phase.
        passes: lowering, by pass.
        first_call: the first call after loading.
        call: a call, median; `spread` the quantiles 0.2 and 0.8.
        kernel: the device's part alone.
        host: what the host does for a call.
        work: counted from the traced function.
        limits: what the device cannot beat, longest first; () where it is not known.
        measured_peaks: whether the device's limits were measured here.
        diagnosis: sentences.
    """

    name: str
    target: str
    device: str
    origin: str
    phases: dict[str, float]
    passes: dict[str, float]
    first_call: float
    call: float
    spread: tuple[float, float]
    kernel: float
    host: float
    work: Work
    limits: list[Limit] = field(default_factory=list)
    measured_peaks: bool = False
    bandwidth: float | None = None
    peak: float | None = None
    diagnosis: list[str] = field(default_factory=list)

    @property
    def share(self) -> float | None:
        """Of the roofline: the longest limit over the kernel's time."""
        return self.limits[0].milliseconds / self.kernel if self.limits and self.kernel else None

    @property
    def gap(self) -> float:
        """What a call takes beyond the kernel."""
        return max(0.0, self.call - self.kernel)

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        found = asdict(self)
        found["work"] |= {"operations": self.work.operations, "bytes": self.work.bytes}
        return {**found, "share": self.share, "gap": self.gap}


def profile_kernel(
    kernel: Kernel, sizes: Mapping[str, int] | None = None, warmup: float = 25, rep: float = 100
) -> KernelReport:
    """Measures a kernel on inputs that it makes; `sizes` gives symbolic dimensions and scalars, by name."""
    profiler = kernel.get_profiler()
    inputs = profiler.make_inputs(sizes)
    start = time.perf_counter()
    kernel(*inputs)
    _wait(kernel)
    first = (time.perf_counter() - start) * 1e3

    def bench(backend: str) -> list[float]:
        found = profiler.do_bench(
            input_tensors=inputs, backend=backend, warmup=warmup, rep=rep, quantiles=[0.5, 0.2, 0.8]
        )
        return list(found) if isinstance(found, list) else [found] * 3

    on_gpu = kernel.target.kind == "cuda"
    call, low, high = bench("event" if on_gpu else "wall")
    host = _enqueue_time(kernel, inputs) if on_gpu else _empty_call(kernel, inputs, call)
    alone = bench("cudagraph")[0] if on_gpu else max(call - host, 0.0)
    work = count_work(kernel.prim_func, sizes)
    peaks = peaks_of(kernel.target.kind, (*work.gemm, *work.other))
    notes = kernel.artifact.notes
    report = KernelReport(
        name=kernel.name,
        target=str(kernel.target),
        device=peaks.name if peaks is not None else _device_name(kernel),
        origin=kernel.origin,
        phases={name: seconds * 1e3 for name, seconds in notes.get("seconds", {}).items()},
        passes={name: seconds * 1e3 for name, seconds in (notes.get("pass_seconds") or {}).items()},
        first_call=first,
        call=call,
        spread=(low, high),
        kernel=alone,
        host=host,
        work=work,
    )
    if peaks is not None:
        report.limits = limits_of(work, peaks)
        report.measured_peaks = peaks.measured
        report.bandwidth = peaks.bandwidth
        dtype = max(work.gemm or work.other or {"float32": 0.0}, key=(work.gemm or work.other or {"float32": 0.0}).get)  # type: ignore[arg-type]
        report.peak = peaks.matrix_peak(dtype) if work.gemm else peaks.vector_peak(dtype)
    report.diagnosis = diagnose(report)
    return report


def limits_of(work: Work, peaks: Peaks) -> list[Limit]:
    """The times that memory, gemms and other arithmetic take at least, longest first; they may overlap."""
    limits = [Limit("memory", work.bytes / peaks.bandwidth * 1e3)]
    for kind, table, peak in (
        ("gemm", work.gemm, peaks.matrix_peak),
        ("arithmetic", work.other, peaks.vector_peak),
    ):
        rates = {dtype: peak(dtype) for dtype in table}
        if table and all(rates.values()):
            seconds = sum(count / rates[dtype] for dtype, count in table.items())  # type: ignore[operator]
            limits.append(Limit(f"{kind} in {', '.join(table)}", seconds * 1e3))
    return sorted(limits, key=lambda limit: -limit.milliseconds)


def diagnose(report: KernelReport) -> list[str]:
    """Where the time of a call goes, and what to do about it."""
    said: list[str] = []
    if report.first_call > 10 * report.call and report.first_call - report.call > 1:
        said.append(
            f"The first call takes {_ms(report.first_call)} and a later one {_ms(report.call)}: warm up before "
            "measuring."
        )
    outside = report.gap / report.call if report.call else 0.0
    if outside >= LAUNCH_BOUND:
        said.append(
            f"Host-bound: {outside:.0%} of a call is launching, not the kernel (host work {_ms(report.host)}). "
            "Replay a CUDA graph, fuse small kernels, or give the kernel more work a call."
            if report.target.startswith("cuda")
            else f"Host-bound: {outside:.0%} of a call is checking arguments, allocating and entering the kernel, not "
            "its work. Give it more work a call, or pass outputs instead of having them allocated."
        )
        return said
    share = report.share
    if share is None:
        said.append("Device-bound; the device's limits are not in the table, so its roofline is not known.")
        return said
    limit = report.limits[0]
    if share >= 0.8:
        said.append(f"Device-bound by {limit.what}, at {share:.0%} of what the device can do.")
    else:
        said.append(f"Device-bound, and at {share:.0%} of its limit ({limit.what}).")
        excess = report.work.asked / report.work.bytes if report.work.bytes else 1.0
        if limit.what == "memory" and excess > 1.5:
            said.append(f"Blocks ask for {excess:.1f} × the bytes that are needed: larger tiles, or data kept on chip.")
        elif limit.what != "memory":
            said.append("Try larger tiles, more stages in T.Pipelined, or T.use_swizzle for the order of blocks.")
        if report.work.blocks < _processors(report):
            said.append(f"{report.work.blocks} blocks leave processors of the device idle.")
    return said


def _processors(report: KernelReport) -> int:
    import os

    if not report.target.startswith("cuda"):
        return os.cpu_count() or 1
    import torch

    return torch.cuda.get_device_properties().multi_processor_count if torch.cuda.is_available() else 1


class _Emptied(Rewriter):
    """The kernel with one block that does nothing."""

    def rewrite_KernelLaunch(self, node: KernelLaunch) -> KernelLaunch:
        return node.with_(grid=tuple(IntImm(1) for _ in node.grid), body=Evaluate(IntImm(0)))


def _empty_call(kernel: Kernel, inputs: list[Any], call: float) -> float:
    """A call of a kernel with the same parameters that does nothing: checks, allocation, the way in and out."""
    function: PrimFunc = kernel.prim_func.with_(body=_Emptied().rewrite(kernel.prim_func.body))
    options = CompileOptions(target=str(kernel.target), execution_backend=kernel.execution_backend)
    try:
        twin = compile_kernel(function, options)
    except TileError:
        return 0.0  # a parameter of it has no meaning without the body
    found = do_bench(lambda: twin(*inputs), rep=20, warmup=5, backend="wall", return_mode="median")
    return min(float(found), call)  # type: ignore[arg-type]


def _enqueue_time(kernel: Kernel, inputs: list[Any], count: int = 50) -> float:
    """What the host needs for a launch: calls without waiting, few enough that the queue takes them all."""
    samples = []
    for _ in range(10):
        _wait(kernel)
        start = time.perf_counter()
        for _ in range(count):
            kernel(*inputs)
        samples.append((time.perf_counter() - start) * 1e3 / count)
    _wait(kernel)
    return statistics.median(samples)


def _wait(kernel: Kernel) -> None:
    if kernel.target.kind == "cuda":
        import torch

        torch.cuda.synchronize()


def _device_name(kernel: Kernel) -> str:
    if kernel.target.kind == "cuda":
        import torch

        return torch.cuda.get_device_name()
    return kernel.target.kind


def _ms(milliseconds: float) -> str:
    if milliseconds >= 1:
        return f"{milliseconds:.3g} ms"
    return f"{milliseconds * 1e3:.3g} µs"
