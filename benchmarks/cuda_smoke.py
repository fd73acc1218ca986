"""Tries this tree on a machine with an NVIDIA GPU and no network: what is marked ``gpu``, and compile and launch times.

Here, where there is a network::

    python benchmarks/cuda_smoke.py prepare .wheels          # wheels of this tree and of what the other machine lacks

There, with the tree and that folder::

    python benchmarks/cuda_smoke.py run .wheels --out $OUT   # Python 3.12 with torch, pytest, numpy

`run` installs the wheels into a folder of its own, checks that the installed packages see the device, runs the tests
marked ``gpu`` and measures. It prints a summary and leaves ``smoke.json`` and ``tests.log`` in `--out`; the exit code
is 0 when every step passed.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PYTHON = "3.12"
MEMBERS = (
    "packages/tile-core",
    "packages/tile-runtime",
    "packages/tile-cuda",
    "packages/tile-ascend",
    "plugins/tile-cpu",
    "plugins/tile-emulator",
)
# What they need and a machine with torch need not have.
REQUIREMENTS = (
    "apache-tvm-ffi",
    "z3-solver",
    "importlib-metadata",
    "lazy-importer",
    "zipp",
    "ml-dtypes",
    "typing-extensions",
)
PLATFORMS = tuple(f"manylinux_2_{n}_x86_64" for n in (39, 35, 34, 31, 28, 27, 24, 17)) + ("manylinux2014_x86_64",)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("action", choices=("prepare", "run"))
    parser.add_argument("wheels", type=Path)
    parser.add_argument("--out", type=Path, default=Path("."), help="where run leaves smoke.json and tests.log")
    parser.add_argument("--tests", nargs="*", default=["packages/tile-cuda/tests"])
    parser.add_argument("--script", nargs="+", help="a program and its words, run instead of tests and measurements")
    given = parser.parse_args()
    if given.action == "prepare":
        return prepare(given.wheels)
    if given.script:
        return subprocess.run([sys.executable, *given.script], cwd=ROOT, env=installed(given.wheels)).returncode
    return run(given.wheels, given.out, given.tests)


def prepare(wheels: Path) -> int:
    """Builds this tree's wheels and downloads the rest for Python 3.12 on x86-64."""
    wheels.mkdir(parents=True, exist_ok=True)
    for old in wheels.glob("*.whl"):
        old.unlink()
    build = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", str(wheels)]
    subprocess.run([*build, *(str(ROOT / member) for member in MEMBERS)], check=True)
    pins = {line.split("==")[0]: line.split(" ")[0] for line in _constraints()}
    platforms = [word for name in PLATFORMS for word in ("--platform", name)]
    options = ["--no-deps", "--only-binary=:all:", "--python-version", PYTHON, "--implementation", "cp", *platforms]
    wanted = [pins.get(name, name) for name in REQUIREMENTS]
    subprocess.run([sys.executable, "-m", "pip", "download", "-q", *options, "-d", str(wheels), *wanted], check=True)
    total = sum(path.stat().st_size for path in wheels.glob("*.whl"))
    print(f"{len(list(wheels.glob('*.whl')))} wheels, {total / 2**20:.1f} MiB in {wheels}")
    return 0


def run(wheels: Path, out: Path, tests: Sequence[str]) -> int:
    """Installs, tests, measures."""
    out.mkdir(parents=True, exist_ok=True)
    environment = installed(wheels)
    found: dict[str, object] = {"python": sys.version.split()[0]}
    seen = subprocess.run([sys.executable, "-c", _SEE], env=environment, capture_output=True, text=True)
    found["device"] = json.loads(seen.stdout.splitlines()[-1]) if seen.returncode == 0 else seen.stderr[-2000:]
    start = time.perf_counter()
    with (out / "tests.log").open("w") as log:
        words = [sys.executable, "-m", "pytest", "-q", "-m", "gpu", "-p", "no:cacheprovider", *tests]
        tested = subprocess.run(words, cwd=ROOT, env=environment, stdout=log, stderr=subprocess.STDOUT)
    found["tests"] = {"exit": tested.returncode, "seconds": round(time.perf_counter() - start, 1)}
    measured = subprocess.run([sys.executable, "-c", _MEASURE], env=environment, capture_output=True, text=True)
    good = measured.returncode == 0
    found["measured"] = json.loads(measured.stdout.splitlines()[-1]) if good else measured.stderr[-2000:]
    (out / "smoke.json").write_text(json.dumps(found, indent=1) + "\n")
    print((out / "tests.log").read_text()[-6000:])
    print(json.dumps(found, indent=1))
    return 0 if tested.returncode == 0 and seen.returncode == 0 and good else 1


