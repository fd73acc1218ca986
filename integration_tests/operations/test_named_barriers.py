"""Named barriers: parts of a block's threads that wait for each other, everywhere."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import tile_core as tile
import tile_core.language as T
from integration_tests.operations.harness import everywhere, machine_code
from tile_core.errors import CompileError, ToolchainError
from tile_core.interpreter import interpret
from tile_core.interpreter.faults import ExecutionFault

pytestmark = [pytest.mark.layer("emulation"), pytest.mark.slow]


def ring(consumer_first: bool, steps: int):
    """One warp hands rows to the other through shared memory: barrier 1 says full, barrier 2 empty."""

    @T.prim_func
    def main(A: T.Tensor((2, steps, 32), "int32"), B: T.Tensor((2, steps, 32), "int32")):
        with T.Kernel(2, threads=64) as bx:
            row = T.alloc_shared((32,), "int32")
            tx = T.get_thread_binding()
            if tx < 32 if consumer_first else tx >= 32:
                T.named_barrier_arrive(2, 64)
                for k in T.serial(steps):
                    T.sync_threads(1, 64)
                    B[bx, k, tx % 32] = row[tx % 32] * 2
                    if k < steps - 1:
                        T.named_barrier_arrive(2, 64)
            else:
                for k in T.serial(steps):
                    T.sync_threads(2, 64)
                    row[tx % 32] = A[bx, k, tx % 32] + k
                    T.named_barrier_arrive(1, 64)

    return main


@pytest.mark.slow
@pytest.mark.parametrize("consumer_first", [True, False])
def test_a_ring_between_two_warps(consumer_first):
    a = np.random.default_rng(0).integers(0, 100, (2, 5, 32)).astype(np.int32)
    for way, (_, b) in everywhere(ring(consumer_first, 5), a, np.zeros_like(a)).items():
        assert np.array_equal(b, (a + np.arange(5)[:, None]) * 2), way
    assert "tile::bar_arrive" in machine_code(ring(consumer_first, 5))


@pytest.mark.slow
def test_three_parts_pass_a_value_on():
    @T.prim_func
    def main(A: T.Tensor((32,), "int32"), B: T.Tensor((32,), "int32")):
        with T.Kernel(1, threads=96):
            first = T.alloc_shared((32,), "int32")
            second = T.alloc_shared((32,), "int32")
            tx = T.get_thread_binding()
            if tx < 32:
                T.sync_threads(2, 64)
                B[tx] = second[tx] * 10
            else:
                if tx < 64:
                    T.sync_threads(1, 64)
                    second[tx - 32] = first[tx - 32] + 5
                    T.named_barrier_arrive(2, 64)
                else:
                    first[tx - 64] = A[tx - 64] * 2
                    T.named_barrier_arrive(1, 64)

    a = np.arange(32, dtype=np.int32)
    for way, (_, b) in everywhere(main, a, np.zeros_like(a)).items():
        assert np.array_equal(b, (a * 2 + 5) * 10), way


def test_a_barrier_to_which_too_few_come_ends_the_run():
    @T.prim_func
    def main(A: T.Tensor((64,), "int32")):
        with T.Kernel(1, threads=64):
            tx = T.get_thread_binding()
            if tx < 32:
                T.sync_threads(1, 64)
                A[tx] = 1
            else:
                A[tx] = 2

    with pytest.raises(ExecutionFault, match="others do not come") as fault:
        interpret(main, np.zeros(64, np.int32))
    assert "barrier 1: 32 threads have come" in str(fault.value)
    with pytest.raises(ToolchainError, match="E-LAUNCH") as failed:
        tile.compile(main, target="cpu")(torch.zeros(64, dtype=torch.int32))
    assert "named barrier" in str(failed.value)


def test_all_threads_at_a_barrier_for_some_is_refused():
    @T.prim_func
    def main(A: T.Tensor((64,), "int32")):
        with T.Kernel(1, threads=64):
            tx = T.get_thread_binding()
            A[tx] = 1
            T.sync_threads(1, 32)

    with pytest.raises(CompileError, match="E-THREAD-PARTIAL") as caught:
        tile.compile(main, target="cpu")
    assert "threads that reach it: 64" in str(caught.value)
