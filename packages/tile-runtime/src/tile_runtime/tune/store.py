"""Results of configurations on disk: ``<TILE_CACHE_DIR>/autotune/<first two digits>/<key>.json``.

One file a configuration, so that a run that was interrupted goes on where it was. The key holds everything that the
number depends on: the kernel (its traced function, target, options, compiler and code digests), the device, how it was
timed, the inputs' shapes, types, strides and how they were made, the tolerance, and the keys of callbacks. A callback
has a key when it has an attribute ``cache_key`` (a text); a run with one that has none keeps nothing, and says so.
"""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tile_core.errors import CacheWarning
from tile_core.settings import settings

from ..cache import cache_key
from ..compiler import _level_of_caller
from .result import Trial

__all__ = ["Store", "callback_keys"]

FORMAT = 1
KEPT = ("ok", "slow", "wrong", "timeout", "crashed")
"""States that are kept: what could not be built may be buildable next time, and is cheap to try."""


class Store:
    """See the module's text.

    Args:
        enabled: False keeps and finds nothing.
    """

    def __init__(self, enabled: bool = True) -> None:
        self.enabled = enabled and not settings.autotune_disable_cache and not settings.disable_cache
        self.root = settings.cache_dir / "autotune"

    def key(self, parts: Mapping[str, Any]) -> str:
        """The name of a result."""
        return cache_key({"format": FORMAT, **parts})

    def load(self, key: str, trial: Trial) -> bool:
        """Fills `trial` with what an earlier run found; False where there is nothing, or nothing that can be read."""
        if not self.enabled:
            return False
        try:
            found = json.loads(self._path(key).read_text(encoding="utf-8"))
            state, latency, spread = found["state"], found["latency"], found["spread"]
        except (OSError, ValueError, KeyError, TypeError):
            return False
        timed = state in ("ok", "slow")
        if found.get("key") != key or state not in KEPT or (timed and not isinstance(latency, float)):
            return False
        trial.state, trial.latency, trial.reason = state, latency, str(found.get("reason", ""))
        trial.spread = None if spread is None else (float(spread[0]), float(spread[1]))
        trial.origin = "disk"
        return True

    def save(self, key: str, trial: Trial) -> None:
        """Keeps a result; a file appears whole or not at all, and a disk that is full or read-only costs nothing."""
        if not self.enabled or trial.state not in KEPT:
            return
        path = self._path(key)
        text = json.dumps({"key": key, **trial.as_dict(), "config": repr(trial.config)}, indent=1)
        with contextlib.suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
            descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=".staging-")
            try:
                with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                    file.write(text)
                    file.flush()
                    os.fsync(file.fileno())
                os.replace(name, path)
            except OSError:
                with contextlib.suppress(OSError):
                    os.unlink(name)

    def _path(self, key: str) -> Path:
        return self.root / key[:2] / f"{key}.json"


def callback_keys(callbacks: Mapping[str, Callable[..., Any] | None]) -> dict[str, str] | None:
    """The keys of callbacks by their role; None, with a warning, where one has none."""
    keys: dict[str, str] = {}
    nameless = []
    for role, callback in callbacks.items():
        if callback is None:
            continue
        key = getattr(callback, "cache_key", None)
        if isinstance(key, str):
            keys[role] = key
        else:
            nameless.append(role)
    if nameless:
        warnings.warn(
            f"results of tuning are not kept: {', '.join(nameless)} may compute anything; give "
            f"{'it' if len(nameless) == 1 else 'each'} an attribute cache_key, a text that changes with what it does",
            CacheWarning,
            stacklevel=_level_of_caller(),
        )
        return None
    return keys
