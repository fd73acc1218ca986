"""All examples of docs/examples beside torch, eager and compiled, on the machine's best device.

    python benchmarks/examples.py [--only NAME…] [--rounds N] [--small] [--json FILE] [--markdown]

Each case is checked against torch before it is timed. Rounds are interleaved: ours, torch, torch.compile, in turn; the
times are medians. What torch.compile cannot compile here is a row without that time, and says why. On a machine
without network, `benchmarks/cuda_smoke.py prepare` brings the wheels.
"""

from __future__ import annotations

import argparse
import importlib
import json
import platform
import statistics
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

EXAMPLES = Path(__file__).resolve().parents[1] / "docs" / "examples"


def main() -> int:
    """Prints a row for each case; 1 when one of ours was wrong or failed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="*", help="names of examples")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--small", action="store_true", help="the sizes of the tests")
    parser.add_argument("--no-compile", action="store_true", help="without torch.compile")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--markdown", type=Path, help="also write the rows as a table")
    given = parser.parse_args()
    sys.path.insert(0, str(EXAMPLES))
    warnings.simplefilter("ignore")
    rows: list[dict[str, Any]] = []
    shared = importlib.import_module("_run")
    with torch.device(shared.device()):
        for name in given.only or names():
            torch.manual_seed(0)
            try:
                for case in importlib.import_module(name).cases(given.small):
                    rows.append(row(shared, name, case, given))
                    print(line(rows[-1]), flush=True)
            except Exception as error:
                rows.append({"example": name, "case": "", "failed": f"{type(error).__name__}: {error}"[:800]})
                print(line(rows[-1]), flush=True)
    report = {
        "device": torch.cuda.get_device_name() if torch.cuda.is_available() else platform.processor() or "CPU",
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "python": platform.python_version(),
        "rounds": given.rounds,
        "rows": rows,
    }
    if given.json:
        given.json.write_text(json.dumps(report, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    if given.markdown:
        given.markdown.write_text(table(rows), encoding="utf-8")
    return int(any("failed" in r for r in rows))


def names() -> list[str]:
    """The examples that have cases."""
    return sorted(p.stem for p in EXAMPLES.glob("*.py") if "\ndef cases(small" in p.read_text(encoding="utf-8"))


def row(shared: Any, name: str, case: Any, given: argparse.Namespace) -> dict[str, Any]:
    """One case: the error beside torch and the median times in milliseconds; a failure of ours is a row, too."""
    label, ours, reference, inputs, _ = case
    result: dict[str, Any] = {"example": name, "case": label}
    begin = time.perf_counter()
    try:
        result["error"] = shared.check(name, case)
    except Exception as error:
        return {**result, "failed": f"{type(error).__name__}: {error}"[:800]}
    result["first_call_s"] = round(time.perf_counter() - begin, 2)
    calls: dict[str, Callable[..., Any]] = {"ours": ours, "torch": reference}
    if not given.no_compile:
        compiled, reason = compiled_by_torch(reference, inputs)
        if compiled is None:
            result["compile_failed"] = reason
        else:
            calls["compiled"] = compiled
    times: dict[str, list[float]] = {kind: [] for kind in calls}
    for _ in range(given.rounds):
        for kind, call in calls.items():
            times[kind].append(shared.milliseconds(call, inputs))
    return {**result, **{f"{kind}_ms": round(statistics.median(t), 4) for kind, t in times.items()}}


def compiled_by_torch(reference: Callable[..., Any], inputs: tuple) -> tuple[Callable[..., Any] | None, str]:
    """The reference through torch.compile, called once; or None and why it does not compile."""
    torch._dynamo.reset()
    try:
        compiled = torch.compile(reference)
        compiled(*inputs)
    except Exception as error:
        return None, f"{type(error).__name__}: {str(error).strip().splitlines()[0] if str(error) else ''}"[:300]
    return compiled, ""


def line(found: dict[str, Any]) -> str:
    """A row as text."""
    head = f"{found['example']:<26}{found['case']:<36}"
    if "failed" in found:
        return f"{head} FAILED {found['failed'][:200]}"
    compiled = f"{found['compiled_ms']:9.3f}" if "compiled_ms" in found else "        –"
    return f"{head}{found['error']:9.1e}{found['ours_ms']:10.3f}{found['torch_ms']:10.3f} {compiled}" + ratios(found)


def ratios(found: dict[str, Any]) -> str:
    """torch's times over ours."""
    over = [found[k] / found["ours_ms"] for k in ("torch_ms", "compiled_ms") if k in found]
    return "  " + " ".join(f"{x:6.2f}" for x in over)


def table(rows: list[dict[str, Any]]) -> str:
    """The rows in Markdown."""
    lines = [
        "| example | size | max error | ours, ms | torch, ms | torch.compile, ms | torch / ours | compile / ours |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for r in rows:
        if "failed" in r:
            lines.append(f"| {r['example']} | {r['case']} | failed: {r['failed'].splitlines()[0]} | | | | | |")
            continue
        compiled = r.get("compiled_ms")
        cells = [
            r["example"],
            r["case"],
            f"{r['error']:.1e}",
            f"{r['ours_ms']:.3f}",
            f"{r['torch_ms']:.3f}",
            f"{compiled:.3f}" if compiled else "–",
            f"{r['torch_ms'] / r['ours_ms']:.2f}",
            f"{compiled / r['ours_ms']:.2f}" if compiled else "–",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    raise SystemExit(main())
