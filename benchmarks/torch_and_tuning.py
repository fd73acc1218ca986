"""What a call costs as a kernel, as a jit function and as a torch operator; and how long 32 gemm configurations take to
tune.

``python benchmarks/torch_and_tuning.py`` prints the tables; ``--calls`` or ``--tuning`` only one of them, ``--json
OUT`` keeps the samples. Calls are timed in interleaved rounds, so that a machine that slows down does so for all;
tuning starts from an empty cache, with one compile worker and with one for each core.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "docs" / "examples"))


def main(arguments: list[str] | None = None) -> int:
    """Prints the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--calls", action="store_true")
    parser.add_argument("--tuning", action="store_true")
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--device", default="cpu", help="cpu or cuda")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args(arguments)
    found: dict[str, Any] = {}
    if options.calls or not options.tuning:
        found["calls"] = calls(options.rounds, options.device)
    if options.tuning or not options.calls:
        found["tuning"] = tuning(options.device)
    if options.json is not None:
        options.json.write_text(json.dumps(found, indent=1))
    return 0


def calls(rounds: int, device: str, count: int = 500) -> dict[str, list[float]]:
    """Microseconds a call, a median a round, of one addition of 16 numbers."""
    import torch

    import tile_core as tile
    import tile_core.language as T

    @tile.jit(target=device)
    def add(A, B, block: int = 16):
        N = T.dynamic("N")
        A: T.Tensor[[N], T.float32]
        B: T.Tensor[[N], T.float32]
        C = T.empty((N,), T.float32)
        with T.Kernel(T.ceildiv(N, block), threads=32) as bx:
            for i in T.Parallel(block):
                C[bx * block + i] = A[bx * block + i] + B[bx * block + i]
        return C

    operator = tile.op(add, backward=lambda A, grad_C: (grad_C, grad_C))
    a, b = torch.randn(16, device=device), torch.randn(16, device=device)
    kernel, overload = add.compile(a, b), operator.form(a, b).overload
    ways: dict[str, Callable[[], Any]] = {
        "torch.add": lambda: torch.add(a, b),
        "kernel": lambda: kernel(a, b),
        "jit function": lambda: add(a, b),
        "operator, eager": lambda: operator(a, b),
        "operator, through the dispatcher": lambda: overload(a, b, 16),
    }
    samples: dict[str, list[float]] = {name: [] for name in ways}
    for way in ways.values():
        for _ in range(10):
            way()
    for _ in range(rounds):
        for name, way in ways.items():
            if device == "cuda":
                torch.cuda.synchronize()
            start = time.perf_counter()
            for _ in range(count if device == "cpu" else 100):
                way()
            samples[name].append((time.perf_counter() - start) / (count if device == "cpu" else 100) * 1e6)
    print("| a call of an addition, new tensor out | µs, median | µs, best | over torch.add |")
    print("|---|---|---|---|")
    base = statistics.median(samples["torch.add"])
    for name, times in samples.items():
        middle = statistics.median(times)
        print(f"| {name} | {middle:.2f} | {min(times):.2f} | {middle / base:.2f} |")
    return samples


def tuning(device: str) -> dict[str, Any]:
    """Seconds that 32 configurations of a gemm take: compiling with one worker and with all, and the whole tuning."""
    import gemm

    import tile_core as tile
    from tile_core.settings import settings
    from tile_runtime.compiler import clear_memory

    configs = [
        {"block_M": m, "block_N": n, "block_K": k}
        for m, n, k in product((32, 64, 128, 256), (32, 64, 128, 256), (32, 64))
    ]
    cores = os.cpu_count() or 1
    dtype, size = ("float32", 512) if device == "cpu" else ("float16", 4096)
    matmul = tile.jit(out_idx=[-1], target=device)(gemm.matmul.function)
    found: dict[str, Any] = {"configurations": len(configs), "cores": cores}
    print("| 32 configurations of a gemm | s |")
    print("|---|---|")
    for workers in (1, cores):
        with tempfile.TemporaryDirectory() as folder, settings.scope(cache_dir=Path(folder)):
            clear_memory()
            fresh = tile.jit(out_idx=[-1], target=device)(gemm.matmul.function)
            start = time.perf_counter()
            jobs = [{"M": size, "N": size, "K": size, "dtype": dtype, **config} for config in configs]
            fresh.par_compile(jobs, num_workers=workers, ignore_error=True)  # some ask for too much shared memory
            found[f"compile, {workers} workers"] = time.perf_counter() - start
            print(f"| compiled by {workers} workers | {found[f'compile, {workers} workers']:.1f} |", flush=True)
    with tempfile.TemporaryDirectory() as folder, settings.scope(cache_dir=Path(folder)):
        clear_memory()
        for label in ("tuned", "tuned again, from what is kept"):
            tuner = tile.AutoTuner.from_kernel(matmul, configs)
            tuner.set_profile_args(warmup=5, rep=50, ref_prog=_Reference())
            tuner.set_kernel_parameters((size, size, size), {"dtype": dtype})
            start = time.perf_counter()
            result = tuner.run(early_stop=True, num_workers=cores)
            found[label] = time.perf_counter() - start
            print(f"| {label} | {found[label]:.1f} |", flush=True)
        found["best"] = {"config": result.config, "ms": result.latency, "torch ms": result.ref_latency}
        print(result.report())
    return found


class _Reference:
    """torch's product, with a key, so that results are kept."""

    cache_key = "torch product"

    def __call__(self, a: Any, b: Any) -> Any:
        return a @ b


if __name__ == "__main__":
    raise SystemExit(main())
