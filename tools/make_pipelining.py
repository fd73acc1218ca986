# ruff: noqa: E501 - lines of Markdown
"""Write the pages about pipelines that are made from what the compiler prints and the emulator finds.

python -m tools.make_pipelining           rewrite docs/num-stages.md
python -m tools.make_pipelining --check   exit 1 where it is not current
python -m tools.make_pipelining --sync    run the mutants of all pipelined kernels (a core-minute); rewrite docs/synchronisation.md
"""

from __future__ import annotations

import importlib.util
import json
import re
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
EMULATION = ROOT / "integration_tests" / "emulation"
NUM_STAGES = ROOT / "docs" / "num-stages.md"
SYNCHRONISATION = ROOT / "docs" / "synchronisation.md"
NOTE = "<!-- Made by tools/make_pipelining.py. -->"
DEPTHS = range(6)


def main(arguments: list[str]) -> int:
    """Writes or checks the pages; returns the exit code."""
    if "--sync" in arguments:
        SYNCHRONISATION.write_text(synchronisation(), encoding="utf-8")
        return 0
    text = num_stages()
    if NUM_STAGES.exists() and NUM_STAGES.read_text(encoding="utf-8") == text:
        return 0
    if "--check" in arguments:
        print("docs/num-stages.md is not current; run python -m tools.make_pipelining")
        return 1
    NUM_STAGES.write_text(text, encoding="utf-8")
    return 0


def peer() -> dict[str, Any]:
    """What was counted in the peer's output."""
    return json.loads((EMULATION / "peer.json").read_text(encoding="utf-8"))


def gemm(depth: int) -> Any:
    """The kernel of the page."""
    import tile_core.language as T

    @T.prim_func
    def gemm(
        A: T.Tensor((1024, 1024), "float16"), B: T.Tensor((1024, 1024), "float16"), C: T.Tensor((1024, 1024), "float16")
    ):
        with T.Kernel(8, 8, threads=128) as (bx, by):
            A_shared = T.alloc_shared((128, 32), "float16")
            B_shared = T.alloc_shared((32, 128), "float16")
            acc = T.alloc_fragment((128, 128), "float32")
            T.clear(acc)
            for k in T.Pipelined(32, num_stages=depth):
                T.copy(A[by * 128, k * 32], A_shared)
                T.copy(B[k * 32, bx * 128], B_shared)
                T.gemm(A_shared, B_shared, acc)
            T.copy(acc, C[by * 128, bx * 128])

    return gemm


