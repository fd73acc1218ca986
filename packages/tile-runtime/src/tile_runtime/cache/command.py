"""``tile cache``: what is kept, whether it is whole, what may go, and how it travels."""

from __future__ import annotations

import argparse
import json
import os
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tile_core.errors import OptionError, declare_codes
from tile_core.plugin import Command
from tile_core.settings import settings

from ..compiler import disk_cache
from .archive import pack, unpack
from .disk import DiskCache
from .entry import distrust

__all__ = ["COMMAND", "run"]

COMMAND = Command(
    "cache", (1, 0), "show, check, prune, export or import compiled kernels", "tile_runtime.cache.command:run"
)

declare_codes({"E-CACHE-COMMAND": "a word of `tile cache` that cannot be read"})

_UNITS = {"": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}
_TIMES = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 7 * 86400.0}


@dataclass(frozen=True)
class Row:
    """One entry: its key, kernel and target, bytes, and seconds since it was last used (to the day)."""

    key: str
    kernel: str
    target: str
    size: int
    age: float

    def as_plain(self) -> dict[str, Any]:
        return {
            "key": self.key,
            "kernel": self.kernel,
            "target": self.target,
            "bytes": self.size,
            "days": int(self.age / 86400),
        }


def run(words: Sequence[str]) -> int:
    """Runs the command; gives the exit code: 1 where `verify` found damage."""
    given = _parser().parse_args(list(words))
    return _ACTIONS[given.action](disk_cache().writable, given)


def rows(cache: DiskCache) -> list[Row]:
    """The entries of a layer, whole or not, the least recently used first."""
    found = [_row(cache.kernels / key, key) for key in cache]
    return sorted(found, key=lambda row: (-row.age, row.key))


def _info(cache: DiskCache, given: argparse.Namespace) -> int:
    kept = rows(cache)
    folders = (cache.root, cache.namespace.parent, cache.namespace, cache.kernels)
    facts = {
        "folder": str(cache.root),
        "enabled": not settings.disable_cache,
        "usable": distrust(folders) or ("yes" if os.access(_nearest(cache.root), os.W_OK) else "cannot be written"),
        "shared": [str(folder) for folder in settings.cache_shared_dir],
        "remote": settings.cache_remote,
        "kernels": len(kept),
        "bytes": sum(row.size for row in kept),
        "device_binaries": _device_binaries(cache),
        "other_versions": {v: (len(kept), sum(row.size for row in kept)) for v, kept in _other_versions(cache).items()},
    }
    if given.json:
        print(json.dumps(facts, indent=2))
        return 0
    print(f"folder           {facts['folder']}")
    print(f"enabled          {'yes' if facts['enabled'] else 'no: TILE_DISABLE_CACHE or tile.disable_cache()'}")
    print(f"usable           {facts['usable']}")
    print(f"shared layers    {', '.join(facts['shared']) or 'none'}")
    print(f"remote layer     {facts['remote'] or 'none'}")
    print(f"kernels          {facts['kernels']}, {_bytes_text(facts['bytes'])}")
    for name, (count, size) in facts["device_binaries"].items():
        print(f"{name:<16} {count}, {_bytes_text(size)}")
    for version, (count, size) in facts["other_versions"].items():
        print(f"version {version:<8} {count}, {_bytes_text(size)}; tile cache prune --other-versions removes them")
    return 0


def _list(cache: DiskCache, given: argparse.Namespace) -> int:
    kept = rows(cache)
    if given.json:
        print(json.dumps([row.as_plain() for row in kept], indent=2))
        return 0
    for row in kept:
        print(f"{row.key[:16]}  {_bytes_text(row.size):>9}  {int(row.age / 86400):>4} d  {row.kernel}  {row.target}")
    print(f"{len(kept)} kernels")
    return 0


def _verify(cache: DiskCache, given: argparse.Namespace) -> int:
    bad = [(key, problem) for key in cache if (problem := cache.check(key)) is not None]
    for key, problem in bad:
        print(f"{key[:16]}  {problem}")
        if given.repair:
            cache.discard(key)
    what = ", removed" if given.repair and bad else ""
    print(
        f"{len(cache.keys()) if not given.repair else len(cache.keys()) + len(bad)} kernels, {len(bad)} damaged{what}"
    )
    return 1 if bad and not given.repair else 0


def _prune(cache: DiskCache, given: argparse.Namespace) -> int:
    kept = rows(cache)
    limit = _seconds(given.older_than) if given.older_than else None
    room = _size(given.max_size) if given.max_size else None
    if limit is None and room is None and not given.other_versions:
        raise OptionError(
            "E-CACHE-COMMAND",
            "tile cache prune: nothing says what may go",
            help="give --older-than 30d, --max-size 1G or --other-versions",
        )
    others = _other_versions(cache) if given.other_versions else {}
    for version in others:
        if not given.dry_run:
            DiskCache(cache.root, version).clear()
    gone = [row for row in kept if limit is not None and row.age > limit]
    kept = [row for row in kept if row not in gone]
    while room is not None and kept and sum(row.size for row in kept) > room:
        gone.append(kept.pop(0))
    for row in gone:
        if not given.dry_run:
            cache.discard(row.key)
    gone += [row for found in others.values() for row in found]
    for row in gone:
        print(f"{row.key[:16]}  {_bytes_text(row.size):>9}  {row.kernel}  {row.target}")
    verb = "would go" if given.dry_run else "removed"
    print(f"{len(gone)} kernels {verb}, {_bytes_text(sum(row.size for row in gone))}; {len(kept)} stay")
    return 0


