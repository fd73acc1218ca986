"""Fragments that a loop which counts at run time indexes."""

import pytest
import torch

import tile_core as tile
import tile_core.language as T
from tile_core.errors import CompileError

from .places import PLACES, check


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("stages", [0, 2])
def test_a_fragment_indexed_by_a_loop_that_counts(place, stages):
    @T.prim_func
    def main(
        A: T.Tensor((4, 64), "float32"),
        weights: T.Tensor((4, 2), "float32"),
        mask: T.Tensor((4,), "int32"),
        B: T.Tensor((2, 64), "float32"),
    ):
        with T.Kernel(1, threads=64):
            factors = T.alloc_fragment((4, 2), "float32")
            wanted = T.alloc_fragment((4,), "int32")
            row = T.alloc_shared((64,), "float32")
            sums = T.alloc_fragment((2, 64), "float32")
            T.clear(sums)
            T.copy(weights, factors)
            for k in T.serial(4):
                wanted[k] = mask[k]
            for k in T.Pipelined(4, num_stages=stages):
                if wanted[k] != 0:
                    T.copy(A[k, 0], row)
                    for j in T.serial(2):
                        for i in T.Parallel(64):
                            sums[j, i] += factors[k, j] * row[i]
            T.copy(sums, B)

    a, w = torch.randint(-4, 5, (4, 64)).float(), torch.randint(-4, 5, (4, 2)).float()
    mask = torch.tensor([1, 0, 1, 1], dtype=torch.int32)
    check(place, main, a, w, mask, torch.zeros(2, 64), want={3: (w * mask[:, None]).T @ a})


@T.prim_func
def scanned(A: T.Tensor((8, 64), "float32"), B: T.Tensor((8, 64), "float32")):
    with T.Kernel(1, threads=64):
        rows = T.alloc_fragment((8, 64), "float32")
        T.copy(A, rows)
        for k in T.serial(7):
            for i in T.Parallel(64):
                rows[k + 1, i] = rows[k + 1, i] + rows[k, i]
        T.copy(rows, B)


@pytest.mark.parametrize("place", PLACES)
def test_rows_that_depend_on_the_one_before(place):
    a = torch.randint(-4, 5, (8, 64)).float()
    check(place, scanned, a, torch.zeros(8, 64), want={1: a.cumsum(0)})


def test_that_a_tile_moved_is_said():
    notes = tile.lower(scanned, "cuda -arch=sm_80").notes["diagnostics"]
    assert [n for n in notes if n.startswith("rows lies in shared memory: k, the variable of a loop")]


def test_an_accumulator_does_not_move():
    @T.prim_func
    def main(A: T.Tensor((16, 16), "float16"), B: T.Tensor((16, 16), "float32")):
        with T.Kernel(1, threads=32):
            a = T.alloc_shared((16, 16), "float16")
            c = T.alloc_fragment((16, 16), "float32")
            T.copy(A, a)
            T.gemm(a, a, c, clear_accum=True)
            for k in T.serial(16):
                for i in T.Parallel(16):
                    B[k, i] = c[k, i]

    for target in ("cpu", "cuda -arch=sm_80"):
        with pytest.raises(CompileError, match="the fragment c is indexed by k") as caught:
            tile.lower(main, target)
        assert caught.value.code == "E-FRAGMENT-INDEX"


def test_a_tile_seen_through_a_view_does_not_move():
    @T.prim_func
    def main(A: T.Tensor((4, 32), "float32")):
        with T.Kernel(1, threads=32):
            tile_ = T.alloc_fragment((4, 32), "float32")
            flat = T.reshape(tile_, (128,))
            T.fill(flat, 1.0)
            for k in T.serial(4):
                for i in T.Parallel(32):
                    A[k, i] = tile_[k, i]

    with pytest.raises(CompileError, match="the fragment tile_ is indexed by k"):
        tile.lower(main, "cpu")
