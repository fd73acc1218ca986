"""Entries as one tar file, to take to another machine.

``<key>/<file>`` for each file of an entry, its manifest among them. What is read is checked like what lies on disk and
published like what was compiled here; nothing is unpacked into a folder by the names in the file.
"""

from __future__ import annotations

import io
import re
import tarfile
from collections.abc import Iterable
from pathlib import Path

from tile_core.errors import OptionError, declare_codes

from .disk import DiskCache
from .entry import MANIFEST, Damaged, check_contents

__all__ = ["pack", "unpack"]

declare_codes({"E-CACHE-ARCHIVE": "a file that `tile cache export` did not write"})

_PREFIX = "tile-kernels-1"
_KEY = re.compile(r"[0-9a-f]{64}")


def pack(cache: DiskCache, keys: Iterable[str], path: Path) -> tuple[int, int]:
    """Writes entries to `path`; gives how many, and how many were left out because they are damaged."""
    count = skipped = 0
    part = path.with_name(f"{path.name}.part")
    with tarfile.open(part, "w") as archive:
        _add(archive, _PREFIX, cache.namespace.name.encode())
        for key in keys:
            entry = cache.load(key) if cache.check(key) is None else None
            if entry is None:
                skipped += 1
                continue
            for name in (*sorted(entry.files), MANIFEST):
                _add(archive, f"{key}/{name}", (entry.folder / name).read_bytes())
            count += 1
    part.replace(path)
    return count, skipped


def unpack(cache: DiskCache, path: Path) -> tuple[int, int, list[tuple[str, str]]]:
    """Publishes the entries of `path`: how many were new, how many known, and which were refused, with the reason.

    Raises:
        OptionError: not such a file, or one of another kind of machine.
    """
    entries: dict[str, dict[str, bytes]] = {}
    refused: list[tuple[str, str]] = []
    try:
        with tarfile.open(path, "r:") as archive:
            first = archive.next()
            if first is None or first.name != _PREFIX:
                raise _strange(path, "its first member says nothing of Tile")
            machine = _content(archive, first).decode(errors="replace")
            if machine != cache.namespace.name:
                raise OptionError(
                    "E-CACHE-ARCHIVE",
                    f"{path.name} holds kernels of another kind of machine",
                    facts=(f"found: {machine}", f"this machine: {cache.namespace.name}"),
                    help="export on a machine of this kind",
                )
            while (member := archive.next()) is not None:
                key, _, name = member.name.partition("/")
                if not member.isreg() or not _KEY.fullmatch(key) or not name or "/" in name:
                    refused.append((member.name, "is no file of an entry"))
                    continue
                entries.setdefault(key, {})[name] = _content(archive, member)
    except (tarfile.TarError, OSError) as error:
        raise _strange(path, str(error)) from None
    added = known = 0
    for key, files in entries.items():
        manifest = files.pop(MANIFEST, b"")
        try:
            check_contents(manifest, key, files)
        except Damaged as damage:
            refused.append((key[:16], str(damage)))
            continue
        if key in cache and cache.check(key) is None:
            known += 1
        elif cache.publish(key, files) is not None:
            added += 1
        else:
            refused.append((key[:16], "the cache cannot be written"))
    return added, known, refused


def _add(archive: tarfile.TarFile, name: str, content: bytes) -> None:
    member = tarfile.TarInfo(name)
    member.size = len(content)
    archive.addfile(member, io.BytesIO(content))


def _content(archive: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    file = archive.extractfile(member)
    return file.read() if file is not None else b""


def _strange(path: Path, why: str) -> OptionError:
    return OptionError("E-CACHE-ARCHIVE", f"{path.name} was not written by tile cache export", facts=(f"found: {why}",))
