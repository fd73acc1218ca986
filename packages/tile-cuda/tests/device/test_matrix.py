"""Matrix instructions and ldmatrix beside numpy: one warp, fragments laid out as the PTX ISA's figures say."""

from __future__ import annotations

import numpy as np
import pytest

from tile_cuda.testing.matrix import (
    MATRIX_KERNELS,
    SPARSE_KERNELS,
    matrix_arguments,
    matrix_expected,
    matrix_name,
    matrix_source,
    sparse_arguments,
    sparse_source,
)

pytestmark = pytest.mark.layer("emulation")


@pytest.fixture(scope="module")
def unit(emulated):
    return emulated(matrix_source(), [f"k_{matrix_name(*variant[:4])}" for variant in MATRIX_KERNELS])


@pytest.mark.parametrize("variant", MATRIX_KERNELS, ids=lambda v: matrix_name(*v[:4]))
def test_a_matrix_instruction_multiplies_as_numpy_does(variant, unit):
    name, (a, b, c) = matrix_arguments(variant)
    expected, limit = matrix_expected(variant, [a, b, c])
    unit.run(name, {"A": a, "B": b, "C": c})
    np.testing.assert_allclose(c.astype(np.float64), expected, rtol=limit, atol=limit)


@pytest.fixture(scope="module")
def sparse_unit(emulated):
    names = [f"k_{matrix_name(*variant[:4], sparse=True)}_{variant[5]}" for variant in SPARSE_KERNELS]
    return emulated(sparse_source(), names)


@pytest.mark.parametrize("variant", SPARSE_KERNELS, ids=lambda v: f"{matrix_name(*v[:4], sparse=True)}_{v[5]}")
def test_a_sparse_matrix_instruction_takes_places_from_the_lanes_of_the_isa(variant, sparse_unit):
    name, (kept, b, c, words), whole = sparse_arguments(variant)
    expected, limit = matrix_expected(variant, [whole, b, c])
    sparse_unit.run(name, {"A": kept, "B": b, "C": c, "E": words})
    np.testing.assert_allclose(c.astype(np.float64), expected, rtol=limit, atol=limit)


def test_places_that_the_isa_leaves_undefined_show(sparse_unit):
    for places, defined in ((0x4E9C4E9C, True), (0x4E9C4E90, False), (0x1E9C4E9C, False)):
        name, (kept, b, c, words), _ = sparse_arguments(SPARSE_KERNELS[0])
        sparse_unit.run(name, {"A": kept, "B": b, "C": c, "E": np.full_like(words, places)})
        assert np.isfinite(c).all() == defined


LDMATRIX = """#include "tile_cuda.h"
template <int Num, bool Trans>
TILE_FN void body(uint16_t* from, uint16_t* to) {
  TILE_SHARED(shared, 512);
  uint16_t* tile_ = (uint16_t*)shared;
  int lane = threadIdx.x;
  if (lane < 8 * Num)
    for (int i = 0; i < 8; ++i) tile_[lane * 8 + i] = from[lane * 8 + i];
  tile::sync_threads(TILE_SYNC(0));
  TILE_LOCAL(uint16_t, r, 2 * Num);
  tile::ldmatrix<Num, Trans>(r, tile_ + (lane % (8 * Num)) * 8);
  for (int i = 0; i < 2 * Num; ++i) to[(i / 2) * 64 + lane * 2 + i % 2] = r[i];
}
""" + "".join(
    f'extern "C" __global__ void load_{n}_{t}(uint16_t* from, uint16_t* to) '
    f"{{ body<{n}, {'true' if t else 'false'}>(from, to); }}\n"
    for n in (1, 2, 4)
    for t in (0, 1)
)


@pytest.fixture(scope="module")
def loads(emulated):
    return emulated(LDMATRIX, [f"load_{n}_{t}" for n in (1, 2, 4) for t in (0, 1)])


@pytest.mark.parametrize("transposed", [0, 1])
@pytest.mark.parametrize("num", [1, 2, 4])
def test_ldmatrix_gives_each_lane_two_elements_of_a_row(num, transposed, loads):
    matrices = np.arange(num * 64, dtype=np.uint16).reshape(num, 8, 8)
    out = np.zeros((num, 8, 8), np.uint16)
    loads.run(f"load_{num}_{transposed}", {"from": matrices, "to": out}, shared=512)
    # Lane 4 r + c holds elements 2 c and 2 c + 1 of row r; transposed, of column r.
    np.testing.assert_array_equal(out, matrices.transpose(0, 2, 1) if transposed else matrices)
