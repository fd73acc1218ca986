"""The kernels of this folder on a device, beside the interpreter."""

from __future__ import annotations

import numpy as np
import pytest

from integration_tests.operations import test_allreduce, test_atomics, test_math, test_random, test_reducers, test_warps
from integration_tests.operations.harness import on_device
from tile_core.interpreter import interpret

pytestmark = pytest.mark.gpu


def beside(function, *arrays, exact=()):
    """Runs a kernel on the device and in the interpreter; outputs named in `exact` agree to the bit."""
    expected = [a.copy() for a in arrays]
    interpret(function, *expected)
    found = on_device(function, *arrays)
    for position, (a, b) in enumerate(zip(found, expected)):
        if position in exact or a.dtype.kind != "f":
            assert np.array_equal(a, b), (function.name, position, np.argwhere(a != b)[:4])
        else:
            np.testing.assert_allclose(a, b, rtol=2e-5, atol=2e-5, err_msg=f"{function.name}, {position}")
    return found


def test_warps_agree_to_the_bit():
    a = np.random.default_rng(0).standard_normal(test_warps.N).astype(np.float32)
    arrays = (a, np.zeros((9, test_warps.N), np.float32), np.zeros((12, test_warps.N), np.uint32))
    beside(test_warps.together, *arrays, exact=(0, 1, 2))


def test_random_numbers():
    zeros = (np.zeros((64, 8), np.uint32), np.zeros((64, 4), np.float32), np.zeros((64, 2)))
    beside(test_random.draws, *zeros, np.array([0x299F31D0A4093822, 0x0370734413198A2E], np.int64), exact=range(4))
    beside(test_random.normals, np.zeros((128, 5), np.float32), np.zeros((128, 3)), np.zeros(128, np.uint32))


def test_rounding_modes_and_approximate_functions():
    rng = np.random.default_rng(0)
    a, b, c = (test_math.numbers(rng) for _ in range(3))
    zeros = np.zeros((26, test_math.N), np.float32)
    expected = [a.copy(), b.copy(), c.copy(), zeros.copy()]
    interpret(test_math.rounded, *expected)
    found = on_device(test_math.rounded, a, b, c, zeros)[3]
    same = (found.view(np.uint32) == expected[3].view(np.uint32)) | (np.isnan(found) & np.isnan(expected[3]))
    assert same.all(), np.argwhere(~same)[:4]
    a = rng.uniform(0.1, 3.0, test_math.N).astype(np.float32)
    o = on_device(
        test_math.approximate,
        a,
        a.astype(np.float16),
        np.zeros((9, test_math.N), np.float32),
        np.zeros(test_math.N, np.float16),
    )[2]
    x = a.astype(np.float64)
    wanted = [np.exp(x), 10**x, np.log(x), np.log2(x), np.log10(x), np.sin(x), np.cos(x), np.tan(x), 1 / x]
    np.testing.assert_allclose(o, wanted, rtol=2e-4, atol=2e-6)


def test_words_and_bits():
    rng = np.random.default_rng(3)
    a = rng.standard_normal((64, 8)).astype(np.float16)
    beside(test_math.words, a, np.zeros((64, 8), np.float16), np.zeros((64, 4), np.uint32), np.zeros(64, np.float32))
    m = rng.integers(0, 2**32, 64).astype(np.uint32)
    bytes_ = [rng.integers(-128, 128, (64, 4)).astype(np.int8) for _ in range(2)]
    beside(test_math.bits, m, *bytes_, np.zeros((5, 64), np.int32))


@pytest.mark.parametrize("dtype", test_atomics.INTEGERS)
def test_atomic_updates(dtype):
    rng = np.random.default_rng(1)
    a, c = (rng.integers(0, 100, n).astype(dtype) for n in (test_atomics.N, 12))
    beside(test_atomics.updates(dtype, ("add", "or", "xor")), a, c, np.zeros(12, dtype))


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_neighbours(dtype):
    a = np.random.default_rng(3).integers(0, 9, 2 * test_atomics.N).astype(dtype)
    arrays = (a, np.ones(2 * test_atomics.N, dtype), np.zeros(4 * test_atomics.N, dtype))
    beside(test_atomics.neighbours(dtype), *arrays, exact=range(3))


def test_reducers_and_reductions_over_threads():
    a = np.random.default_rng(5).integers(-6, 9, (16, 128)).astype(np.float32)
    for op in ("sum", "max", "min"):
        beside(test_reducers.rows(op, "float32"), a, np.zeros(16, np.float32), exact=(1,))
    a, b = a[0, :100].copy(), np.random.default_rng(8).integers(-4, 5, (12, 100)).astype(np.float32)
    for rows, lanes in ((4, 32), (2, 64), (3, 12)):
        beside(test_allreduce.gemv(12, 100, rows, lanes), a, b, np.zeros(12, np.float32), exact=(2,))
