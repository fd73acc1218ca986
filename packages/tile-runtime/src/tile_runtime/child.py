"""A process of a module of ours that is asked over its pipes: killed when it is late, started anew when it died."""

from __future__ import annotations

import os
import signal
import struct
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

__all__ = ["Child", "ChildEnded", "end_when_told", "receive", "send", "start_module"]


GRACE_SECONDS = 1.0
"""How long a process has to end by itself."""


class ChildEnded(Exception):
    """The process ended instead of replying.

    Args:
        code: its exit code; negative for a signal.
        late: whether it was killed because it took too long.
    """

    def __init__(self, code: int, late: bool) -> None:
        super().__init__(f"exit code {code}")
        self.code = code
        self.late = late


class Child:
    """A process that runs ``python -m module``; not for several threads at once."""

    def __init__(self, module: str) -> None:
        self.module = module
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def alive(self) -> bool:
        """Whether there is a process that can be asked."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Starts a process in place of one that is there."""
        self.end()
        self._process = start_module(self.module)

    def exchange(self, message: bytes | None, timeout: float | None) -> bytes:
        """The next reply, after sending a message if one is given.

        Args:
            timeout: seconds, after which the process is killed; None waits.

        Raises:
            ChildEnded: there is none.
        """
        process = self._process
        assert process is not None and process.stdin is not None and process.stdout is not None
        late = threading.Event()
        timer = threading.Timer(timeout or 0, lambda: (late.set(), process.kill()))
        timer.daemon = True
        if timeout is not None:
            timer.start()
        try:
            if message is not None:
                send(process.stdin, message)
            return receive(process.stdout)
        except (OSError, EOFError):
            raise ChildEnded(process.wait(), late.is_set()) from None
        finally:
            timer.cancel()

    def tell(self) -> None:
        """Lets the process end by itself, without waiting for it."""
        if self._process is not None:
            self._process.terminate()

    def end(self) -> None:
        """Ends the process, if there is one: told first, so that it removes what it wrote, then killed."""
        process, self._process = self._process, None
        if process is None:
            return
        process.terminate()
        try:
            process.wait(GRACE_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()


def end_when_told() -> None:
    """Lets this process unwind where its parent ends it."""
    signal.signal(signal.SIGTERM, lambda *given: sys.exit(1))


def start_module(module: str) -> subprocess.Popen[bytes]:
    """``python -m module`` with this process's import path and pipes to its input and output."""
    paths = (str(Path(path or ".").absolute()) for path in sys.path)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    return subprocess.Popen(
        [sys.executable, "-m", module], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment
    )


def send(pipe: Any, message: bytes) -> None:
    """Writes a message with its length before it."""
    pipe.write(struct.pack("<Q", len(message)))
    pipe.write(message)
    pipe.flush()


def receive(pipe: Any) -> bytes:
    """Reads what `send` wrote.

    Raises:
        EOFError: the other side is gone.
    """
    (length,) = struct.unpack("<Q", _exactly(pipe, 8))
    return _exactly(pipe, length)


def _exactly(pipe: Any, length: int) -> bytes:
    content = pipe.read(length)
    if len(content) < length:
        raise EOFError
    return content