def _export(cache: DiskCache, given: argparse.Namespace) -> int:
    keys = [key for key in cache if not given.key or any(key.startswith(word) for word in given.key)]
    count, skipped = pack(cache, keys, Path(given.file))
    print(f"{count} kernels written to {given.file}" + (f", {skipped} damaged ones left out" if skipped else ""))
    return 0


def _import(cache: DiskCache, given: argparse.Namespace) -> int:
    count, known, refused = unpack(cache, Path(given.file))
    for name, problem in refused:
        print(f"{name}: {problem}")
    print(f"{count} kernels added, {known} known already, {len(refused)} refused")
    return 1 if refused else 0


_ACTIONS = {
    "info": _info,
    "list": _list,
    "verify": _verify,
    "prune": _prune,
    "export": _export,
    "import": _import,
}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("tile cache", description="The cache of compiled kernels at TILE_CACHE_DIR.")
    actions = parser.add_subparsers(dest="action", required=True)
    info = actions.add_parser("info", help="folder, layers, how much is kept")
    list_ = actions.add_parser("list", help="every kernel, the least recently used first")
    for one in (info, list_):
        one.add_argument("--json", action="store_true", help="print JSON")
    verify = actions.add_parser("verify", help="compare every file with its manifest; exit code 1 for damage")
    verify.add_argument("--repair", action="store_true", help="remove what is damaged")
    prune = actions.add_parser("prune", help="remove kernels that were not used lately")
    prune.add_argument("--older-than", metavar="TIME", help="not used for so long, such as 30d or 12h")
    prune.add_argument("--max-size", metavar="SIZE", help="until the rest fits, such as 500M or 1G")
    prune.add_argument("--other-versions", action="store_true", help="kernels that other releases of Tile compiled")
    prune.add_argument("--dry-run", action="store_true", help="only say what would go")
    export = actions.add_parser("export", help="write kernels into one file for another machine")
    export.add_argument("file", help="a .tar file")
    export.add_argument("--key", action="append", help="a kernel, by the start of its key; all if not given")
    actions.add_parser("import", help="add the kernels of such a file").add_argument("file", help="a .tar file")
    return parser


def _row(folder: Path, key: str) -> Row:
    size, age = 0, 0.0
    try:
        size = sum(file.stat().st_size for file in folder.iterdir())
        age = max(0.0, time.time() - folder.stat().st_mtime)
        description = json.loads((folder / "kernel.json").read_bytes())
        kind, attrs = description["target"]
        target = " ".join([kind, *(f"-{name}={value}" for name, value in attrs.items() if name in ("arch", "mcpu"))])
        return Row(key, str(description["name"]), target, size, age)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return Row(key, "?", "?", size, age)


def _other_versions(cache: DiskCache) -> dict[str, list[Row]]:
    """What other releases keep for machines like this one in the same folder."""
    mine, machine = cache.namespace.parent.name, cache.namespace.name
    names = sorted(folder.parent.parent.name for folder in cache.root.glob(f"*/{machine}/kernels"))
    found = {name: rows(DiskCache(cache.root, name)) for name in names if name != mine}
    return {name: kept for name, kept in found.items() if kept}


def _device_binaries(cache: DiskCache) -> dict[str, tuple[int, int]]:
    found: dict[str, tuple[int, int]] = {}
    for folder in sorted(cache.namespace.parent.glob("*-binaries")):
        sizes = [sum(file.stat().st_size for file in entry.iterdir()) for entry in folder.iterdir() if entry.is_dir()]
        found[folder.name] = (len(sizes), sum(sizes))
    return found


def _nearest(folder: Path) -> Path:
    while not folder.exists():
        folder = folder.parent
    return folder


def _size(text: str) -> int:
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([kmgt]?)i?b?", text.strip().lower())
    if match is None:
        raise OptionError("E-CACHE-COMMAND", f"{text!r} is no size", help="write it like 500M or 1.5G")
    return int(float(match[1]) * _UNITS[match[2]])


def _seconds(text: str) -> float:
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([smhdw])", text.strip().lower())
    if match is None:
        raise OptionError("E-CACHE-COMMAND", f"{text!r} is no time", help="write it like 30d or 12h")
    return float(match[1]) * _TIMES[match[2]]


def _bytes_text(count: int) -> str:
    value, unit = float(count), "B"
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if value < 1024 or unit == "TiB":
            break
        value /= 1024
    return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
