"""Variants of the examples of docs/examples on a GPU: tiles, stages, threads, shares and pass options, beside torch.

    python benchmarks/example_sweep.py [--only NAME…] [--json FILE]

Each variant is checked against torch before it is timed by events, ours and torch's in turn.
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from cuda_kernels import compare

import tile_core as tile

EXAMPLES = Path(__file__).resolve().parents[1] / "docs" / "examples"
TARGET = "cuda -arch=sm_80"

# label, how to build what is called with (inputs…, result), inputs, result, torch's
Variant = tuple[str, Callable[[], Callable[..., Any]], list[torch.Tensor], torch.Tensor, Callable[..., Any]]


def main() -> int:
    """Prints a row for each variant, then the fastest of each case."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="*", choices=sorted(SWEEPS))
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    sys.path.insert(0, str(EXAMPLES))
    torch.manual_seed(0)
    rows: list[dict[str, Any]] = []
    for name in given.only or SWEEPS:
        for label, build, inputs, out, reference in SWEEPS[name](importlib.import_module(name)):
            rows.append({"example": name, **compare(label, build, inputs, out, reference)})
            shown = {k: round(v, 4) if isinstance(v, float) else v for k, v in rows[-1].items()}
            print(shown, flush=True)
    if given.json:
        found = {"device": torch.cuda.get_device_name(), "torch": torch.__version__, "target": TARGET, "rows": rows}
        given.json.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return 0


def kernel(function: Any, given: dict[str, Any], **options: Any) -> Callable[[], Any]:
    """Compiles what a jit function makes of some arguments."""
    return lambda: tile.compile(function.trace(**given), target=TARGET, pass_configs=options)


def half(*shape: int) -> torch.Tensor:
    """Random fp16 on the GPU."""
    return torch.randn(*shape, device="cuda", dtype=torch.half)


def online_softmax(example: Any) -> Iterator[Variant]:
    """Threads a row and the tile's depth."""
    for m, n, threads in ((1024, 32000, (128, 256, 512)), (128, 100_000, (256, 512, 1024))):
        x = half(m, n) * 4
        for count in threads:
            for depth in (1, 2, 4, 8):
                if count * depth <= 4096:
                    given = {"M": m, "N": n, "threads": count, "depth": depth}
                    build = kernel(example.online_softmax, given)
                    yield f"{m}×{n} threads {count} depth {depth}", build, [x], torch.empty_like(x), example.reference


def softmax(example: Any) -> Iterator[Variant]:
    """Rows a block."""
    for m, n in ((333, 777), (4096, 1024), (1023, 4096)):
        x = torch.randn(m, n, device="cuda")
        for rows in (1, 2, 4):
            build = kernel(example.softmax, {"M": m, "N": n, "block_M": rows})
            yield f"{m}×{n} rows {rows}", build, [x], torch.empty_like(x), example.reference


TILES = (  # rows, columns, depth, stages
    (64, 64, 32, 2),
    (64, 64, 32, 4),
    (64, 64, 64, 3),
    (128, 64, 32, 4),
    (128, 128, 32, 3),
)


def gemm(example: Any) -> Iterator[Variant]:
    """Tiles, and results that leave through shared memory or do not."""
    for size in (1024, 2048):
        a, b = half(size, size), half(size, size)
        for rows, columns, depth in ((128, 128, 32), (128, 128, 64), (128, 64, 64)):
            for direct in (False, True):
                given = {"M": size, "N": size, "K": size, "dtype": "float16"}
                given |= {"block_M": rows, "block_N": columns, "block_K": depth}
                build = kernel(example.matmul, given, **{"tl.disable_staged_stores": direct})
                label = f"{size} tile {rows}×{columns}×{depth}{' direct' if direct else ''}"
                yield label, build, [a, b], torch.empty_like(a), example.reference


def gemm_dynamic(example: Any) -> Iterator[Variant]:
    """Tiles; one version, or one for aligned rows besides."""
    for m, n, k in ((1024, 1024, 1024), (1, 4096, 1024), (1000, 777, 333)):
        a, b = half(m, k), half(k, n)
        for rows, columns, depth, stages in TILES:
            for single in (False, True):
                given = {"block_M": rows, "block_N": columns, "block_K": depth, "stages": stages}
                build = kernel(example.dynamic_matmul, given, **{"tl.disable_alignment_versions": single})
                label = f"{m}×{n}×{k} tile {rows}×{columns}×{depth} stages {stages}{' one version' if single else ''}"
                yield label, build, [a, b], half(m, n), example.reference


def gemm_splitk(example: Any) -> Iterator[Variant]:
    """Tiles and shares."""
    for m, n, k, shares in ((64, 64, 16384, (16, 32, 64, 128)), (256, 512, 8192, (4, 8, 16))):
        a, b = half(m, k), half(k, n)
        for rows, columns, depth, stages in TILES[:4]:
            for split in shares:
                given = {"M": m, "N": n, "K": k, "split": split, "block_M": rows, "block_N": columns}
                build = kernel(example.splitk_kernel, {**given, "block_K": depth, "stages": stages})
                label = f"{m}×{n}×{k} split {split} tile {rows}×{columns}×{depth} stages {stages}"
                yield label, build, [a, b], torch.empty(m, n, device="cuda"), example.reference


def gemm_streamk(example: Any) -> Iterator[Variant]:
    """Tiles and workers a multiprocessor."""
    processors = torch.cuda.get_device_properties(0).multi_processor_count
    for m, n, k in ((640, 640, 2048), (1024, 1024, 1024)):
        a, b = half(m, k), half(k, n)
        for rows, columns, depth, stages in TILES:
            for each in (1, 2, 3, 4):
                given = {"M": m, "N": n, "K": k, "workers": each * processors, "block_M": rows, "block_N": columns}
                build = kernel(example.streamk_kernel, {**given, "block_K": depth, "stages": stages})
                label = f"{m}×{n}×{k} workers {each} tile {rows}×{columns}×{depth} stages {stages}"
                yield label, build, [a, b], torch.empty(m, n, device="cuda"), example.reference


def flash_attention(example: Any) -> Iterator[Variant]:
    """Tiles and fast mathematics."""
    q, k, v = (half(1, 8, 1024, 64) for _ in range(3))
    for causal in (False, True):
        for rows, columns in ((64, 64), (64, 32), (64, 128), (128, 64), (128, 128)):
            for fast in (False, True):
                given = dict(
                    zip(("batch", "heads", "kv_heads", "query_len", "key_len", "dim"), (1, 8, 8, 1024, 1024, 64))
                )
                given |= {"causal": causal, "dtype": "float16", "block_M": rows, "block_N": columns}
                build = kernel(example.attention, given, **{"tl.enable_fast_math": fast})
                label = f"1024 D64{' causal' if causal else ''} tile {rows}×{columns}{' fast' if fast else ''}"
                yield label, build, [q, k, v], torch.empty_like(q), example.reference(causal)


SWEEPS: dict[str, Callable[[Any], Iterator[Variant]]] = {
    f.__name__: f for f in (online_softmax, softmax, gemm, gemm_dynamic, gemm_splitk, gemm_streamk, flash_attention)
}


if __name__ == "__main__":
    raise SystemExit(main())
