"""Loops of all kinds: persistent tiles, jumps, loops written out, widths and layouts of parallel loops."""

from __future__ import annotations

import pytest
import torch

import tile_core.language as T
from tile_runtime.sparse import compress, randn_semi_sparse

from .places import PLACES, check

pytestmark = pytest.mark.parametrize("place", PLACES)


@pytest.mark.parametrize(("rows", "columns", "workers", "group"), [(5, 3, 4, 2), (4, 4, 7, 2), (3, 2, 16, 8)])
def test_persistent_workers_take_every_tile_once(place, rows, columns, workers, group):
    @T.prim_func
    def main(A: T.Tensor((rows, columns), "int32"), B: T.Tensor((rows, columns), "int32")):
        with T.Kernel(workers, threads=32) as bx:
            for i, j in T.Persistent((rows, columns), workers, bx, group_size=group):
                T.atomic_add(A[i, j], 1)
                B[i, j] = bx

    want = torch.ones(rows, columns, dtype=torch.int32)
    order = []
    for first in range(0, rows, group):
        height = min(group, rows - first)
        order += [(first + r, c) for c in range(columns) for r in range(height)]
    owner = torch.zeros_like(want)
    for number, (i, j) in enumerate(order):
        owner[i, j] = number % workers
    check(place, main, want * 0, want * 0, want={0: want, 1: owner})


