"""Comparing tensors with a tolerance and a report that a person can act on."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

__all__ = ["assert_tensors_close"]


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
