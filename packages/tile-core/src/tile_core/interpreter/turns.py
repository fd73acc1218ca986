"""Turns: parts of a run that wait for each other, such as blocks that meet, of which one runs at a time.

Each part is a Python thread, because a part waits deep inside the evaluation of its statements. Whose turn it is
follows from their order alone, so a run is the same every time.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

import numpy as np

__all__ = ["Turns"]


class _Ended(BaseException):
    """Ends the thread of a part that nobody will let go on."""


class _Part:
    def __init__(self, work: Callable[[], object], turns: Turns) -> None:
        self.work = work
        self.turns = turns
        self.go = threading.Semaphore(0)
        self.done = False
        self.given_up = False
        self.error: BaseException | None = None
        self.thread = threading.Thread(target=self._main, daemon=True)
        self.thread.start()

    def _main(self) -> None:
        self.go.acquire()
        try:
            if not self.given_up:
                with np.errstate(all="ignore"):
                    self.work()
        except _Ended:
            pass
        except BaseException as error:
            self.error = error
        finally:
            self.done = True
            self.turns.back.release()


class Turns:
    """Runs parts in rounds: in each, every part that has not ended goes on until it waits or ends.

    Args:
        works: what each part does; it calls `wait` where it waits.
        after_round: called with the number of parts that wait and of those that have ended, after each round with some
            that wait; raises where that cannot go on.
    """

    def __init__(self, works: Sequence[Callable[[], object]], after_round: Callable[[int, int], None]) -> None:
        self.back = threading.Semaphore(0)
        self.parts = [_Part(work, self) for work in works]
        self.after_round = after_round
        self.active: _Part | None = None

    def run(self) -> None:
        """Until all parts have ended; an error in one ends all."""
        try:
            while True:
                for part in self.parts:
                    if not part.done:
                        self._turn(part)
                waiting = sum(not part.done for part in self.parts)
                if not waiting:
                    return
                self.after_round(waiting, len(self.parts) - waiting)
        finally:
            for part in self.parts:
                part.given_up = True
                if not part.done:
                    self._turn(part)
                part.thread.join()

    def wait(self) -> None:
        """From inside the part whose turn it is: until its next turn."""
        part = self.active
        assert part is not None
        self.back.release()
        part.go.acquire()
        if part.given_up:
            raise _Ended

    def _turn(self, part: _Part) -> None:
        self.active = part
        part.go.release()
        self.back.acquire()
        if part.error is not None:
            error, part.error = part.error, None
            raise error
