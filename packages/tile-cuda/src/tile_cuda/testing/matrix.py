"""A kernel for each matrix instruction: fragments from row-major matrices, one instruction, and the result back."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import ml_dtypes
import numpy as np

from ..device.table import MMA_SHAPES, SPARSE_MMA_SHAPES

__all__ = [
    "MATRIX_KERNELS",
    "SPARSE_KERNELS",
    "matrix_arguments",
    "matrix_expected",
    "matrix_name",
    "matrix_source",
    "sparse_arguments",
    "sparse_source",
]

MATRIX_KERNELS = MMA_SHAPES
"""(shape, type of A, of B, of C, oldest architecture)."""

SPARSE_KERNELS = tuple(
    (*variant, selector) for variant in SPARSE_MMA_SHAPES for selector in ((0, 1) if variant[0][2] < 64 else (0,))
)
"""The same of mma.sp, and the sparsity selector."""

_TYPES = {
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
_SHORT = {"float16": "f16", "bfloat16": "bf16", "tfloat32": "tf32", "float32": "f32", "float64": "f64", "int8": "s8",
         "uint8": "u8", "int32": "s32", "float8_e4m3fn": "e4m3", "float8_e5m2": "e5m2"}  # fmt: skip


def matrix_name(shape: tuple[int, int, int], a: str, b: str, c: str, sparse: bool = False) -> str:
    """Name of the device function; its kernel is ``k_<name>``, of mma.sp with the selector behind it."""
    m, n, k = shape
    return f"mma{'_sp' * sparse}_m{m}n{n}k{k}_{_SHORT[a]}_{_SHORT[b]}_{_SHORT[c]}"


def _kernel(shape: tuple[int, int, int], a: str, b: str, c: str, selector: int | None = None) -> str:
    """Fragments from row-major A, B, C in global memory, one instruction, and C back; of a sparse A what it keeps,
    and the lanes' words of E."""
    m, n, k = shape
    sparse = selector is not None
    held, more, suffix = (k // 2, ", uint32_t* E", f"_{selector}") if sparse else (k, "", "")
    types = [_TYPES[t][0] for t in (a, b, c)]
    # Elements in a lane's register: 4 bytes (f64: 8, one element).
    width = 1 if a == "float64" else 4 // np.dtype(_TYPES[a][1]).itemsize
    counts = [m * held // 32, k * n // 32, m * n // 32]
    name = matrix_name(shape, a, b, c, sparse)
    return f"""
extern "C" __global__ void k_{name}{suffix}(tile::{types[0]}* A, tile::{types[1]}* B, tile::{types[2]}* C{more}) {{
  int lane = threadIdx.x, group = lane / 4, place = lane % 4;
  TILE_LOCAL(tile::{types[0]}, a, {counts[0]});
  TILE_LOCAL(tile::{types[1]}, b, {counts[1]});
  TILE_LOCAL(tile::{types[2]}, c, {counts[2]});
  for (int i = 0; i < {counts[0]}; ++i) {{
    int reg = i / {width};
    a[i] = A[(group + 8 * (reg % 2)) * {held} + place * {width} + i % {width} + 4 * {width} * (reg / 2)];
  }}
  for (int i = 0; i < {counts[1]}; ++i) {{
    int row = place * {width} + i % {width} + 4 * {width} * (i / {width});
    b[i] = B[row * {n} + group];
  }}
  for (int i = 0; i < {counts[2]}; ++i) c[i] = C[(group + 8 * (i / 2)) * {n} + place * 2 + i % 2];
  {"TILE_LOCAL(uint32_t, e, 1); e[0] = E[lane];" * sparse}
  tile::{name}{f"<{selector}>" * sparse}(c, a, b{", e" * sparse});
  for (int i = 0; i < {counts[2]}; ++i) C[(group + 8 * (i / 2)) * {n} + place * 2 + i % 2] = c[i];
}}
"""


def matrix_source(variants: Sequence[Any] = MATRIX_KERNELS) -> str:
    """A translation unit with a kernel for each variant; each takes pointers to A, B and C, and 32 threads."""
    return _unit(_kernel(*variant[:4]) for variant in variants)


def sparse_source(variants: Sequence[Any] = SPARSE_KERNELS) -> str:
    """The same of mma.sp; E, a word a lane, follows C."""
    return _unit(_kernel(*variant[:4], selector=variant[5]) for variant in variants)


def _unit(kernels: Iterable[str]) -> str:
    text = '#include "tile_cuda.h"\n' + "".join(kernels)
    for plain in ("float", "double", "int8_t", "uint8_t", "int32_t"):
        text = text.replace(f"tile::{plain}*", f"{plain}*").replace(f"tile::{plain},", f"{plain},")
    return text


def matrix_arguments(variant: Any) -> tuple[str, list[np.ndarray]]:
    """The kernel's name, and A, B, C with random values."""
    (m, n, k), a, b, c, _ = variant
    random = np.random.default_rng(m + n + k)
    arrays = [_values(random, extents, dtype) for extents, dtype in (((m, k), a), ((k, n), b), ((m, n), c))]
    return f"k_{matrix_name((m, n, k), a, b, c)}", arrays


def sparse_arguments(variant: Any) -> tuple[str, list[np.ndarray], np.ndarray]:
    """The kernel's name; what A keeps, B, C and the lanes' words of E; and A as a whole.

    The words follow the figures of the PTX ISA ("Matrix fragments for sparse mma"); lanes that are not asked hold
    places that would be wrong.
    """
    (m, _, k), a, selector = *variant[:2], variant[5]
    name, (whole, right, sums) = matrix_arguments(variant[:5])
    random = np.random.default_rng(k)
    size = 2 if a == "tfloat32" else 4
    kept, words = np.zeros((m, k // 2), whole.dtype), np.full(32, 0x44444444, np.uint32)
    asked = np.zeros(32, np.uint32)
    for row in range(m):
        for chunk in range(k // size):
            places = sorted(random.choice(size, size // 2, replace=False).tolist())
            first = chunk * size
            kept[row, first // 2 : first // 2 + size // 2] = whole[row, [first + place for place in places]]
            for place in set(range(size)) - set(places):
                whole[row, first + place] = 0
            bits = (0b0100, 0b1110)[places[0]] if size == 2 else places[0] | places[1] << 2
            # m16n8k64: T0 has row 0 and T1 row 8 of columns 0 to 31, T2 and T3 the same of columns 32 to 63. The
            # others: T0[15:0] has row 0 and T0[31:16] row 8 of the first half of the columns, T1 of the second; with
            # selector 1 it is T2 and T3.
            lane = row % 8 * 4
            if k == 64:
                lane, shift = lane + row // 8 + 2 * (first // 32), chunk % 8 * 4
            else:
                lane, shift = lane + 2 * selector + first // (k // 2), row // 8 * 16 + chunk % 4 * 4
            asked[lane] |= np.uint32(bits << shift)
    words = np.where(asked, asked, words)
    return f"{name.replace('mma_', 'mma_sp_')}_{selector}", [kept, right, sums, words], whole


def matrix_expected(variant: Any, arrays: list[np.ndarray]) -> tuple[np.ndarray, float]:
    """C + A B, and how far (absolutely and relatively) the kernel may be from it."""
    wide = np.int64 if variant[3] == "int32" else np.float64
    a, b, c = (array.astype(wide) for array in arrays)
    return c + a @ b, {"float16": 1e-2, "float32": 1e-4, "float64": 1e-12, "int32": 0.0}[variant[3]]


def _values(random: np.random.Generator, extents: tuple[int, int], dtype: str) -> np.ndarray:
    held = _TYPES[dtype][1]
    if dtype.endswith(("int8", "int32")):
        return random.integers(0 if dtype == "uint8" else -100, 100, extents).astype(held)
    drawn = random.standard_normal(extents).astype(np.float32)
    if dtype == "tfloat32":
        return (drawn.view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32)
    return drawn.astype(held)
