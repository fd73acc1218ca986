"""What a kernel of the matrix is: how it is made, called and judged at a number of trips of its loop."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from tile_core.ir import PrimFunc

__all__ = ["Case", "normal"]


@dataclass(frozen=True)
class Case:
    """A kernel and its meaning.

    Args:
        make: () → the traced function; its length is dynamic, so one binary serves all trip counts.
        inputs: (generator, trips) → the inputs.
        meaning: (inputs…) → the outputs, which the kernel takes after the inputs.
        stages: of its pipeline; 1 where its loop is plain.
        dtype: the narrowest type that values pass through, where it is not that of the outputs.
        terms: (trips) → number of terms behind one element.
        start: what outputs hold before the call; kernels that add to them need 0, others get a number nowhere right.
        arch: the oldest architecture that has its instructions, where sm_80 lacks them.
        quick: whether it is part of the quick run.
    """

    make: Callable[[], PrimFunc]
    inputs: Callable[[torch.Generator, int], Sequence[torch.Tensor]]
    meaning: Callable[..., Sequence[torch.Tensor]]
    stages: int = 1
    dtype: str | None = None
    terms: Callable[[int], int] = lambda trips: 1
    start: float = 77
    arch: str = "sm_80"
    quick: bool = False

    @property
    def trips(self) -> list[int]:
        """Where pipelines go wrong: nothing to do, less than they are deep, as much, more."""
        return sorted({0, 1, 2, max(self.stages - 1, 0), self.stages, self.stages + 1})

    def arguments(self, trips: int) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
        """Inputs, and what the kernel shall make of them."""
        given = list(self.inputs(torch.Generator().manual_seed(trips + 1), trips))
        return given, list(self.meaning(*given))


def normal(random: torch.Generator, *shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Normal numbers; small integers for an integer type."""
    if not dtype.is_floating_point:
        return torch.randint(0 if dtype == torch.uint8 else -5, 6, shape, generator=random).to(dtype)
    return torch.randn(*shape, generator=random, dtype=torch.float32).to(dtype)
