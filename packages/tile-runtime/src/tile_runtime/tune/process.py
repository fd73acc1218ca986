"""A worker process from the outside: asked with a time limit, killed when it is late, started anew when it died."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..parallel import receive, send

__all__ = ["MeasuringProcess", "measure_here"]

START_SECONDS = 300.0
"""For importing torch on a busy machine."""


class MeasuringProcess:
    """Runs jobs of `worker.perform` one after the other. A context manager."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> MeasuringProcess:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def ask(self, job: Mapping[str, Any], timeout: float) -> dict[str, Any]:
        """The reply to a job; state ``timeout`` or ``crashed`` where the process gave none."""
        process = self._process
        if process is None or process.poll() is not None:
            self.close()
            process = self._process = _start()
            ready = self._exchange(process, None, START_SECONDS)
            if ready.get("state") != "ready":
                return {"state": "failed", "reason": f"the measuring process did not start: {ready.get('reason')}"}
        reply = self._exchange(process, pickle.dumps(dict(job)), timeout)
        if reply.get("broken") or reply["state"] in ("timeout", "crashed"):
            self.close()
        return reply

    def close(self) -> None:
        """Ends the process."""
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()

    def _exchange(self, process: subprocess.Popen[bytes], message: bytes | None, timeout: float) -> dict[str, Any]:
        assert process.stdin is not None and process.stdout is not None
        late = threading.Event()
        timer = threading.Timer(timeout, lambda: (late.set(), process.kill()))
        timer.daemon = True
        timer.start()
        try:
            if message is not None:
                send(process.stdin, message)
            return pickle.loads(receive(process.stdout))
        except (OSError, EOFError):
            code = process.wait()
            if late.is_set():
                return {"state": "timeout", "reason": f"took longer than {timeout:g} s and was killed"}
            return {"state": "crashed", "reason": _ending(code)}
        finally:
            timer.cancel()


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


def _start() -> subprocess.Popen[bytes]:
    paths = (str(Path(path or ".").absolute()) for path in sys.path)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    words = [sys.executable, "-m", "tile_runtime.tune.worker"]
    return subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment)


def _ending(code: int) -> str:
    if code >= 0:
        return f"the process ended with exit code {code}"
    try:
        return f"the process was ended by {signal.Signals(-code).name}"
    except ValueError:
        return f"the process was ended by signal {-code}"
