"""What the documentation shows is true."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from tile_core.ir import PrimFunc, parse
from tile_core.plugin import Backend, PassExtension, registry
from tile_core.plugin.registry import GROUPS, STATES
from tile_core.settings import Settings
from tile_core.transform.options import declared_options

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
    for command in (["compile"], ["show", "ir"], ["show", "timeline"], ["show", "memory"]):
        text = subprocess.run(
            [sys.executable, "-m", "tile_core.cli.main", *command, "--help"], capture_output=True, text=True, check=True
        ).stdout
        for option in set(re.findall(r"--[a-z]+", text)) - {"--help"}:
            assert f"`{option}" in page


def test_the_row_of_the_cuda_page_becomes_a_device_function():
    (block,) = blocks("cuda.md")
    program = block + (
        "from tile_core.ir import Call, find_intrinsic\n"
        "from tile_cuda.device import find_device_function\n"
        "from tile_cuda.device.headers import render\n"
        "assert find_device_function(Call('cuda.elect', ())).name == 'elect'\n"
        "assert find_intrinsic('cuda.elect').effects\n"
        "from tile_cuda.toolchain import compile_device, nvrtc\n"
        "nvrtc.device_header = lambda: render(False)\n"
        'text = \'#include "tile_cuda.h"\\nextern "C" __global__ void k(int* p) { if (tile::elect()) *p = 1; }\\n\'\n'
        "assert compile_device(text, 'sm_75').cubin\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_options_and_errors_of_the_cuda_page_exist():
    import tile_cuda.codegen
    import tile_cuda.pipeline
    import tile_cuda.toolchain  # noqa: F401  (they declare their codes)
    from tile_core.errors import CODES
    from tile_core.transform import declared_options

    page = (DOCS / "cuda.md").read_text()
    assert set(re.findall(r"`(tl\.[a-z_]+)`", page)) <= set(declared_options())
    assert set(re.findall(r"`(E-[A-Z-]+)`", page)) <= set(CODES)


def test_the_page_of_the_runtime_shows_what_is(tmp_path):
    page = (DOCS / "runtime.md").read_text()
    (block,) = blocks("runtime.md")
    file = tmp_path / "page.py"
    file.write_text(
        block
        + "import torch\n"
        + "a = torch.ones(100)\n"
        + "assert torch.equal(scale(a, 2.0), a * 2) and scale.mode == 'eager'\n"
        + "assert torch.equal(scale(a.byte().float(), 3.0, skip_tensor_validation=True), a * 3)\n"
    )
    subprocess.run([sys.executable, str(file)], check=True, cwd=tmp_path)
    for option in re.findall(r'"(tl\.\w+)"', page):
        assert option in declared_options()
    for name in re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE):
        assert registry.execution_backend(name).name == name
    for variable in re.findall(r"`(TILE_\w+)`", page):
        assert variable in {setting.name for setting in Settings.all()}