def test_persistent_products_of_sizes_known_at_the_call(place):
    m, n = T.dynamic("m, n")
    k, block, workers = 64, 32, 3

    @T.prim_func
    def main(A: T.Tensor((m, k), "float16"), B: T.Tensor((k, n), "float16"), C: T.Tensor((m, n), "float32")):
        with T.Kernel(workers, threads=128) as bx:
            a, b = T.alloc_shared((block, 32), "float16"), T.alloc_shared((32, block), "float16")
            c = T.alloc_fragment((block, block), "float32")
            for i, j in T.Persistent([T.ceildiv(m, block), T.ceildiv(n, block)], workers, bx, group_size=2):
                T.clear(c)
                for step in T.Pipelined(k // 32, num_stages=2):
                    T.copy(A[i * block, step * 32], a)
                    T.copy(B[step * 32, j * block], b)
                    T.gemm(a, b, c)
                T.copy(c, C[i * block, j * block])

    a, b = torch.randn(100, k).half(), torch.randn(k, 72).half()
    check(place, main, a, b, torch.zeros(100, 72), want={2: a.float() @ b.float()}, reduction=k)


def test_persistent_tiles_of_which_several_are_in_flight(place):
    @T.prim_func
    def main(A: T.Tensor((8, 64), "float32"), B: T.Tensor((8, 64), "float32")):
        with T.Kernel(2, threads=64) as bx:
            tile = T.alloc_shared((1, 64), "float32")
            for i in T.Persistent(8, 2, bx, num_stages=2):
                T.copy(A[i, 0], tile)
                for j in T.Parallel(64):
                    B[i, j] = tile[0, j] * 2

    a = torch.randn(8, 64)
    check(place, main, a, torch.zeros(8, 64), want={1: a * 2})


def test_loops_are_left_and_iterations_skipped(place):
    @T.prim_func
    def main(A: T.Tensor((4, 16), "int32"), B: T.Tensor((4, 6), "int32")):
        with T.Kernel(4, threads=32) as bx:
            found = T.alloc_var("int32", init=-1)
            for k in T.serial(16):
                if A[bx, k] < 0:
                    found = k
                    break
            B[bx, 0] = found

            total = T.alloc_var("int32", init=0)
            for k in T.unroll(16):
                if A[bx, k] % 2 != 0:
                    continue
                total += A[bx, k]
            B[bx, 1] = total

            at = T.alloc_var("int32", init=0)
            while at < 16:
                at += 1
                if A[bx, at - 1] > 5:
                    continue
                if A[bx, at - 1] < 0:
                    break
            B[bx, 2] = at

            pairs = T.alloc_var("int32", init=0)
            for i, j in T.grid(4, 4):
                if i == j:
                    continue
                pairs += A[bx, i * 4 + j]
            B[bx, 3] = pairs

            steps = T.alloc_var("int32", init=0)
            for k in T.Pipelined(16):
                if A[bx, k] < 0:
                    break
                steps += 1
            B[bx, 4] = steps

            count = T.alloc_var("int32", init=0)
            with T.While(count < 16):
                count += 1
                if count * count > 20:
                    T.loop_break()
            B[bx, 5] = count

    a = torch.randint(0, 9, (4, 16), dtype=torch.int32)
    a[1, 3], a[2, 15], a[3, 0] = -1, -2, -3
    rows = []
    for row in a.tolist():
        found = next((k for k, x in enumerate(row) if x < 0), -1)
        at = 0
        while at < 16:
            at += 1
            if row[at - 1] <= 5 and row[at - 1] < 0:
                break
        pairs = sum(row[i * 4 + j] for i in range(4) for j in range(4) if i != j)
        steps = next((k for k, x in enumerate(row) if x < 0), 16)
        rows.append([found, sum(x for x in row if x % 2 == 0), at, pairs, steps, 5])
    check(place, main, a, torch.zeros(4, 6, dtype=torch.int32), want={1: torch.tensor(rows, dtype=torch.int32)})


def test_a_loop_written_out_inside_a_pipelined_one(place):
    @T.prim_func
    def main(A: T.Tensor((32, 128), "float16"), B: T.Tensor((128, 32), "float16"), C: T.Tensor((32, 32), "float32")):
        with T.Kernel(1, threads=128):
            a, b = T.alloc_shared((2, 32, 16), "float16"), T.alloc_shared((2, 16, 32), "float16")
            c = T.alloc_fragment((32, 32), "float32")
            T.clear(c)
            for k in T.Pipelined(4, num_stages=2):
                for half in T.unroll(2, explicit=True):
                    scratch = T.alloc_shared((16, 32), "float16")
                    T.copy(A[0, (k * 2 + half) * 16], a[half, :, :])
                    T.copy(B[(k * 2 + half) * 16, 0], scratch)
                    T.copy(scratch, b[half, :, :])
                    T.gemm(a[half, :, :], b[half, :, :], c)
            T.copy(c, C)

    a, b = torch.randn(32, 128).half(), torch.randn(128, 32).half()
    check(place, main, a, b, torch.zeros(32, 32), want={2: a.float() @ b.float()}, reduction=128)


def test_unroll_factors_steps_and_aliases(place):
    @T.prim_func
    def main(A: T.Tensor((64,), "float32"), B: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=32):
            tile = T.alloc_shared((64,), "float32")
            for i in T.unroll(0, 64, 4, unroll_factor=2):
                for j in T.vectorized(4):
                    tile[i + j] = A[i + j]
            for i in T.Serial(62, -1, -2):
                for j in T.parallel(2):
                    B[i + j] = tile[i + j] + 1.0

    a = torch.randn(64)
    check(place, main, a, torch.zeros(64), want={1: a + 1})


def test_how_parallel_loops_are_laid_out(place):
    # Each thread takes a row of 8, or 2 neighbours, as it is told.
    rows = T.Fragment((32, 8), forward_fn=lambda i, j: (i, j))

    @T.prim_func
    def main(A: T.Tensor((32, 8), "float32"), B: T.Tensor((32, 8), "float32"), C: T.Tensor((32, 8), "float32")):
        with T.Kernel(1, threads=32):
            tile, other = T.alloc_shared((32, 8), "float32"), T.alloc_shared((32, 8), "float32")
            T.copy(A, other, loop_layout=rows)
            T.copy(other, tile, coalesced_width=2)
            for i, j in T.Parallel(32, 8, loop_layout=rows):
                B[i, j] = tile[i, j] * 2
            for i, j in T.Parallel(32, 8, coalesced_width=2):
                C[i, j] = tile[i, j] + 1

    a = torch.randn(32, 8)
    kernel = check(place, main, a, torch.zeros(32, 8), torch.zeros(32, 8), want={1: a * 2, 2: a + 1})
    if place == "emulated":
        assert "load<float, 2>" in kernel.kernel_source
        assert "tx * 8" in kernel.kernel_source


def test_an_iteration_fills_elements_of_its_own(place):
    """What a compressor of 2:4 sparse rows does, a row an iteration."""
    rows, columns = 40, 32

    @T.prim_func
    def main(
        A: T.Tensor((rows, columns), "float16"),
        A_sparse: T.Tensor((rows, columns // 2), "float16"),
        E: T.Tensor((rows, columns // 16), "int16"),
    ):
        with T.Kernel(T.ceildiv(rows, 32), threads=32) as bx:
            a = T.alloc_shared((32, columns), "float16")
            kept = T.alloc_shared((32, columns // 2), "float16")
            e = T.alloc_shared((32, columns // 16), "int16")
            places = T.alloc_local((4, 2), "int32")
            count = T.alloc_local((1,), "int32")
            T.copy(A[bx * 32, 0], a)
            T.clear(kept)
            T.clear(e)
            for row in T.Parallel(32):
                for group in T.serial(columns // 4):
                    T.clear(count)
                    T.fill(places[0:1, :], 3)
                    for place_ in T.serial(4):
                        if a[row, group * 4 + place_] != 0:
                            T.device_assert(count[0] < 2)
                            places[0, count[0] & 1] = place_
                            kept[row, group * 2 + (count[0] & 1)] = a[row, group * 4 + place_]
                            count[0] += 1
                    e[row, group // 4] |= T.cast((places[0, 0] | places[0, 1] << 2) << group % 4 * 4, "int16")
            T.copy(kept, A_sparse[bx * 32, 0])
            T.copy(e, E[bx * 32, 0])

    torch.manual_seed(0)
    whole = randn_semi_sparse(rows, columns)
    wanted = compress(whole)
    outputs = [torch.zeros_like(x) for x in wanted]
    check(place, main, whole, *outputs, want=dict(enumerate(wanted, 1)))


def test_lanes_and_parallel_iterations_that_begin_elsewhere_than_at_0(place):
    @T.prim_func
    def main(A: T.Tensor((64,), "int32"), B: T.Tensor((64,), "int32"), S: T.Tensor((1,), "int32")):
        with T.Kernel(1, threads=32):
            first = S[0]
            for i in T.vectorized(4, 8):
                B[i] = A[i] * 2
            for i in T.vectorized(first, first + 4):
                B[i] = A[i] * 3
            for i in T.parallel(first + 5, 40):
                B[i] = A[i] * 5
            for i in T.parallel(41, 64):
                B[i] = A[i] * 7

    a, first = torch.arange(64, dtype=torch.int32), 11
    want = torch.zeros(64, dtype=torch.int32)
    for low, high, factor in ((4, 8, 2), (first, first + 4, 3), (first + 5, 40, 5), (41, 64, 7)):
        want[low:high] = a[low:high] * factor
    check(place, main, a, want * 0, torch.tensor([first], dtype=torch.int32), want={1: want})
