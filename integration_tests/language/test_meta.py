"""Meta classes, inlined methods and the scheduler of persistent tiles."""

from __future__ import annotations

import pytest
import torch

import tile_core.language as T

from .places import PLACES, check

pytestmark = pytest.mark.parametrize("place", PLACES)


@pytest.mark.parametrize("column_major", [True, False])
@pytest.mark.parametrize("swizzle", [1, 2])
def test_a_scheduler_hands_every_tile_to_one_worker(place, column_major, swizzle):
    rows, columns, workers = 5, 3, 4

    @T.prim_func
    def main(A: T.Tensor((rows, columns), "int32"), B: T.Tensor((rows, columns), "int32")):
        with T.Kernel(workers, threads=32) as bx:
            tiles = T.PersistentTileScheduler(rows, columns, swizzle_size=swizzle, column_major=column_major)
            tiles.init(bx)
            while tiles.valid():
                A[tiles.m_idx, tiles.n_idx] = bx
                B[tiles.m_idx, tiles.n_idx] = tiles.current_iter
                tiles.next_tile()

    down, across = (rows, columns) if column_major else (columns, rows)
    order = []
    for first in range(0, across, swizzle):
        width = min(swizzle, across - first)
        order += [(d, first + a) for d in range(down) for a in range(width)]
    owner, turn = torch.zeros(rows, columns, dtype=torch.int32), torch.zeros(rows, columns, dtype=torch.int32)
    for number, (d, a) in enumerate(order):
        place_of = (d, a) if column_major else (a, d)
        owner[place_of], turn[place_of] = number % workers, number // workers
    check(place, main, owner * 0 - 1, turn * 0 - 1, want={0: owner, 1: turn})


def test_a_class_with_variables_and_inlined_methods(place):
    @T.meta_class
    class Ring:
        def __init__(self, depth):
            self.depth = depth
            self.slot = T.alloc_var("int32", init=0)
            self.phase = T.alloc_var("int32", init=0)

        @T.inline
        def advance(self):
            self.slot += 1
            if self.slot == self.depth:
                self.slot = 0
                self.phase = self.phase ^ 1

        def place(self, base):
            return base * self.depth + self.slot

    @T.prim_func
    def main(A: T.Tensor((8,), "int32"), B: T.Tensor((8,), "int32")):
        with T.Kernel(1, threads=32):
            ring = Ring(3)
            for i in T.serial(8):
                A[i] = ring.place(10)
                B[i] = ring.phase
                ring.advance()

    slots = torch.tensor([30 + i % 3 for i in range(8)], dtype=torch.int32)
    phases = torch.tensor([i // 3 % 2 for i in range(8)], dtype=torch.int32)
    check(place, main, slots * 0, slots * 0, want={0: slots, 1: phases})
