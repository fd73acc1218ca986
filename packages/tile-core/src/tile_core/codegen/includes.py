"""What a user's text includes: the content of files that decide what is compiled, and that no key would know of."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from pathlib import Path

__all__ = ["include_digests"]

# Also as the text of the IR writes it, with escaped quotes.
_INCLUDE = re.compile(r'#[ \t]*include[ \t]*\\?["<]([^"<>\\\n]+)\\?[">]')
_FOLDER_FLAGS = ("-I", "-isystem", "--include-path")
_FILE_FLAGS = ("-include", "--pre-include")


def include_digests(text: str, flags: Sequence[str] = ()) -> list[str]:
    """A digest for each file that `text` includes, and those that these include, in the order in which they are met:
    by absolute path, beside the file that includes, or in a folder that the compiler's `flags` name. Headers of the
    compiler and of Tile are not found so; versions and code digests stand for them."""
    folders = [Path(folder) for folder in _values(flags, _FOLDER_FLAGS)]
    waiting: list[tuple[str, Path | None]] = [(name, None) for name in _values(flags, _FILE_FLAGS)]
    waiting += [(name, None) for name in _INCLUDE.findall(text)]
    found: list[str] = []
    seen: set[Path] = set()
    while waiting:
        name, beside = waiting.pop(0)
        path = _resolved(name, ([beside] if beside is not None else []) + folders)
        if path is None or path in seen:
            continue
        seen.add(path)
        content = path.read_bytes()
        found.append(hashlib.sha256(content).hexdigest())
        waiting += [(inner, path.parent) for inner in _INCLUDE.findall(content.decode("utf-8", "replace"))]
    return found


def _values(flags: Sequence[str], names: Sequence[str]) -> list[str]:
    """What flags of these names are given: joined to the name, after =, or as the next word."""
    found: list[str] = []
    following = False
    for flag in flags:
        if following:
            found.append(flag)
        name = next((name for name in names if flag.startswith(name)), None)
        rest = "" if name is None else flag[len(name) :].removeprefix("=")
        following = name is not None and not rest
        if rest:
            found.append(rest)
    return found


def _resolved(name: str, folders: Sequence[Path]) -> Path | None:
    for path in [Path(name)] if Path(name).is_absolute() else [folder / name for folder in folders]:
        if path.is_file():
            return path.resolve()
    return None
