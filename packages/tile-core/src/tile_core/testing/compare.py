"""assert_close: results beside expectations, within the table of tolerances."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..dtypes import as_dtype
from .tolerances import Tolerance, tolerance

__all__ = ["assert_close", "to_numpy"]


def assert_close(
    actual: Any,
    expected: Any,
    dtype: Any = None,
    *,
    reduction: int = 1,
    scale: float = 1.0,
    max_mismatched_ratio: float = 0.0,
    label: str = "result",
) -> None:
    """Raises AssertionError unless ``|actual - expected| <= atol·scale + rtol·|expected|`` for all but a few elements.

    NaN equals NaN, an infinity equals itself. Integers and bools are compared exactly.

    Args:
        actual, expected: arrays or tensors of one shape.
        dtype: element type whose tolerance counts; by default that of `actual`. Name the narrowest type that values
            passed through.
        reduction: number of terms behind one element, such as K of a gemm.
        scale: size of the terms, where that is not about 1: absolute errors of sums grow with what is added.
        max_mismatched_ratio: share of elements that may be farther off.
        label: what the message calls the result.
    """
    got, wanted = to_numpy(actual), to_numpy(expected)
    if got.shape != wanted.shape:
        raise AssertionError(f"{label}: shape {list(got.shape)}, expected {list(wanted.shape)}")
    limits = tolerance(as_dtype(got.dtype) if dtype is None else dtype, reduction)
    wrong = _wrong(got, wanted, limits, scale)
    count = int(wrong.sum())
    if count <= max_mismatched_ratio * wrong.size:
        return
    raise AssertionError(_report(label, got, wanted, wrong, limits))


def to_numpy(value: Any) -> np.ndarray:
    """A numpy array of a tensor (bfloat16 and 8-bit floats by their bits), an array or a number."""
    if isinstance(value, np.ndarray):
        return value
    if hasattr(value, "detach"):
        import torch

        tensor = value.detach().cpu()
        name = str(tensor.dtype).removeprefix("torch.")
        if name == "bfloat16" or name.startswith("float8"):
            import ml_dtypes

            bits = tensor.contiguous().view(torch.int16 if tensor.element_size() == 2 else torch.int8)
            return bits.numpy().view(np.dtype(getattr(ml_dtypes, name)))
        return tensor.numpy()
    return np.asarray(value)


def _wrong(got: np.ndarray, wanted: np.ndarray, limits: Tolerance, scale: float) -> np.ndarray:
    if limits == (0.0, 0.0):
        return np.asarray(got != wanted)
    a, b = got.astype(np.float64), wanted.astype(np.float64)
    with np.errstate(invalid="ignore"):
        close = np.isfinite(b) & (np.abs(a - b) <= limits.atol * scale + limits.rtol * np.abs(b))
    return ~(close | (a == b) | (np.isnan(a) & np.isnan(b)))


def _report(label: str, got: np.ndarray, wanted: np.ndarray, wrong: np.ndarray, limits: Tolerance) -> str:
    a, b = got.astype(np.float64), wanted.astype(np.float64)
    with np.errstate(invalid="ignore"):
        error = np.where(wrong, np.nan_to_num(np.abs(a - b), nan=np.inf), -1.0)
    worst = np.unravel_index(int(np.argmax(error)), error.shape)
    first = tuple(int(i) for i in np.argwhere(wrong)[0])
    at = ", ".join(str(int(i)) for i in worst)
    return (
        f"{label}: {int(wrong.sum())} of {wrong.size} elements differ"
        f" (rtol {limits.rtol:.2g}, atol {limits.atol:.2g})\n"
        f"   first at {list(first)}: {got[first]!s}, expected {wanted[first]!s}\n"
        f"   worst at [{at}]: {got[worst]!s}, expected {wanted[worst]!s}, off by {error[worst]:.3g}"
    )