def installed(wheels: Path) -> dict[str, str]:
    """The environment of a process that sees the wheels, installed into a folder of their own."""
    site = Path(tempfile.mkdtemp(prefix="tile-site-"))
    options = ["--no-index", "--no-deps", "--no-compile", "--no-cache-dir", "--upgrade", "--target", str(site)]
    install = [sys.executable, "-m", "pip", "install", "-q", *options]
    subprocess.run([*install, *map(str, sorted(wheels.glob("*.whl")))], check=True)
    return {**os.environ, "PYTHONPATH": str(site), "TILE_CACHE_DIR": tempfile.mkdtemp(prefix="tile-cache-")}


def _constraints() -> list[str]:
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    return [line for line in lines if "==" in line and not line.startswith("#")]


_SEE = """
import json, torch
from tile_core.plugin import registry
backend, target = registry.resolve_target("cuda")
from tile_cuda.driver import detect
assert detect(), detect()
print(json.dumps({"name": torch.cuda.get_device_name(), "target": str(target), "torch": torch.__version__}))
"""

# A gemm written in form FLAT: how long its compile takes, how fast it is, what a call costs.
_MEASURE = """
import json, statistics, time, torch
from tile_core.ir import IRModule
from tile_core.plugin import Artifact, registry
from tile_core.transform import MakePackedAPI, SplitHostDevice
from tile_core.transform.base import PassContext
from tile_cuda.codegen import generate
from tile_cuda.testing import add_one, gemm
from tile_cuda.toolchain import TOOLCHAIN
from tile_runtime.backends.tvm_ffi import build

_, target = registry.resolve_target("cuda")

def kernel(function):
    context = PassContext(target)
    module = MakePackedAPI("cuda").apply(SplitHostDevice().apply(IRModule((function,)), context), context)
    artifact = Artifact(target, function.name, function, module, generate(module, target), entry=function.name)
    start = time.perf_counter()
    artifact.binaries.update(TOOLCHAIN.build(artifact))
    return build(artifact), time.perf_counter() - start

def device_ms(call, count):
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    samples = []
    for _ in range(20):
        begin.record()
        for _ in range(count):
            call()
        end.record()
        end.synchronize()
        samples.append(begin.elapsed_time(end) / count)
    return statistics.median(samples)

kernel(add_one())
out = {}
size = 4096
run, seconds = kernel(gemm(size, size, size))
a, b = (torch.randn(size, size, device="cuda").half() for _ in range(2))
d = torch.zeros(size, size, device="cuda", dtype=torch.half)
flat = [t.view(-1) for t in (a, b, d)]
run(*flat)
error = (d.float() - a.float() @ b.float()).abs().max().item()
ours, theirs = device_ms(lambda: run(*flat), 5), device_ms(lambda: torch.matmul(a, b, out=d), 5)
out["gemm 4096, no swizzle, TFLOP/s"] = {"ours": 2 * size**3 / ours / 1e9, "torch": 2 * size**3 / theirs / 1e9}
out["gemm 4096, largest error"] = error
out["gemm, compile seconds"] = seconds
small, _ = kernel(add_one())
x, y = torch.randn(1024, device="cuda"), torch.zeros(1024, device="cuda")
small(x, y)
torch.cuda.synchronize()
start = time.perf_counter()
for _ in range(2000):
    small(x, y)
out["call, microseconds"] = (time.perf_counter() - start) / 2000 * 1e6
torch.cuda.synchronize()
print(json.dumps(out))
"""


if __name__ == "__main__":
    raise SystemExit(main())
