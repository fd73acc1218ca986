"""A worker process from the outside: asked with a time limit, killed when it is late, started anew when it died."""

from __future__ import annotations

import pickle
import signal
import threading
from collections.abc import Mapping
from typing import Any

from ..child import Child, ChildEnded

__all__ = ["MeasuringProcess", "measure_here"]

START_SECONDS = 300.0
"""For importing torch on a busy machine."""


class MeasuringProcess:
    """Runs jobs of `worker.perform` one after the other. A context manager."""

    def __init__(self) -> None:
        self._child = Child("tile_runtime.tune.worker")

    def __enter__(self) -> MeasuringProcess:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    @property
    def started(self) -> bool:
        """Whether a process of this one's is there."""
        return self._child.alive

    def ask(self, job: Mapping[str, Any], timeout: float) -> dict[str, Any]:
        """The reply to a job; state ``timeout`` or ``crashed`` where the process gave none."""
        if not self._child.alive:
            self._child.start()
            ready = self._exchange(None, START_SECONDS)
            if ready.get("state") != "ready":
                return {"state": "failed", "reason": f"the measuring process did not start: {ready.get('reason')}"}
        reply = self._exchange(pickle.dumps(dict(job)), timeout)
        if reply.get("broken") or reply["state"] in ("timeout", "crashed"):
            self.close()
        return reply

    def close(self) -> None:
        """Ends the process."""
        self._child.end()

    def _exchange(self, message: bytes | None, timeout: float) -> dict[str, Any]:
        try:
            return pickle.loads(self._child.exchange(message, timeout))
        except ChildEnded as ended:
            if ended.late:
                return {"state": "timeout", "reason": f"took longer than {timeout:g} s and was killed"}
            return {"state": "crashed", "reason": _ending(ended.code)}


def measure_here(payload: bytes) -> dict[str, Any]:
    """What an executor runs on its machine: a job in a measuring process of that machine's own.

    Args:
        payload: a pickled (job, seconds).
    """
    job, timeout = pickle.loads(payload)
    with _lock:  # one at a time: kernels that run side by side measure each other
        return _own.ask(job, timeout)


_own = MeasuringProcess()
_lock = threading.Lock()


def _ending(code: int) -> str:
    if code >= 0:
        return f"the process ended with exit code {code}"
    try:
        return f"the process was ended by {signal.Signals(-code).name}"
    except ValueError:
        return f"the process was ended by signal {-code}"
