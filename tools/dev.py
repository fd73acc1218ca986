"""The one door for developers: makes the environment when it is missing or stale, then passes the command on.

    python3 tools/dev.py demo                        the examples, checked and timed on this machine
    python3 tools/dev.py test [--quick] [ARGS…]      pytest, with a table of time spent and budget for each layer
    python3 tools/dev.py exec -- CMD…                a command inside the environment
    python3 tools/dev.py lint | bench | docs         style, types and import rules | benchmarks | the documentation
    python3 tools/dev.py wheels                      a wheel of every distribution in dist/

Standard library only: it must run on a machine that has python3, pip, a C compiler and git, and nothing else. What a
command does is written in pyproject.toml (`tool.hatch.envs.default.scripts`); this file only sees to it that the
environment is the one described there.
"""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def main(argv: Sequence[str] | None = None) -> int:
    command, arguments = parse(sys.argv[1:] if argv is None else list(argv))
    environment = Environment(ROOT)
    try:
        environment.ensure()
    except EnvironmentTrouble as trouble:
        print(f"tools/dev.py: {trouble}", file=sys.stderr)
        return 2
    if command == "exec":
        return environment.call(arguments)
    if command == "wheels":
        shutil.rmtree(
            ROOT / "dist", ignore_errors=True
        )  # a stale wheel beside a new one is picked up by whoever installs from there
        return environment.hatch(["build", "--all", "-t", "wheel", *arguments])
    if command == "test":
        arguments = test_arguments(arguments)
        # Each worker has a thread pool: on a small machine, threads that spin while waiting take the other pool's core.
        os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    began = time.monotonic()
    status = environment.hatch(["run", f"default:{command}", *arguments])
    if command == "lint":
        print(
            f"lint: {'passed' if status == 0 else 'FAILED'} in {time.monotonic() - began:.0f} s (budget 2 core-minutes)"
        )
    return status


