"""How emulated kernels are run: the schedule, the synchronisation calls that are switched off, what is collected."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

from tile_core.errors import OptionError

from .report import Report

__all__ = ["SCHEDULES", "Session", "current_session", "emulation"]

SCHEDULES = ("in_order", "latest", "random")
"""``in_order``: threads and blocks in order, copies land at once. ``latest``: the reverse order, and an asynchronous
copy lands only when a wait completes its group. ``random``: both at random, by seed."""


@dataclass
class Session:
    """One ``with emulation(…)`` block."""

    schedule: str = "latest"
    seed: int = 0
    switched_off: tuple[int, ...] = ()
    explore: int = 0
    delay: int = 0
    raises: bool = True
    reports: list[Report] = field(default_factory=list)


_current: ContextVar[Session | None] = ContextVar("tile_emulator_session", default=None)


def current_session() -> Session:
    """The innermost ``with emulation(…)`` block, else the default."""
    return _current.get() or Session()


@contextmanager
def emulation(
    schedule: str = "latest",
    seed: int = 0,
    *,
    switched_off: Sequence[int] = (),
    explore: int = 0,
    delay: int = 0,
    raises: bool = True,
) -> Iterator[Session]:
    """Emulated kernels called inside run so; the yielded session's `reports` has one report a call.

    Args:
        schedule: one of `SCHEDULES`.
        seed: of the schedule ``random``.
        switched_off: ordinals of synchronisation calls that do nothing (``TILE_SYNC(n)`` in the generated source).
        explore: where above 0, all orders of agents (warps, groups of copies) that can differ are run, at most this
            many; the report says whether they were exhausted.
        delay: `Access.code` of an access: threads that come to it wait there until nobody else can go on.
        raises: whether a finding raises `EmulationError`.

    Raises:
        OptionError: an unknown schedule, or a negative number.
    """
    if schedule not in SCHEDULES:
        raise OptionError(
            "E-EMU-OPTION", f"there is no schedule {schedule!r}", facts=[f"schedules: {', '.join(SCHEDULES)}"]
        )
    if min(seed, explore, delay) < 0 or any(ordinal < 0 for ordinal in switched_off):
        raise OptionError(
            "E-EMU-OPTION",
            "seed, explore and ordinals are not negative",
            facts=[f"found seed={seed}, explore={explore}, switched_off={tuple(switched_off)}"],
        )
    session = Session(schedule, seed, tuple(switched_off), explore, delay, raises)
    token = _current.set(session)
    try:
        yield session
    finally:
        _current.reset(token)