def num_stages() -> str:
    """The page docs/num-stages.md."""
    from tile_core import api

    known = peer()
    lines = [
        "# What `num_stages` changes",
        NOTE,
        "",
        "A gemm of 128 × 128 × 32 tiles in fp16 with 128 threads, compiled for sm_80, K = 1024. Ours is what the compiler prints now; the columns of "
        f"{known['peer']} were counted once in its output (`integration_tests/emulation/peer.json` says how).",
        "",
        "| num_stages | stages of copy, copy, gemm | block barriers in the source | groups left by the waits | bytes of A, B in shared memory | threads | theirs: barriers | waits | bytes of A, B | threads |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for depth in DEPTHS:
        artifact = api.lower(gemm(depth), "cuda -arch=sm_80")
        source = artifact.sources["kernel.cu"]
        (kernel,) = json.loads(artifact.sources["lines.json"])["kernels"]
        (memory,) = artifact.notes["reports"]["shared_memory"]
        (loop,) = artifact.notes["reports"]["pipelines"]
        theirs = known["num_stages"][str(depth)]
        cells = [
            depth,
            [row.stage for row in loop.statements],
            len(re.findall(r"tile::sync_threads\(", source)),
            _list(re.findall(r"cp_async_wait<(\d+)>", source)),
            " + ".join(
                f"{tile.size // 1024} K" for tile in memory.placed if tile.buffer.name in ("A_shared", "B_shared")
            ),
            kernel["threads"],
            theirs["sync_threads"],
            _list(theirs["waits"]),
            " + ".join(f"{size // 1024} K" for size in theirs["tile_bytes"]),
            theirs["threads"],
        ]
        lines.append(f"| {' | '.join(map(str, cells))} |")
    lines += [
        "",
        "With one stage nothing runs ahead; a copy still goes by `cp.async`, so that one wait and one barrier an iteration stand in front of the gemm and one behind it. From two",
        "stages on, the steady loop has one wait and one barrier: the wait stands in front of the copies that run ahead, and the barrier after it says both that the tile has arrived",
        "for all threads and that the oldest version has been read by all. The epilogue is unrolled, with a wait and a barrier for each of its slots.",
        "Two more barriers stand round the tile through which the result is stored in whole rows; it takes the place of A and B, so it needs no memory of its own from three stages on.",
        "",
        "`tile show timeline FILE` draws this for any kernel, and `kernel.explain()` names the lines that cause the versions of each buffer.",
    ]
    return "\n".join(lines) + "\n"


def _list(numbers: list[Any]) -> str:
    return ", ".join(map(str, numbers)) or "–"


def synchronisation() -> str:
    """The page docs/synchronisation.md, from runs of all kernels' mutants."""
    import tile_core as tile

    module = _pipelined()
    known = peer()
    lines = [
        "# Are the synchronisations needed?",
        NOTE,
        "",
        "Each synchronisation of each kernel in `integration_tests/emulation/pipelined.py` is switched off in turn and the kernel run at several trip counts. It is *needed* when a run",
        "without it has a finding, and *shown* when a schedule was made in which the output differs or the kernel does not come to an end. `test_pipelined.py` asserts as much.",
        "",
        "*Edges* are the dependences across threads in shared memory that no others imply (`tile_core.analysis.reduced`), of the kernel's pipelined loops: one barrier can serve several,",
        f"and prologue, loop and epilogue each have theirs. The last columns are {known['peer']}'s output for the same kernel, counted once",
        "(`integration_tests/emulation/peer.json` says how); it needs other headers, so it was not run here. `K` says whether that kernel's trip count was dynamic, as ours is.",
        "",
        "| kernel | needed / found | shown | barriers | waits | edges | theirs: barriers | waits | K |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    totals = [0, 0, 0]
    for name, kernel in module.KERNELS.items():
        compiled = tile.compile(kernel.make(), target="cuda -arch=sm_80", execution_backend="emulate")
        row, counts = sync_row(name, kernel, compiled, known["kernels"].get(name))
        totals = [a + b for a, b in zip(totals, counts)]
        lines.append(row)
    found, needed, shown = totals
    lines += [
        "",
        f"In all {needed} of {found} are needed ({100 * needed / found:.0f} %), and {shown} of those were shown by a schedule. What no schedule shows is a barrier in a kernel of one warp,",
        "whose `ldmatrix` waits for all lanes anyway; the PTX memory model promises nothing without it.",
    ]
    return "\n".join(lines) + "\n"


def sync_row(name: str, kernel: Any, compiled: Any, theirs: dict[str, Any] | None) -> tuple[str, tuple[int, int, int]]:
    """(the table's row, (found, needed, shown)) of a kernel."""
    from tile_core import api
    from tile_emulator.mutation import classify_synchronisations

    trips = sorted({0, 1, 2, kernel.stages - 1, kernel.stages, kernel.stages + 1, kernel.stages + 2} - {0})
    cases = [lambda n=n: kernel.case(n) for n in trips]
    sites = classify_synchronisations(compiled.entry, cases, seeds=4)
    needed = [site for site in sites if site.needed]
    shown = [site for site in needed if site.witness]
    reports = api.lower(compiled.prim_func, "cuda -arch=sm_80").notes["reports"]["pipelines"]
    edges = sum(len(report.needed_edges) for report in reports)
    barriers = sum(site.name == "sync_threads" for site in sites)
    cells = [f"{len(needed)} / {len(sites)}", len(shown), barriers, len(sites) - barriers, edges]
    if theirs is None:
        cells += ["does not compile", "", ""]
    else:
        cells += [theirs["sync_threads"], len(theirs["waits"]), theirs["trips"]]
    return f"| {name} | {' | '.join(map(str, cells))} |", (len(sites), len(needed), len(shown))


def _pipelined() -> Any:
    path = EMULATION / "pipelined.py"
    spec = importlib.util.spec_from_file_location("pipelined_kernels", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
