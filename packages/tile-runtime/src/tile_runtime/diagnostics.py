"""Saying what a compile does, for those who asked: ``TILE_VERBOSE``, ``TILE_JIT_DIAGNOSTICS`` or `verbose=True`."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from tile_core.settings import settings

__all__ = ["phase", "say"]


@contextmanager
def phase(kernel: str, name: str, times: dict[str, float], verbose: bool = False) -> Iterator[None]:
    """Measures a phase of a compile into ``times[name]`` (seconds) and, where asked for, prints its start and end."""
    loud = verbose or settings.jit_diagnostics
    if loud:
        say(f"{kernel}: {name} starts")
    start = time.perf_counter()
    try:
        yield
    finally:
        times[name] = time.perf_counter() - start
        if loud:
            say(f"{kernel}: {name} took {times[name] * 1e3:.1f} ms")


def say(text: str) -> None:
    """A line on standard error: standard output belongs to the program."""
    print(f"tile: {text}", file=sys.stderr, flush=True)
