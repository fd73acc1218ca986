"""Two GPUs from one process: the same kernels on each alone and on both at once, checked before they are timed.

    python benchmarks/cuda_two_gpus.py [--size 4096] [--json FILE]

Each device works on its own stream with its own tensors; one thread launches on both. `scaling` is what both do
together over what they do one after the other: near 2 when neither launches nor code hold the other device up. A graph
of eight products per device shows the same without the launches. Where the machine has no network, bring the wheels as
`benchmarks/cuda_smoke.py prepare` does and run ``cuda_smoke.py run .wheels --script benchmarks/cuda_two_gpus.py``.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).parents[1]))

import tile_core as tile
from tile_cuda.testing import tiles

ROUNDS, CALLS = 10, 20


class Worker:
    """A device with a stream, tensors and a graph of products."""

    def __init__(self, device: int, kernel: Callable[..., Any], size: int) -> None:
        self.device, self.kernel = device, kernel
        with torch.cuda.device(device):
            self.stream = torch.cuda.Stream(device)
            self.a, self.b = (torch.randn(size, size, device=f"cuda:{device}").half() for _ in range(2))
            self.c = torch.zeros(size, size, device=f"cuda:{device}")
            torch.cuda.synchronize(device)
            self.launch(1)
            torch.cuda.synchronize(device)
            self.graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.graph, stream=self.stream):
                for _ in range(8):
                    kernel(self.a, self.b, self.c)
            torch.cuda.synchronize(device)

    def launch(self, count: int) -> None:
        """Queues products on the device's stream."""
        with torch.cuda.device(self.device), torch.cuda.stream(self.stream):
            for _ in range(count):
                self.kernel(self.a, self.b, self.c)

    def replay(self, count: int) -> None:
        """Queues replays of the graph."""
        with torch.cuda.device(self.device), torch.cuda.stream(self.stream):
            for _ in range(count):
                self.graph.replay()

    def error(self) -> float:
        """The norm of the difference over the norm of torch's result."""
        expected = self.a.float() @ self.b.float()
        return ((self.c - expected).norm() / expected.norm()).item()


def seconds(workers: list[Worker], queue: Callable[[Worker], None]) -> float:
    """The median time until all workers are through."""
    samples = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        for worker in workers:
            queue(worker)
        for worker in workers:
            torch.cuda.synchronize(worker.device)
        samples.append(time.perf_counter() - start)
    return statistics.median(samples)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", type=int, default=4096)
    parser.add_argument("--target", default="cuda -arch=sm_80")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    if torch.cuda.device_count() < 2:
        print("two GPUs are needed, found", torch.cuda.device_count())
        return 2
    rows = []
    for backend in ("tvm_ffi", "nvrtc"):
        size = given.size
        function = tiles.tiled_gemm(size, size, size, (128, 128, 64), stages=3, threads=256)
        kernel = tile.compile(function, target=given.target, execution_backend=backend)
        workers = [Worker(device, kernel, size) for device in (0, 1)]
        errors = [worker.error() for worker in workers]
        assert max(errors) < 1e-2, errors
        for name, queue in (
            ("launches", lambda worker: worker.launch(CALLS)),
            ("graph", lambda worker: worker.replay(CALLS // 8 + 1)),
        ):
            alone = [seconds([worker], queue) for worker in workers]
            both = seconds(workers, queue)
            rows.append(
                {
                    "execution_backend": backend,
                    "what": name,
                    "alone_ms": [round(s * 1e3, 3) for s in alone],
                    "both_ms": round(both * 1e3, 3),
                    "scaling": round(sum(alone) / both, 3),
                    "errors": errors,
                }
            )
            print(rows[-1], flush=True)
    if given.json:
        names = [torch.cuda.get_device_name(device) for device in (0, 1)]
        given.json.write_text(json.dumps({"devices": names, "torch": torch.__version__, "rows": rows}, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
