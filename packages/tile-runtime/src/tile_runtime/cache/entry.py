"""A folder of files that is whole or not there: how one is written, and how one is checked.

An entry holds its files and ``manifest.json`` with the size and sha256 of each. It is written into a staging folder,
every file flushed to the device, the manifest last, the folder flushed, and then renamed into its place.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import stat
import time
from collections.abc import Mapping
from pathlib import Path

__all__ = [
    "MANIFEST",
    "Damaged",
    "Entry",
    "check_contents",
    "check_names",
    "distrust",
    "exists",
    "flush_folder",
    "is_whole",
    "make_folder",
    "sweep",
    "verified",
    "write_entry",
]

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


class Damaged(Exception):
    """An entry that does not fit its manifest; the text says how."""


def check_names(files: Mapping[str, bytes]) -> None:
    """Refuses names that are the manifest's, or that leave the entry."""
    for name in files:
        if name == MANIFEST or not _plain(name):
            raise ValueError(f"{name!r} cannot name a file of a cache entry")


def write_entry(folder: Path, key: str, files: Mapping[str, bytes]) -> None:
    """Writes `files` and their manifest into an empty folder, all flushed to the device."""
    rows = {}
    for name in sorted(files):
        _write_file(folder / name, files[name])
        rows[name] = {"size": len(files[name]), "sha256": hashlib.sha256(files[name]).hexdigest()}
    manifest = {"format": MANIFEST_FORMAT, "key": key, "files": rows}
    _write_file(folder / MANIFEST, json.dumps(manifest, sort_keys=True, indent=1).encode())
    flush_folder(folder)


def verified(folder: Path, key: str) -> tuple[str, ...]:
    """The names of the entry's files after comparing each with the manifest.

    Raises:
        FileNotFoundError: no such entry, or a file is missing.
        Damaged: something differs from the manifest.
    """
    rows = _rows((folder / MANIFEST).read_bytes(), key)
    for name, row in rows.items():
        _compare(name, (folder / name).read_bytes(), row)
    return tuple(rows)


def check_contents(manifest: bytes, key: str, files: Mapping[str, bytes]) -> None:
    """`verified` for an entry that is not on disk.

    Raises:
        Damaged: something differs from the manifest.
    """
    rows = _rows(manifest, key)
    if set(rows) != set(files):
        raise Damaged("its manifest names other files")
    for name, row in rows.items():
        _compare(name, files[name], row)


def is_whole(folder: Path, key: str) -> bool:
    """Whether the folder is an entry that fits its manifest."""
    try:
        verified(folder, key)
    except (OSError, Damaged):
        return False
    return True


def make_folder(path: Path) -> None:
    """Makes a folder and those above it, for its owner alone to write."""
    try:
        os.mkdir(path, 0o755)
    except FileNotFoundError:
        make_folder(path.parent)
        make_folder(path)
    except FileExistsError:
        if not os.path.isdir(path):
            raise


def distrust(folders: tuple[Path, ...], anyones: bool = False) -> str | None:
    """Why what lies in these folders must not be loaded: another user could have put it there. None if nothing
    speaks against it. Folders that are not there are passed over.

    Args:
        folders: from the outer to the inner.
        anyones: whether a folder may belong to another user (who was trusted by naming it).
    """
    if os.name == "nt":  # access lists, not modes; the user's profile is the user's
        return None
    for folder in folders:
        try:
            status = os.stat(folder)
        except OSError:
            continue
        if status.st_mode & stat.S_IWOTH:
            return f"everybody may write to {folder}"
        if not anyones and status.st_uid not in (os.geteuid(), 0):
            return f"{folder} belongs to another user (uid {status.st_uid})"
    return None


def sweep(staging: Path) -> None:
    """Removes what processes that died left in a staging folder."""
    try:
        found = list(staging.iterdir())
    except OSError:
        return
    oldest = time.time() - STALE_SECONDS
    for folder in found:
        try:
            stale = folder.stat().st_mtime < oldest
        except OSError:
            continue
        if stale:
            shutil.rmtree(folder, ignore_errors=True)


def exists(path: Path) -> bool:
    """Whether there is something of that name, be it a dangling link."""
    try:
        os.lstat(path)
    except OSError:
        return False
    return True


def flush_folder(folder: Path) -> None:
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


def _rows(manifest: bytes, key: str) -> dict[str, tuple[int, str]]:
    try:
        content = json.loads(manifest)
        rows = {str(name): (int(row["size"]), str(row["sha256"])) for name, row in content["files"].items()}
        if content["format"] != MANIFEST_FORMAT or content["key"] != key:
            raise Damaged("its manifest belongs to something else")
    except (ValueError, KeyError, TypeError, AttributeError):
        raise Damaged("its manifest cannot be read") from None
    for name in rows:
        if not _plain(name):
            raise Damaged(f"its manifest names {name!r}, which is no file of it")
    return rows


def _compare(name: str, content: bytes, row: tuple[int, str]) -> None:
    size, digest = row
    if len(content) != size:
        raise Damaged(f"{name} has {len(content)} bytes, not {size}")
    if hashlib.sha256(content).hexdigest() != digest:
        raise Damaged(f"the checksum of {name} differs")


def _plain(name: str) -> bool:
    return name == os.path.basename(name) and name not in ("", ".", "..")


def _write_file(path: Path, content: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o644)
    try:
        view = memoryview(content)
        while view:
            view = view[os.write(descriptor, view) :]
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
