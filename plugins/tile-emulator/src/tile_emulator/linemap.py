"""The line map that a backend prints beside its source: generated lines → kernel lines, and the views of the arena."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

__all__ = ["BufferView", "LineMap"]


@dataclass(frozen=True)
class BufferView:
    """A buffer's place in the shared arena of a kernel, in bytes.

    Args:
        name: of its pointer in the generated source.
        offset, bytes: where it is.
        storage: the buffer that it is another view of, else its own name; two storages in one place take turns.
    """

    name: str
    offset: int
    bytes: int
    storage: str = ""

    @property
    def owner(self) -> str:
        """The buffer whose bytes these are."""
        return self.storage or self.name


@dataclass
class LineMap:
    """Where generated lines come from.

    Args:
        lines: generated line → (file, line) of the kernel.
        views: views of the arena.
        syncs: ordinal of a synchronisation call → (generated line, name of the device function).
        source: the generated text.
    """

    lines: dict[int, tuple[str, int]] = field(default_factory=dict)
    views: list[BufferView] = field(default_factory=list)
    syncs: dict[int, tuple[int, str]] = field(default_factory=dict)
    source: str = ""

    @classmethod
    def from_text(cls, text: str, source: str = "") -> LineMap:
        """From the generated source and the JSON that a backend's codegen gives: ``lines``, ``buffers``, ``syncs``."""
        raw = json.loads(text)
        lines = {int(line): (place["file"], int(place["line"])) for line, place in raw.get("lines", {}).items()}
        keys = ("name", "offset", "bytes", "storage")
        views = [
            BufferView(**{key: row[key] for key in keys if row.get(key) is not None})
            for row in raw.get("buffers", ())
            if row.get("scope", "shared") == "shared"
        ]
        syncs = {int(ordinal): (int(line), str(name)) for ordinal, line, name in raw.get("syncs", ())}
        return cls(lines, views, syncs, source)

    def place(self, generated: int) -> tuple[int, str, int]:
        """(generated line, file, line)."""
        file, line = self.lines.get(generated, ("", 0))
        return generated, file, line

    def view(self, offset: int, generated_lines: Sequence[int]) -> BufferView | None:
        """The view that holds a byte of the arena; where several share it, one that the later of the lines names."""
        holding = [v for v in self.views if v.offset <= offset < v.offset + v.bytes]
        for line in reversed(generated_lines):
            for view in self.named(line, holding):
                return view
        if holding:
            return holding[0]
        below = [v for v in self.views if v.offset <= offset]
        return max(below, key=lambda v: v.offset) if below else None

    def named(self, line: int, views: Iterable[BufferView]) -> list[BufferView]:
        """Those of some views that a generated line names."""
        words = self._words(line)
        return [view for view in views if view.name in words]

    def taken_in_turns(self, offset: int) -> bool:
        """Whether a byte of the arena belongs to several buffers."""
        return len({v.owner for v in self.views if v.offset <= offset < v.offset + v.bytes}) > 1

    def strangers(self, offset: int, writer: int, reader: int) -> tuple[BufferView, BufferView] | None:
        """Where a byte of the arena is written as one buffer and read as another, at two generated lines: both."""
        if not self.taken_in_turns(offset):
            return None
        holding = [v for v in self.views if v.offset <= offset < v.offset + v.bytes]
        written, read = self.named(writer, holding), self.named(reader, holding)
        if not written or not read or {v.owner for v in written} & {v.owner for v in read}:
            return None
        return written[0], read[0]

    def _words(self, line: int) -> set[str]:
        if self._lines is None:
            self._lines = self.source.splitlines()
        text = self._lines[line - 1] if 0 < line <= len(self._lines) else ""
        return set(re.findall(r"\w+", text))

    _lines: list[str] | None = field(default=None, init=False, repr=False)
