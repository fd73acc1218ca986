"""The installed entry points are the declared ones: an editable install keeps those it was made with."""

from __future__ import annotations

import sys

import importlib_metadata as metadata  # noqa: TID251 - a tool that checks installs, not code that finds plugins

from tools.workspace import ROOT, Distribution, distributions, report


def check() -> list[str]:
    findings = []
    for distribution in distributions():
        where = (distribution.folder / "pyproject.toml").relative_to(ROOT)
        installed = installed_entry_points(distribution)
        if installed is None:
            findings.append(f"{where}: {distribution.name} is not installed here; run tools/dev.py")
            continue
        for group, name, value in sorted(distribution.entry_points - installed):
            findings.append(f"{where}: declares [{group}] {name} = {value}, which is not installed; run tools/dev.py")
        for group, name, value in sorted(installed - distribution.entry_points):
            findings.append(
                f"{where}: [{group}] {name} = {value} is installed but no longer declared; run tools/dev.py"
            )
    return findings


def installed_entry_points(distribution: Distribution) -> set[tuple[str, str, str]] | None:
    try:
        installed = metadata.distribution(distribution.name)
    except metadata.PackageNotFoundError:
        return None
    return {(e.group, e.name, e.value) for e in installed.entry_points}


if __name__ == "__main__":
    sys.exit(report(check(), "entry points"))
