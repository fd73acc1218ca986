"""The line map that a backend prints beside its source: generated lines → kernel lines, and the views of the arena."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field

__all__ = ["BufferView", "LineMap"]


@dataclass(frozen=True)
class BufferView:
    """A buffer's place in the shared arena of a kernel, in bytes, and the generated lines between which it is used."""

    name: str
    offset: int
    bytes: int
    first_line: int = 0
    last_line: int = 1 << 30


@dataclass
class LineMap:
    """Where generated lines come from.

    Args:
        lines: generated line → (file, line) of the kernel.
        views: views of the arena.
        syncs: ordinal of a synchronisation call → (generated line, name of the device function).
    """

    lines: dict[int, tuple[str, int]] = field(default_factory=dict)
    views: list[BufferView] = field(default_factory=list)
    syncs: dict[int, tuple[int, str]] = field(default_factory=dict)

    @classmethod
    def from_text(cls, text: str) -> LineMap:
        """From the JSON that a backend's codegen gives: ``lines``, ``buffers``, ``syncs``."""
        raw = json.loads(text)
        lines = {int(line): (place["file"], int(place["line"])) for line, place in raw.get("lines", {}).items()}
        keys = ("name", "offset", "bytes", "first_line", "last_line")
        views = [
            BufferView(**{key: row[key] for key in keys if row.get(key) is not None})
            for row in raw.get("buffers", ())
            if row.get("scope", "shared") == "shared"
        ]
        syncs = {int(ordinal): (int(line), str(name)) for ordinal, line, name in raw.get("syncs", ())}
        return cls(lines, views, syncs)

    def place(self, generated: int) -> tuple[int, str, int]:
        """(generated line, file, line)."""
        file, line = self.lines.get(generated, ("", 0))
        return generated, file, line

    def view(self, offset: int, generated_lines: Sequence[int]) -> BufferView | None:
        """The view that holds a byte of the arena; where several share it, one that is in use at one of the lines, the
        later line first."""
        holding = [v for v in self.views if v.offset <= offset < v.offset + v.bytes]
        for line in reversed(generated_lines):
            for view in holding:
                if view.first_line <= line <= view.last_line:
                    return view
        if holding:
            return holding[0]
        below = [v for v in self.views if v.offset <= offset]
        return max(below, key=lambda v: v.offset) if below else None
