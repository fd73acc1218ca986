"""Needed synchronisation is told from redundant one, and the needed gets a witness."""

from __future__ import annotations

import ctypes
import importlib.util
from pathlib import Path

import numpy as np
import pytest
import torch

from tile_core.errors import OptionError
from tile_emulator.mutation import classify_synchronisations
from tile_emulator.session import current_session

_spec = importlib.util.spec_from_file_location("gemm_source", Path(__file__).parent / "gemm_source.py")
_gemm = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_gemm)


class Called:
    """A hand-written kernel with the face of an emulated one."""

    def __init__(self, kernel, names, grid, block, shared, **scalars):
        self.name, self.library = kernel.kernel, kernel.library
        self.names, self.shape, self.scalars = names, (grid, block, shared), scalars

    def __call__(self, *tensors):
        arguments = {name: tensor.numpy() for name, tensor in zip(self.names, tensors)} | self.scalars
        session = current_session()
        grid, block, shared = self.shape
        session.reports.append(self.library.launch(self.name, grid, (block,), shared, arguments, session))


def gemm_arguments():
    generator = torch.Generator().manual_seed(7)
    halves = [torch.randn(64, 128, generator=generator).half() for _ in range(2)]
    return [*halves, torch.zeros(64, 64)]


def test_each_synchronisation_of_a_pipelined_gemm_is_needed_and_has_a_witness(hand_written):
    kernel = hand_written(_gemm.gemm_source(), **_gemm.VIEWS)
    sizes = {"N": ctypes.c_int(64), "K": ctypes.c_int(128)}
    called = Called(kernel, "ABC", (1, 1), 128, _gemm.ARENA, **sizes)
    sites = classify_synchronisations(called, [gemm_arguments])
    assert [site.ordinal for site in sites] == [0, 1, 2]
    # With three stages the barrier behind the use is one too many: the next wait's barrier lies between.
    assert [site.needed for site in sites] == [True, True, False]
    assert all(site.witness for site in sites if site.needed)


def test_synchronisations_that_cover_for_one_another_are_each_redundant(hand_written):
    kernel = hand_written(
        """
extern "C" __global__ void __launch_bounds__(64) late(const float* A, float* B) {
    TILE_SHARED(arena, 512);
    float* S = (float*)(arena + 0);
    int t = threadIdx.x;
    S[t] = 0;
    tile::sync_threads(TILE_SYNC(0));
    if (t == 31) S[64] = A[0];
    if (t == 32) S[65] = A[1];
    tile::sync_threads(TILE_SYNC(1));
    tile::sync_threads(TILE_SYNC(2));
    B[t] = S[64 + (t >= 32)] + S[63 - t];
}
""",
        S=(0, 512),
    )
    called = Called(kernel, "AB", (1,), 64, 512)
    sites = classify_synchronisations(called, [lambda: [torch.tensor([3.0, 4.0]), torch.zeros(64)]])
    needed = {site.ordinal: site.needed for site in sites}
    # 0 is covered by 1, and of 1 and 2 each by the other
    assert needed == {0: False, 1: False, 2: False}
    assert {site.confirmed for site in sites} == {200}


def test_a_kernel_that_is_racy_as_it_is_cannot_be_mutated(hand_written):
    kernel = hand_written(_gemm.gemm_source(pending=2), **_gemm.VIEWS)
    called = Called(kernel, "ABC", (1, 1), 128, _gemm.ARENA, N=ctypes.c_int(64), K=ctypes.c_int(128))
    with pytest.raises(OptionError, match="has findings with all its synchronisation"):
        classify_synchronisations(called, [gemm_arguments])


def test_an_access_that_is_held_back_comes_last(hand_written):
    kernel = hand_written(
        """
extern "C" __global__ void __launch_bounds__(64) order(float* B) {
    if (threadIdx.x == 0) {
        B[0] = 1;  // @first
    }
    if (threadIdx.x == 40) {
        B[0] = 2;  // @second
    }
}
"""
    )
    b = np.zeros(1, "f4")
    report = kernel.run(1, 64, 0, "in_order", B=b)
    assert b[0] == 2
    (finding,) = report.findings
    assert finding.lines == kernel.lines("first", "second")
    again = kernel.run(1, 64, 0, "in_order", B=b, delay=finding.accesses[0].code)
    assert b[0] == 1
    assert again.findings[0].lines == kernel.lines("second", "first")
