"""What the documentation shows is true."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from tile_core.ir import PrimFunc, parse
from tile_core.plugin import Backend, PassExtension
from tile_core.plugin.registry import GROUPS, STATES

DOCS = Path(__file__).parents[2] / "docs"


def blocks(page: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", (DOCS / page).read_text(), re.DOTALL)


def test_the_function_of_the_ir_page_reads_and_prints_as_shown():
    (text,) = [block for block in blocks("ir-text.md") if block.startswith("@T.prim_func")]
    function = parse(text)
    assert isinstance(function, PrimFunc)
    assert function.script() == text


def test_the_specs_of_the_plugin_page_are_valid():
    names: dict[str, object] = {}
    for block in blocks("plugins.md"):
        exec(block, names)
    assert isinstance(names["BACKEND"], Backend) and isinstance(names["COUNT"], PassExtension)


def test_the_plugin_page_names_every_group_and_state():
    page = (DOCS / "plugins.md").read_text()
    assert all(f"`{group}`" in page for group in GROUPS)
    assert all(f"| {state} |" in page for state in STATES)


def test_the_command_page_names_every_option():
    page = (DOCS / "command-line.md").read_text()
    for command in (["compile"], ["show", "ir"]):
        text = subprocess.run(
            [sys.executable, "-m", "tile_core.cli.main", *command, "--help"], capture_output=True, text=True, check=True
        ).stdout
        for option in set(re.findall(r"--[a-z]+", text)) - {"--help"}:
            assert f"`{option}" in page
