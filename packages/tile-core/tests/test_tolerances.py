"""The one table of tolerances."""

import numpy as np
import pytest

from tile_core.dtypes import SCALAR_NAMES, as_dtype
from tile_core.testing.tolerances import TOLERANCES, tolerance


def test_every_float_type_has_a_row():
    floats = {name for name in SCALAR_NAMES if as_dtype(name).is_float}
    assert set(TOLERANCES) == floats


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint16", "int64"])
def test_integers_are_exact(dtype):
    assert tolerance(dtype, terms=1000) == (0.0, 0.0)


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16"])
def test_a_tolerance_is_some_units_in_the_last_place(dtype):
    eps = float(np.finfo(dtype).eps)
    assert 4 * eps <= tolerance(dtype).rtol <= 16 * eps


def test_longer_sums_may_differ_more():
    assert tolerance("float32", 10_000).rtol == pytest.approx(100 * tolerance("float32").rtol)
    assert tolerance("float32", 10_000).atol == pytest.approx(2_500 * tolerance("float32").atol)
    assert tolerance("float16", 4).rtol == tolerance("float16").rtol


@pytest.mark.parametrize("terms", [1, 100, 10_000])
def test_a_float32_sum_in_another_order_stays_inside(terms):
    generator = np.random.default_rng(terms)
    values = generator.standard_normal((4096, terms)).astype(np.float32)
    forward = np.zeros(4096, np.float32)
    for column in values.T:
        forward += column
    rtol, atol = tolerance("float32", terms)
    np.testing.assert_allclose(forward, values.astype(np.float64).sum(1), rtol=rtol, atol=atol)
