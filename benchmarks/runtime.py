"""What calls and compiles cost: python benchmarks/runtime.py [--device cpu|cuda] [--only PART] [--write FILE.json]

    call        kernel(a, b) that allocates its result, beside torch.add(a, b)
    jit         the same through @tile.jit with unchanged shapes, minus the kernel's own call; and as a torch operator
    arguments   a call with 20 tensors beside one with 3; one with scalars, dynamic shapes and free strides
    floor       a function of the packed ABI that does nothing, called with as many tensors
    warm start  50 kernels from the disk cache in a fresh process, after imports
    parallel    32 configurations of a gemm compiled by tile.par_compile, beside one after the other

Each way of calling is shown: the execution backends ``tvm_ffi`` and ``cython``, and ``tvm_ffi`` without the extension,
through tvm-ffi's own functions. Calls are timed in rounds, one batch of each in turn, without waiting for the device
between calls; a figure is the least of the rounds (on the CPU of processor time), so that other work on the machine
does not count; ratios are of these. The lambda around each call is in all of them.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

import tile_core as tile
import tile_core.language as T
from tile_core.ffi import load_module
from tile_core.settings import settings
from tile_runtime.backends import extension

ROUNDS, BATCH = 100, 200
WARM_KERNELS, CONFIGURATIONS = 50, 32


@dataclass
class Line:
    """One figure, its goal, and whether a smaller or larger one is better."""

    name: str
    value: float
    unit: str
    goal: float
    smaller: bool = True
    note: str = ""

    @property
    def met(self) -> bool:
        return self.value <= self.goal if self.smaller else self.value >= self.goal


def add(n: int = 16) -> Any:
    @T.prim_func
    def add(A: T.Tensor((n,), "float32"), B: T.Tensor((n,), "float32"), C: T.Tensor((n,), "float32")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(n):
                C[i] = A[i] + B[i]

    return add


def plus_one(number: int) -> Any:
    @T.prim_func
    def plus(A: T.Tensor((64,), "float32"), B: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(64):
                B[i] = A[i] + float(number)

    return plus


def sums(count: int) -> Any:
    """A kernel of `count` tensors, the last the sum of the others."""
    names = [f"A{i}" for i in range(count)]
    text = "@T.prim_func\ndef sums(" + ", ".join(f"{n}: T.Tensor((16,), 'float32')" for n in names) + "):\n"
    text += "    with T.Kernel(1, threads=32):\n        for i in T.Parallel(16):\n"
    text += f"            {names[-1]}[i] = {' + '.join(f'{n}[i]' for n in names[:-1])}\n"
    return tile.from_source(text, globals={"T": T})


def gemm(block_m: int, block_n: int, block_k: int, dtype: str, size: int = 1024) -> Any:
    @T.prim_func
    def gemm(A: T.Tensor((size, size), dtype), B: T.Tensor((size, size), dtype), C: T.Tensor((size, size), dtype)):
        with T.Kernel(T.ceildiv(size, block_n), T.ceildiv(size, block_m), threads=128) as (bx, by):
            A_shared = T.alloc_shared((block_m, block_k), dtype)
            B_shared = T.alloc_shared((block_k, block_n), dtype)
            C_local = T.alloc_fragment((block_m, block_n), "float32")
            T.clear(C_local)
            for k in T.Pipelined(T.ceildiv(size, block_k), num_stages=2):
                T.copy(A[by * block_m, k * block_k], A_shared)
                T.copy(B[k * block_k, bx * block_n], B_shared)
                T.gemm(A_shared, B_shared, C_local)
            T.copy(C_local, C[by * block_m, bx * block_n])

    return gemm


@tile.jit
def jit_add(A, B):
    N = T.const("N")
    A: T.Tensor[[N], T.float32]
    B: T.Tensor[[N], T.float32]
    C = T.empty((N,), T.float32)
    with T.Kernel(1, threads=32):
        for i in T.Parallel(N):
            C[i] = A[i] + B[i]
    return C


def mixed() -> Any:
    """A kernel with everything that a launcher finds out when it is called."""
    M, N, step = T.dynamic("M"), T.dynamic("N"), T.dynamic("step")

    @T.prim_func
    def mixed(
        A: T.StridedTensor((M, N), (step, 1), "float32"),
        B: T.Tensor((M, N), "float32"),
        scale: T.float32,
        shift: T.int32,
        on: T.bool,
    ):
        with T.Kernel(M, threads=32) as i:
            for j in T.serial(N):
                B[i, j] = T.if_then_else(on, A[i, j] * scale + T.cast(shift, "float32"), A[i, j])

    return mixed


def interleaved(calls: dict[str, Callable[[], Any]], device: str) -> dict[str, float]:
    """The least microseconds of each call."""
    clock = time.perf_counter if device == "cuda" else time.process_time
    for call in calls.values():
        for _ in range(20):
            call()
    least = dict.fromkeys(calls, float("inf"))
    for _ in range(ROUNDS):
        for name, call in calls.items():
            if device == "cuda":
                torch.cuda.synchronize()
            start = clock()
            for _ in range(BATCH):
                call()
            least[name] = min(least[name], (clock() - start) / BATCH * 1e6)
    return least


def floors(device: str) -> dict[str, Callable[..., Any]]:
    """A packed function that does nothing, called through tvm-ffi and through the extension."""
    compiler = shutil.which("c++")
    if not extension.available() or compiler is None:
        return {}
    with tempfile.TemporaryDirectory() as folder:
        source, library = Path(folder, "nothing.cpp"), Path(folder, "nothing.so")
        source.write_text('extern "C" int __tvm_ffi_nothing(void*, const void*, int, void*) { return 0; }\n')
        subprocess.run([compiler, "-O2", "-shared", "-fPIC", str(source), "-o", str(library)], check=True)
        loaded, module = ctypes.CDLL(str(library)), load_module(library)
    address = ctypes.cast(getattr(loaded, "__tvm_ffi_nothing"), ctypes.c_void_p).value
    kind = 2 if device == "cuda" else 1
    entry = extension.extension().Entry(address, 0, kind, False, (), RuntimeError, None, loaded)
    return {"extension": entry, "tvm-ffi": module.get_function("nothing")}


def calls(device: str) -> list[Line]:
    """The figures of calls, one line for each goal and way."""
    a, b, c = (torch.ones(16, device=device) for _ in range(3))
    many = [torch.ones(16, device=device) for _ in range(20)]
    wide, flat = torch.ones(4, 48, device=device)[:, :32], torch.ones(4, 32, device=device)
    ways: dict[str, Callable[[], Any]] = {"torch.add": lambda: torch.add(a, b)}

    def add_ways(way: str, kernel: Any, three: Any, twenty: Any, any_shape: Any) -> None:
        ways[f"{way}, new result"] = lambda: kernel(a, b)
        ways[f"{way}, 3 tensors"] = lambda: three(a, b, c)
        ways[f"{way}, 20 tensors"] = lambda: twenty(*many)
        ways[f"{way}, scalars and dynamic shapes"] = lambda: any_shape(wide, flat, 2.0, 3, True)

    adapters = ("tvm_ffi", "cython") if extension.available() else ("tvm_ffi",)
    for way in adapters:
        made = [
            tile.compile(function, target=device, execution_backend=way, out_idx=out_idx)
            for function, out_idx in ((add(), [-1]), (sums(3), None), (sums(20), None), (mixed(), None))
        ]
        add_ways(way, *made)
        if way == "tvm_ffi":
            add_ways(
                "tvm_ffi without the extension", *(getattr(kernel.entry, "other", kernel.entry) for kernel in made)
            )
    for way, nothing in floors(device).items():
        ways[f"floor of {way}, 3 tensors"] = lambda nothing=nothing: nothing(a, b, c)
        ways[f"floor of {way}, 20 tensors"] = lambda nothing=nothing: nothing(*many)
    jitted = tile.jit(jit_add.function, target=device)
    operator = tile.op(tile.jit(jit_add.function, target=device))
    ways["jit, new result"] = lambda: jitted(a, b)
    ways["tile.op, new result"] = lambda: operator(a, b)
    times = interleaved(ways, device)
    print("\n| a call | µs | over torch.add |\n|---|---|---|")
    for name, value in times.items():
        print(f"| {name} | {value:.2f} | {value / times['torch.add']:.2f} |")
    more = times["jit, new result"] - times["tvm_ffi, new result"]
    lines = [Line("the jit call, more than the kernel's", more, "µs", 1.5)]
    for way in adapters:
        kernel, three, twenty = (times[f"{way}, {what}"] for what in ("new result", "3 tensors", "20 tensors"))
        note = f"{kernel:.2f} µs, torch.add {times['torch.add']:.2f} µs"
        lines.append(Line(f"{way}: new result, over torch.add", kernel / times["torch.add"], "×", 0.7, note=note))
        note = f"{three:.2f} and {twenty:.2f} µs, {(twenty - three) / 17 * 1e3:.0f} ns for each more"
        lines.append(Line(f"{way}: 20 tensors, over 3", twenty / three, "×", 2.0, note=note))
    return lines


_WARM = """
import json, sys, time
sys.path.insert(0, sys.argv[1])
import runtime, torch
from tile_core.ffi import tvm_ffi_module
import tile_core as tile
tvm_ffi_module()
target = sys.argv[2]
functions = [runtime.plus_one(i) for i in range(runtime.WARM_KERNELS + 1)]
tile.compile(functions[-1], target=target)
start = time.perf_counter()
kernels = [tile.compile(function, target=target) for function in functions[:-1]]
seconds = time.perf_counter() - start
print(json.dumps([seconds, sorted({kernel.origin for kernel in kernels})]))
"""


def warm_start(target: str) -> Line:
    words = [sys.executable, "-c", _WARM, str(Path(__file__).parent), target]
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "TILE_CACHE_DIR": folder}
        with settings.scope(cache_dir=Path(folder)):
            tile.par_compile([plus_one(i) for i in range(WARM_KERNELS + 1)], target=target)
        found = []
        for _ in range(3):
            run = subprocess.run(words, env=environment, capture_output=True, text=True, check=True)
            seconds, origins = json.loads(run.stdout.splitlines()[-1])
            assert origins == ["disk"], origins
            found.append(seconds / WARM_KERNELS * 1e3)
    return Line("warm start, each of 50 kernels", min(found), "ms", 5.0, note=", ".join(f"{ms:.2f}" for ms in found))


def parallel(target: str, dtype: str) -> Line:
    sizes = [(m, n, k) for m in (32, 64, 128, 256) for n in (32, 64, 128, 256) for k in (16, 32)]
    with settings.scope(disable_cache=True):
        tile.compile(plus_one(0), target=target)
        functions = [gemm(*size, dtype) for size in sizes[:CONFIGURATIONS]]
        start = time.perf_counter()
        for function in functions:
            tile.compile(function, target=target)
        serial = time.perf_counter() - start
        functions = [gemm(*size, dtype, size=2048) for size in sizes[:CONFIGURATIONS]]
        start = time.perf_counter()
        tile.par_compile(functions, target=target, num_workers=2)
        together = time.perf_counter() - start
    note = f"{serial:.1f} s alone, {together:.1f} s by 2 workers"
    return Line("32 gemm configurations, serial over 2 workers", serial / together, "×", 1.7, smaller=False, note=note)


def main() -> int:
    """Prints the table; exit code 0 whatever the figures are."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--only", choices=("calls", "warm", "parallel"), help="one part")
    parser.add_argument("--write", metavar="FILE", help="write the figures as JSON")
    given = parser.parse_args()
    target, dtype = ("cuda", "float16") if given.device == "cuda" else ("cpu", "float32")
    lines: list[Line] = []
    if given.only in (None, "calls"):
        lines += calls(given.device)
    if given.only in (None, "warm"):
        lines.append(warm_start(target))
    if given.only in (None, "parallel"):
        lines.append(parallel(target, dtype))
    machine = torch.cuda.get_device_name() if given.device == "cuda" else platform.processor() or platform.machine()
    print(
        f"Machine: {machine}, {os.cpu_count()} threads, torch {torch.__version__}, Python {platform.python_version()}"
    )
    print("\n| what | found | goal | met | |\n|---|---|---|---|---|")
    for line in lines:
        met = "yes" if line.met else "no"
        print(f"| {line.name} | {line.value:.2f} {line.unit} | {line.goal:g} {line.unit} | {met} | {line.note} |")
    if given.write:
        Path(given.write).write_text(json.dumps([asdict(line) for line in lines], indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
