"""Random pipelined loops as generated CUDA: right and without a finding."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import tile_core as tile
from tile_core.interpreter import interpret
from tile_core.testing.pipelines import random_pipeline
from tile_emulator import SCHEDULES, emulation


def check(seed: int) -> None:
    function = random_pipeline(seed, width=64, threads=64)
    compiled = tile.compile(function, target="cuda -arch=sm_80", execution_backend="emulate")
    for trips in (0, 1, 2, 3, 5):
        values = np.random.default_rng(trips)
        wanted = [values.random((16, 64), "f4"), values.random((16, 64), "f4"), np.zeros(64, "f4")]
        given = [array.copy() for array in wanted]
        interpret(function, *wanted, trips)
        for schedule in SCHEDULES:
            found = [torch.from_numpy(array.copy()) for array in given]
            with emulation(schedule, seed=trips):
                compiled(*found, trips)
            for name, a, b in zip("GHR", wanted, found):
                np.testing.assert_allclose(a, b.numpy(), rtol=1e-5, err_msg=f"{name}, {trips} trips, seed {seed}")


@pytest.mark.layer("fuzz")
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_random_pipelines(seed: int) -> None:
    check(seed)


@pytest.mark.slow
@pytest.mark.layer("fuzz")
@pytest.mark.parametrize("seed", range(10, 40))
def test_more_random_pipelines(seed: int) -> None:
    check(seed)
