"""Tile kernels on an NVIDIA GPU beside torch, checked before they are timed.

    python benchmarks/cuda_kernels.py [--target "cuda -arch=sm_80"] [--json FILE]
    python benchmarks/cuda_kernels.py --sweep gemm attention      # tiles, stages, threads, panels, epilogues

On a machine without network, `benchmarks/cuda_smoke.py prepare` brings the wheels; see there. Times are medians of
CUDA-event samples, ours and torch's taken in turns.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

import tile_core as tile
import tile_core.language as T


def matmul(M, N, K, bm, bn, bk, stages, threads, dtype="float16", panel=0, staged=False):
    """`panel`: rows of blocks a panel of the grid; `staged`: the result goes out by shared memory, in whole rows."""

    @T.prim_func
    def main(A: T.Tensor((M, K), dtype), B: T.Tensor((K, N), dtype), C: T.Tensor((M, N), dtype)):
        with T.Kernel(T.ceildiv(N, bn), T.ceildiv(M, bm), threads=threads) as (bx, by):
            T.use_swizzle(max(panel, 1), enable=panel > 0)
            A_shared = T.alloc_shared((bm, bk), dtype)
            B_shared = T.alloc_shared((bk, bn), dtype)
            acc = T.alloc_fragment((bm, bn), "float32")
            T.clear(acc)
            for k in T.Pipelined(T.ceildiv(K, bk), num_stages=stages):
                T.copy(A[by * bm, k * bk], A_shared)
                T.copy(B[k * bk, bx * bn], B_shared)
                T.gemm(A_shared, B_shared, acc)
            if staged:
                C_shared = T.alloc_shared((bm, bn), dtype)
                T.copy(acc, C_shared)
                T.copy(C_shared, C[by * bm, bx * bn])
            else:
                T.copy(acc, C[by * bm, bx * bn])

    return main


def softmax(M, N, block):
    @T.prim_func
    def main(X: T.Tensor((M, N), "float32"), Y: T.Tensor((M, N), "float32")):
        with T.Kernel(T.ceildiv(M, block), threads=128) as bx:
            x = T.alloc_fragment((block, N), "float32")
            top = T.alloc_fragment((block,), "float32")
            total = T.alloc_fragment((block,), "float32")
            T.copy(X[bx * block, 0], x)
            T.reduce_max(x, top, dim=1)
            for i, j in T.Parallel(block, N):
                x[i, j] = T.exp(x[i, j] - top[i])
            T.reduce_sum(x, total, dim=1)
            for i, j in T.Parallel(block, N):
                x[i, j] = x[i, j] / total[i]
            T.copy(x, Y[bx * block, 0])

    return main


def add(count, block):
    @T.prim_func
    def main(X: T.Tensor((count,), "float32"), Y: T.Tensor((count,), "float32"), Z: T.Tensor((count,), "float32")):
        with T.Kernel(T.ceildiv(count, block), threads=128) as bx:
            for i in T.Parallel(block):
                Z[bx * block + i] = X[bx * block + i] + Y[bx * block + i]

    return main


def attention(batch, heads, length, dim, block_m, block_n, stages, threads, causal):
    scale = math.log2(math.e) / math.sqrt(dim)
    shape = (batch, heads, length, dim)

    @T.prim_func
    def main(
        Q: T.Tensor(shape, "float16"),
        K: T.Tensor(shape, "float16"),
        V: T.Tensor(shape, "float16"),
        O: T.Tensor(shape, "float16"),
    ):
        with T.Kernel(T.ceildiv(length, block_m), heads, batch, threads=threads) as (bx, by, bz):
            Q_shared = T.alloc_shared((block_m, dim), "float16")
            K_shared = T.alloc_shared((block_n, dim), "float16")
            V_shared = T.alloc_shared((block_n, dim), "float16")
            scores = T.alloc_fragment((block_m, block_n), "float32")
            weights = T.alloc_fragment((block_m, block_n), "float16")
            acc = T.alloc_fragment((block_m, dim), "float32")
            top = T.alloc_fragment((block_m,), "float32")
            before = T.alloc_fragment((block_m,), "float32")
            rescale = T.alloc_fragment((block_m,), "float32")
            part = T.alloc_fragment((block_m,), "float32")
            total = T.alloc_fragment((block_m,), "float32")
            T.copy(Q[bz, by, bx * block_m : (bx + 1) * block_m, :], Q_shared)
            T.clear(acc)
            T.clear(total)
            T.fill(top, -T.infinity("float32"))
            blocks = T.ceildiv(length, block_n)
            if causal:
                blocks = T.min(blocks, T.ceildiv((bx + 1) * block_m, block_n))
            for k in T.Pipelined(blocks, num_stages=stages):
                T.copy(K[bz, by, k * block_n : (k + 1) * block_n, :], K_shared)
                if causal:
                    for i, j in T.Parallel(block_m, block_n):
                        visible = bx * block_m + i >= k * block_n + j
                        scores[i, j] = T.if_then_else(visible, 0.0, -T.infinity("float32"))
                else:
                    T.clear(scores)
                T.gemm(Q_shared, K_shared, scores, transpose_B=True, policy=T.GemmWarpPolicy.FullRow)
                T.copy(top, before)
                T.reduce_max(scores, top, dim=1, clear=False)
                for i in T.Parallel(block_m):
                    rescale[i] = T.exp2(before[i] * scale - top[i] * scale)
                for i, j in T.Parallel(block_m, block_n):
                    scores[i, j] = T.exp2(scores[i, j] * scale - top[i] * scale)
                T.reduce_sum(scores, part, dim=1)
                for i in T.Parallel(block_m):
                    total[i] = total[i] * rescale[i] + part[i]
                T.copy(scores, weights)
                for i, j in T.Parallel(block_m, dim):
                    acc[i, j] = acc[i, j] * rescale[i]
                T.copy(V[bz, by, k * block_n : (k + 1) * block_n, :], V_shared)
                T.gemm(weights, V_shared, acc, policy=T.GemmWarpPolicy.FullRow)
            for i, j in T.Parallel(block_m, dim):
                acc[i, j] = acc[i, j] / total[i]
            T.copy(acc, O[bz, by, bx * block_m : (bx + 1) * block_m, :])

    return main


def samples(call: Callable[[], Any], count: int) -> float:
    """Milliseconds of one call, from events round `count` calls."""
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    for _ in range(count):
        call()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end) / count


def compare(label: str, build: Callable[[], Any], inputs: list[Any], out: Any, reference: Callable[..., Any]) -> dict:
    """One row: error beside torch, both medians, compile time; a failure is a row too."""
    try:
        begin = time.perf_counter()
        kernel = build()
        seconds = time.perf_counter() - begin
        out.fill_(float("nan"))
        kernel(*inputs, out)
        torch.cuda.synchronize()
        expected = reference(*inputs).float()
        error = ((out.float() - expected).norm() / expected.norm()).item()
        ours, theirs = [], []
        for _ in range(3):
            samples(lambda: kernel(*inputs, out), 3)
            samples(lambda: reference(*inputs), 3)
        for _ in range(20):
            ours.append(samples(lambda: kernel(*inputs, out), 5))
            theirs.append(samples(lambda: reference(*inputs), 5))
        mine, other = statistics.median(ours), statistics.median(theirs)
        return {
            "case": label,
            "error": error,
            "ms": mine,
            "torch_ms": other,
            "ratio": other / mine,
            "compile_s": seconds,
        }
    except Exception as error:
        return {"case": label, "failed": f"{type(error).__name__}: {error}"[:600]}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--target", default="cuda -arch=sm_80")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--sweep", nargs="+", choices=("gemm", "attention"), help="variants of these, and nothing else")
    given = parser.parse_args()
    torch.manual_seed(0)
    rows = []

    def compiled(function, **options):
        return lambda: tile.compile(function, target=given.target, pass_configs=options)

    if given.sweep:
        rows = sweep(given.sweep, compiled)
        return report(given, rows)

    for size in (1024, 4096, 8192):
        a, b = (torch.randn(size, size, device="cuda", dtype=torch.half) for _ in range(2))
        c = torch.empty_like(a)
        for bm, bn, bk, stages, threads in (
            (128, 128, 32, 3, 128),
            (128, 128, 32, 4, 256),
            (128, 256, 32, 3, 256),
            (128, 128, 64, 3, 256),
        ):
            label = f"gemm fp16 {size} tile {bm}x{bn}x{bk} stages {stages} threads {threads}"
            function = matmul(size, size, size, bm, bn, bk, stages, threads)
            rows.append(compare(label, compiled(function), [a, b], c, torch.matmul))
            print(rows[-1], flush=True)
    x, y = (torch.randn(1 << 26, device="cuda") for _ in range(2))
    rows.append(compare("add fp32 2^26", compiled(add(1 << 26, 1024)), [x, y], torch.empty_like(x), torch.add))
    print(rows[-1], flush=True)
    s = torch.randn(16384, 4096, device="cuda")
    rows.append(
        compare(
            "softmax 16384x4096", compiled(softmax(16384, 4096, 1)), [s], torch.empty_like(s), lambda v: v.softmax(-1)
        )
    )
    print(rows[-1], flush=True)
    for causal in (False, True):
        q, k, v = (torch.randn(4, 32, 4096, 128, device="cuda", dtype=torch.half) for _ in range(3))

        def reference(q, k, v, causal=causal):
            return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)

        function = attention(4, 32, 4096, 128, 128, 64, 2, 128, causal)
        label = f"attention fp16 B4 H32 S4096 D128{' causal' if causal else ''}"
        rows.append(compare(label, compiled(function), [q, k, v], torch.empty_like(q), reference))
        print(rows[-1], flush=True)
    return report(given, rows)


GEMMS = (  # rows, columns, depth of the tile, stages, threads
    (128, 128, 32, 3, 128),
    (128, 128, 32, 4, 128),
    (128, 128, 32, 5, 128),
    (128, 128, 64, 2, 128),
    (128, 128, 64, 3, 128),
    (128, 128, 32, 4, 256),
    (128, 128, 64, 3, 256),
    (128, 256, 32, 3, 256),
    (128, 256, 32, 4, 256),
    (128, 256, 64, 3, 256),
    (256, 128, 32, 3, 256),
    (256, 128, 64, 3, 256),
)
ATTENTIONS = (  # rows of Q, of K, stages, threads
    (128, 64, 2, 128),
    (128, 64, 1, 128),
    (128, 32, 2, 128),
    (64, 64, 2, 128),
    (64, 128, 1, 128),
    (128, 64, 2, 256),
    (128, 128, 1, 256),
    (128, 128, 2, 256),
    (128, 64, 3, 256),
)


def sweep(what: list[str], compiled: Callable[..., Any]) -> list[dict]:
    """Each knob of the kernels by itself and the best of them together; the fastest come last."""
    rows = []
    size = 4096
    if "gemm" in what:
        a, b = (torch.randn(size, size, device="cuda", dtype=torch.half) for _ in range(2))
        c = torch.empty_like(a)

        def try_gemm(config, **how):
            label = "gemm {} tile {}x{}x{} stages {} threads {}".format(size, *config)
            label += "".join(f" {key} {value}" for key, value in how.items())
            function = matmul(size, size, size, *config, **how)
            rows.append(compare(label, compiled(function), [a, b], c, torch.matmul))
            if "ms" in rows[-1]:
                rows[-1]["tflops"] = 2e-9 * size**3 / rows[-1]["ms"]
            rows[-1].update(config=config, how=how)
            print(rows[-1], flush=True)

        for config in GEMMS:
            try_gemm(config)
        best = [r["config"] for r in sorted((r for r in rows if "ms" in r), key=lambda r: r["ms"])[:3]]
        for config in best:
            for how in ({"panel": 4}, {"panel": 8}, {"panel": 16}, {"staged": True}, {"staged": True, "panel": 8}):
                try_gemm(config, **how)
        size = 8192
        a, b = (torch.randn(size, size, device="cuda", dtype=torch.half) for _ in range(2))
        c = torch.empty_like(a)
        for config in best:
            for panel in (0, 8, 16):
                try_gemm(config, panel=panel)
    if "attention" in what:
        q, k, v = (torch.randn(4, 32, 4096, 128, device="cuda", dtype=torch.half) for _ in range(3))
        reference = torch.nn.functional.scaled_dot_product_attention
        for config in ATTENTIONS:
            for fast in (False, True):
                label = "attention rows {} columns {} stages {} threads {}".format(*config)
                label += " fast_math" if fast else ""
                function = attention(4, 32, 4096, 128, *config, False)
                options = {"tl.enable_fast_math": True} if fast else {}
                rows.append(compare(label, compiled(function, **options), [q, k, v], torch.empty_like(q), reference))
                if "ms" in rows[-1]:
                    rows[-1]["tflops"] = 4e-9 * 4 * 32 * 4096 * 4096 * 128 / rows[-1]["ms"]
                print(rows[-1], flush=True)
    print("fastest:")
    for row in sorted((r for r in rows if "ms" in r), key=lambda r: r["ratio"])[-12:]:
        print(f"  {row['ratio']:.2f} of torch, {row['tflops']:.0f} TFLOP/s: {row['case']}")
    return rows


def report(given: argparse.Namespace, rows: list[dict]) -> int:
    """Writes the rows where they are asked for."""
    if given.json:
        found = {
            "device": torch.cuda.get_device_name(),
            "torch": torch.__version__,
            "target": given.target,
            "rows": rows,
        }
        given.json.write_text(json.dumps(found, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
