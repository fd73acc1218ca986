"""What the emulator raises."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tile_core.errors import UserError, declare_codes

if TYPE_CHECKING:
    from .report import Report

__all__ = ["EmulationError"]

declare_codes(
    {
        "E-EMU-FINDING": "the emulator found a race, a deadlock or a bad access in a kernel's run",
        "E-EMU-UNCHECKED": "a kernel has source that the emulator can't run, so nothing is known of it",
        "E-EMU-TOOL": "the emulator needs a program that was not found",
        "E-EMU-BUILD": "the host's compiler rejected a kernel's emulated source",
        "E-EMU-SOURCE": "an artifact without the source that the emulator runs",
        "E-EMU-OPTION": "an option of the emulator has a value outside what it allows",
    }
)


class EmulationError(UserError):
    """A kernel's run in the emulator found something; `report` holds the findings."""

    def __init__(self, *args: Any, report: Report | None = None, **more: Any) -> None:
        super().__init__(*args, **more)
        self.report = report
