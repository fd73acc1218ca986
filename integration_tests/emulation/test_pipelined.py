"""Pipelined kernels as generated CUDA: right and without a finding at the six trip counts in the three kinds of
schedule; and each of their synchronisations is there for a reason."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from tile_emulator import SCHEDULES, emulation
from tile_emulator.mutation import classify_synchronisations

SYNCHRONISATION = Path(__file__).parents[2] / "docs" / "synchronisation.md"

pytestmark = [pytest.mark.layer("emulation"), pytest.mark.slow]

# ldmatrix waits for the whole warp, so no schedule of one warp shows a barrier of its missing; what one lane copied is
# still not promised to another without it (PTX ISA, memory consistency: ldmatrix orders nothing).
NO_WITNESS = {"gemm_f16_one_warp": {"sync_threads"}}


def trip_counts(stages: int) -> list[int]:
    return sorted({0, 1, 2, stages - 1, stages, stages + 1})


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_every_trip_count_is_clean_and_right(pipelined, schedule):
    name, kernel, compiled = pipelined
    for trips in trip_counts(kernel.stages):
        given = kernel.case(trips)
        with emulation(schedule, seed=trips):
            compiled(*given)
        *inputs, output = given
        message = f"{name}, {trips} trips"
        wanted = kernel.meaning(*inputs)
        torch.testing.assert_close(output, wanted, rtol=1e-2, atol=2e-2, msg=lambda text, m=message: f"{m}: {text}")


def test_every_synchronisation_is_needed_and_its_absence_shows(pipelined):
    name, kernel, compiled = pipelined
    trips = sorted({*trip_counts(kernel.stages), kernel.stages + 2} - {0})
    sites = classify_synchronisations(compiled.entry, [lambda n=n: kernel.case(n) for n in trips], seeds=4)
    assert sites, "a pipeline without any synchronisation"
    assert [(s.ordinal, s.name) for s in sites if not s.needed] == []
    silent = [s for s in sites if not s.witness]
    assert {s.name for s in silent} <= NO_WITNESS.get(name, set())
    row = f"| {name} | {len(sites)} / {len(sites)} | {len(sites) - len(silent)} |"
    assert row in SYNCHRONISATION.read_text(encoding="utf-8"), "run python -m tools.make_pipelining --sync"


def test_explain_names_the_lines_that_cause_versions(pipelined):
    name, kernel, compiled = pipelined
    text = compiled.explain()
    assert "pipeline over k" in text, name
    assert f"{kernel.stages} versions" in text and "filled by T.copy" in text and "pipelined.py:" in text
