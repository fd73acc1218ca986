"""A loaded library of emulated kernels: how a run is set, what it found, and launching a kernel without a host stub."""

from __future__ import annotations

import ctypes
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from threading import RLock
from typing import Any

from .build import source_lines
from .linemap import LineMap
from .report import Report, addresses, report_from_engine
from .session import SCHEDULES, Session

__all__ = ["EmulatedLibrary"]


# A library that is opened twice is one, with one engine.
_locks: dict[Path, RLock] = defaultdict(RLock)


class EmulatedLibrary:
    """The library at `path`. One run at a time: its engine has one state; hold `lock` from `begin` to `report`."""

    def __init__(self, path: Path, lines: LineMap) -> None:
        self.path = path
        self.lines = lines
        self.lock = _locks[path]
        self._places: dict[int, int] = {}  # code offset → generated line
        self.handle = ctypes.CDLL(str(path))
        self.handle.tile_emu_report.restype = ctypes.c_char_p
        self.handle.tile_emu_pointer.restype = ctypes.c_void_p

    def begin(self, session: Session) -> None:
        """Forgets earlier findings; launches that follow run as the session says."""
        count = len(session.switched_off)
        off = (ctypes.c_uint32 * max(1, count))(*session.switched_off)
        self.handle.tile_emu_configure(
            SCHEDULES.index(session.schedule),
            ctypes.c_uint64(session.seed),
            off,
            ctypes.c_uint64(count),
            ctypes.c_uint64(session.explore),
            ctypes.c_uint32(session.delay),
        )

    def report(self) -> Report:
        """What the launches since `begin` came to."""
        text = self.handle.tile_emu_report().decode()
        wanted = [code for code in addresses(text, self.lines) if code not in self._places]
        found = source_lines(self.path, wanted)
        self._places.update((code, found.get(code, 0)) for code in wanted)
        return report_from_engine(text, self._places, self.lines)

    def launch(
        self,
        kernel: str,
        grid: Sequence[int],
        block: Sequence[int],
        shared_bytes: int,
        arguments: Mapping[str, Any],
        session: Session,
        fresh: Sequence[str] = (),
    ) -> Report:
        """Runs one kernel and says what it came to.

        Args:
            kernel: its name.
            grid, block: one to three extents.
            shared_bytes: of dynamic shared memory.
            arguments: by name, in the order of its parameters: numpy arrays (contiguous), or ctypes scalars.
            session: how.
            fresh: arrays whose bytes count as never written.
        """
        with self.lock:
            self.begin(session)
            for name, value in arguments.items():
                if hasattr(value, "ctypes"):
                    data, size = ctypes.c_void_p(value.ctypes.data), ctypes.c_uint64(value.nbytes)
                    self.handle.tile_emu_add(name.encode(), data, size, int(name in fresh))
            values = [
                ctypes.c_void_p(self.handle.tile_emu_pointer(ctypes.c_void_p(value.ctypes.data)))
                if hasattr(value, "ctypes")
                else value
                for value in arguments.values()
            ]
            slots = (ctypes.c_void_p * max(1, len(values)))(*(ctypes.addressof(value) for value in values))
            entry = getattr(self.handle, f"tile_emu_launch_{kernel}")
            entry(_extents(grid), _extents(block), ctypes.c_uint64(shared_bytes), slots)
            self.handle.tile_emu_finish()
            return self.report()


def _extents(given: Sequence[int]) -> Any:
    return (ctypes.c_uint32 * 3)(*given, *([1] * (3 - len(given))))
