"""What compiling a CUDA kernel costs, by part: passes and source, device compiler, launcher. No GPU is needed.

    python benchmarks/cuda_compile.py [--rounds 10] [--json FILE]

The kernel is a gemm of 4096 x 4096 x 4096 in fp16, tile 128 x 128 x 32, three stages. Times are medians, of wall clock
and of the process; the goal is 0.2 s for everything but the device compiler.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import tile_core as tile
from tile_cuda.testing import tiles
from tile_cuda.toolchain.host import HostCompile
from tile_cuda.toolchain.nvrtc import COMPILERS, compile_device

GOAL = 0.2
SIZE = 4096


def kernel():
    """Traced anew."""
    return tiles.tiled_gemm(SIZE, SIZE, SIZE, (128, 128, 32), out="float16", stages=3)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--target", default="cuda -arch=sm_80")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    tile.lower(kernel(), target=given.target)  # imports and tables that a process makes once
    wall, process, passes = [], [], {}
    for _ in range(given.rounds):
        start, used = time.perf_counter(), time.process_time()
        artifact = tile.lower(kernel(), target=given.target)
        wall.append(time.perf_counter() - start)
        process.append(time.process_time() - used)
        for name, seconds in artifact.notes["pass_seconds"].items():
            passes.setdefault(name, []).append(seconds)
    assert COMPILERS[0] == "nvrtc"
    arch = str(artifact.target.get("arch"))
    device = []
    for number in range(3):
        # A line of its own, since a text is compiled once a process.
        source = f"{artifact.sources['kernel.cu']}\n// {number}\n"
        start = time.perf_counter()
        compile_device(source, arch)
        device.append(time.perf_counter() - start)
    launcher = []
    for _ in range(3):
        with tempfile.TemporaryDirectory() as folder:
            start = time.perf_counter()
            host = HostCompile(artifact.sources["host.c"], "gemm", Path(folder))
            host.process.wait()
            launcher.append(time.perf_counter() - start)
            host.abandon()
    by_pass = {name: round(statistics.median(seconds) * 1e3, 2) for name, seconds in passes.items()}
    found = {
        "trace, passes, source: wall s": statistics.median(wall),
        "trace, passes, source: process s": statistics.median(process),
        "device compiler: s": statistics.median(device),
        "launcher (beside the device compiler): s": statistics.median(launcher),
        "load average": os.getloadavg()[0],
        "passes, ms": dict(sorted(by_pass.items(), key=lambda item: -item[1])),
    }
    for name, value in found.items():
        if isinstance(value, dict):
            print(f"{name}: " + ", ".join(f"{n} {ms}" for n, ms in list(value.items())[:12]))
        else:
            print(f"{name}: {value:.3f}")
    print(f"goal {GOAL} s: {'met' if statistics.median(process) <= GOAL else 'missed'}")
    if given.json:
        given.json.write_text(json.dumps(found, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
