"""The process that measures kernels: ``python -m tile_runtime.tune.worker``.

A kernel that is measured may crash, hang or write where it must not; it does so here. Jobs come on standard input, each
gets a reply on what was standard output; what kernels print goes to standard error. A job that broke the device's
context says so, and the process is not used again.
"""

from __future__ import annotations

import io
import os
import pickle
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["main", "perform"]


def main() -> int:
    """Works until there is no more to do."""
    replies = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    import torch  # noqa: F401 - before the first job, whose time is limited

    from ..child import receive, send

    send(replies, pickle.dumps({"state": "ready"}))
    while True:
        try:
            job = pickle.loads(receive(sys.stdin.buffer))
        except EOFError:
            return 0
        send(replies, pickle.dumps(perform(job)))


def perform(job: Mapping[str, Any]) -> dict[str, Any]:
    """Builds (or finds) a kernel, runs it once, checks it, times it.

    Args:
        job: function, target, execution_backend, settings; data (path or bytes of the saved inputs and expected
            results), device, tolerance (None: not compared), return_results, profile (arguments of `do_bench`).

    Returns:
        state (``ok``, ``slow``, ``wrong``, ``failed``), and latency and spread, or the reason; and results, saved.
    """
    from tile_core.errors import TileError
    from tile_core.plugin import registry
    from tile_core.settings import settings
    from tile_core.target import Target

    from ..compiler import compile_kernel
    from ..options import CompileOptions

    with settings.scope(**job["settings"]):
        try:
            kind, attrs = job["target"]
            registry.backend_for(kind)  # declares its memory scopes, which the function names
            function = pickle.loads(job["function"])
            start = time.perf_counter()
            options = CompileOptions(target=Target(kind, attrs), execution_backend=job["execution_backend"])
            kernel = compile_kernel(function, options)
            built = time.perf_counter() - start
        except TileError as error:
            return {"state": "failed", "reason": str(error).splitlines()[0]}
        try:
            return {**_measured(kernel, job), "build_seconds": built}
        except TileError as error:
            return {"state": "failed", "reason": str(error).splitlines()[0], "broken": kind == "cuda"}
        except AssertionError as error:
            return {"state": "wrong", "reason": " ".join(str(error).split())}
        except Exception as error:
            first = (str(error).splitlines() or [""])[0]
            return {"state": "failed", "reason": f"{type(error).__name__}: {first}", "broken": kind == "cuda"}


def _measured(kernel: Any, job: Mapping[str, Any]) -> dict[str, Any]:
    import torch

    from ..profile import do_bench

    device = torch.device(job["device"])
    source = io.BytesIO(job["data"]) if isinstance(job["data"], bytes) else job["data"]
    saved = torch.load(source, weights_only=True)
    inputs = [item.to(device) if isinstance(item, torch.Tensor) else item for item in saved["inputs"]]
    if device.index is not None:
        torch.cuda.set_device(device)
    copies = [item.clone(memory_format=torch.preserve_format) if hasattr(item, "clone") else item for item in inputs]
    returned = kernel(*copies)
    if device.type == "cuda":
        torch.cuda.synchronize()
    if kernel.signature.outputs:
        results = list(returned) if isinstance(returned, (list, tuple)) else [returned]
    else:
        results = [item for item in copies if isinstance(item, torch.Tensor)]
    if job["tolerance"] is not None:
        _compare(kernel, results, saved["expected"], job["tolerance"])
    kept = io.BytesIO()
    if job["return_results"]:
        torch.save([item.cpu() for item in results], kept)
    profile = dict(job["profile"])
    baseline = profile.get("early_stop_baseline")
    times = do_bench(lambda: kernel(*inputs), quantiles=[0.5, 0.2, 0.8], device=_bench_device(device), **profile)
    latency, low, high = times if isinstance(times, list) else (times, times, times)
    slow = baseline is not None and latency > baseline
    found = {"state": "slow" if slow else "ok", "latency": latency, "spread": (low, high)}
    return {**found, "results": kept.getvalue()} if job["return_results"] else found


def _bench_device(device: Any) -> Any:
    return device if device.type == "cuda" else None


def _compare(kernel: Any, results: Sequence[Any], expected: Sequence[Any], tolerance: Mapping[str, Any]) -> None:
    from ..profile import assert_tensors_close

    outputs = kernel.signature.outputs or [param for param in kernel.signature.inputs if param.is_tensor]
    if len(results) != len(expected):
        raise AssertionError(f"the kernel gives {len(results)} tensors, the reference {len(expected)}")
    for param, ours, theirs in zip(outputs, results, expected):
        assert_tensors_close(ours, theirs.to(ours.dtype), name=param.name, **tolerance)


if __name__ == "__main__":
    raise SystemExit(main())
