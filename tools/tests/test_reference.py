"""The pages that are made from tables and from the compiler's own output are current.

Each is checked in a process of its own: tests register intrinsics and options that no page should have.
"""

import subprocess
import sys

import pytest

from tools.workspace import ROOT


@pytest.mark.layer("docs")
@pytest.mark.parametrize("maker", ["make_reference", "make_walkthrough", "make_names", "make_pipelining"])
def test_the_page_is_current(maker):
    run = subprocess.run([sys.executable, "-m", f"tools.{maker}", "--check"], cwd=ROOT, capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr
