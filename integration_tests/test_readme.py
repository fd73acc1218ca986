"""The README's kernel runs as printed, and its tables name what exists."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tools.workspace import ROOT

pytestmark = pytest.mark.layer("docs")

README = (ROOT / "README.md").read_text()


def test_the_kernel_runs_as_printed(tmp_path):
    (code,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    file = tmp_path / "readme.py"
    file.write_text(code)
    done = subprocess.run([sys.executable, file], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_kernel_has_about_twenty_lines():
    (code,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    assert len(code[code.index("@tile.jit") : code.index("a, b =")].strip().splitlines()) <= 22


@pytest.mark.parametrize(
    "path", sorted(set(re.findall(r"`((?:docs|tools|benchmarks|integration_tests)/[\w./]*)`", README)))
)
def test_files_it_names_exist(path):
    assert Path(ROOT, path).exists()
