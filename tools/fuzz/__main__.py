"""Random kernels, interpreted, on the CPU and as emulated CUDA; what does not agree is made smaller and kept.

    python -m tools.fuzz --seconds 600 --from 1000      kernels from seed 1000 on, for ten minutes
    python -m tools.fuzz --seconds 600 --stats          and say how often each value of each axis came up
    python -m tools.fuzz --seed 1234                    one kernel, with its text and what came of it
    python -m tools.fuzz --file kernel.py               a kernel that was kept, once more

Kernels run in a process of their own, so that one which crashes or hangs is a finding like any other. Faults go to
`--out` as files that `--file` takes; those that are mended become tests in integration_tests/agreement/regressions.
"""

from __future__ import annotations

import argparse
import json
import os
import selectors
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from .coverage import axes, report
from .kernels import Program, random_kernel

# A worker loads a library for every kernel, and none of them leaves its memory.
_KERNELS_A_WORKER = 100
_PATIENCE_SECONDS = 400


def main(arguments: list[str] | None = None) -> int:
    """Runs the command line; 1 when a fault was found."""
    parser = argparse.ArgumentParser(prog="python -m tools.fuzz", description=__doc__.split("\n")[0])
    parser.add_argument("--seconds", type=float, default=60, help="how long to go on")
    parser.add_argument("--from", dest="first", type=int, default=0, help="the first seed")
    parser.add_argument("--seed", type=int, help="this kernel alone")
    parser.add_argument("--file", type=Path, help="a kernel that was kept")
    parser.add_argument("--out", type=Path, default=Path("fuzz-faults"), help="where faults go")
    parser.add_argument(
        "--places", default="cpu,cuda", help="where kernels run, apart by commas; interpreted alone if empty"
    )
    parser.add_argument("--stats", action="store_true", help="print how often each value of each axis came up")
    parser.add_argument("--no-minimise", action="store_true", help="keep kernels as they are")
    parser.add_argument("--minimise", action="store_true", help="with --file or --seed: make the kernel smaller")
    parser.add_argument("--worker", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    places = tuple(given.places.split(",")) if given.places else ()
    if given.worker is not None:
        return _work(given.first, given.worker, places)
    if given.seed is not None or given.file is not None:
        program = random_kernel(given.seed) if given.file is None else read(given.file)
        return _one(program, places, given.minimise)
    return _campaign(given, places)


def read(path: Path) -> Program:
    """The program of a file that `write` made."""
    text = path.read_text(encoding="utf-8")
    facts = json.loads(next(line[8:] for line in text.splitlines() if line.startswith("# fuzz: ")))
    source = "\n".join(line for line in text.splitlines() if not line.startswith(("#", "import ")))
    return Program(source.strip("\n") + "\n", facts["sizes"], facts["special"], facts["seed"])


def text_of(program: Program, note: str) -> str:
    """A file that holds a program and a note about it."""
    facts = json.dumps({"seed": program.seed, "sizes": program.sizes, "special": program.special})
    notes = "\n".join(f"# {line}".rstrip() for line in note.splitlines()[:12])
    return f"{notes}\n# fuzz: {facts}\n{program.source}"


def _one(program: Program, places: tuple[str, ...], smaller: bool) -> int:
    from .judge import judge

    verdict = judge(program, places)
    if smaller and verdict.is_fault:
        from .minimise import minimise

        program = minimise(program, lambda p: judge(p, places).same_fault(verdict))
    print(text_of(program, f"{verdict.kind} {verdict.where} {verdict.refused or ''}\n{verdict.detail}"))
    return int(verdict.is_fault)


def _work(first: int, count: int, places: tuple[str, ...]) -> int:
    """The worker: a line of JSON when a kernel begins and one when it ends."""
    from .judge import judge

    for seed in range(first, first + count):
        print(json.dumps({"begin": seed}), flush=True)
        verdict = judge(random_kernel(seed), places)
        # What this process and the compilers that it ran have used.
        row = {"seed": seed, "kind": verdict.kind, "where": verdict.where, "detail": verdict.detail}
        row["busy"] = sum(os.times()[:4])
        print(json.dumps({**row, "refused": verdict.refused}), flush=True)
    return 0


def _campaign(given: argparse.Namespace, places: tuple[str, ...]) -> int:
    tally = _Tally()
    seed, end = given.first, tally.begin + given.seconds
    # The emulator's engine, which takes longer to compile than three kernels, is kept from worker to worker.
    with tempfile.TemporaryDirectory(prefix="tile-fuzz-") as cache:
        os.environ["TILE_CACHE_DIR"] = cache
        while time.monotonic() < end:
            for row in _rows(seed, places, end):
                seed = row["seed"] + 1
                fault = tally.count(row)
                if tally.kinds.total() % 50 == 0:
                    print(tally.rate(), flush=True)
                if not fault:
                    continue
                print(f"seed {row['seed']}: {_mark(row)}", flush=True)
                _keep(given, row, tally.faults[_mark(row)].index(row["seed"]), places)
            for folder in (*Path(cache).glob("emulator/*"), *Path(cache).glob("[!e]*")):
                if not folder.name.startswith("engine-"):
                    shutil.rmtree(folder, ignore_errors=True)
    print(tally)
    if given.stats:
        print(report(tally.axes))
    return int(bool(tally.faults))


class _Tally:
    """What a run has found so far."""

    def __init__(self) -> None:
        self.begin = time.monotonic()
        self.kinds: Counter[str] = Counter()
        self.busy: dict[int, float] = {}
        self.refused: Counter[str] = Counter()
        self.faults: dict[str, list[int]] = {}
        self.axes: Counter[tuple[str, str]] = Counter()

    def count(self, row: dict) -> bool:
        """Takes a result in; whether it is a fault."""
        self.kinds[row["kind"]] += 1
        self.busy[row.get("first", 0)] = row.get("busy", 0.0)
        self.refused.update(f"{place} {code}" for place, code in row["refused"].items())
        self.axes.update(axes(random_kernel(row["seed"])))
        if row["kind"] in ("agree", "refused"):
            return False
        self.faults.setdefault(_mark(row), []).append(row["seed"])
        return True

    def rate(self) -> str:
        """Kernels a minute, and a minute of processor time, compilers and all."""
        total, minutes = self.kinds.total(), (time.monotonic() - self.begin) / 60
        busy = sum(self.busy.values()) / 60
        a_core_minute = f"{total / busy:.1f} a core-minute" if busy else ""
        return (
            f"{total} kernels in {minutes:.1f} min, {total / minutes:.1f} a minute, {a_core_minute}; {dict(self.kinds)}"
        )

    def __str__(self) -> str:
        lines = [self.rate(), f"refused: {dict(self.refused.most_common())}"]
        lines += [f"{len(seeds):4} × {mark}: seeds {seeds[:8]}" for mark, seeds in self.faults.items()]
        return "\n".join(lines)


def _mark(row: dict) -> str:
    """What makes two faults one, as far as can be told."""
    if row["kind"] == "differs" or not row["detail"]:
        return f"{row['kind']} {row['where']}"
    lines = row["detail"].strip().splitlines()
    return f"{row['kind']} {row['where']} {(lines[-1] if lines[0].startswith('Traceback') else lines[0])[:90]}"


def _rows(first: int, places: tuple[str, ...], end: float):
    """Results of a worker's kernels as they come; a crash or a hang is one, too."""
    command = [sys.executable, "-m", "tools.fuzz", "--from", str(first), "--worker", str(_KERNELS_A_WORKER)]
    process = subprocess.Popen([*command, "--places", ",".join(places)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    waiting = selectors.DefaultSelector()
    waiting.register(process.stdout, selectors.EVENT_READ)
    current = first
    nothing = {"where": "", "refused": {}}
    try:
        while time.monotonic() < end:
            if not waiting.select(_PATIENCE_SECONDS):
                yield {"seed": current, "kind": "hang", "detail": f"no answer for {_PATIENCE_SECONDS} s", **nothing}
                return
            line = process.stdout.readline()
            if not line:
                if process.wait() != 0:
                    yield {"seed": current, "kind": "crash", "detail": f"exit code {process.returncode}", **nothing}
                return
            row = json.loads(line)
            if "begin" in row:
                current = row["begin"]
            else:
                yield {**row, "first": first}
    finally:
        process.kill()
        process.wait()


def _keep(given: argparse.Namespace, row: dict, number: int, places: tuple[str, ...]) -> None:
    """Writes a fault's kernel; the first two of a kind are made smaller, in a process that may die of it."""
    given.out.mkdir(parents=True, exist_ok=True)
    program = random_kernel(row["seed"])
    path = given.out / f"seed_{row['seed']}.py"
    path.write_text(text_of(program, f"{row['kind']} {row['where']}\n{row['detail']}"), encoding="utf-8")
    if given.no_minimise or number >= 2 or row["kind"] in ("crash", "hang"):
        return
    command = [sys.executable, "-m", "tools.fuzz", "--file", str(path), "--minimise", "--places", ",".join(places)]
    try:
        found = subprocess.run(command, capture_output=True, text=True, timeout=600)
    except subprocess.TimeoutExpired:
        return
    if found.returncode == 1 and found.stdout:
        path.with_suffix(".small.py").write_text(found.stdout, encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
