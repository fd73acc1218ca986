"""The checks of committed files and of a release, each shown a fault that it must find."""

from __future__ import annotations

import re
import subprocess
import zipfile

import pytest

from tools import check_licenses, check_text, release, workspace


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("see /" + "work/main/x.py", "names a path of one machine"),
        ("open('/" + "root/.cache')", "names a path of one machine"),
        ("from https://" + "pypi" + ".org/simple", "names a package registry's host"),
    ],
)
def test_text_that_names_a_machine_or_a_host_is_found_with_its_line(tmp_path, line, fault):
    file = tmp_path / "a.md"
    file.write_text("fine\n" + line + "\n")
    faults, _ = check_text.check([file], tmp_path)
    assert len(faults) == 1 and faults[0].startswith("a.md:2: " + fault)


@pytest.mark.parametrize("line", ["packages/work/x", "$HOME/work/x", "a/root/b", "the roots /proc/self"])
def test_relative_paths_are_not_machine_paths(tmp_path, line):
    file = tmp_path / "a.md"
    file.write_text(line)
    assert check_text.check([file], tmp_path) == ([], [])


def test_a_long_file_is_a_warning(tmp_path):
    file = tmp_path / "a.py"
    file.write_text("x = 1\n" * 601)
    faults, warnings = check_text.check([file], tmp_path)
    assert faults == [] and "601 lines" in warnings[0]


def test_a_licence_that_differs_or_links_is_found(tmp_path, monkeypatch):
    monkeypatch.setattr(check_licenses, "ROOT", tmp_path)
    (tmp_path / "LICENSE").write_text("text")
    folders = [tmp_path / name for name in ("same", "other", "link", "none")]
    for folder in folders:
        folder.mkdir()
    (tmp_path / "same" / "LICENSE").write_text("text")
    (tmp_path / "other" / "LICENSE").write_text("another")
    (tmp_path / "link" / "LICENSE").symlink_to("../LICENSE")
    monkeypatch.setattr(check_licenses, "distributions", lambda: [workspace.Distribution(f) for f in folders])
    assert [f.split(":")[0] for f in check_licenses.check()] == ["other/LICENSE", "link/LICENSE", "none/LICENSE"]


@pytest.fixture
def one(tmp_path, monkeypatch):
    """A small distribution in a git repository of its own."""
    folder = tmp_path / "packages" / "tile-one"
    source = folder / "src" / "tile_one"
    source.mkdir(parents=True)
    (folder / "pyproject.toml").write_text(
        '[build-system]\nrequires = ["hatchling"]\nbuild-backend = "hatchling.build"\n'
        '[project]\nname = "tile-one"\ndynamic = ["version"]\nrequires-python = ">=3.10"\nlicense-files = ["LICENSE"]\n'
        '[project.entry-points."tile.backends"]\none = "tile_one.plugin:BACKEND"\n'
        '[tool.hatch.version]\npath = "src/tile_one/__about__.py"\n'
        '[tool.hatch.build.targets.wheel]\npackages = ["src/tile_one"]\n'
    )
    (folder / "LICENSE").write_text("text")
    (folder / "CHANGELOG.md").write_text("## 0.2.0 (2026-11-29)\n")
    (source / "__about__.py").write_text('__version__ = "0.2.0"\n')
    (source / "__init__.py").write_text("")
    (source / "py.typed").write_text("")
    (tmp_path / ".gitignore").write_text("dist/\n")
    for command in (["init", "-q"], ["add", "."], ["-c", "user.name=t", "-c", "user.email=t@t", "commit", "-qm", "x"]):
        subprocess.run(["git", *command], cwd=tmp_path, check=True)
    monkeypatch.setattr(release, "ROOT", tmp_path)
    monkeypatch.setattr(release, "distributions", lambda: workspace.distributions(tmp_path))
    return folder


def released(*arguments: str) -> int:
    return release.main(["tile-one", "--out", str(release.ROOT / "dist"), *arguments])


def test_a_release_builds_checks_and_prints_the_tag(one, capsys):
    assert released() == 0
    assert "git tag -a tile-one-v0.2.0" in capsys.readouterr().out
    assert {p.name for p in (release.ROOT / "dist").iterdir()} >= {
        "tile_one-0.2.0-py3-none-any.whl",
        "tile_one-0.2.0.tar.gz",
    }


@pytest.mark.parametrize(
    ("file", "text", "reason"),
    [
        ("src/tile_one/new.py", "", "1 uncommitted changes"),
        ("CHANGELOG.md", "## 0.1.0 (2026-01-01)\n", "has no section '## 0.2.0'"),
        ("CHANGELOG.md", "## 0.2.0 (unreleased)\n", "has no date"),
    ],
)
def test_what_stops_a_release_is_only_told_in_a_dry_run(one, capsys, file, text, reason):
    (one / file).write_text(text)
    assert released() == 1
    assert reason in capsys.readouterr().err
    assert released("--dry-run") == 0
    assert reason in capsys.readouterr().out


def test_a_version_that_has_its_tag_is_not_released_again(one, capsys):
    subprocess.run(["git", "tag", "tile-one-v0.2.0"], cwd=release.ROOT, check=True)
    assert released() == 1
    assert "raise the version in tile_one/__about__.py" in capsys.readouterr().err


def test_a_wheel_without_its_typing_marker_is_refused(one, capsys):
    (one / "src" / "tile_one" / "py.typed").unlink()
    assert released("--dry-run") == 1
    assert "lacks tile_one/py.typed" in capsys.readouterr().err


def test_a_wheel_with_other_entry_points_is_refused(one, capsys):
    assert released() == 0
    wheel = release.ROOT / "dist" / "tile_one-0.2.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel) as archive:
        kept = {name: archive.read(name) for name in archive.namelist() if "entry_points" not in name}
    with zipfile.ZipFile(wheel, "w") as archive:
        for name, data in kept.items():
            archive.writestr(name, data)
    (distribution,) = workspace.distributions(release.ROOT)
    with pytest.raises(release.NotReleasable, match="declares"):
        release.check_wheel(wheel, distribution)


def test_an_unknown_distribution_lists_the_known(one, capsys):
    assert release.main(["tile-two"]) == 1
    assert "no distribution 'tile-two' here; there are tile-one" in capsys.readouterr().err


def test_every_distribution_is_a_member_of_the_workspace():
    """Members are listed, not globbed: hatch refuses a folder in which somebody has only begun a distribution."""
    text = (workspace.ROOT / "pyproject.toml").read_text()
    patterns = set(re.findall(r'"([^"]+)"', re.search(r"^workspace\.members = \[(.*?)\]", text, re.MULTILINE)[1]))
    members = {folder for pattern in patterns for folder in workspace.ROOT.glob(pattern)}
    assert members >= {d.folder for d in workspace.distributions()}
