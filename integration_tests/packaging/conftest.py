"""Clean environments for the packaging tests.

Each is a venv outside the tree that sees the development environment's third-party libraries through links, none of our
editable installs, and gets our distributions as wheels.
"""

from __future__ import annotations

import base64
import hashlib
import os
import subprocess
import sys
import sysconfig
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from tools.workspace import ROOT, distributions


class CleanEnvironment:
    """A venv with third-party libraries and nothing of ours but the wheels that were installed into it."""

    def __init__(self, folder: Path, third_party: Path) -> None:
        self.folder = folder
        self.outside = folder / "outside"  # working folder of what runs: far from the source tree
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
        self.outside.mkdir()
        self.python = folder / "bin" / "python"
        (self.site_packages / "third_party.pth").write_text(f"{third_party}\n")

    @property
    def site_packages(self) -> Path:
        return self.folder / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}" / "site-packages"

    def pip(self, *arguments: str | Path, check: bool = True) -> subprocess.CompletedProcess[str]:
        """pip without an index: what is not a wheel of ours must be in the environment already."""
        command = [sys.executable, "-m", "pip", "--python", self.python, "--disable-pip-version-check", *arguments]
        variables = {k: v for k, v in os.environ.items() if not k.startswith("PIP_")}
        variables["PIP_CONFIG_FILE"] = os.devnull
        done = subprocess.run(command, cwd=self.outside, env=variables, capture_output=True, text=True, timeout=300)
        assert not check or done.returncode == 0, done.stdout + done.stderr
        return done

    def install(self, *wheels: Path, find_links: Path | None = None) -> None:
        where = ["--no-deps"] if find_links is None else ["--find-links", find_links]
        self.pip("install", "-q", "--no-index", *where, *wheels)

    def run(self, *command: str | Path, check: bool = True, **settings: str) -> subprocess.CompletedProcess[str]:
        """Run a program of the environment outside the tree; settings are variables such as TILE_BACKENDS."""
        variables = {k: v for k, v in os.environ.items() if not k.startswith(("TILE_", "PYTHON", "PYTEST_"))}
        variables |= {
            "PATH": f"{self.folder / 'bin'}{os.pathsep}{os.environ['PATH']}",
            "TILE_CACHE_DIR": str(self.folder / "cache"),
            **settings,
        }
        program = self.folder / "bin" / command[0]
        done = subprocess.run(
            [program, *command[1:]], cwd=self.outside, env=variables, capture_output=True, text=True, timeout=300
        )
        assert not check or done.returncode == 0, done.stdout + done.stderr
        return done

    def script(self, text: str, check: bool = True, **settings: str) -> subprocess.CompletedProcess[str]:
        """Run Python code from a file: kernels need their source."""
        file = self.outside / f"script_{hashlib.sha256(text.encode()).hexdigest()[:8]}.py"
        file.write_text(text)
        return self.run("python", file, check=check, **settings)


@pytest.fixture(scope="session")
def wheels(tmp_path_factory) -> dict[str, Path]:
    """Distribution name → its wheel, built by hatchling; all in one folder."""
    out = tmp_path_factory.mktemp("wheels")
    return {d.name: built(d.folder, out) for d in distributions()}


@pytest.fixture(scope="session")
def third_party(tmp_path_factory) -> Path:
    """A folder of links to every installed library that is not ours."""
    folder = tmp_path_factory.mktemp("third_party")
    ours = tuple(d.module for d in distributions())
    for entry in Path(sysconfig.get_paths()["purelib"]).iterdir():
        if entry.suffix != ".pth" and not entry.name.lstrip("_").removeprefix("editable_impl_").startswith(ours):
            (folder / entry.name).symlink_to(entry)
    return folder


@pytest.fixture
def clean_environment(tmp_path, third_party, wheels) -> Callable[..., CleanEnvironment]:
    """Make a clean environment with the named distributions' wheels, and any further wheels given as paths."""

    def make(*contents: str | Path) -> CleanEnvironment:
        environment = CleanEnvironment(tmp_path / "environment", third_party)
        if contents:
            environment.install(*(wheels[c] if isinstance(c, str) else c for c in contents))
        return environment

    return make


@pytest.fixture
def make_wheel(tmp_path) -> Callable[..., Path]:
    """Write a small wheel: make_wheel("acme", {"acme.py": text}, {"tile.backends": {"acme": "acme:BACKEND"}})."""

    def make(
        name: str, files: Mapping[str, str], entry_points: Mapping[str, Mapping[str, str]], version: str = "1.0"
    ) -> Path:
        info = f"{name.replace('-', '_')}-{version}.dist-info"
        declared = "".join(
            f"[{group}]\n" + "".join(f"{key} = {value}\n" for key, value in entries.items())
            for group, entries in entry_points.items()
        )
        contents = {
            **files,
            f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
            f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
            f"{info}/entry_points.txt": declared,
        }
        rows = [f"{path},{record_hash(text)},{len(text.encode())}" for path, text in contents.items()]
        contents[f"{info}/RECORD"] = "\n".join([*rows, f"{info}/RECORD,,", ""])
        wheel = tmp_path / f"{name.replace('-', '_')}-{version}-py3-none-any.whl"
        with zipfile.ZipFile(wheel, "w") as archive:
            for path, text in contents.items():
                archive.writestr(path, text)
        return wheel

    return make


@pytest.fixture(scope="session")
def acme_wheel(tmp_path_factory) -> Path:
    """The third-party backend beside this file, built from a copy outside the tree."""
    return built(ROOT / "integration_tests" / "packaging" / "acme_backend", tmp_path_factory.mktemp("acme"))


@pytest.fixture
def build_wheel() -> Callable[[Path, Path], Path]:
    """Build the distribution in a folder; returns its wheel in the other."""
    return built


def built(folder: Path, out: Path) -> Path:
    before = set(out.glob("*.whl"))
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", out]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    (wheel,) = set(out.glob("*.whl")) - before
    return wheel


def record_hash(text: str) -> str:
    digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
    return f"sha256={digest}"
