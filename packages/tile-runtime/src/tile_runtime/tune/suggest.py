"""Configurations worth trying, for kernels of the usual shapes: lists for `autotune(configs=…)`.

They are made from the target: tiles that its matrix instructions divide, that fit its shared memory with their stages,
and that leave no more than a quarter of the device idle where there are tiles small enough.
"""

from __future__ import annotations

from itertools import product
from math import ceil
from typing import Any

from tile_core.dtypes import as_dtype
from tile_core.plugin import registry
from tile_core.target import Target

from .prune import limits_for

__all__ = ["attention_configs", "elementwise_configs", "matmul_configs"]


def matmul_configs(
    M: int, N: int, K: int, dtype: str = "float16", target: Any = "auto", topk: int = 10
) -> list[dict[str, Any]]:
    """``block_M``, ``block_N``, ``block_K``, ``num_stages`` and ``threads`` for C[M, N] = A[M, K] · B[K, N], most
    promising first; at most `topk`."""
    found = []
    limits = limits_for(_resolved(target))
    size = as_dtype(dtype).bits / 8
    if limits is None:
        shapes = product((32, 64, 128), (64, 128, 256), (32, 64, 128))
        rows = [(m, n, k, 0, 128) for m, n, k in shapes if (m * k + k * n) * size <= 512 << 10]
        processors, shared = 1, 0
    else:
        processors, shared = limits.processors, limits.block_shared
        rows = [
            (m, n, k, stages, 128 if m * n <= 64 * 128 else 256)
            for m, n, k, stages in product((64, 128, 256), (64, 128, 256), (32, 64), (2, 3, 4))
            if stages * (m * k + k * n) * size <= shared and m * n <= 128 * 256
        ]
    for m, n, k, stages, threads in rows:
        if m > _up(M) or n > _up(N) or k > _up(K):
            continue
        blocks = ceil(M / m) * ceil(N / n)
        waves = blocks / processors
        useful = M * N / (ceil(M / m) * m * ceil(N / n) * n) * waves / ceil(waves)
        reuse = m * n / (m + n)  # operations for each element that a block asks for
        found.append((useful * reuse * min(1.0, k / 64 + 0.5), (m, n, k, stages, threads)))
    found.sort(key=lambda row: (-row[0], row[1]))
    names = ("block_M", "block_N", "block_K", "num_stages", "threads")
    return [dict(zip(names, values)) for _, values in found[:topk]]


def attention_configs(
    rows: int, keys: int, dim: int, dtype: str = "float16", target: Any = "auto", topk: int = 10
) -> list[dict[str, Any]]:
    """``block_M`` (queries), ``block_N`` (keys), ``num_stages`` and ``threads`` for a forward attention kernel."""
    limits = limits_for(_resolved(target))
    size = as_dtype(dtype).bits / 8
    found = []
    for m, n, stages in product((64, 128, 192), (32, 64, 128, 192), (1, 2, 3) if limits is not None else (0,)):
        if m > _up(rows) or n > _up(keys):
            continue
        if limits is not None and (m * dim + 2 * max(1, stages) * n * dim) * size > limits.block_shared:
            continue
        threads = 128 if m <= 64 else 256 if m <= 128 else 384
        useful = rows * keys / (ceil(rows / m) * m * ceil(keys / n) * n)
        found.append((useful * m * n / (m + n) * (1 + 0.1 * stages), (m, n, stages, threads)))
    found.sort(key=lambda row: (-row[0], row[1]))
    names = ("block_M", "block_N", "num_stages", "threads")
    return [dict(zip(names, values)) for _, values in found[:topk]]


def elementwise_configs(
    elements: int, dtype: str = "float32", target: Any = "auto", topk: int = 10
) -> list[dict[str, Any]]:
    """``block_N`` (elements of a block) and ``threads`` for a kernel that reads and writes each element once."""
    limits = limits_for(_resolved(target))
    vector = 16 // max(1, as_dtype(dtype).bits // 8)  # elements of a 16-byte access
    found = []
    for threads, accesses in product((128, 256, 512) if limits is not None else (128,), (1, 2, 4, 8)):
        block = threads * vector * accesses * (1 if limits is not None else 8)
        if block > _up(elements):
            continue
        blocks = ceil(elements / block)
        waves = blocks / (limits.processors * (limits.processor_threads // threads)) if limits is not None else blocks
        found.append((waves / ceil(waves) * min(accesses, 4) ** 0.5, (block, threads)))
    found.sort(key=lambda row: (-row[0], row[1]))
    return [dict(zip(("block_N", "threads"), values)) for _, values in found[:topk]]


def _resolved(target: Any) -> Target:
    return registry.resolve_target(target)[1]


def _up(extent: int) -> int:
    """The smallest tile that covers an extent: a power of two, 64 or more."""
    return max(64, 1 << max(0, extent - 1).bit_length())
