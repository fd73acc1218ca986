"""Which configurations need not be compiled: what cannot run here, and what is sure to lose.

From the traced function alone: threads of a block, shared memory that must be there at once (tiles of a pipelined loop
have a copy for each stage), registers that the accumulators of a loop take, and a lower bound of the time from the
bytes that blocks ask for, the operations and how many blocks fit on the device at once. Every number is a lower bound:
what is left out could not have worked, or is predicted several times slower than the best of the list.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import ceil, prod
from typing import Any

from tile_core.analysis import accesses_of, root_buffer
from tile_core.analysis.work import Work, count_work
from tile_core.ir import Buffer, For, IntImm, KernelLaunch, PrimFunc, Stmt, TileOpStmt, walk
from tile_core.target import Target
from tile_core.tileop.gemm import MatrixProduct

__all__ = ["DeviceLimits", "Estimate", "estimate", "limits_for", "losers"]

LOSING = 4.0
"""A configuration whose lower bound is so many times that of the best of the list is left out."""


@dataclass(frozen=True)
class DeviceLimits:
    """What a block can have, and how many blocks a device holds.

    Args:
        block_shared: bytes of shared memory of a block.
        block_threads: threads of a block.
        thread_registers: 32-bit registers of a thread.
        processors: multiprocessors.
        processor_shared, processor_threads, processor_registers: of one of them.
        bandwidth: bytes a second that blocks get together, out of the last-level cache.
        rates: operations a second in gemms by operand type; others elsewhere.
    """

    block_shared: int
    block_threads: int = 1024
    thread_registers: int = 255
    processors: int = 1
    processor_shared: int = 0
    processor_threads: int = 2048
    processor_registers: int = 65536
    bandwidth: float = 5.5e12
    rates: dict[str, float] = field(default_factory=dict)


# by architecture: shared memory of a block and of a multiprocessor (KiB), resident threads, multiprocessors of the
# largest chip of that architecture (CUDA programming guide, table of technical specifications)
_CUDA = {
    "sm_75": (64, 64, 1024, 72),
    "sm_80": (163, 164, 2048, 108),
    "sm_86": (99, 100, 1536, 84),
    "sm_87": (163, 164, 1536, 16),
    "sm_89": (99, 100, 1536, 144),
    "sm_90": (227, 228, 2048, 132),
    "sm_90a": (227, 228, 2048, 132),
}


@dataclass
class Estimate:
    """What a traced function needs, as far as it shows.

    Args:
        refusal: why it cannot run; "" where it may.
        threads: of a block.
        shared: bytes that must be there at once.
        registers: 32-bit registers a thread that accumulators take.
        occupancy: blocks on a multiprocessor.
        waves: how often the device is filled.
        milliseconds: lower bound of a call; 0 where no device is known.
    """

    refusal: str = ""
    threads: int = 0
    shared: int = 0
    registers: int = 0
    occupancy: int = 0
    waves: float = 0.0
    milliseconds: float = 0.0
    work: Work = field(default_factory=Work)


def limits_for(target: Target) -> DeviceLimits | None:
    """The limits of a target; the device's own count of multiprocessors where there is one. None for no CUDA."""
    row = _CUDA.get(str(target.get("arch"))) if target.kind == "cuda" else None
    if row is None:
        return None
    import torch

    from ..profile.devices import gpu_peaks

    processors, name = row[3], ""
    if torch.cuda.is_available():
        properties = torch.cuda.get_device_properties()
        processors, name = properties.multi_processor_count, properties.name
    peaks = gpu_peaks(name) if name else None
    limits = {
        "block_shared": row[0] << 10,
        "processor_shared": row[1] << 10,
        "processor_threads": row[2],
        "processors": processors,
    }
    if peaks is None:
        return DeviceLimits(**limits)
    rates = {dtype: peaks.matrix_peak(dtype) or 0.0 for dtype in ("float16", "bfloat16", "float32", "int8", "float8")}
    return DeviceLimits(**limits, bandwidth=3 * peaks.bandwidth, rates={k: v for k, v in rates.items() if v})


