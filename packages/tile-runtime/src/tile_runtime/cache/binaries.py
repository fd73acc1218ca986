"""Device binaries by what they were compiled from: source, architecture, flags, compiler.

    <root>/<version>/<family>-binaries/<key>/…     files and manifest.json, as for a kernel

A kernel's entry holds these too. This store helps where the kernel's key differs and its device code does not: another
host stub, another adapter, a pass that changed nothing here. It is made for a folder that many machines share:
an entry is never changed and never removed, since another machine may have it open. One that is found damaged is
passed over, and its repair is published beside it as ``<key>.1`` (up to three).
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from .entry import Damaged, check_names, distrust, flush_folder, make_folder, sweep, verified, write_entry
from .key import cache_key

__all__ = ["BinaryStore"]

_REPAIRS = 3


class BinaryStore:
    """Binaries of one family (``cuda``, ``ascend``, …). Safe for threads and processes; never raises for the disk.

    Args:
        roots: cache folders; the first is written, all are read.
        version: separates releases.
    """

    def __init__(self, roots: Sequence[Path], version: str) -> None:
        self.roots = tuple(roots)
        self.version = version
        self._swept = False

    def find(self, family: str, parts: Mapping[str, object]) -> dict[str, bytes] | None:
        """The files compiled from exactly these parts, checked; None where there are none."""
        key = self.key(parts)
        for position, root in enumerate(self.roots):
            folder = self._folder(root, family)
            if distrust((root, folder.parent, folder), anyones=position > 0):
                continue
            for name in _names(key):
                try:
                    files = verified(folder / name, key)
                    return {file: (folder / name / file).read_bytes() for file in files}
                except FileNotFoundError:
                    if not (folder / name).is_dir():
                        break
                except (Damaged, OSError):
                    continue
        return None

    def keep(self, family: str, parts: Mapping[str, object], files: Mapping[str, bytes]) -> None:
        """Publishes the files compiled from these parts; who comes second drops its copy."""
        check_names(files)
        key = self.key(parts)
        folder = self._folder(self.roots[0], family)
        staged = folder.parent / ".staging" / f"{os.getpid()}-{secrets.token_hex(6)}"
        with contextlib.suppress(OSError):
            make_folder(folder)
            if distrust((self.roots[0], folder.parent, folder)):
                return
            if not self._swept:
                self._swept = True
                sweep(staged.parent)
            make_folder(staged)
            try:
                write_entry(staged, key, files)
                self._place(staged, folder, key)
            finally:
                shutil.rmtree(staged, ignore_errors=True)

    def key(self, parts: Mapping[str, object]) -> str:
        """The name of what was compiled from `parts`."""
        return cache_key(parts)

    @staticmethod
    def _place(staged: Path, folder: Path, key: str) -> None:
        for name in _names(key):
            try:
                os.rename(staged, folder / name)
            except OSError as error:
                if error.errno not in (errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR):
                    raise
                try:
                    verified(folder / name, key)
                    return  # someone published first
                except (Damaged, OSError):
                    continue
            else:
                flush_folder(folder)
                return

    def _folder(self, root: Path, family: str) -> Path:
        return root / self.version / f"{family}-binaries"


def _names(key: str) -> list[str]:
    return [key, *(f"{key}.{repair}" for repair in range(1, _REPAIRS + 1))]
