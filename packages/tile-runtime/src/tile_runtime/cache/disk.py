"""Compiled kernels on disk: whole or not there.

    <root>/<version>/<platform>-<machine>/
        kernels/<key>/…             one folder a kernel: its files and manifest.json (size and sha256 of each)
        .staging/<pid>-<random>/    what is being written, or was found damaged
        hints/<name>                the key of an entry that serves another name too

Writing: all files into a staging folder, each flushed to the device, the manifest last, the folder flushed, one
rename. Another process sees the whole entry or none; who comes second finds the name taken and drops its own copy.
Reading: every file is compared with the manifest. A damaged entry is renamed away (compared once more there, so
that a good one published meanwhile is put back), told once and compiled anew. A root that cannot be read or written
costs the cache, never the compile: that too is told once. Nothing is loaded from a folder into which another user could
have put it.
"""

from __future__ import annotations

import contextlib
import errno
import os
import platform
import secrets
import shutil
import sys
import threading
import time
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path

from tile_core.errors import CacheWarning

from .entry import (
    Damaged,
    Entry,
    check_names,
    distrust,
    exists,
    flush_folder,
    is_whole,
    make_folder,
    sweep,
    verified,
    write_entry,
)

__all__ = ["DiskCache", "Entry"]

DAY = 86400.0


class DiskCache:
    """Entries of one version on one kind of machine under `root`. Safe for threads and processes.

    Args:
        root: the cache folder; made when first written.
        version: separates releases; only a label, the key decides what is the same.
        read_only: never written, repaired or swept: a layer that others fill. It may belong to another user, who is
            trusted because the folder was named.
    """

    def __init__(self, root: Path, version: str, read_only: bool = False) -> None:
        self.root = root
        self.read_only = read_only
        self.namespace = root / version / f"{sys.platform}-{platform.machine().lower()}"
        self.kernels = self.namespace / "kernels"
        self.staging = self.namespace / ".staging"
        self.hints = self.namespace / "hints"
        self._lock = threading.Lock()
        self._told: set[str] = set()
        self._swept = False
        self._refused: str | None = None
        self._checked = False

    def load(self, key: str) -> Entry | None:
        """The entry under `key` after every file was checked; None where there is none, or it was damaged (then it
        is removed).
        """
        folder = self.kernels / key
        if self._untrusted():
            return None
        try:
            names = verified(folder, key)
        except FileNotFoundError:
            if not exists(folder):
                return None
            self._remove_damaged(key, "a file is missing")
            return None
        except Damaged as damage:
            self._remove_damaged(key, str(damage))
            return None
        except OSError as error:
            self._tell_unusable(error)
            return None
        self._note_use(folder)
        return Entry(key, folder, names)

    def check(self, key: str) -> str | None:
        """What is wrong with the entry under `key`, or None; nothing is changed."""
        try:
            verified(self.kernels / key, key)
        except Damaged as damage:
            return str(damage)
        except FileNotFoundError:
            return "a file is missing"
        except OSError as error:
            return str(error.strerror or error)
        return None

    def publish(self, key: str, files: Mapping[str, bytes]) -> Entry | None:
        """Makes `files` the entry under `key` and returns it, or the one that another process published first.

        None where the folder cannot be written (read-only, full, …): the caller keeps working with what it has.
        """
        check_names(files)
        staged: Path | None = None
        if self.read_only:
            return None
        try:
            make_folder(self.kernels)
            self._checked = False
            if self._untrusted():
                return None
            self._sweep()
            staged = self._new_staging()
            write_entry(staged, key, files)
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
        if self.read_only or self._untrusted():
            return
        note = self.hints / name
        temporary = self.hints / f".{os.getpid()}-{secrets.token_hex(6)}"
        try:
            make_folder(self.hints)
            temporary.write_text(key)
            os.replace(temporary, note)
        except OSError:
            with contextlib.suppress(OSError):
                temporary.unlink()

    def recall(self, name: str) -> str | None:
        """The key that was last noted for `name`, or None."""
        if self._untrusted():
            return None
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

    def __iter__(self) -> Iterator[str]:
        return iter(self.keys())

    def __contains__(self, key: str) -> bool:
        return exists(self.kernels / key)

    def _move_into_place(self, staged: Path, key: str) -> None:
        final = self.kernels / key
        for _ in range(2):
            try:
                os.rename(staged, final)
            except OSError as error:
                if error.errno not in (errno.EEXIST, errno.ENOTEMPTY, errno.EACCES, errno.ENOTDIR) or not exists(final):
                    raise
                # Someone published first. Keep theirs, unless it is damaged: then it goes and ours is tried once more.
                if self.load(key) is not None:
                    return
                if exists(final):
                    raise
            else:
                flush_folder(self.kernels)
                return

    def _remove_damaged(self, key: str, reason: str) -> None:
        if self.read_only:
            self._tell(
                f"damaged:{key}",
                f"cache entry {key[:16]}… of the shared layer {self.root} is damaged ({reason}) and passed over",
            )
            return
        moved = self._take_away(key)
        if moved is None:
            self._tell(
                f"damaged:{key}",
                f"cache entry {key[:16]}… is damaged ({reason}) and cannot be removed from {self.kernels}; "
                "the kernel is compiled anew in each process",
            )
            return
        if is_whole(moved, key) and self._put_back(moved, key):
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
        if self.read_only:
            return None
        try:
            make_folder(self.staging)
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
        make_folder(self.staging)
        staged = self.staging / f"{os.getpid()}-{secrets.token_hex(6)}"
        staged.mkdir()
        return staged

    def _sweep(self) -> None:
        """Removes staging folders of processes that died, once for each process of ours."""
        with self._lock:
            if self._swept:
                return
            self._swept = True
        sweep(self.staging)

    def _listed(self, folder: Path) -> list[Path]:
        try:
            return list(folder.iterdir())
        except OSError:
            return []

    def _untrusted(self) -> bool:
        """Whether another user could have put into the folder what is found there; told once."""
        if not self._checked:
            version = self.namespace.parent
            self._refused = distrust((self.root, version, self.namespace, self.kernels), self.read_only)
            self._checked = self._refused is not None or exists(self.kernels)
        if self._refused is None:
            return False
        self._tell(
            "untrusted",
            f"nothing is loaded from the kernel cache {self.root}: {self._refused}, so another user could have put "
            "code there. Make it yours alone (chown, chmod go-w), or set TILE_CACHE_DIR to another folder; a folder "
            "that others fill for you is named in TILE_CACHE_SHARED_DIR",
        )
        return True

    def _note_use(self, folder: Path) -> None:
        """The folder's time says when it was last used, to the day: what `tile cache prune` goes by."""
        if self.read_only:
            return
        with contextlib.suppress(OSError):
            if time.time() - os.stat(folder).st_mtime > DAY:
                os.utime(folder)

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
