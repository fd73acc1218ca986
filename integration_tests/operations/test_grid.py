"""`sync_grid`: all blocks meet, in the emulator and in a cooperative launch; elsewhere an error says what to do."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import tile_core as tile
import tile_core.language as T
from integration_tests.operations.harness import CUDA, machine_code
from tile_core.errors import CompileError
from tile_emulator import EmulationError, emulation

pytestmark = pytest.mark.layer("emulation")


@T.prim_func
def turned(A: T.Tensor((4, 64), "float32"), B: T.Tensor((4, 64), "float32"), C: T.Tensor((4, 64), "float32")):
    with T.Kernel(4, threads=64) as bx:
        for i in T.Parallel(64):
            B[bx, i] = A[bx, i] * 2
        T.sync_grid()
        for i in T.Parallel(64):
            C[bx, i] = B[3 - bx, i] + 1
        T.sync_grid()
        for i in T.Parallel(64):
            B[bx, i] = C[(bx + 1) % 4, i]


def test_blocks_see_what_others_wrote():
    a = torch.arange(256, dtype=torch.float32).reshape(4, 64)
    kernel = tile.compile(turned, target=CUDA, execution_backend="emulate")
    for schedule, seed in (("in_order", 0), ("latest", 0), ("random", 1)):
        b, c = torch.zeros(4, 64), torch.zeros(4, 64)
        with emulation(schedule, seed):
            kernel(a, b, c)
        assert torch.equal(c, a.flip(0) * 2 + 1) and torch.equal(b, c.roll(-1, 0))
    with emulation(switched_off=[0]), pytest.raises(EmulationError, match="race"):
        kernel(a, torch.zeros(4, 64), torch.zeros(4, 64))


def test_the_launch_is_cooperative():
    sources = tile.lower(turned, target=CUDA).sources
    assert '"turned_kernel", 0, 1}' in sources["host.c"] and '"cooperative": true' in sources["lines.json"]
    assert "tile::sync_grid(TILE_SYNC(0))" in machine_code(turned)


def test_a_cpu_says_to_split_the_kernel():
    with pytest.raises(CompileError, match="E-THREAD-PARTIAL") as caught:
        tile.compile(turned, target="cpu")
    assert "several `with T.Kernel`" in str(caught.value)


@pytest.mark.gpu
def test_on_a_device():
    a = torch.arange(256, dtype=torch.float32, device="cuda").reshape(4, 64)
    b, c = torch.zeros_like(a), torch.zeros_like(a)
    kernel = tile.compile(turned, target="cuda")
    for _ in range(3):
        kernel(a, b, c)
    assert np.array_equal(c.cpu().numpy(), (a.flip(0) * 2 + 1).cpu().numpy())
