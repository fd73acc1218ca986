"""The page about the language: every rule names an error or a test that exists, and every error of the language's own
modules is named by a rule or shown by a case of the front end."""

import re
from pathlib import Path

import pytest

from tile_core.errors import CODES

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "language.md"
FOLDERS = ("packages", "plugins", "integration_tests", "docs", "tools")


def rules():
    """(rule, what shows it) of every row below the heading "Rules"."""
    text = PAGE.read_text(encoding="utf-8").split("\n## Rules\n")[1].split("\n## ")[0]
    rows = [line for line in text.splitlines() if line.startswith("| ") and not line.startswith("| rule ")]
    return [tuple(row.strip("| ").rsplit(" | ", 1)) for row in rows]


@pytest.fixture(scope="module")
def tests():
    """Names of all test functions of the repository."""
    found = set()
    for folder in FOLDERS:
        for path in (ROOT / folder).rglob("test_*.py"):
            found.update(re.findall(r"^\s*def (test_\w+)", path.read_text(encoding="utf-8"), re.M))
    return found


def test_there_are_rules():
    assert len(rules()) >= 50


def test_every_rule_is_shown_by_something_that_exists(tests):
    import tile_cpu.plugin  # noqa: F401 - its codes
    import tile_runtime.plugin  # noqa: F401
    from tools.make_reference import import_everything

    import_everything()
    missing = []
    for rule, shown in rules():
        names = re.findall(r"`(E-[A-Z0-9-]+|test_\w+)`", shown)
        if not names:
            missing.append(f"{rule!r} is shown by nothing")
        missing += [f"{rule!r}: {n}" for n in names if n not in tests and n not in CODES]
    assert not missing
