"""Tools that watch passes: their times, the IR after each of them, and a trace to show."""

from .asked import asked_for
from .dump import IRDump, ir_dump
from .timing import PassTimes
from .trace import PassTrace, Step

__all__ = ["IRDump", "PassTimes", "PassTrace", "Step", "asked_for", "ir_dump"]
