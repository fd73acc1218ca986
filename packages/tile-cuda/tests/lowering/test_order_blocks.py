"""T.use_swizzle: every block of the grid is run once, panel after panel."""

from __future__ import annotations

import pytest
import torch

import tile_core as tile
import tile_core.language as T
from tile_core.arith import simplify
from tile_core.ir import const
from tile_cuda.transform.order_blocks import panel_place


def order(columns, rows, size, how="row", layers=1):
    """Each block writes its number, as the hardware counts, where it believes to be."""

    @T.prim_func
    def main(N: T.Tensor((layers, rows, columns), "int32"), order: T.Tensor((layers, rows, columns), "int32")):
        with T.Kernel(columns, rows, layers, threads=32) as (bx, by, bz):
            T.use_swizzle(size, order=how)
            N[bz, by, bx] = order[bz, by, bx] + 1

    return main


def walked(columns, rows, size, how="row"):
    """The blocks of a grid in the order of their numbers; constants fold as the steps are built."""
    first, second = (rows, columns) if how == "column" else (columns, rows)
    places = []
    for number in range(columns * rows):
        names = [const(1, "int32")] * 4
        for step in range(4):
            given = (const(number, "int32"), const(first, "int32"), const(second, "int32"))
            found = panel_place(*given, size, how != "mlx", names)
            names[step] = found[step]
        *_, x, y = panel_place(*given, size, how != "mlx", names)
        place = (simplify(x).value, simplify(y).value)
        places.append(place[::-1] if how == "column" else place)
    return places


@pytest.mark.parametrize("how", ["row", "column", "mlx"])
@pytest.mark.parametrize(("columns", "rows", "size"), [(5, 7, 3), (4, 4, 2), (3, 2, 8), (1, 5, 2), (6, 1, 4)])
def test_each_block_is_run_once_and_panels_follow_each_other(columns, rows, size, how):
    places = walked(columns, rows, size, how)
    assert sorted(places) == [(x, y) for x in range(columns) for y in range(rows)]
    along = [x if how == "column" else y for x, y in places]
    panels = [i // size for i in along]
    assert panels == sorted(panels)


def test_every_second_panel_is_walked_backwards():
    assert [x for x, _ in walked(3, 4, 2)] == [0, 0, 1, 1, 2, 2, 2, 2, 1, 1, 0, 0]
    assert [x for x, _ in walked(3, 4, 2, "mlx")] == [0, 0, 1, 1, 2, 2] * 2


@pytest.mark.layer("emulation")
def test_blocks_of_a_grid_with_three_axes_in_the_emulator():
    columns, rows, layers = 5, 7, 2
    function = order(columns, rows, 3, layers=layers)
    text = tile.lower(function, target="cuda -arch=sm_80").sources["kernel.cu"]
    assert "const int32_t panel = tile::truncdiv(block_number, 15);" in text
    kernel = tile.compile(function, target="cuda -arch=sm_80", execution_backend="emulate")
    out, given = torch.zeros(layers, rows, columns, dtype=torch.int32), torch.arange(70, dtype=torch.int32)
    kernel(out, given.reshape(layers, rows, columns))
    assert torch.equal(out.flatten(), given + 1)


def test_a_grid_of_one_axis_is_left_alone():
    @T.prim_func
    def main(A: T.Tensor((8,), "float32")):
        with T.Kernel(8, threads=32) as bx:
            T.use_swizzle(4)
            A[bx] = 1.0

    assert "panel" not in tile.lower(main, target="cuda -arch=sm_80").sources["kernel.cu"]
