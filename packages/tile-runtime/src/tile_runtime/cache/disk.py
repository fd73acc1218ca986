"""Compiled kernels on disk: whole or not there.

    <root>/<version>/<platform>-<machine>/
        kernels/<key>/…             one folder a kernel: its files and manifest.json (size and sha256 of each)
        .staging/<pid>-<random>/    what is being written, or was found damaged
        hints/<name>                the key of an entry that serves another name too

Writing: all files into a staging folder, each flushed to the device, the manifest last, the folder flushed, one
rename. Another process sees the whole entry or none; who comes second finds the name taken and drops its own copy.
Reading: every file is compared with the manifest. A damaged entry is renamed away (compared once more there, so
that a good one published meanwhile is put back), told once and compiled anew. A root that cannot be read or written
costs the cache, never the compile: that too is told once.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import platform
import secrets
import shutil
import sys
import threading
import time
import warnings
from collections.abc import Mapping
from pathlib import Path

from tile_core.errors import CacheWarning

__all__ = ["DiskCache", "Entry"]

MANIFEST = "manifest.json"
MANIFEST_FORMAT = 1
STALE_SECONDS = 3600.0
"""A staging folder older than this belongs to a process that died while writing."""


class Entry:
    """A verified entry: `files` maps names to paths inside its folder."""

    __slots__ = ("files", "folder", "key")

    def __init__(self, key: str, folder: Path, names: tuple[str, ...]) -> None:
        self.key = key
        self.folder = folder
        self.files = {name: folder / name for name in names}

    def read(self, name: str) -> bytes:
        """The contents of one file."""
        return self.files[name].read_bytes()


class DiskCache:
    """Entries of one version on one kind of machine under `root`. Safe for threads and processes.

    Args:
        root: the cache folder; made when first written.
        version: separates releases; only a label, the key decides what is the same.
    """

    def __init__(self, root: Path, version: str) -> None:
        self.root = root
        self.namespace = root / version / f"{sys.platform}-{platform.machine().lower()}"
        self.kernels = self.namespace / "kernels"
        self.staging = self.namespace / ".staging"
        self.hints = self.namespace / "hints"
        self._lock = threading.Lock()
        self._told: set[str] = set()
        self._swept = False

    def load(self, key: str) -> Entry | None:
        """The entry under `key` after every file was checked; None where there is none, or it was damaged (then it
        is removed).
        """
        folder = self.kernels / key
        try:
            names = _verified(folder, key)
        except FileNotFoundError:
            if not _exists(folder):
                return None
            self._remove_damaged(key, "a file is missing")
            return None
        except _Damaged as damage:
            self._remove_damaged(key, str(damage))
            return None
        except OSError as error:
            self._tell_unusable(error)
            return None
        return Entry(key, folder, names)

    def publish(self, key: str, files: Mapping[str, bytes]) -> Entry | None:
        """Makes `files` the entry under `key` and returns it, or the one that another process published first.

        None where the folder cannot be written (read-only, full, …): the caller keeps working with what it has.
        """
        _check_names(files)
        staged: Path | None = None
        try:
            self._sweep()
            staged = self._new_staging()
            _write_entry(staged, key, files)
            self.kernels.mkdir(parents=True, exist_ok=True)
            self._move_into_place(staged, key)
        except OSError as error:
            self._tell_unusable(error)
            return None
        finally:
            if staged is not None:
                shutil.rmtree(staged, ignore_errors=True)
        return self.load(key)

    def remember(self, name: str, key: str) -> None:
        """Notes that the entry under `key` serves `name` as well. A hint: whether it is written or lost changes no
        result."""
        note = self.hints / name
        temporary = self.hints / f".{os.getpid()}-{secrets.token_hex(6)}"
        try:
            self.hints.mkdir(parents=True, exist_ok=True)
            temporary.write_text(key)
            os.replace(temporary, note)
        except OSError:
            with contextlib.suppress(OSError):
                temporary.unlink()

    def recall(self, name: str) -> str | None:
        """The key that was last noted for `name`, or None."""
        try:
            key = (self.hints / name).read_text(encoding="ascii").strip()
        except (OSError, ValueError):
            return None
        return key if key.isalnum() else None

    def discard(self, key: str) -> None:
        """Removes the entry under `key` if there is one: for a kernel that was verified and yet does not load."""
        self._remove(key)

    def clear(self) -> None:
        """Removes every entry of this version and machine. A kernel that is loaded stays usable."""
        for folder in self._listed(self.kernels):
            self._remove(folder.name)

    def keys(self) -> tuple[str, ...]:
        """The keys that have an entry, whole or not, sorted."""
        return tuple(sorted(folder.name for folder in self._listed(self.kernels)))

    def _move_into_place(self, staged: Path, key: str) -> None:
        final = self.kernels / key
        for _ in range(2):
            try:
                os.rename(staged, final)
            except OSError as error:
                if error.errno not in (errno.EEXIST, errno.ENOTEMPTY, errno.EACCES, errno.ENOTDIR) or not _exists(
                    final
                ):
                    raise
                # Someone published first. Keep theirs, unless it is damaged: then it goes and ours is tried once more.
                if self.load(key) is not None:
                    return
                if _exists(final):
                    raise
            else:
                _flush_folder(self.kernels)
                return

    def _remove_damaged(self, key: str, reason: str) -> None:
        moved = self._take_away(key)
        if moved is None:
            self._tell(
                f"damaged:{key}",
                f"cache entry {key[:16]}… is damaged ({reason}) and cannot be removed from {self.kernels}; "
                "the kernel is compiled anew in each process",
            )
            return
        if _is_whole(moved, key) and self._put_back(moved, key):
            return  # what we took away was a good entry, published after we looked
        shutil.rmtree(moved, ignore_errors=True)
        self._tell(
            f"damaged:{key}",
            f"cache entry {key[:16]}… was damaged ({reason}); it is removed and the kernel compiled anew",
        )

    def _remove(self, key: str) -> None:
        moved = self._take_away(key)
        if moved is not None:
            shutil.rmtree(moved, ignore_errors=True)

    def _take_away(self, key: str) -> Path | None:
        try:
            self.staging.mkdir(parents=True, exist_ok=True)
            moved = self.staging / f"{os.getpid()}-{secrets.token_hex(6)}"
            os.rename(self.kernels / key, moved)
        except OSError:
            return None
        return moved

    def _put_back(self, moved: Path, key: str) -> bool:
        try:
            os.rename(moved, self.kernels / key)
        except OSError:
            return False
        return True

    def _new_staging(self) -> Path:
        self.staging.mkdir(parents=True, exist_ok=True)
        staged = self.staging / f"{os.getpid()}-{secrets.token_hex(6)}"
        staged.mkdir()
        return staged

    def _sweep(self) -> None:
        """Removes staging folders of processes that died, once for each process of ours."""
        with self._lock:
            if self._swept:
                return
            self._swept = True
        oldest = time.time() - STALE_SECONDS
        for folder in self._listed(self.staging):
            try:
                stale = folder.stat().st_mtime < oldest
            except OSError:
                continue
            if stale:
                shutil.rmtree(folder, ignore_errors=True)

    def _listed(self, folder: Path) -> list[Path]:
        try:
            return list(folder.iterdir())
        except OSError:
            return []

    def _tell_unusable(self, error: OSError) -> None:
        # by kind of failure, not by key: one full disk is one message
        self._tell(
            f"unusable:{error.errno}",
            f"the kernel cache {self.root} cannot be used ({error.strerror or error}); kernels are compiled for this "
            "process only. Set TILE_CACHE_DIR to a folder that can be written, or TILE_DISABLE_CACHE=1 to say that "
            "this is meant",
        )

    def _tell(self, once: str, message: str) -> None:
        with self._lock:
            if once in self._told:
                return
            self._told.add(once)
        warnings.warn(CacheWarning(message), stacklevel=4)


class _Damaged(Exception):
    """An entry that does not fit its manifest; the text says how."""


def _check_names(files: Mapping[str, bytes]) -> None:
    for name in files:
        if name == MANIFEST or name != os.path.basename(name) or name in ("", ".", ".."):
            raise ValueError(f"{name!r} cannot name a file of a cache entry")


def _write_entry(folder: Path, key: str, files: Mapping[str, bytes]) -> None:
    rows = {}
    for name in sorted(files):
        _write_file(folder / name, files[name])
        rows[name] = {"size": len(files[name]), "sha256": hashlib.sha256(files[name]).hexdigest()}
    manifest = {"format": MANIFEST_FORMAT, "key": key, "files": rows}
    _write_file(folder / MANIFEST, json.dumps(manifest, sort_keys=True, indent=1).encode())
    _flush_folder(folder)


def _write_file(path: Path, content: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o644)
    try:
        view = memoryview(content)
        while view:
            view = view[os.write(descriptor, view) :]
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _flush_folder(folder: Path) -> None:
    """Makes the folder's own list of names durable. Systems that cannot open a folder (Windows) order renames
    themselves.
    """
    if os.name == "nt":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _verified(folder: Path, key: str) -> tuple[str, ...]:
    """The names of the entry's files after comparing each with the manifest.

    Raises:
        FileNotFoundError: no such entry, or a file is missing.
        _Damaged: something differs from the manifest.
    """
    text = (folder / MANIFEST).read_bytes()
    try:
        manifest = json.loads(text)
        rows = {str(name): (int(row["size"]), str(row["sha256"])) for name, row in manifest["files"].items()}
        if manifest["format"] != MANIFEST_FORMAT or manifest["key"] != key:
            raise _Damaged("its manifest belongs to something else")
    except (ValueError, KeyError, TypeError, AttributeError):
        raise _Damaged("its manifest cannot be read") from None
    for name, (size, digest) in rows.items():
        content = (folder / name).read_bytes()
        if len(content) != size:
            raise _Damaged(f"{name} has {len(content)} bytes, not {size}")
        if hashlib.sha256(content).hexdigest() != digest:
            raise _Damaged(f"the checksum of {name} differs")
    return tuple(rows)


def _is_whole(folder: Path, key: str) -> bool:
    try:
        _verified(folder, key)
    except (OSError, _Damaged):
        return False
    return True


def _exists(path: Path) -> bool:
    try:
        os.lstat(path)
    except OSError:
        return False
    return True
