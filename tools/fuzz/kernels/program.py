"""What the families make: a kernel as text, and the tiles that it works on."""

from __future__ import annotations

from dataclasses import dataclass, field

__all__ = ["Program", "Tile"]


@dataclass(frozen=True)
class Program:
    """A kernel as text.

    Args:
        source: defines `kernel`.
        sizes: values of its shape variables and of its scalar parameters.
        special: whether inputs hold NaN and infinities, and integers of the whole range.
        seed: of the inputs.
    """

    source: str
    sizes: dict[str, int] = field(default_factory=dict)
    special: bool = False
    seed: int = 0


@dataclass(frozen=True)
class Tile:
    """A tile on chip."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    scope: str

    @property
    def is_float(self) -> bool:
        return "float" in self.dtype

    @property
    def volume(self) -> int:
        result = 1
        for extent in self.shape:
            result *= extent
        return result

    def at(self, places: list[str]) -> str:
        """An element, as text."""
        return f"{self.name}[{', '.join(places)}]"
