"""A layer of the cache in a store elsewhere (an object store, a web server, a shared disk), through fsspec.

``TILE_CACHE_REMOTE=s3://bucket/tile`` or any address that fsspec opens. Asked when no layer on disk has a kernel; what
it gives is checked against its manifest and then published in ``TILE_CACHE_DIR``, so that the store is read once a
machine. What is compiled here is offered to it, manifest last, unless the address is prefixed with ``read:``. A store
that cannot be reached costs the layer, never the compile; it is told once.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import json
import platform
import sys
import threading
import warnings
from collections.abc import Mapping
from typing import Any

from tile_core.errors import CacheWarning, SettingError, declare_codes

from .entry import MANIFEST, MANIFEST_FORMAT, Damaged, check_contents, check_names

__all__ = ["FsspecLayer", "remote_layer"]

declare_codes({"E-CACHE-REMOTE": "a remote cache that cannot be used"})

_READ_ONLY = "read:"


def remote_layer(address: str | None, version: str) -> FsspecLayer | None:
    """The layer at an address; None for None.

    Raises:
        SettingError: fsspec is not installed, or knows no such address.
    """
    if address is None:
        return None
    if importlib.util.find_spec("fsspec") is None:
        raise SettingError(
            "E-CACHE-REMOTE",
            "TILE_CACHE_REMOTE needs fsspec, which is not installed",
            help="install it: pip install 'tile-runtime[remote-cache]', or unset TILE_CACHE_REMOTE",
        )
    return FsspecLayer(address, version)


class FsspecLayer:
    """See the module's text. Safe for threads and processes: an entry counts once its manifest is there.

    Args:
        address: what ``fsspec.url_to_fs`` takes, with ``read:`` before it for a store that is only read.
        version: separates releases.
    """

    def __init__(self, address: str, version: str) -> None:
        import fsspec

        self.read_only = address.startswith(_READ_ONLY)
        self.address = address.removeprefix(_READ_ONLY)
        try:
            self._files, root = fsspec.url_to_fs(self.address)
        except (ImportError, ValueError, OSError) as error:
            raise SettingError(
                "E-CACHE-REMOTE",
                f"TILE_CACHE_REMOTE={address!r} cannot be opened",
                facts=(f"fsspec says: {str(error).splitlines()[0]}",),
                help="correct the address, or install what fsspec asks for",
            ) from None
        machine = f"{sys.platform}-{platform.machine().lower()}"
        self._root = "/".join([root.rstrip("/"), version, machine, "kernels"])
        self._told = False
        self._lock = threading.Lock()

    def fetch(self, key: str) -> dict[str, bytes] | None:
        """The files of an entry that fits its manifest, or None."""
        try:
            manifest = self._files.cat_file(f"{self._root}/{key}/{MANIFEST}")
        except FileNotFoundError:
            return None
        except Exception as error:  # whatever a store's client raises
            self._tell(f"cannot be read ({_first_line(error)})")
            return None
        try:
            rows = json.loads(manifest)["files"]
            check_names(rows)
            files = {name: self._files.cat_file(f"{self._root}/{key}/{name}") for name in rows}
            check_contents(manifest, key, files)
        except Damaged as damage:
            self._tell(f"holds a damaged entry {key[:16]}… ({damage})")
        except Exception as error:
            self._tell(f"holds an entry {key[:16]}… that cannot be read ({_first_line(error)})")
        else:
            return files
        return None

    def offer(self, key: str, files: Mapping[str, bytes]) -> None:
        """Keeps an entry there, unless it has one or is only read."""
        if self.read_only:
            return
        folder = f"{self._root}/{key}"
        rows = {n: {"size": len(c), "sha256": hashlib.sha256(c).hexdigest()} for n, c in sorted(files.items())}
        manifest = json.dumps({"format": MANIFEST_FORMAT, "key": key, "files": rows}, sort_keys=True, indent=1)
        try:
            if self._files.exists(f"{folder}/{MANIFEST}"):
                return
            with contextlib.suppress(FileExistsError):
                self._files.makedirs(folder, exist_ok=True)
            for name, content in files.items():
                self._files.pipe_file(f"{folder}/{name}", content)
            self._files.pipe_file(f"{folder}/{MANIFEST}", manifest.encode())
        except Exception as error:
            self._tell(f"cannot be written ({_first_line(error)})")

    def _tell(self, problem: str) -> None:
        with self._lock:
            if self._told:
                return
            self._told = True
        warnings.warn(CacheWarning(f"the remote cache {self.address} {problem}; it is passed over"), stacklevel=4)


def _first_line(error: Exception) -> Any:
    return f"{type(error).__name__}: {next(iter(str(error).splitlines()), '')}"
