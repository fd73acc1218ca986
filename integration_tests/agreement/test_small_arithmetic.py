"""Arithmetic of every element type of 16 bits or fewer: each operation computed wide and rounded, or wrapped, once.

All pairs of values of the types of eight bits or fewer; the interpreter against the rule, compiled kernels against the
interpreter.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch

import tile_core as tile
import tile_core.language as T
from tile_core.casts import number_types
from tile_core.dtypes import DType, promote
from tile_core.interpreter import interpret
from tile_core.interpreter.values import convert
from tile_core.testing.carriers import all_values, empty_tensor, equal_values, from_tensor, pack_nibbles, to_tensor

BACKENDS = {"cpu": {"target": "cpu"}, "emulated": {"target": "cuda -arch=sm_80", "execution_backend": "emulate"}}
TYPES = [d for d in number_types() if d.bits <= 16 and not d.is_bool]
OFTEN = ("float8_e4m3fn", "int4")
CASES = [
    pytest.param(backend, dtype, marks=() if dtype.name in OFTEN else pytest.mark.slow, id=f"{backend}-{dtype}")
    for backend in BACKENDS
    for dtype in TYPES
]
COUNT = 1 << 14


def kernel(dtype: DType, count: int):
    name = str(dtype)
    is_float = dtype.is_float

    @T.prim_func
    def main(
        A: T.Tensor((count,), name),
        B: T.Tensor((count,), name),
        V: T.Tensor((7, count), name),
        P: T.Tensor((3, count), "bool"),
    ):
        with T.Kernel(count // 1024, threads=128) as b:
            for i in T.Parallel(1024):
                x = A[b * 1024 + i]
                y = B[b * 1024 + i]
                V[0, b * 1024 + i] = x + y
                V[1, b * 1024 + i] = x - y
                V[2, b * 1024 + i] = x * y
                V[3, b * 1024 + i] = T.max(x, y)
                V[4, b * 1024 + i] = T.min(x, y)
                V[5, b * 1024 + i] = -x
                if is_float:
                    V[6, b * 1024 + i] = T.abs(x)
                else:
                    V[6, b * 1024 + i] = x & y
                P[0, b * 1024 + i] = x < y
                P[1, b * 1024 + i] = x == y
                P[2, b * 1024 + i] = x != y

    return main


def operands(dtype: DType) -> tuple[np.ndarray, np.ndarray]:
    values = all_values(dtype)
    random = np.random.default_rng(4)
    if dtype.bits <= 8:
        # Every pair, or every pair of a random half.
        once = values[: 1 << dtype.bits]
        a, b = (m.reshape(-1) for m in np.meshgrid(once, once))
        chosen = random.permutation(a.size)[:COUNT]
        return np.resize(a[chosen], COUNT), np.resize(b[chosen], COUNT)
    return random.choice(values, COUNT), random.choice(values, COUNT)


def by_the_rule(dtype: DType, a: np.ndarray, b: np.ndarray) -> list[np.ndarray]:
    wide = np.float32 if dtype.is_float else np.int64
    x, y = np.asarray(a).astype(wide), np.asarray(b).astype(wide)
    results = [x + y, x - y, x * y, np.fmax(x, y), np.fmin(x, y), -x, np.abs(x) if dtype.is_float else x & y]
    return [convert(r, DType("float32" if dtype.is_float else "int64"), dtype) for r in results]


@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_the_interpreter_does_what_the_rule_says(dtype):
    a, b = operands(dtype)
    held = DType("uint8") if dtype.bits == 4 else dtype
    values = empty_tensor(dtype, 7, COUNT).view(torch.uint8).numpy() if dtype.bits == 4 else None
    v = values if values is not None else from_tensor(empty_tensor(held, 7, COUNT), held)
    p = np.zeros((3, COUNT), dtype=np.bool_)
    with np.errstate(all="ignore"):
        interpret(kernel(dtype, COUNT), *(pack_nibbles(z) if dtype.bits == 4 else z for z in (a, b)), v, p)
        expected = by_the_rule(dtype, a, b)
        found = from_tensor(torch.from_numpy(v), dtype) if dtype.bits == 4 else v
        for row, wanted in zip(found, expected):
            assert zeros_alike(row, wanted).all()
        wide = [np.asarray(z).astype(np.float64) for z in (a, b)]
    assert (p[0] == (wide[0] < wide[1])).all()
    assert (p[1] == (wide[0] == wide[1])).all()
    assert (p[2] == (wide[0] != wide[1])).all()


def zeros_alike(found: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """Where arrays agree, whatever the sign of zero: of -0 and 0 a maximum may be either."""
    return equal_values(found, expected) | ((found == 0) & (expected == 0))


@pytest.mark.parametrize(("backend", "dtype"), CASES)
def test_kernels_do_what_the_interpreter_does(backend, dtype):
    a, b = operands(dtype)
    function = kernel(dtype, COUNT)
    v, p = empty_tensor(dtype, 7, COUNT), torch.zeros(3, COUNT, dtype=torch.bool)
    tile.compile(function, **BACKENDS[backend])(to_tensor(a, dtype), to_tensor(b, dtype), v, p)
    with np.errstate(all="ignore"):
        expected = by_the_rule(dtype, a, b)
        wide = [np.asarray(z).astype(np.float64) for z in (a, b)]
        for number, (row, wanted) in enumerate(zip(from_tensor(v, dtype), expected)):
            same = zeros_alike(row, wanted) if number in (3, 4) else equal_values(row, wanted)
            assert same.all(), (number, a[~same][:3], b[~same][:3], row[~same][:3], wanted[~same][:3])
    assert (p[0].numpy() == (wide[0] < wide[1])).all()
    assert (p[1].numpy() == (wide[0] == wide[1])).all()
    assert (p[2].numpy() == (wide[0] != wide[1])).all()


@pytest.mark.parametrize(
    ("a", "b", "result"),
    [
        ("float8_e4m3fn", "float8_e4m3fn", "float8_e4m3fn"),
        ("float8_e4m3fn", "float8_e5m2", "float32"),
        ("float8_e4m3fn", "float16", "float16"),
        ("float8_e8m0fnu", "float16", "float32"),
        ("float8_e8m0fnu", "bfloat16", "bfloat16"),
        ("float4_e2m1fn", "float8_e8m0fnu", "float32"),
        ("float16", "bfloat16", "float32"),
        ("bfloat16", "float32", "float32"),
        ("tfloat32", "float32", "float32"),
        ("int4", "int8", "int8"),
        ("uint8", "int8", "int8"),
        ("int4", "uint8", "uint8"),
        ("int64", "float16", "float16"),
        ("bool", "int4", "int4"),
        ("float16x2", "float32", "float32x2"),
    ],
)
def test_two_types_meet_in_one_that_holds_both(a, b, result):
    assert str(promote(T.dtype(a), T.dtype(b))) == result
    assert str(promote(T.dtype(b), T.dtype(a))) == result
