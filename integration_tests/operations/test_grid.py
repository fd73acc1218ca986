"""`sync_grid`: all blocks meet, in the interpreter, on the CPU, in the emulator and in a cooperative launch."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import tile_core as tile
import tile_core.language as T
from integration_tests.operations.harness import CUDA, everywhere, machine_code
from tile_core.errors import CompileError, ToolchainError
from tile_core.interpreter import interpret
from tile_core.interpreter.faults import ExecutionFault
from tile_emulator import EmulationError, emulation

pytestmark = [pytest.mark.layer("emulation"), pytest.mark.slow]


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
    given = np.arange(256, dtype=np.float32).reshape(4, 64)
    for way, (_, b, c) in everywhere(turned, given, np.zeros_like(given), np.zeros_like(given)).items():
        assert np.array_equal(c, given[::-1] * 2 + 1) and np.array_equal(b, np.roll(c, -1, 0)), way
    a = torch.from_numpy(given)
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


def repeated_sums(rows: int, columns: int):
    """Adds the sum of everything to every element, as often as N says; a row a block, kept on chip."""

    @T.prim_func
    def main(
        A: T.Tensor((rows, columns), "float32"),
        N: T.Tensor((1,), "int32"),
        P: T.Tensor((rows,), "float32"),
        B: T.Tensor((rows, columns), "float32"),
    ):
        with T.Kernel(rows, threads=64) as bx:
            tile_ = T.alloc_shared((columns,), "float32")
            row = T.alloc_fragment((columns,), "float32")
            part = T.alloc_fragment((1,), "float32")
            T.copy(A[bx, :], tile_)
            for step in T.serial(N[0]):
                T.copy(tile_, row)
                T.reduce_sum(row, part, dim=0)
                P[bx] = part[0]
                T.sync_grid()
                total = T.alloc_var("float32", init=0.0)
                for other in T.serial(rows):
                    total += P[other]
                for i in T.Parallel(columns):
                    tile_[i] = tile_[i] + total
                if step < N[0] - 1:
                    T.sync_grid()
            T.copy(tile_, B[bx, :])

    return main


@pytest.mark.slow
@pytest.mark.parametrize(("rows", "steps"), [(5, 1), (5, 3), (1, 2), (3, 0)])
def test_a_grid_wide_sum_in_a_loop(rows, steps):
    a = np.random.default_rng(rows).integers(0, 3, (rows, 64)).astype(np.float32)
    wanted = a.copy()
    for _ in range(steps):
        wanted += wanted.sum()
    arrays = a, np.array([steps], np.int32), np.zeros(rows, np.float32), np.zeros_like(a)
    for way, result in everywhere(repeated_sums(rows, 64), *arrays).items():
        assert np.array_equal(result[3], wanted), way


def test_many_more_blocks_than_processors_meet_on_a_cpu():
    a = torch.ones(700, 32)
    b = torch.zeros_like(a)
    kernel = tile.compile(repeated_sums(700, 32), target="cpu")
    kernel(a, torch.tensor([2], dtype=torch.int32), torch.zeros(700), b)
    first = 1 + 700 * 32
    assert (b == first + 700 * 32 * first).all()


@pytest.mark.slow
def test_values_of_single_threads_last_across_a_meeting():
    @T.prim_func
    def main(A: T.Tensor((3, 64), "int32"), B: T.Tensor((3, 64), "int32")):
        with T.Kernel(3, threads=64) as bx:
            tx = T.get_thread_binding()
            mine = T.alloc_local((2,), "int32")
            mine[0] = A[bx, tx] + tx
            B[bx, tx] = A[bx, tx]
            T.sync_grid()
            mine[1] = B[(bx + 1) % 3, 63 - tx]
            T.sync_grid()
            B[bx, tx] = mine[0] * 1000 + mine[1]

    a = np.random.default_rng(1).integers(0, 100, (3, 64)).astype(np.int32)
    wanted = (a + np.arange(64)) * 1000 + np.roll(a, -1, 0)[:, ::-1]
    for way, (_, b) in everywhere(main, a, np.zeros_like(a)).items():
        assert np.array_equal(b, wanted), way


def test_a_meeting_that_only_some_blocks_reach_ends_the_run():
    @T.prim_func
    def main(A: T.Tensor((4,), "int32")):
        with T.Kernel(4, threads=32) as bx:
            if A[bx] > 0:
                T.sync_grid()
            A[bx] = 7

    a = np.array([1, 1, 0, 1], np.int32)
    with pytest.raises(ExecutionFault, match="not all blocks of the grid reach") as fault:
        interpret(main, a.copy())
    assert "3 blocks wait, 1 have ended" in str(fault.value)
    with pytest.raises(ToolchainError, match="E-LAUNCH") as failed:
        tile.compile(main, target="cpu")(torch.from_numpy(a.copy()))
    assert "T.sync_grid" in str(failed.value)
    with emulation(), pytest.raises(EmulationError):
        tile.compile(main, target=CUDA, execution_backend="emulate")(torch.from_numpy(a.copy()))
    all_come = np.ones(4, np.int32)
    for way, (b,) in everywhere(main, all_come).items():
        assert (b == 7).all(), way


def test_a_meeting_of_blocks_that_only_some_threads_reach_is_refused():
    @T.prim_func
    def main(A: T.Tensor((64,), "int32")):
        with T.Kernel(1, threads=64):
            tx = T.get_thread_binding()
            if tx < 32:
                T.sync_grid()
            A[tx] = 1

    with pytest.raises(CompileError, match="E-THREAD-DIVERGENT") as caught:
        tile.compile(main, target="cpu")
    assert "this T.sync_grid() together" in str(caught.value)


@pytest.mark.slow
def test_blocks_meet_in_pipelined_and_while_loops():
    @T.prim_func
    def pipelined(A: T.Tensor((3, 128), "float32"), P: T.Tensor((3, 32), "float32"), B: T.Tensor((3, 128), "float32")):
        with T.Kernel(3, threads=64) as bx:
            part = T.alloc_shared((32,), "float32")
            for k in T.Pipelined(4, num_stages=2):
                T.copy(A[bx, k * 32 : k * 32 + 32], part)
                for i in T.Parallel(32):
                    P[bx, i] = part[i] * 2
                T.sync_grid()
                for i in T.Parallel(32):
                    B[bx, k * 32 + i] = P[(bx + 1) % 3, i] + part[i]
                T.sync_grid()

    a = np.random.default_rng(0).integers(0, 9, (3, 128)).astype(np.float32)
    for way, (_, _, b) in everywhere(pipelined, a, np.zeros((3, 32), np.float32), np.zeros_like(a)).items():
        assert np.array_equal(b, np.roll(a, -1, 0) * 2 + a), way

    @T.prim_func
    def counted(A: T.Tensor((4, 64), "int32"), S: T.Tensor((1,), "int32")):
        with T.Kernel(2, 2, threads=64) as (bx, by):
            done = T.alloc_var("int32", init=0)
            while done < 3:
                for i in T.Parallel(64):
                    A[by * 2 + bx, i] = A[by * 2 + bx, i] + 1
                T.sync_grid()
                if bx == 0 and by == 0:
                    S[0] = S[0] + A[3, 0]
                T.sync_grid()
                done = done + 1

    for way, (rows, total) in everywhere(counted, np.zeros((4, 64), np.int32), np.zeros(1, np.int32)).items():
        assert (rows == 3).all() and total[0] == 6, way


@pytest.mark.gpu
def test_on_a_device():
    a = torch.arange(256, dtype=torch.float32, device="cuda").reshape(4, 64)
    b, c = torch.zeros_like(a), torch.zeros_like(a)
    kernel = tile.compile(turned, target="cuda")
    for _ in range(3):
        kernel(a, b, c)
    assert np.array_equal(c.cpu().numpy(), (a.flip(0) * 2 + 1).cpu().numpy())
