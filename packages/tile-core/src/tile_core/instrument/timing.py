"""PassTimes: how long each pass took."""

from __future__ import annotations

from typing import Any

from ..ir import IRModule

__all__ = ["PassTimes"]


class PassTimes:
    """An instrument that keeps (pass name, seconds) in order; a pass that runs twice is there twice."""

    def __init__(self) -> None:
        self.seconds: list[tuple[str, float]] = []

    def after_pass(self, pass_: Any, module: IRModule, seconds: float) -> None:
        """Keeps the time of one pass."""
        self.seconds.append((pass_.name, seconds))

    @property
    def total(self) -> float:
        """Seconds in all passes."""
        return sum(seconds for _, seconds in self.seconds)

    def by_pass(self) -> dict[str, float]:
        """Seconds by name; those of a pass that ran more than once are added up."""
        found: dict[str, float] = {}
        for name, seconds in self.seconds:
            found[name] = found.get(name, 0.0) + seconds
        return found

    def report(self) -> str:
        """A table, slowest first, with the share of each pass; the sum is the last line."""
        total = self.total or 1.0
        width = max([len(name) for name, _ in self.seconds] + [5])
        rows = sorted(self.seconds, key=lambda row: -row[1])
        lines = [f"{name:<{width}}  {seconds * 1e3:9.3f} ms  {seconds / total:5.1%}" for name, seconds in rows]
        return "\n".join([*lines, f"{'total':<{width}}  {self.total * 1e3:9.3f} ms"])
