"""Kernels of the language, compiled for CUDA and run in the emulator: the whole way, and ``tile check`` over a file."""

from __future__ import annotations

import textwrap

import pytest
import torch

import tile_core as tile
import tile_core.language as T
from tile_core.cli.main import main
from tile_emulator import EmulationError, emulation
from tile_emulator.mutation import classify_synchronisations

TARGET = "cuda -arch=sm_80"
STAGES = 3
SCHEDULES = [("in_order", 0), ("latest", 0), ("random", 1)]


def gemm(stages=STAGES):
    K = T.dynamic("k")

    @T.prim_func
    def gemm(A: T.Tensor((64, K), "float16"), B: T.Tensor((K, 64), "float16"), C: T.Tensor((64, 64), "float32")):
        with T.Kernel(1, 1, threads=128) as (bx, by):
            A_shared = T.alloc_shared((64, 32), "float16")
            B_shared = T.alloc_shared((32, 64), "float16")
            acc = T.alloc_fragment((64, 64), "float32")
            T.clear(acc)
            for k in T.Pipelined(T.ceildiv(K, 32), num_stages=stages):
                T.copy(A[by * 64, k * 32], A_shared)
                T.copy(B[k * 32, bx * 64], B_shared)
                T.gemm(A_shared, B_shared, acc)
            T.copy(acc, C[by * 64, bx * 64])

    return gemm


@pytest.fixture(scope="module")
def compiled(tmp_path_factory):
    from tile_core.settings import settings

    with settings.scope(cache_dir=tmp_path_factory.mktemp("cache")):
        yield tile.compile(gemm(), target=TARGET, execution_backend="emulate")


def inputs(depth: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(depth)
    a = torch.randn(64, depth, generator=generator).half()
    return a, torch.randn(depth, 64, generator=generator).half(), torch.full((64, 64), float("nan"))


@pytest.mark.parametrize("schedule, seed", SCHEDULES)
@pytest.mark.parametrize("trips", [0, 1, 2, STAGES - 1, STAGES, STAGES + 1])
def test_a_pipelined_gemm_is_clean_and_right_at_all_trip_counts(compiled, schedule, seed, trips):
    a, b, c = inputs(32 * trips)
    with emulation(schedule, seed):
        compiled(a, b, c)
    torch.testing.assert_close(c, a.float() @ b.float(), rtol=1e-3, atol=1e-3)


def test_without_a_needed_synchronisation_the_lines_of_copy_and_gemm_are_named(compiled):
    a, b, c = inputs(32 * (STAGES + 1))
    first = gemm.__code__.co_firstlineno
    for site in classify_synchronisations(compiled.entry, [lambda: (a, b, c.clone())]):
        if not site.needed:
            continue
        assert site.witness
        with pytest.raises(EmulationError) as caught, emulation(switched_off=[site.ordinal]):
            compiled(a, b, c)
        for finding in caught.value.report.findings:
            assert finding.buffer in ("A_shared", "B_shared")
            assert {access.line - first for access in finding.accesses} <= {11, 12, 13}
            assert all(access.file == __file__ for access in finding.accesses)


def test_over_all_trip_counts_each_synchronisation_is_needed(compiled):
    def case(trips):
        return lambda: inputs(32 * trips)

    sites = classify_synchronisations(compiled.entry, [case(trips) for trips in range(STAGES + 2)], seeds=3)
    assert [site.ordinal for site in sites if not site.needed] == []
    assert [site.ordinal for site in sites if not site.witness] == []


FILE = """
import tile_core.language as T

@T.prim_func
def shift(A: T.Tensor((256,), "float32"), B: T.Tensor((256,), "float32")):
    with T.Kernel(2, threads=128) as bx:
        held = T.alloc_shared((128,), "float32")
        for i in T.Parallel(128):
            held[i] = A[bx * 128 + i]
        for i in T.Parallel(128):
            B[bx * 128 + i] = held[127 - i]
"""


def test_tile_check_runs_a_file(tmp_path, capsys):
    path = tmp_path / "shift.py"
    path.write_text(textwrap.dedent(FILE))
    assert main(["check", str(path), "--target", TARGET, "--seeds", "2", "--redundant"]) == 0
    text = capsys.readouterr().out
    assert text.startswith("shift: clean in 4 runs\n")
    line = FILE.splitlines().index("            B[bx * 128 + i] = held[127 - i]") + 1
    assert f"(sync_threads at {path}:{line}) is needed" in text


@pytest.mark.slow
def test_a_kernel_from_the_disk_cache_runs_the_same(tmp_path):
    from tile_core.settings import settings
    from tile_runtime.compiler import clear_memory

    with settings.scope(cache_dir=tmp_path):
        for origin in ("compiled", "disk"):
            clear_memory()
            kernel = tile.compile(gemm(stages=2), target=TARGET, execution_backend="emulate")
            assert kernel.origin == origin
            a, b, c = inputs(96)
            kernel(a, b, c)
            torch.testing.assert_close(c, a.float() @ b.float(), rtol=1e-3, atol=1e-3)


def test_what_one_launch_wrote_into_a_new_result_the_next_one_reads():
    @tile.jit(out_idx=[-1], target="cuda -arch=sm_80", execution_backend="emulate")
    def twice(count):
        @T.prim_func
        def main(A: T.Tensor((count,), "float32"), C: T.Tensor((count,), "float32")):
            with T.Kernel(1, threads=32):
                for i in T.Parallel(count):
                    C[i] = 1.0
            with T.Kernel(1, threads=32):
                for i in T.Parallel(count):
                    T.atomic_add(C[i], A[i])

        return main

    a = torch.randn(50)
    assert torch.equal(twice(50)(a), a + 1.0)