def estimate(function: PrimFunc, limits: DeviceLimits) -> Estimate:
    """Needs of a traced function against the limits."""
    found = Estimate()
    launch = next((node for node in walk(function.body) if isinstance(node, KernelLaunch)), None)
    if launch is None or not all(isinstance(extent, IntImm) for extent in launch.threads):
        return found
    found.threads = prod(extent.value for extent in launch.threads)  # type: ignore[attr-defined]
    if found.threads > limits.block_threads:
        found.refusal = f"{found.threads} threads in a block; it can have {limits.block_threads}"
        return found
    for loop in walk(launch.body):
        if isinstance(loop, For):
            found.shared = max(found.shared, _staged_bytes(loop))
            found.registers = max(found.registers, ceil(_accumulator_bytes(loop) / 4 / max(1, found.threads)))
    if found.shared > limits.block_shared:
        found.refusal = (
            f"{found.shared / 1024:.1f} KiB of shared memory in a pipelined loop; a block can have "
            f"{limits.block_shared / 1024:.0f} KiB"
        )
        return found
    if found.registers > limits.thread_registers:
        found.refusal = (
            f"accumulators take {found.registers} registers of each thread; there are {limits.thread_registers}"
        )
        return found
    found.work = count_work(function)
    found.occupancy = _occupancy(found, limits)
    if not found.work.inexact and found.work.blocks:
        _predict(found, limits)
    return found


def losers(estimates: Sequence[Estimate | None]) -> dict[int, str]:
    """Positions of configurations that are sure to lose against another of the list, with the reason."""
    known = [one.milliseconds for one in estimates if one is not None and not one.refusal and one.milliseconds]
    if len(known) < 2:
        return {}
    best = min(known)
    return {
        place: (
            f"cannot be faster than {one.milliseconds:.3g} ms ({one.waves:.1f} waves of {one.occupancy} blocks a "
            f"multiprocessor, {one.work.asked / 1e6:.3g} MB asked for); another one's bound is {best:.3g} ms"
        )
        for place, one in enumerate(estimates)
        if one is not None and not one.refusal and one.milliseconds > LOSING * best
    }


def _predict(found: Estimate, limits: DeviceLimits) -> None:
    at_once = max(1, found.occupancy * limits.processors)
    found.waves = found.work.blocks / at_once
    # the last wave takes as long as a full one
    filled = found.waves / ceil(found.waves)
    seconds = found.work.asked / limits.bandwidth
    rates = [limits.rates.get(dtype) for dtype in found.work.gemm]
    if rates and all(rates):
        compute = sum(count / limits.rates[dtype] for dtype, count in found.work.gemm.items())
        seconds = max(seconds, compute / filled)
    found.milliseconds = seconds * 1e3


def _occupancy(found: Estimate, limits: DeviceLimits) -> int:
    fits = limits.processor_threads // max(1, found.threads)
    if found.shared and limits.processor_shared:
        fits = min(fits, limits.processor_shared // (found.shared + 1024))  # 1 KiB of each block is the system's
    if found.registers:
        fits = min(fits, limits.processor_registers // (found.registers * max(1, found.threads)))
    return max(1, fits)


def _staged_bytes(loop: For) -> int:
    """Bytes of the shared tiles that a pipelined loop fills by copies, each once for every stage."""
    stages = int(dict(loop.annotations).get("num_stages") or 0) if loop.kind == "pipelined" else 0
    if stages < 2:
        return 0
    filled: dict[int, Buffer] = {}
    for stmt in walk(loop.body):
        if isinstance(stmt, TileOpStmt) and type(stmt.op).name == "copy":
            target = root_buffer(stmt.op.dst.buffer)
            if target.scope.startswith("shared") and stmt.op.src.buffer.scope == "global":
                filled[id(target)] = target
    return stages * sum(map(_bytes, filled.values()))


def _accumulator_bytes(loop: For) -> int:
    """Bytes of the register tiles that gemms of a loop add to, from one iteration to the next."""
    tiles: dict[int, Buffer] = {}
    overwritten: set[int] = set()
    for stmt in walk(loop.body):
        if not isinstance(stmt, Stmt):
            continue
        if isinstance(stmt, TileOpStmt) and isinstance(stmt.op, MatrixProduct):
            tile = root_buffer(stmt.op.c.buffer)
            if tile.scope == "fragment" and not stmt.op.clear_accum:
                tiles[id(tile)] = tile
        else:
            overwritten |= {id(root_buffer(site.buffer)) for site in accesses_of(stmt) if site.kind == "write"}
    return sum(_bytes(tile) for key, tile in tiles.items() if key not in overwritten)


def _bytes(buffer: Buffer) -> int:
    extents: list[Any] = [extent.value if isinstance(extent, IntImm) else 0 for extent in buffer.shape]
    return prod(extents) * buffer.dtype.bits // 8
