"""Comparing tensors with a tolerance and a report that a person can act on."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

__all__ = ["assert_tensors_close", "torch_assert_close"]


def assert_tensors_close(
    actual: torch.Tensor,
    expected: torch.Tensor,
    *,
    rtol: float,
    atol: float,
    max_mismatched_ratio: float = 0.0,
    name: str = "the result",
    equal_nan: bool = True,
) -> None:
    """Passes when at most `max_mismatched_ratio` of the elements lie outside |actual - expected| ≤ atol + rtol ·
    |expected|.

    NaN equals NaN where `equal_nan`, an infinity equals itself; both count as mismatches against anything else.

    Raises:
        AssertionError: with the shares, the worst element, its index and both values.
    """
    if actual.shape != expected.shape:
        raise AssertionError(f"{name}: shape {tuple(actual.shape)} differs from the expected {tuple(expected.shape)}")
    if actual.dtype != expected.dtype:
        raise AssertionError(f"{name}: {actual.dtype} differs from the expected {expected.dtype}")
    expected = expected.to(actual.device)
    exact = not actual.is_floating_point()
    ours, theirs = _wide(actual), _wide(expected)
    same = actual == expected if exact else ours == theirs  # int64 beyond 2^53 has no float64 of its own
    if equal_nan:
        same |= ours.isnan() & theirs.isnan()
    difference = (ours - theirs).abs()
    # NaN compares false, so a NaN against a number stays a mismatch; an infinite bound would let anything pass
    within = (difference <= atol + rtol * theirs.abs()) & theirs.isfinite()
    wrong = ~same if exact and not (atol or rtol) else ~(same | within)
    count, total = int(wrong.sum()), wrong.numel()
    if count <= max_mismatched_ratio * total:
        return
    badness = difference.masked_fill(~wrong, -1.0).nan_to_num(nan=float("inf"))
    place = int(badness.reshape(-1).argmax())
    index = tuple(_unravel(place, actual.shape))
    raise AssertionError(
        f"{name}: {count} of {total} elements ({count / total:.2%}) differ by more than "
        f"rtol={rtol:.3g}, atol={atol:.3g}; allowed are {max_mismatched_ratio:.2%}\n"
        f"  worst at {list(index)}: got {_number(actual[index])}, expected {_number(expected[index])} "
        f"(difference {difference[index].item():.3g})"
    )


def torch_assert_close(
    tensor_a: torch.Tensor,
    tensor_b: torch.Tensor,
    rtol: float = 1e-2,
    atol: float = 1e-3,
    max_mismatched_ratio: float = 1e-3,
    verbose: bool = False,
    equal_nan: bool = True,
    check_device: bool = True,
    check_dtype: bool = True,
    base_name: str = "LHS",
    ref_name: str = "RHS",
) -> None:
    """`assert_tensors_close` with TileLang's arguments and defaults: one element in a thousand may be farther.

    Args:
        tensor_a, tensor_b: what is tested, and what is expected.
        rtol, atol, max_mismatched_ratio, equal_nan: see `assert_tensors_close`.
        verbose: print that they agree.
        check_device, check_dtype: whether they have to be on one device, and of one element type.
        base_name, ref_name: what messages call them.

    Raises:
        AssertionError: they differ.
    """
    if check_device and tensor_a.device != tensor_b.device:
        raise AssertionError(f"{base_name} is on {tensor_a.device}, {ref_name} on {tensor_b.device}")
    if not check_dtype and tensor_a.dtype != tensor_b.dtype:
        tensor_a, tensor_b = _wide(tensor_a), _wide(tensor_b)
    assert_tensors_close(
        tensor_a,
        tensor_b,
        rtol=rtol,
        atol=atol,
        max_mismatched_ratio=max_mismatched_ratio,
        equal_nan=equal_nan,
        name=f"{base_name} against {ref_name}",
    )
    if verbose:
        print(f"{base_name} and {ref_name} agree")


def _wide(tensor: torch.Tensor) -> torch.Tensor:
    import torch

    return tensor.detach().to(torch.float64)


def _number(element: torch.Tensor) -> str:
    value = element.item()
    return f"{value:.9g}" if isinstance(value, float) else str(value)


def _unravel(place: int, shape: torch.Size) -> list[int]:
    index = []
    for extent in reversed(shape):
        index.append(place % extent)
        place //= extent
    return index[::-1]
