"""Emulator of Tile: runs generated device source on the host and reports races, deadlocks and bad accesses.

`emulation` sets how kernels with ``execution_backend="emulate"`` are run inside a ``with`` block and collects what is
found; `EmulationError` is what a call raises that finds something.
"""

from .errors import EmulationError
from .report import Access, Finding, Report
from .session import SCHEDULES, emulation

__all__ = ["SCHEDULES", "Access", "EmulationError", "Finding", "Report", "emulation"]
