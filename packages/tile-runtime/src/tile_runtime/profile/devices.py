"""What devices can do at most: bytes a second, and operations a second by element type.

GPUs are data, from their makers' data sheets: dense matrix rates (no structured sparsity), at the boost clock of the
board named. A CPU is measured when it is first asked for: a copy larger than its caches and torch's matrix product, so
that 100 % there means as fast as torch's own library.
"""

from __future__ import annotations

import functools
import os
import platform
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

__all__ = ["DEVICES", "Peaks", "cpu_peaks", "get_num_sms", "gpu_peaks", "peaks_of"]


@dataclass(frozen=True)
class Peaks:
    """A device's limits.

    Args:
        name: what the driver calls it, or a part of that.
        bandwidth: bytes of memory a second.
        matrix: operations a second in gemms, by operand type.
        vector: operations a second outside.
        measured: whether measured here, not taken from a data sheet.
    """

    name: str
    bandwidth: float
    matrix: Mapping[str, float] = field(default_factory=dict)
    vector: Mapping[str, float] = field(default_factory=dict)
    measured: bool = False

    def matrix_peak(self, dtype: str) -> float | None:
        """For gemms of that operand type; a type without matrix units runs on the others."""
        return self.matrix.get(_FAMILY.get(dtype, dtype)) or self.vector_peak(dtype)

    def vector_peak(self, dtype: str) -> float | None:
        """For element-wise work; types without a rate of their own are computed as float32."""
        return self.vector.get(_FAMILY.get(dtype, dtype)) or self.vector.get("float32")


_FAMILY = {
    "bfloat16": "float16",
    "float8_e4m3fn": "float8",
    "float8_e4m3": "float8",
    "float8_e5m2": "float8",
    "uint8": "int8",
}
_T = 1e12


def _gpu(name: str, bandwidth: float, matrix: Mapping[str, float], vector: Mapping[str, float]) -> Peaks:
    return Peaks(name, bandwidth * _T, {k: v * _T for k, v in matrix.items()}, {k: v * _T for k, v in vector.items()})


_HOPPER_SXM = {"float16": 989.4, "tfloat32": 494.7, "float8": 1978.9, "int8": 1978.9, "float64": 66.9}
_AMPERE = {"float16": 312.0, "tfloat32": 156.0, "int8": 624.0, "float64": 19.5}

DEVICES = (
    # bandwidth in TB/s, rates in 10¹² operations a second; the first name that is part of the device's counts
    _gpu("H200", 4.8, _HOPPER_SXM, {"float32": 66.9, "float16": 133.8, "float64": 33.5}),
    _gpu("H100 PCIe", 2.0, {"float16": 756.0, "tfloat32": 378.0, "float8": 1513.0, "int8": 1513.0, "float64": 51.0},
         {"float32": 51.0, "float64": 26.0}),
    _gpu("H100", 3.35, _HOPPER_SXM, {"float32": 66.9, "float16": 133.8, "float64": 33.5}),
    _gpu("A100-SXM4-80GB", 2.039, _AMPERE, {"float32": 19.5, "float16": 78.0, "float64": 9.7}),
    _gpu("A100 80GB PCIe", 1.935, _AMPERE, {"float32": 19.5, "float16": 78.0, "float64": 9.7}),
    _gpu("A100", 1.555, _AMPERE, {"float32": 19.5, "float16": 78.0, "float64": 9.7}),
    _gpu("L40S", 0.864, {"float16": 362.1, "tfloat32": 183.2, "float8": 733.0, "int8": 733.0}, {"float32": 91.6}),
    _gpu("L4", 0.3, {"float16": 121.0, "tfloat32": 60.0, "float8": 242.0, "int8": 242.0}, {"float32": 30.3}),
    _gpu("A10", 0.6, {"float16": 125.0, "tfloat32": 62.5, "int8": 250.0}, {"float32": 31.2}),
    _gpu("RTX 4090", 1.008, {"float16": 165.2, "tfloat32": 82.6, "float8": 330.3, "int8": 660.6}, {"float32": 82.6}),
    _gpu("RTX 3090", 0.936, {"float16": 71.0, "tfloat32": 35.6, "int8": 284.0}, {"float32": 35.6}),
    _gpu("T4", 0.32, {"float16": 65.0, "int8": 130.0}, {"float32": 8.1, "float16": 16.2}),
)  # fmt: skip


def peaks_of(target_kind: str, dtypes: tuple[str, ...] = ()) -> Peaks | None:
    """The limits of the device that kernels of a target run on here; None where the device is not in the table."""
    if target_kind == "cpu":
        return cpu_peaks(tuple(sorted(set(dtypes) & {"float32", "float64", "bfloat16", "float16"})) or ("float32",))
    import torch

    return gpu_peaks(torch.cuda.get_device_name()) if target_kind == "cuda" and torch.cuda.is_available() else None


def get_num_sms(device_id: int = 0) -> int:
    """How many blocks a persistent kernel is made for: the multiprocessors of a CUDA device, the processors of a
    machine without one."""
    import torch

    if torch.cuda.is_available():
        return torch.cuda.get_device_properties(device_id).multi_processor_count
    return os.cpu_count() or 1


def gpu_peaks(name: str) -> Peaks | None:
    """The row of `DEVICES` for what a driver calls its device."""
    return next((row for row in DEVICES if row.name in name), None)


@functools.cache
def cpu_peaks(dtypes: tuple[str, ...] = ("float32",)) -> Peaks:
    """This machine's, measured (about 0.3 s)."""
    import torch

    source = torch.ones(1 << 24)  # 64 MB, beyond the caches
    target = torch.empty_like(source)
    copy = _best(lambda: target.copy_(source))
    rates: dict[str, float] = {}
    for dtype in dict.fromkeys(("float32", *dtypes)):
        a = torch.ones(768, 768, dtype=getattr(torch, dtype))
        rates[dtype] = 2 * 768**3 / _best(lambda a=a: a @ a)
    family = {_FAMILY.get(dtype, dtype): rate for dtype, rate in rates.items()}
    return Peaks(_cpu_name(), 2 * source.nbytes / copy, family, {"float32": family["float32"], **family}, True)


def _best(call: Callable[[], Any]) -> float:
    """Seconds of the fastest of some calls, at least five: the first one also pays for fresh memory."""
    times: list[float] = []
    start = time.perf_counter()
    while len(times) < 5 or time.perf_counter() - start < 0.1:
        began = time.perf_counter()
        call()
        times.append(time.perf_counter() - began)
    return min(times)


def _cpu_name() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            for line in file:
                if line.startswith("model name"):
                    return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()