def parse(argv: list[str]) -> tuple[str, list[str]]:
    """The command, and the arguments for it untouched: they belong to pytest, hatch or the program that is run."""
    parser = argparse.ArgumentParser(
        prog="tools/dev.py", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("command", choices=["demo", "test", "exec", "lint", "format", "bench", "wheels", "docs"])
    if not argv or argv[0] in ("-h", "--help"):
        parser.parse_args(argv or ["--help"])
    command = parser.parse_args(argv[:1]).command
    rest = argv[1:]
    if rest[:1] == ["--"]:
        rest = rest[1:]
    if command == "exec" and not rest:
        parser.error("exec: no command given; write `tools/dev.py exec -- CMD…`")
    return command, rest


def test_arguments(arguments: list[str]) -> list[str]:
    """pytest's arguments: all cores unless told otherwise, and no test marked `slow` with --quick."""
    quick = "--quick" in arguments
    passed_on = [a for a in arguments if a != "--quick"]
    if not any(a.startswith(("-n", "--numprocesses")) or a == "--collect-only" for a in passed_on):
        passed_on = ["-n", "auto", *passed_on]
    if quick:
        passed_on = ["-m", "not slow", *passed_on]
    return passed_on


class EnvironmentTrouble(Exception):
    """The environment can't be made; the message says what to do."""


class Environment:
    """`.tile-dev/`: a venv with hatch in it (`hatch/`), the environment with all members (`default/`), stamps.

    Hatch itself re-syncs only when a third-party dependency is added or changed. Edited entry points, a member's
    version, its ranges for siblings: all of that stays as it was installed, so a digest of every file that shapes the
    environment decides here.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.state = root / ".tile-dev"
        self.hatch_venv = self.state / "hatch"
        self.prefix = self.state / "default"
        self.constraints = root / "constraints.txt"

    def ensure(self) -> None:
        """Make or refresh both parts. Costs one digest when nothing changed; safe when two processes do it at once."""
        self.state.mkdir(exist_ok=True)
        with locked(self.state / "lock"):
            self._ensure_hatch()
            self._ensure_default()

    def hatch(self, arguments: Sequence[str]) -> int:
        return subprocess.call([self.hatch_venv / "bin" / "hatch", *arguments], cwd=self.root, env=self.variables())

    def call(self, command: Sequence[str]) -> int:
        """Run a command in the environment, in the caller's folder, its arguments passed as they are."""
        variables = self.variables()
        variables["VIRTUAL_ENV"] = str(self.prefix)
        variables["PATH"] = os.pathsep.join([str(self.prefix / "bin"), variables.get("PATH", os.defpath)])
        program = shutil.which(command[0], path=variables["PATH"])
        if program is None:
            print(f"tools/dev.py exec: {command[0]!r} is not in the environment nor on PATH", file=sys.stderr)
            return 127
        return subprocess.call([program, *command[1:]], env=variables)

    def variables(self) -> dict[str, str]:
        variables = dict(os.environ)
        for name in ("PYTHONHOME", "VIRTUAL_ENV", "HATCH_ENV_ACTIVE"):
            variables.pop(name, None)
        variables["PIP_CONSTRAINT"] = str(self.constraints)
        variables.setdefault("PIP_DISABLE_PIP_VERSION_CHECK", "1")
        return variables

    def _ensure_hatch(self) -> None:
        digest = digest_of([self.constraints], sys.version, str(self.root))
        stamp = self.state / "hatch.stamp"
        if read(stamp) == digest and (self.hatch_venv / "bin" / "hatch").exists():
            return
        stamp.unlink(missing_ok=True)
        shutil.rmtree(self.hatch_venv, ignore_errors=True)
        print("tools/dev.py: installing hatch (once)", file=sys.stderr)
        self._run(
            [sys.executable, "-m", "venv", self.hatch_venv],
            "python3 -m venv failed; on Debian and Ubuntu it comes with `apt-get install python3-venv`",
        )
        self._run(
            [self.hatch_venv / "bin" / "python", "-m", "pip", "install", "-q", "hatch>=1.18"],
            "pip could not install hatch; is a package index within reach?",
        )
        stamp.write_text(digest)

    def _ensure_default(self) -> None:
        digest = digest_of(self.shaping_files(), sys.version, str(self.root))
        stamp = self.state / "default.stamp"
        python = self.prefix / "bin" / "python"
        if read(stamp) == digest and python.exists():
            return
        fresh = not stamp.exists() or not python.exists()  # no stamp: a set-up that was cut short
        stamp.unlink(missing_ok=True)
        if fresh or not self._refresh(python):
            print("tools/dev.py: making the environment in .tile-dev/ (some minutes, once)", file=sys.stderr)
            shutil.rmtree(self.prefix, ignore_errors=True)
            self._run(
                [self.hatch_venv / "bin" / "hatch", "env", "create", "default"],
                "hatch could not make the environment; its own message is above",
            )
        stamp.write_text(digest)

    def _refresh(self, python: Path) -> bool:
        """Install the members again over what is there: seconds instead of minutes. False when pip refuses."""
        print(
            "tools/dev.py: a pyproject.toml, version or constraint changed; refreshing the environment", file=sys.stderr
        )
        editable = [part for member in self.members() for part in ("-e", str(member))]
        install = [python, "-m", "pip", "install", "-q", *editable]
        if subprocess.call(install, cwd=self.root, env=self.variables()) != 0:
            return False
        # What the environment itself depends on; `hatch env create` leaves an environment that is there as it is.
        return self.hatch(["run", "default:python", "-c", ""]) == 0

    def members(self) -> list[Path]:
        """Folders of the distributions, in a fixed order."""
        return sorted(p.parent for kind in ("packages", "plugins") for p in (self.root / kind).glob("*/pyproject.toml"))

    def shaping_files(self) -> list[Path]:
        """Everything that the installed metadata or the choice of versions comes from."""
        about = [a for member in self.members() for a in sorted(member.glob("src/*/__about__.py"))]
        return [self.root / "pyproject.toml", self.constraints, *(m / "pyproject.toml" for m in self.members()), *about]

    def _run(self, command: Sequence[str | Path], trouble: str) -> None:
        if subprocess.call(command, cwd=self.root, env=self.variables()) != 0:
            raise EnvironmentTrouble(trouble)


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold an exclusive lock on the file; says so when another process has it. The kernel drops it if we die."""
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print("tools/dev.py: another process is setting up the environment; waiting for it", file=sys.stderr)
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def digest_of(files: Sequence[Path], *also: str) -> str:
    digest = hashlib.sha256("\0".join(also).encode())
    for file in files:
        digest.update(f"\0{file.name}\0".encode() + file.read_bytes())
    return digest.hexdigest()


def read(path: Path) -> str | None:
    return path.read_text() if path.exists() else None


if __name__ == "__main__":
    sys.exit(main())
