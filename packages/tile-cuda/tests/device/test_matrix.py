"""Matrix instructions and ldmatrix beside numpy: one warp, fragments laid out as the PTX ISA's figures say."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from tile_cuda.device.table import MMA_SHAPES

pytestmark = pytest.mark.layer("emulation")

TYPES = {
    "float16": ("fp16", np.float16),
    "bfloat16": ("bf16", ml_dtypes.bfloat16),
    "tfloat32": ("float", np.float32),
    "float32": ("float", np.float32),
    "float64": ("double", np.float64),
    "int8": ("int8_t", np.int8),
    "uint8": ("uint8_t", np.uint8),
    "int32": ("int32_t", np.int32),
    "float8_e4m3fn": ("e4m3", ml_dtypes.float8_e4m3fn),
    "float8_e5m2": ("e5m2", ml_dtypes.float8_e5m2),
}
SHORT = {"float16": "f16", "bfloat16": "bf16", "tfloat32": "tf32", "float32": "f32", "float64": "f64", "int8": "s8",
         "uint8": "u8", "int32": "s32", "float8_e4m3fn": "e4m3", "float8_e5m2": "e5m2"}  # fmt: skip


def function_name(shape, a, b, c) -> str:
    m, n, k = shape
    return f"mma_m{m}n{n}k{k}_{SHORT[a]}_{SHORT[b]}_{SHORT[c]}"


def kernel(shape, a, b, c) -> str:
    """Fragments from row-major A, B, C in global memory, one instruction, and C back."""
    m, n, k = shape
    types = [TYPES[t][0] for t in (a, b, c)]
    # Elements in a lane's register: 4 bytes (f64: 8, one element).
    width = 1 if a == "float64" else 4 // np.dtype(TYPES[a][1]).itemsize
    counts = [m * k // 32, k * n // 32, m * n // 32]
    name = function_name(shape, a, b, c)
    return f"""
extern "C" __global__ void k_{name}(tile::{types[0]}* A, tile::{types[1]}* B, tile::{types[2]}* C) {{
  int lane = threadIdx.x, group = lane / 4, place = lane % 4;
  TILE_LOCAL(tile::{types[0]}, a, {counts[0]});
  TILE_LOCAL(tile::{types[1]}, b, {counts[1]});
  TILE_LOCAL(tile::{types[2]}, c, {counts[2]});
  for (int i = 0; i < {counts[0]}; ++i) {{
    int reg = i / {width};
    a[i] = A[(group + 8 * (reg % 2)) * {k} + place * {width} + i % {width} + 4 * {width} * (reg / 2)];
  }}
  for (int i = 0; i < {counts[1]}; ++i) {{
    int row = place * {width} + i % {width} + 4 * {width} * (i / {width});
    b[i] = B[row * {n} + group];
  }}
  for (int i = 0; i < {counts[2]}; ++i) c[i] = C[(group + 8 * (i / 2)) * {n} + place * 2 + i % 2];
  tile::{name}(c, a, b);
  for (int i = 0; i < {counts[2]}; ++i) C[(group + 8 * (i / 2)) * {n} + place * 2 + i % 2] = c[i];
}}
"""


def source() -> str:
    text = '#include "tile_cuda.h"\n' + "".join(kernel(*variant[:4]) for variant in MMA_SHAPES)
    for plain in ("float", "double", "int8_t", "uint8_t", "int32_t"):
        text = text.replace(f"tile::{plain}*", f"{plain}*").replace(f"tile::{plain},", f"{plain},")
    return text


@pytest.fixture(scope="module")
def unit(emulated):
    return emulated(source(), [f"k_{function_name(*variant[:4])}" for variant in MMA_SHAPES])


def operands(shape, a, b, c):
    m, n, k = shape
    random = np.random.default_rng(m + n + k)

    def values(extents, dtype):
        held = TYPES[dtype][1]
        if dtype.endswith(("int8", "int32")):
            low = 0 if dtype == "uint8" else -100
            return random.integers(low, 100, extents).astype(held)
        drawn = random.standard_normal(extents).astype(np.float32)
        if dtype == "tfloat32":
            return (drawn.view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32)
        return drawn.astype(held)

    return values((m, k), a), values((k, n), b), values((m, n), c)


@pytest.mark.parametrize("variant", MMA_SHAPES, ids=lambda v: function_name(*v[:4]))
def test_a_matrix_instruction_multiplies_as_numpy_does(variant, unit):
    shape, a, b, c, _ = variant
    left, right, total = operands(shape, a, b, c)
    wide = np.int64 if c == "int32" else np.float64
    expected = total.astype(wide) + left.astype(wide) @ right.astype(wide)
    unit.run(f"k_{function_name(shape, a, b, c)}", {"A": left, "B": right, "C": total})
    if c == "int32":
        np.testing.assert_array_equal(total, expected.astype(np.int32))
    else:
        limit = {"float16": 1e-2, "float32": 1e-4, "float64": 1e-12}[c]
        np.testing.assert_allclose(total.astype(np.float64), expected, rtol=limit, atol=limit)


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
