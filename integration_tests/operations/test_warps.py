"""What threads do together: the same numbers, to the last bit, in the interpreter, on the CPU and as CUDA."""

from __future__ import annotations

import numpy as np
import pytest

import tile_core as tile
import tile_core.language as T
from integration_tests.operations.harness import everywhere, machine_code
from tile_core.errors import CompileError

pytestmark = [pytest.mark.layer("emulation"), pytest.mark.slow]

N = 96


@T.prim_func
def together(A: T.Tensor((N,), "float32"), B: T.Tensor((9, N), "float32"), C: T.Tensor((12, N), "uint32")):
    with T.Kernel(1, threads=N):
        tx = T.get_thread_binding()
        x = A[tx]
        B[0, tx] = T.shfl_xor(x, 1)
        B[1, tx] = T.shfl_down(x, 3, 16)
        B[2, tx] = T.shfl_up(x, 3)
        B[3, tx] = T.shfl_sync(x, tx + 5, 8)
        B[4, tx] = T.warp_reduce_sum(x)
        B[5, tx] = T.warp_reduce_max(x) - T.warp_reduce_min(x)
        v = T.alloc_var("float32", init=0.0)
        v = x
        for i in T.serial(5):
            v += T.shfl_xor(v, 16 >> i)
        B[6, tx] = v
        C[0, tx] = T.ballot(x > 0)
        C[1, tx] = T.cast(T.any_sync(x > 2), "uint32") + 2 * T.cast(T.all_sync(x > -1), "uint32")
        C[2, tx] = T.match_any_sync(T.cast(x * 2, "int32"))
        C[3, tx] = T.match_all_sync(tx // 64)
        bits = T.cast(x * 1000, "int32")
        C[4, tx] = T.cast(T.warp_reduce_bitand(bits), "uint32")
        C[5, tx] = T.cast(T.warp_reduce_bitor(bits), "uint32")
        held = T.alloc_shared((4,), "float32")
        if T.get_lane_idx() == 0:
            held[T.get_warp_idx()] = v
        T.sync_threads()
        if tx < 32:
            w = T.alloc_var("float32", init=0.0)
            if tx < 3:
                w = held[tx]
            total = T.warp_reduce_sum(w)
            C[6, tx] = T.activemask()
            if T.shuffle_elect(0):
                held[3] = total
        else:
            C[6, tx] = T.ballot_sync(x > 1)
        T.sync_threads()
        B[7, tx] = held[3]
        C[7, tx] = T.cast(T.syncthreads_count(x > 0), "uint32")
        if T.syncthreads_or(x > 1.5) != 0:
            C[8, tx] = 7
        C[9, tx] = T.cast(T.syncthreads_and(x > -9), "uint32")
        C[10, tx] = T.cast(T.get_warp_group_idx(warps_per_group=2), "uint32")
        C[11, tx] = T.cast(T.shuffle_elect(32), "uint32")
        sums = T.alloc_var("float32", init=0.0)
        if tx < 64:
            for _ in T.serial(tx % 4 + 1):
                sums += x
            T.sync_warp()
            T.sync_threads(1, 64)
        B[8, tx] = sums


def test_all_of_it():
    a = np.random.default_rng(0).standard_normal(N).astype(np.float32)
    ways = everywhere(
        together, a, np.zeros((9, N), np.float32), np.zeros((12, N), np.uint32), schedules=("latest", "random")
    )
    _, b, c = ways["interpreter"]
    warps = a.reshape(3, 32)
    assert np.array_equal(b[0], a.reshape(-1, 2)[:, ::-1].reshape(-1))
    assert np.array_equal(b[3], a.reshape(-1, 8)[:, [(i + 5) % 8 for i in range(8)]].reshape(-1))
    assert np.allclose(b[4], warps.sum(axis=1).repeat(32), rtol=1e-5)
    assert np.allclose(b[7], a.sum(), rtol=1e-5) and np.array_equal(b[4], b[6])
    assert c[0, 0] == sum(int(x > 0) << i for i, x in enumerate(warps[0]))
    assert (c[7] == (a > 0).sum()).all() and (c[3, 64:] == 0xFFFFFFFF).all()
    for way, (_, floats, words) in ways.items():
        assert np.array_equal(floats, b), way
        assert np.array_equal(words, c), way
    machine_code(together)


def test_lanes_of_a_condition_that_few_threads_meet():
    @T.prim_func
    def main(A: T.Tensor((40,), "int32"), B: T.Tensor((40,), "int32")):
        with T.Kernel(1, threads=40):
            tx = T.get_thread_binding()
            if tx < 32:
                coming = T.ballot(A[tx] > 0)
                if A[tx] > 0:
                    B[tx] = T.cast(T.ballot_sync(A[tx] > 1, coming), "int32")
                else:
                    B[tx] = -1

    a = np.random.default_rng(1).integers(-1, 4, 40).astype(np.int32)
    word = sum(1 << i for i in range(32) if a[i] > 1)
    wanted = np.where(a[:32] > 0, np.int32(np.uint32(word).view(np.int32)), -1)
    ways = everywhere(main, a, np.zeros(40, np.int32))
    for way, (_, b) in ways.items():
        assert np.array_equal(b[:32], wanted) and not b[32:].any(), way


def test_a_loop_whose_length_differs_between_warps():
    @T.prim_func
    def main(A: T.Tensor((64,), "int32"), B: T.Tensor((64,), "int32")):
        with T.Kernel(1, threads=64):
            tx = T.get_thread_binding()
            left = T.alloc_var("int32", init=0)
            left = A[tx]
            steps = T.alloc_var("int32", init=0)
            going = T.alloc_var("int32", init=1)
            while going != 0:
                left = left // 2
                steps += 1
                if not T.any_sync(left > 0):
                    going = 0
            B[tx] = steps
            for i in T.serial(T.get_warp_idx() + 1):
                B[tx] = B[tx] + T.shfl_xor(i, 1)

    a = np.random.default_rng(2).integers(1, 500, 64).astype(np.int32)
    a[:32] //= 9
    longest = np.maximum(1, np.floor(np.log2(a.reshape(2, 32).max(axis=1))) + 1).astype(np.int32)
    wanted = np.repeat(longest + np.array([0, 1], np.int32), 32)
    for way, (_, b) in everywhere(main, a, np.zeros(64, np.int32)).items():
        assert np.array_equal(b, wanted), way


def test_what_one_thread_a_block_cannot_carry_out():
    @T.prim_func
    def alone(A: T.Tensor((64,), "int32")):
        with T.Kernel(1, threads=64):
            tx = T.get_thread_binding()
            if tx < 32:
                A[tx] = T.syncthreads_count(A[tx] > 0)

    with pytest.raises(CompileError, match="E-THREAD-DIVERGENT"):
        tile.compile(alone, target="cpu")
