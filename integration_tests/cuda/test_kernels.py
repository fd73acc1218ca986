"""Kernels of all kinds as generated CUDA, for sm_80 (fp8 for sm_89): in the emulator at the trip counts where pipelines
go wrong, in three kinds of schedule, without a report and with the right numbers; and through the device compiler."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import tile_core as tile
from integration_tests.cuda import attentions, gemms, moves, rows, sparse_gemms
from integration_tests.cuda.case import Case
from tile_core.settings import settings
from tile_core.testing.compare import assert_close
from tile_cuda.toolchain.nvrtc import compile_device
from tile_emulator import emulation

SCHEDULES = [("in_order", 0), ("latest", 0), ("random", 1), ("random", 2)]
KERNELS: dict[str, Case] = {
    **gemms.KERNELS,
    **sparse_gemms.KERNELS,
    **attentions.KERNELS,
    **rows.KERNELS,
    **moves.KERNELS,
}


def target(case: Case) -> str:
    return f"cuda -arch={case.arch}"


@pytest.fixture(scope="session")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Any]:
    """Name → the kernel for the emulator, compiled once."""
    kernels: dict[str, Any] = {}
    folder = tmp_path_factory.mktemp("cuda-kernels")

    def get(name: str) -> Any:
        if name not in kernels:
            with settings.scope(cache_dir=folder):
                kernels[name] = tile.compile(
                    KERNELS[name].make(), target=target(KERNELS[name]), execution_backend="emulate"
                )
        return kernels[name]

    return get


def names() -> list[Any]:
    return [pytest.param(n, marks=() if case.quick else pytest.mark.slow, id=n) for n, case in KERNELS.items()]


@pytest.mark.layer("emulation")
@pytest.mark.parametrize("name", names())
def test_right_and_without_a_report(compiled: Callable[[str], Any], name: str) -> None:
    case, kernel = KERNELS[name], compiled(name)
    for trips in case.trips:
        inputs, expected = case.arguments(trips)
        for schedule, seed in SCHEDULES:
            outputs = [torch.full_like(x, case.start) for x in expected]
            with emulation(schedule, seed):
                kernel(*inputs, *outputs)
            for found, right in zip(outputs, expected):
                label = f"{name}, {trips} trips, {schedule} {seed}"
                assert_close(found, right, case.dtype, reduction=case.terms(trips), label=label)


@pytest.mark.layer("nvrtc")
@pytest.mark.parametrize("name", names())
def test_machine_code(name: str) -> None:
    case = KERNELS[name]
    source = tile.lower(case.make(), target=target(case)).sources["kernel.cu"]
    if name.startswith(("gemm", "attention")):
        # No matrix instruction keeps the bits of fp32.
        assert ("tile::mma" in source) == (name != "gemm_fp32")
    assert compile_device(source, case.arch).cubin[:4] == b"\x7fELF"


@pytest.mark.layer("nvrtc")
@pytest.mark.parametrize("name", ["gemm_sparse_fp16", "gemm_sparse_int8", "gemm_sparse_tf32", "gemm_sparse_fp8"])
def test_sparse_machine_code_for_a_later_architecture(name: str) -> None:
    source = tile.lower(KERNELS[name].make(), target="cuda -arch=sm_90a").sources["kernel.cu"]
    assert "tile::mma_sp" in source
    assert compile_device(source, "sm_90a").cubin[:4] == b"\x7fELF"


def test_the_matrix_is_wide_enough() -> None:
    assert sum(case.arch == "sm_80" for case in KERNELS.values()) >= 25
