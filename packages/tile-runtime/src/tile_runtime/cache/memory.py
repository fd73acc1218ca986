"""Values made once per key in this process, however many threads ask at the same time."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

__all__ = ["MemoryCache"]

V = TypeVar("V")


class MemoryCache(Generic[V]):
    """Key → value. One thread makes a value, the others that want it wait; different keys never wait for each
    other.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._values: dict[Hashable, V] = {}
        self._making: dict[Hashable, threading.RLock] = {}

    def get(self, key: Hashable) -> V | None:
        """The value under `key`, or None."""
        return self._values.get(key)

    def get_or_make(self, key: Hashable, make: Callable[[], V]) -> V:
        """The value under `key`; `make()` makes it where there is none. When `make` raises, the next one who waits
        tries again.
        """
        while True:
            with self._lock:
                if key in self._values:
                    return self._values[key]
                turn = self._making.setdefault(key, threading.RLock())
            with turn:
                with self._lock:
                    if key in self._values:
                        return self._values[key]
                    if self._making.get(key) is not turn:
                        continue  # its maker failed and took the turn away: queue anew
                try:
                    value = make()
                except BaseException:
                    with self._lock:
                        self._making.pop(key, None)
                    raise
                with self._lock:
                    self._values[key] = value
                    self._making.pop(key, None)
                return value

    def clear(self) -> None:
        """Forgets all values; one that is being made stays with those who wait for it."""
        with self._lock:
            self._values.clear()

    def __len__(self) -> int:
        return len(self._values)
