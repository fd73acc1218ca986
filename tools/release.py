"""Release one distribution alone: checks, builds its sdist and wheel, looks inside, and prints the tag to make.

    python3 tools/dev.py exec -- python tools/release.py DIST [--dry-run] [--out FOLDER]

Checked: the tree is clean, CHANGELOG.md has a dated section for the version in `__about__.py`, the tag is new, the
wheel is pure Python and holds `py.typed`, LICENSE, the declared entry points and nothing outside its package. With
--dry-run a tree that is not clean, or a section that is still "(unreleased)", is told and does not stop it.
"""

from __future__ import annotations

import argparse
import configparser
import email
import re
import subprocess
import sys
import zipfile
from collections.abc import Sequence
from pathlib import Path

if not __package__:  # run as a script
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tools.workspace import ROOT, Distribution, distributions


class NotReleasable(Exception):
    """One reason, with what to do about it."""


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="tools/release.py", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("distribution", metavar="DIST")
    parser.add_argument(
        "--dry-run", action="store_true", help="build and check, but only tell what would stop a release"
    )
    parser.add_argument(
        "--out", type=Path, default=ROOT / "dist", help="folder for the sdist and the wheel (default: dist/)"
    )
    options = parser.parse_args(argv)
    try:
        distribution = named(options.distribution)
        stops = [*tree_stops(), *changelog_stops(distribution), *tag_stops(distribution)]
        if stops and not options.dry_run:
            raise NotReleasable("; ".join(stops))
        for stop in stops:
            print(f"would stop a release: {stop}")
        wheel, sdist = build(distribution, options.out)
        check_wheel(wheel, distribution)
    except NotReleasable as reason:
        print(f"tools/release.py: {reason}", file=sys.stderr)
        return 1
    print(f"built and checked: {wheel.name}, {sdist.name}")
    what = "would be tagged" if options.dry_run else "now tag and push"
    print(f"{what}: git tag -a {tag_of(distribution)} -m '{distribution.name} {distribution.version}'")
    return 0


def named(name: str) -> Distribution:
    known = {d.name: d for d in distributions()}
    if name not in known:
        raise NotReleasable(f"no distribution {name!r} here; there are {', '.join(known)}")
    return known[name]


def tag_of(distribution: Distribution) -> str:
    return f"{distribution.name}-v{distribution.version}"


def tree_stops() -> list[str]:
    status = subprocess.run(
        ["git", "status", "--porcelain"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    return [f"{len(status.splitlines())} uncommitted changes; commit or remove them"] if status else []


def changelog_stops(distribution: Distribution) -> list[str]:
    text = (distribution.folder / "CHANGELOG.md").read_text()
    section = re.search(rf"^## {re.escape(distribution.version)}\b(.*)$", text, re.MULTILINE)
    if section is None:
        return [f"CHANGELOG.md of {distribution.name} has no section '## {distribution.version}'; write what changed"]
    if not re.fullmatch(r" \(\d{4}-\d{2}-\d{2}\)", section[1]):
        found, wanted = f"## {distribution.version}{section[1]}", f"## {distribution.version} (YYYY-MM-DD)"
        return [f"the section '{found}' of {distribution.name} has no date; write '{wanted}'"]
    return []


def tag_stops(distribution: Distribution) -> list[str]:
    tag = tag_of(distribution)
    exists = subprocess.run(
        ["git", "tag", "--list", tag], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.strip()
    return [f"tag {tag} exists; raise the version in {distribution.module}/__about__.py"] if exists else []


def build(distribution: Distribution, out: Path) -> tuple[Path, Path]:
    """(wheel, sdist), built by hatchling from the distribution's own folder."""
    command = [sys.executable, "-m", "hatchling", "build", "-d", str(out.resolve())]
    if subprocess.run(command, cwd=distribution.folder, capture_output=True, text=True).returncode != 0:
        raise NotReleasable(
            f"hatchling could not build {distribution.name}; to see why, "
            f"run `python {' '.join(command[1:])}` in {distribution.folder}"
        )
    stem = f"{distribution.module}-{distribution.version}"
    return out / f"{stem}-py3-none-any.whl", out / f"{stem}.tar.gz"


def check_wheel(wheel: Path, distribution: Distribution) -> None:
    if not wheel.is_file():
        raise NotReleasable(f"no {wheel.name} came out of the build: the wheel must be pure Python (py3-none-any)")
    info = f"{distribution.module}-{distribution.version}.dist-info"
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        for needed in (
            f"{distribution.module}/py.typed",
            f"{distribution.module}/__init__.py",
            f"{info}/licenses/LICENSE",
        ):
            if needed not in names:
                raise NotReleasable(f"{wheel.name} lacks {needed}")
        strays = [n for n in names if not n.startswith((f"{distribution.module}/", f"{info}/")) or "__pycache__" in n]
        if strays:
            raise NotReleasable(f"{wheel.name} holds files outside {distribution.module}/: {', '.join(strays[:5])}")
        sources = {
            f"{distribution.module}/{p.relative_to(distribution.source).as_posix()}"
            for p in distribution.source.rglob("*.py")
        }
        if missing := sources - set(names):
            raise NotReleasable(f"{wheel.name} lacks {', '.join(sorted(missing)[:5])}; is it named in .gitignore?")
        packed = entry_points_of(archive, info)
        if packed != distribution.entry_points:
            raise NotReleasable(
                f"{wheel.name} has entry points {sorted(packed)}, "
                f"pyproject.toml declares {sorted(distribution.entry_points)}"
            )
        metadata = email.message_from_bytes(archive.read(f"{info}/METADATA"))
    if metadata["Version"] != distribution.version:
        raise NotReleasable(
            f"{wheel.name} says version {metadata['Version']}, __about__.py says {distribution.version}"
        )


def entry_points_of(archive: zipfile.ZipFile, info: str) -> set[tuple[str, str, str]]:
    if f"{info}/entry_points.txt" not in archive.namelist():
        return set()
    parser = configparser.ConfigParser(delimiters=("=",))
    parser.optionxform = str
    parser.read_string(archive.read(f"{info}/entry_points.txt").decode())
    return {(group, name, value) for group in parser.sections() for name, value in parser.items(group)}


if __name__ == "__main__":
    sys.exit(main())
