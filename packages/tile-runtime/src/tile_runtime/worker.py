"""The process on the other side of `parallel.WorkerPool`: ``python -m tile_runtime.worker``.

Reads units of jobs from standard input, writes their replies to standard output, until the input ends. What else is
printed while it works goes to standard error.
"""

from __future__ import annotations

import os
import pickle
import sys
from typing import Any

from tile_core.errors import InternalError, TileError
from tile_core.plugin import registry
from tile_core.settings import settings
from tile_core.target import Target

from .cache.artifact import artifact_files
from .child import end_when_told, receive, send
from .compiler import Request
from .options import CompileOptions

__all__ = ["main"]


def main() -> int:
    """Works until there is no more to do."""
    end_when_told()
    replies = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    while True:
        try:
            unit = pickle.loads(receive(sys.stdin.buffer))
        except EOFError:
            return 0
        send(replies, pickle.dumps([_reply(pickle.loads(job)) for job in unit]))


def _reply(job: dict[str, Any]) -> tuple[str, Any]:
    try:
        with settings.scope(**job["settings"]):
            kind, attrs = job["target"]
            registry.backend_for(kind)  # declares its memory scopes, which the function names
            function = pickle.loads(job["function"])
            options = CompileOptions(target=Target(kind, attrs), execution_backend=job["execution_backend"])
            request = Request(function, options)
            if request.base_key() != job["base"]:
                return "strange", None
            artifact = request.compiled()
            return "files", (artifact_files(artifact), {"seconds": artifact.notes["seconds"]})
    except TileError as error:
        return "error", error
    except (ImportError, AttributeError, pickle.UnpicklingError):
        return "strange", None
    except Exception as error:
        return "error", InternalError("E-INTERNAL", f"compiling raised {type(error).__name__}: {error}")


if __name__ == "__main__":
    raise SystemExit(main())
