"""Comparing tensors: special values, shares, exact integers, the report."""

import pytest
import torch

from tile_runtime.profile import assert_tensors_close

NAN, INF = float("nan"), float("inf")


def close(actual, expected, **options):
    options = {"rtol": 0.0, "atol": 0.0, **options}
    try:
        assert_tensors_close(torch.tensor(actual), torch.tensor(expected), **options)
    except AssertionError:
        return False
    return True


@pytest.mark.parametrize(
    ("actual", "expected", "same"),
    [
        ([NAN], [NAN], True),
        ([INF, -INF], [INF, -INF], True),
        ([INF], [-INF], False),
        ([NAN], [1.0], False),
        ([1.0], [NAN], False),
        ([1.0], [INF], False),
        ([0.0], [-0.0], True),
    ],
)
def test_special_values(actual, expected, same):
    assert close(actual, expected, rtol=0.5, atol=0.5) is same


def test_nan_can_be_refused():
    assert not close([NAN], [NAN], equal_nan=False)


def test_tolerances_add():
    assert close([1.11], [1.0], rtol=0.1, atol=0.011)
    assert not close([1.12], [1.0], rtol=0.1, atol=0.011)


def test_large_integers_are_exact():
    assert not close([2**60 + 1], [2**60])
    assert close([2**60 + 1], [2**60 + 1])


def test_a_share_may_lie_outside():
    actual, expected = [0.0] * 99 + [5.0], [0.0] * 100
    assert close(actual, expected, max_mismatched_ratio=0.01)
    assert not close(actual, expected, max_mismatched_ratio=0.009)


def test_empty_tensors_are_close():
    assert close([], [])


def test_the_report_names_the_worst_element():
    actual = torch.zeros(2, 3)
    actual[1, 2], actual[0, 1] = 4.0, 1.0
    with pytest.raises(AssertionError) as caught:
        assert_tensors_close(actual, torch.zeros(2, 3), rtol=1e-3, atol=1e-3, name="C")
    assert str(caught.value) == (
        "C: 2 of 6 elements (33.33%) differ by more than rtol=0.001, atol=0.001; allowed are 0.00%\n"
        "  worst at [1, 2]: got 4, expected 0 (difference 4)"
    )


def test_a_nan_is_the_worst_element():
    with pytest.raises(AssertionError, match=r"worst at \[1\]: got nan, expected 0 "):
        assert_tensors_close(torch.tensor([9.0, NAN]), torch.zeros(2), rtol=0, atol=0)


def test_shapes_and_types_must_agree():
    with pytest.raises(AssertionError, match=r"shape \(2,\) differs from the expected \(3,\)"):
        assert_tensors_close(torch.zeros(2), torch.zeros(3), rtol=1, atol=1)
    with pytest.raises(AssertionError, match=r"torch.float32 differs from the expected torch.float64"):
        assert_tensors_close(torch.zeros(2), torch.zeros(2, dtype=torch.float64), rtol=1, atol=1)


@pytest.mark.parametrize("dtype", [torch.bool, torch.int8, torch.bfloat16, torch.float8_e4m3fn, torch.uint8])
def test_narrow_types_compare(dtype):
    tensor = torch.tensor([0, 1, 1], dtype=torch.int8).to(dtype)
    assert_tensors_close(tensor, tensor.clone(), rtol=0, atol=0)
    other = torch.tensor([0, 1, 0], dtype=torch.int8).to(dtype)
    with pytest.raises(AssertionError):
        assert_tensors_close(tensor, other, rtol=0, atol=0)
