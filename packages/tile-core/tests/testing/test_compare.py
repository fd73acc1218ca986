"""assert_close and the supply of random values."""

import numpy as np
import pytest

from tile_core.dtypes import SCALAR_NAMES, DType
from tile_core.interpreter import numpy_type
from tile_core.testing.compare import assert_close, to_numpy
from tile_core.testing.supply import random_array, random_tensor


def test_nan_equals_nan_and_infinity_itself():
    assert_close(np.array([np.nan, np.inf, 1.0]), np.array([np.nan, np.inf, 1.0]))
    with pytest.raises(AssertionError, match="1 of 1 elements differ"):
        assert_close(np.array([np.inf]), np.array([-np.inf]))
    with pytest.raises(AssertionError, match="off by inf"):
        assert_close(np.array([np.nan]), np.array([0.0]))


def test_the_report_names_first_and_worst():
    a = np.zeros((4, 4), "float32")
    b = a.copy()
    b[1, 2], b[3, 0] = 1.0, 5.0
    with pytest.raises(AssertionError) as report:
        assert_close(a, b, label="C")
    assert str(report.value).splitlines() == [
        "C: 2 of 16 elements differ (rtol 1e-06, atol 1e-06)",
        "   first at [1, 2]: 0.0, expected 1.0",
        "   worst at [3, 0]: 0.0, expected 5.0, off by 5",
    ]


def test_a_share_of_elements_may_differ():
    assert_close(np.array([0.0, 1.0]), np.array([0.0, 2.0]), max_mismatched_ratio=0.5)


def test_integers_are_compared_exactly():
    with pytest.raises(AssertionError):
        assert_close(np.array([2**53]), np.array([2**53 + 1]))


def test_shapes_must_agree():
    with pytest.raises(AssertionError, match=r"shape \[2\], expected \[1, 2\]"):
        assert_close(np.zeros(2), np.zeros((1, 2)))


@pytest.mark.parametrize("name", [n for n in SCALAR_NAMES if n not in ("void", "handle")])
def test_every_element_type_has_random_values(name, rng):
    array = random_array((100,), name, rng)
    assert array.dtype == numpy_type(DType(name))
    assert len(np.unique(array.astype("float64"))) > 1


@pytest.mark.parametrize("name", ["bool", "int8", "uint8", "int64", "float16", "bfloat16", "float8_e4m3fn", "float64"])
def test_tensors_and_arrays_are_the_same(name):
    import torch

    array = random_array((7, 3), name, np.random.default_rng(1))
    tensor = random_tensor((7, 3), name, np.random.default_rng(1))
    assert str(tensor.dtype) == f"torch.{name}"
    assert isinstance(tensor, torch.Tensor)
    assert np.array_equal(to_numpy(tensor).view("uint8"), array.view("uint8"))


@pytest.mark.parametrize("name", ["float16", "bfloat16", "float32", "float64"])
def test_special_values_are_mixed_in(name, rng):
    array = random_array((1000,), name, rng, special=True).astype("float64")
    assert np.isnan(array).any() and np.isposinf(array).any() and np.isneginf(array).any()
