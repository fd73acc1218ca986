"""Several caches as one: the first is written, those below are only read.

    TILE_CACHE_DIR           written and read
    TILE_CACHE_SHARED_DIR    read: a folder that others fill, such as an image's or a team's
    TILE_CACHE_REMOTE        asked last, and offered what is new (`remote`)

What is found below is used where it lies; what is compiled goes into the first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

from .disk import DiskCache
from .entry import Entry

__all__ = ["Layers", "RemoteLayer"]


class RemoteLayer(Protocol):
    """A store of whole entries elsewhere; what it gives is checked when it is published here."""

    def fetch(self, key: str) -> dict[str, bytes] | None:
        """The files of an entry, or None."""
        ...

    def offer(self, key: str, files: Mapping[str, bytes]) -> None:
        """Keeps an entry there, if it can."""
        ...


class Layers:
    """See the module's text.

    Args:
        writable: the first layer.
        shared: layers below, in order; none of them is written.
        remote: asked last; what it has is copied into the first layer.
    """

    def __init__(
        self, writable: DiskCache, shared: Sequence[DiskCache] = (), remote: RemoteLayer | None = None
    ) -> None:
        self.writable = writable
        self.shared = tuple(shared)
        self.remote = remote

    @property
    def root(self) -> Path:
        """The folder that is written."""
        return self.writable.root

    @property
    def kernels(self) -> Path:
        """The folder of the entries in the first layer."""
        return self.writable.kernels

    def load(self, key: str) -> Entry | None:
        """The entry from the first layer that has it whole; None where none has."""
        for layer in (self.writable, *self.shared):
            entry = layer.load(key)
            if entry is not None:
                return entry
        files = self.remote.fetch(key) if self.remote is not None else None
        return self.writable.publish(key, files) if files is not None else None

    def publish(self, key: str, files: Mapping[str, bytes]) -> Entry | None:
        """As `DiskCache.publish`, into the first layer; offered to the remote one."""
        entry = self.writable.publish(key, files)
        if self.remote is not None:
            self.remote.offer(key, files)
        return entry

    def remember(self, name: str, key: str) -> None:
        """As `DiskCache.remember`."""
        self.writable.remember(name, key)

    def recall(self, name: str) -> str | None:
        """The key noted for `name` in the first layer that has a note."""
        return next(filter(None, (layer.recall(name) for layer in (self.writable, *self.shared))), None)

    def discard(self, key: str) -> None:
        """Removes the entry from the layer that is written; one below is hidden by what is published next."""
        self.writable.discard(key)

    def clear(self) -> None:
        """Removes every entry of the layer that is written."""
        self.writable.clear()

    def keys(self) -> tuple[str, ...]:
        """The keys that have an entry in any layer on disk, sorted."""
        return tuple(sorted(set().union(*(layer.keys() for layer in (self.writable, *self.shared)))))
