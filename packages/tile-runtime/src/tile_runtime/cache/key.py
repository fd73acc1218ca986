"""The name of a compiled kernel: a pure function of everything that could change it.

    key = cache_key({"ir": script, "options": {...}, "target": ..., "toolchain": ..., "code":
    code_digest("tile_core"), ...})

Same parts, same key: in another process, on another machine, whatever the time of files. What may enter is text,
numbers, booleans, None and sequences or string-keyed mappings of these; anything else (an object whose repr holds
an address, a set without order) is refused here, not hashed by accident.
"""

from __future__ import annotations

import csv
import hashlib
import importlib.util
import json
import math
import os
import sys
import threading
from collections.abc import Mapping
from pathlib import Path

__all__ = ["Digests", "cache_key", "code_digest"]

CODE_SUFFIXES = (".py", ".h", ".hpp", ".so", ".pyd")


def cache_key(parts: Mapping[str, object]) -> str:
    """The sha256, in hex, of `parts` as sorted JSON.

    Raises:
        TypeError: a part is of a kind without one canonical text; the message names it.
    """
    text = json.dumps(_canonical(parts, "parts"), sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()


def code_digest(module: str) -> str | None:
    """The digest of the code files of the package or module named `module` (a top-level name such as ``tile_core``).

    None where there is no file to read: ``__main__`` of an interactive session, a module made at run time. Such
    code can't be kept on disk under a key.
    """
    return _digests.of(module)


class Digests:
    """Digests of code files, remembered as long as no file's size or time changes; times never enter a digest."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._contents: dict[str, tuple[int, int, str]] = {}
        self._trees: dict[Path, tuple[list[tuple[str, int, int]], str]] = {}
        self._records: dict[Path, tuple[Path, str, list[tuple[str, str]]]] = {}

    def of(self, module: str) -> str | None:
        """See `code_digest`."""
        place = _place_of(module)
        if place is None:
            return None
        if place.is_file():
            rows = [(place.name, self._content(place))]
        else:
            rows = self._recorded(place)
            if rows is None:
                return self._of_tree(place)
        return self._digest(rows)

    def _of_tree(self, package: Path) -> str:
        """The digest of a tree; while no stamp of its files changes, looking costs 2 µs a file (measured)."""
        stamps = _stamps(str(package))
        known = self._trees.get(package)
        if known is not None and known[0] == stamps:
            return known[1]
        paths = [Path(path) for path, *_ in stamps]
        digest = self._digest([(path.relative_to(package.parent).as_posix(), self._content(path)) for path in paths])
        self._trees[package] = (stamps, digest)
        return digest

    @staticmethod
    def _digest(rows: list[tuple[str, str]]) -> str:
        lines = "".join(f"{name}\n{digest}\n" for name, digest in sorted(rows))
        return hashlib.sha256(lines.encode()).hexdigest()

    def _recorded(self, package: Path) -> list[tuple[str, str]] | None:
        """The rows of the package's RECORD; finding it reads those of its neighbours (32 ms, measured), so it is
        remembered and only compared."""
        known = self._records.get(package)
        if known is not None and known[0].is_file() and self._content(known[0]) == known[1]:
            return known[2]
        found = _installed_rows(package)
        if found is None:
            return None
        record, rows = found
        self._records[package] = (record, self._content(record), rows)
        return rows

    def _content(self, path: Path) -> str:
        status = path.stat()
        stamp = (status.st_size, status.st_mtime_ns)
        with self._lock:
            known = self._contents.get(str(path))
        if known is not None and known[:2] == stamp:
            return known[2]
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        with self._lock:
            self._contents[str(path)] = (*stamp, digest)
        return digest


_digests = Digests()


def _canonical(value: object, where: str) -> object:
    if value is None or type(value) in (str, bool, int):
        return value
    if type(value) is float:
        # JSON has no text for these, and 1.0 must not equal 1
        return {"float": value.hex() if math.isfinite(value) else repr(value)}
    if isinstance(value, Mapping):
        for name in value:
            if type(name) is not str:
                raise TypeError(f"{where}: a cache key takes mappings with text keys, found the key {name!r}")
        return {name: _canonical(item, f"{where}[{name!r}]") for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_canonical(item, f"{where}[{index}]") for index, item in enumerate(value)]
    raise TypeError(f"{where}: {type(value).__name__} has no canonical text for a cache key")


def _place_of(module: str) -> Path | None:
    """The package's folder or the module's file, without importing it."""
    if module == "__main__":
        script = getattr(sys.modules.get("__main__"), "__file__", None)
        return Path(script) if script and os.path.isfile(script) else None
    try:
        spec = importlib.util.find_spec(module.partition(".")[0])
    except (ImportError, ValueError):  # ValueError: a module without a spec
        return None
    if spec is None:
        return None
    for location in spec.submodule_search_locations or ():
        if os.path.isdir(location):
            return Path(location)
    if spec.origin and os.path.isfile(spec.origin):
        return Path(spec.origin)
    return None


def _stamps(folder: str) -> list[tuple[str, int, int]]:
    """(path, size, time) of each code file of a tree."""
    found: list[tuple[str, int, int]] = []
    with os.scandir(folder) as entries:
        for entry in entries:
            name = entry.name
            if name.endswith(CODE_SUFFIXES):
                status = entry.stat()
                found.append((entry.path, status.st_size, status.st_mtime_ns))
            elif "." not in name and name != "__pycache__" and entry.is_dir():
                found += _stamps(entry.path)
    return found


def _installed_rows(package: Path) -> tuple[Path, list[tuple[str, str]]] | None:
    """The RECORD of the wheel that brought the package and its rows (path, sha256) of code files; None for an editable
    or source tree."""
    marker = f"{package.name}/__init__.py"
    for record in sorted(package.parent.glob("*.dist-info/RECORD")):
        try:
            text = record.read_text(encoding="utf-8")
        except OSError:
            continue
        if marker not in text:
            continue
        rows = [row for row in csv.reader(text.splitlines()) if len(row) >= 2 and row[0].endswith(CODE_SUFFIXES)]
        if any(row[0] == marker for row in rows):
            return record, [(row[0], row[1]) for row in rows]
    return None
