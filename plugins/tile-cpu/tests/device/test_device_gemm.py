"""gemm on tiles of odd sizes, every transposition, every type, against numpy in the accumulator's type."""

from __future__ import annotations

import ctypes
import re
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

TYPES = {
    "float": np.float32, "double": np.float64, "fp16": np.float16, "bf16": ml_dtypes.bfloat16,
    "int8_t": np.int8, "uint8_t": np.uint8, "int16_t": np.int16, "int32_t": np.int32,
}  # fmt: skip
CASES = {
    name: [field.strip() for field in fields.split(",")]
    for name, fields in re.findall(
        r"^GEMM\((\w+), (.*)\)$", (Path(__file__).parent / "gemm_cases.inc").read_text(), re.MULTILINE
    )
}


@pytest.fixture(scope="module")
def library(build, march):
    return build("gemm.cpp", march)


def pointer(array: np.ndarray) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data)


def operand(rng: np.random.Generator, rows: int, columns: int, kind: str) -> np.ndarray:
    dtype = TYPES[kind]
    if np.issubdtype(dtype, np.integer):
        info = np.iinfo(np.int8 if kind == "int32_t" else dtype)
        return rng.integers(info.min, info.max, (rows, columns), endpoint=True).astype(dtype)
    return rng.normal(0, 1, (rows, columns)).astype(dtype)


@pytest.mark.parametrize("name", CASES)
def test_gemm(library, name):
    ta, tb, m, n, k, clear, a_type, b_type, c_type = CASES[name]
    rows, columns, inner = int(m), int(n), int(k)
    rng = np.random.default_rng(9)
    a = operand(rng, *((inner, rows) if ta == "true" else (rows, inner)), a_type)
    b = operand(rng, *((columns, inner) if tb == "true" else (inner, columns)), b_type)
    c = operand(rng, rows, columns, c_type)
    before = c.copy()
    getattr(library, name)(pointer(a), pointer(b), pointer(c))
    wide = np.int64 if c_type == "int32_t" else np.float64
    left, right = (a.T if ta == "true" else a).astype(wide), (b.T if tb == "true" else b).astype(wide)
    start = before.astype(wide) if clear == "false" else np.zeros(c.shape, wide)
    exact = start + left @ right
    if c_type == "int32_t":
        assert np.array_equal(c, exact.astype(np.int32))
        return
    # A few roundings of partial sums no larger than the sum of magnitudes, and the last one to the type of C.
    magnitude = np.abs(start) + np.abs(left) @ np.abs(right)
    rounding = ml_dtypes.finfo(np.float64 if c_type == "double" else np.float32).eps * 4 * magnitude
    error = np.abs(c.astype(np.float64) - exact)
    assert (error <= rounding + float(ml_dtypes.finfo(TYPES[c_type]).eps) * np.abs(exact)).all(), error.max()


def test_rows_between_the_pitches_stay_untouched(library):
    rng = np.random.default_rng(0)
    a, b, c = (rng.normal(0, 1, shape).astype(np.float32) for shape in ((13, 11), (7, 23), (13, 29)))
    before = c.copy()
    library.pitched(pointer(a), pointer(b), pointer(c))
    assert np.allclose(c[:, :19], before[:, :19] + a[:, :7] @ b[:, :19], atol=1e-5)
    assert np.array_equal(c[:, 19:], before[:, 19:])


def test_the_step_functor_sees_each_register_block_once(library):
    rng = np.random.default_rng(0)
    a, b, c = (rng.normal(0, 1, shape).astype(np.float32) for shape in ((40, 8), (8, 72), (40, 72)))
    wanted = c + a @ b
    assert library.steps(pointer(a), pointer(b), pointer(c)) > 1
    assert np.allclose(c, wanted, atol=1e-5)
