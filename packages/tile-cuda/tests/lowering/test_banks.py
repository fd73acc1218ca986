"""No two lanes in one bank: counted by tables of the addresses in the generated code."""

from __future__ import annotations

import numpy as np
import pytest

import tile_core as tile
import tile_core.language as T
from tile_core.layout import row_major
from tile_core.layout.swizzle import swizzled
from tile_cuda.layouts import matrix_tile
from tile_cuda.layouts.shared import candidates, wavefronts
from tile_cuda.testing import tiles
from tile_cuda.testing.banks import bank_accesses


def accesses(function, arch="sm_80"):
    return bank_accesses(tile.lower(function, target=f"cuda -arch={arch}").module)


def worst(function, **how):
    """(tile, kind, bytes) → trips over the least possible, of the accesses with conflicts."""
    return {(a.tile, a.kind, a.width): a.trips / a.least for a in accesses(function, **how) if a.trips > a.least}


@pytest.mark.parametrize("width", [1, 2, 4, 8, 16])
@pytest.mark.parametrize("pitch", [16, 64, 128, 132, 256])
def test_trips_are_those_of_the_layout_room(width, pitch):
    """The same count, made twice: `Layout.bank_conflicts` takes one access, `wavefronts` all of a kernel's."""
    layout = row_major((64, pitch))
    lanes = np.stack([np.arange(32), np.full(32, 0)], axis=1)
    expected = layout.bank_conflicts(lanes, 1, width).wavefronts
    assert wavefronts(np.arange(32)[None] * pitch, width) == expected
    busy = np.where(np.arange(32) < 8, np.arange(32) * pitch, -1)
    assert wavefronts(busy[None], width) == layout.bank_conflicts(lanes[:8], 1, width).wavefronts


@pytest.mark.parametrize("transpose_a", [False, True])
@pytest.mark.parametrize("transpose_b", [False, True])
@pytest.mark.parametrize(
    ("types", "block"),
    [
        (("float16", "float32"), (64, 64, 32)),
        (("float16", "float32"), (128, 128, 64)),
        (("float16", "float32"), (32, 32, 16)),
        (("float64", "float64"), (64, 64, 16)),
        (("float64", "float64"), (32, 32, 8)),
    ],
    ids=str,
)
def test_operands_of_matrix_instructions_in_every_orientation(types, block, transpose_a, transpose_b):
    dtype, sums = types
    function = tiles.tiled_gemm(128, 128, 128, block, dtype, sums, sums, transpose_a, transpose_b)
    found = accesses(function)
    assert {a.kind for a in found} == ({"cp_async", "ldmatrix"} if dtype == "float16" else {"cp_async", "load"})
    assert not {(a.tile, a.kind) for a in found if a.trips > a.least}


@pytest.mark.parametrize(("dtype", "arch"), [("int8", "sm_80"), ("float8_e4m3fn", "sm_89"), ("tfloat32", "sm_80")])
def test_narrow_and_tf32_operands_whose_rows_run_along_k_come_by_ldmatrix(dtype, arch):
    sums = "int32" if dtype == "int8" else "float32"
    function = tiles.tiled_gemm(128, 128, 128, (64, 64, 64), dtype, sums, sums, transpose_b=True)
    found = accesses(function, arch=arch)
    assert sum(a.kind == "ldmatrix" for a in found) >= 2 and not worst(function, arch=arch)


@pytest.mark.parametrize("dtype", ["float32", "float16", "float64", "int8"])
@pytest.mark.parametrize("through", ["one tile", "two tiles"])
def test_transposes_through_shared_memory(dtype, through):
    function = transpose(dtype, 64 if dtype == "int8" else 32, through == "two tiles")
    # Pairs of fp64 are put down 16 bytes at a time, which with rows of 256 bytes leaves two lanes in a bank on the way
    # back: cheaper than twice the stores.
    assert all(ratio <= 2 for ratio in worst(function).values()) if dtype == "float64" else not worst(function)


def test_a_transpose_is_read_in_wide_rows_and_put_down_in_the_parts_that_the_layout_wants():
    text = tile.lower(transpose("float16", 32, False), target="cuda -arch=sm_80").sources["kernel.cu"]
    assert "tile::load<fp16, 8>(A" in text and "tile::store(B" in text


def test_rows_that_meet_in_no_bank_stay_as_they_are():
    @T.prim_func
    def main(A: T.Tensor((64, 64), "float32"), B: T.Tensor((64, 64), "float32")):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((64, 64), "float32")
            T.copy(A, a)
            for i, j in T.Parallel(64, 64):
                B[i, j] = a[i, j] + a[i, 63 - j]

    assert "^" not in tile.lower(main, target="cuda -arch=sm_80").sources["kernel.cu"]


def test_all_candidates_put_each_element_in_a_place_of_its_own():
    for dtype in ("int8", "float16", "float32", "float64"):
        for shape in ((8, 4), (32, 32), (3, 16, 64), (5, 24)):
            for layout in candidates(shape, dtype):
                layout.require_injective("tile", None)


def test_matrix_tiles_are_the_swizzles_of_the_copy_engine_up_to_32_bits():
    for dtype in ("int8", "float16", "float32"):
        assert matrix_tile((64, 64), dtype) == swizzled((64, 64), dtype)
    assert matrix_tile((64, 16), "float64") != swizzled((64, 16), "float64")


def transpose(dtype, n, twice):
    @T.prim_func
    def main(A: T.Tensor((4 * n, 2 * n), dtype), B: T.Tensor((2 * n, 4 * n), dtype)):
        with T.Kernel(4, 2, threads=128) as (bx, by):
            rows = T.alloc_shared((n, n), dtype)
            T.copy(A[bx * n, by * n], rows)
            if twice:
                columns = T.alloc_shared((n, n), dtype)
                for i, j in T.Parallel(n, n):
                    columns[i, j] = rows[j, i]
                T.copy(columns, B[by * n, bx * n])
            else:
                for i, j in T.Parallel(n, n):
                    B[by * n + i, bx * n + j] = rows[j, i]

    return main
