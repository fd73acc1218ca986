"""What the tools know about the distributions of this repository, read from their pyproject.toml files."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Distribution:
    """One folder under packages/ or plugins/."""

    folder: Path

    @cached_property
    def project(self) -> dict[str, Any]:
        return tomllib.loads((self.folder / "pyproject.toml").read_text())["project"]

    @property
    def name(self) -> str:
        return self.project["name"]

    @property
    def module(self) -> str:
        return self.name.replace("-", "_")

    @property
    def source(self) -> Path:
        return self.folder / "src" / self.module

    @property
    def version(self) -> str:
        return re.search(r'^__version__ = "(.+)"$', (self.source / "__about__.py").read_text(), re.MULTILINE)[1]

    @property
    def entry_points(self) -> set[tuple[str, str, str]]:
        """(group, name, object), console scripts included."""
        groups = dict(self.project.get("entry-points", {}))
        if "scripts" in self.project:
            groups["console_scripts"] = self.project["scripts"]
        return {(group, name, value) for group, entries in groups.items() for name, value in entries.items()}


def distributions(root: Path = ROOT) -> list[Distribution]:
    return [
        Distribution(p.parent)
        for kind in ("packages", "plugins")
        for p in sorted((root / kind).glob("*/pyproject.toml"))
    ]


def committed_files(root: Path = ROOT) -> list[Path]:
    """Files git tracks or would track: what a commit made now could hold."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=root,
        capture_output=True,
        text=True,
        check=True,
    )
    return sorted({root / name for name in listed.stdout.split("\0") if name and (root / name).is_file()})


def report(findings: list[str], subject: str) -> int:
    """Print what a check found; the exit status of its script."""
    for finding in findings:
        print(finding)
    print(f"{subject}: {f'{len(findings)} to mend' if findings else 'in order'}")
    return 1 if findings else 0
