"""tools/dev.py: arguments, and when the environment is made, refreshed or left alone.

No network: the commands it would run are recorded.
"""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from tools import dev


@pytest.mark.parametrize(
    ("given", "command", "rest"),
    [
        (["test", "--quick", "-k", "a or b"], "test", ["--quick", "-k", "a or b"]),
        (["exec", "--", "python", "-c", "print(1)"], "exec", ["python", "-c", "print(1)"]),
        (["exec", "ls", "--", "x"], "exec", ["ls", "--", "x"]),
        (["demo", "--help"], "demo", ["--help"]),
    ],
)
def test_arguments_after_the_command_are_passed_on_untouched(given, command, rest):
    assert dev.parse(given) == (command, rest)


@pytest.mark.parametrize("given", [["tset"], ["exec"], ["exec", "--"]])
def test_a_wrong_command_ends_with_usage(given, capsys):
    with pytest.raises(SystemExit) as stop:
        dev.parse(given)
    assert stop.value.code == 2
    assert "usage: tools/dev.py" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ([], ["-n", "auto"]),
        (["--quick"], ["-m", "not slow", "-n", "auto"]),
        (["-n0", "tests/test_a.py"], ["-n0", "tests/test_a.py"]),
        (["--quick", "--numprocesses=4"], ["-m", "not slow", "--numprocesses=4"]),
    ],
)
def test_tests_use_all_cores_unless_told_otherwise(given, expected):
    assert dev.test_arguments(given) == expected


class Recorded(dev.Environment):
    """Makes the files that venv, pip and hatch would make, and keeps what was asked for."""

    def __init__(self, root: Path, slow: float = 0.0) -> None:
        super().__init__(root)
        self.log: list[str] = []
        self.slow = slow

    def _run(self, command, trouble):
        words = [Path(str(word)).name for word in command]
        self.log.append(" ".join(words[:4]))
        time.sleep(self.slow)
        made = {"venv": self.hatch_venv / "bin" / "hatch", "create": self.prefix / "bin" / "python"}
        for word, file in made.items():
            if word in words:
                file.parent.mkdir(parents=True, exist_ok=True)
                file.touch()

    def _refresh(self, python):
        self.log.append("refresh")
        return True


@pytest.fixture
def root(tmp_path):
    member = tmp_path / "packages" / "tile-one"
    (member / "src" / "tile_one").mkdir(parents=True)
    (member / "pyproject.toml").write_text('[project]\nname = "tile-one"\n')
    (member / "src" / "tile_one" / "__about__.py").write_text('__version__ = "0.2.0"\n')
    (tmp_path / "pyproject.toml").write_text("[tool.hatch]\n")
    (tmp_path / "constraints.txt").write_text("pytest==9\n")
    return tmp_path


def ensured(root: Path) -> list[str]:
    environment = Recorded(root)
    environment.ensure()
    return environment.log


def test_the_environment_is_made_once(root):
    assert any("env create" in line for line in ensured(root))
    assert ensured(root) == []


@pytest.mark.parametrize(
    "file", ["pyproject.toml", "packages/tile-one/pyproject.toml", "packages/tile-one/src/tile_one/__about__.py"]
)
def test_an_edited_pyproject_or_version_refreshes_it(root, file):
    ensured(root)
    (root / file).write_text((root / file).read_text() + "\n# edited\n")
    assert ensured(root) == ["refresh"]
    assert ensured(root) == []


def test_a_new_member_refreshes_it(root):
    ensured(root)
    (root / "plugins" / "tile-two").mkdir(parents=True)
    (root / "plugins" / "tile-two" / "pyproject.toml").write_text('[project]\nname = "tile-two"\n')
    assert ensured(root) == ["refresh"]


def test_a_set_up_that_was_cut_short_starts_over(root):
    ensured(root)
    (root / ".tile-dev" / "default.stamp").unlink()
    assert [line for line in ensured(root) if "env create" in line]


def test_a_refresh_that_pip_refuses_makes_the_environment_anew(root):
    ensured(root)
    (root / "constraints.txt").write_text("pytest==8\n")
    environment = Recorded(root)
    environment._refresh = lambda python: False
    environment.ensure()
    assert any("env create" in line for line in environment.log)


def test_two_calls_at_once_make_it_once(root):
    environments = [Recorded(root, slow=0.1) for _ in range(2)]
    threads = [threading.Thread(target=e.ensure) for e in environments]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(len(e.log) > 0 for e in environments) == [False, True]


def test_exec_keeps_the_callers_folder_and_the_exit_status(tmp_path):
    environment = dev.Environment(tmp_path)
    script = f"import os, sys; sys.exit(7 if os.getcwd() == {str(Path.cwd())!r} else 1)"
    assert environment.call([sys.executable, "-c", script]) == 7


def test_exec_of_an_unknown_program_says_so(tmp_path, capfd):
    assert dev.Environment(tmp_path).call(["no-such-program"]) == 127
    assert "'no-such-program' is not in the environment" in capfd.readouterr().err


def test_dev_runs_on_a_bare_interpreter():
    root = Path(dev.__file__).parent
    done = subprocess.run(
        [sys.executable, "-I", "-S", str(root / "dev.py"), "--help"], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0 and "python3 tools/dev.py demo" in done.stdout
