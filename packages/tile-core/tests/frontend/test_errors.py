"""Misuse of the language: each case is a kernel, its golden file the whole text of the error.

The names of the cases say what is wrong; the files under golden/ are read by a person when they change.
"""

import importlib
import importlib.util
import re
import textwrap
from pathlib import Path

import pytest

from tile_core.errors import CODES, TileError
from tile_core.ir import find_scope

# Beside this file, which is no package.
_spec = importlib.util.spec_from_file_location("misuse", Path(__file__).with_name("misuse.py"))
misuse = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(misuse)

CORE_SCOPES = ("barrier", "fragment", "global", "local", "param", "reducer", "shared", "var")


@pytest.fixture(autouse=True)
def scopes_of_core_alone(monkeypatch):
    """The texts list the known scopes; a backend that another test loaded in this process adds its own."""
    module = importlib.import_module("tile_core.ir.scopes")
    monkeypatch.setattr(module, "_scopes", {name: find_scope(name) for name in CORE_SCOPES})


def shown(trace, text):
    with pytest.raises(TileError) as caught:
        trace(text)
    source = "".join(f"{i:5d} | {line}\n" for i, line in enumerate(text.split("\n"), 1))
    return re.sub(r"<tile source \w+>", "kernel.py", f"{source}\n{caught.value}")


@pytest.mark.parametrize("case", misuse.STATEMENTS)
def test_statements(trace, golden, case):
    lines = textwrap.indent(textwrap.dedent(misuse.STATEMENTS[case]).strip("\n"), "        ")
    text = (
        '@T.prim_func\ndef main(A: T.Tensor((64, 32), "float32"), B: T.Tensor((64, 32), "float32"), n: T.int32):\n'
        f"    with T.Kernel(4, threads=32) as bx:\n{lines}"
    )
    golden(f"{case}.txt", shown(trace, text))


@pytest.mark.parametrize("case", misuse.FUNCTIONS)
def test_functions(trace, golden, case):
    golden(f"{case}.txt", shown(trace, textwrap.dedent(misuse.FUNCTIONS[case]).strip("\n")))


def test_every_code_of_the_front_end_is_shown_by_a_case(request):
    """Codes declared in frontend/ and language/ appear in a golden file or in a test of these rooms."""
    import tile_core.frontend
    import tile_core.language

    declared = set()
    for package in (tile_core.frontend, tile_core.language):
        folder = request.path.parents[2] / "src" / "tile_core" / package.__name__.rpartition(".")[2]
        for path in folder.glob("*.py"):
            for block in re.findall(r"declare_codes\((.*?)\)\n", path.read_text(), flags=re.S):
                declared |= set(re.findall(r'"(E-[A-Z-]+)"', block))
    shown_codes = set()
    tests = request.path.parents[1]
    for path in [
        *request.path.parent.glob("golden/*.txt"),
        *tests.glob("frontend/test_*.py"),
        *tests.glob("language/*.py"),
    ]:
        if path != request.path:
            shown_codes |= set(re.findall(r"E-[A-Z-]+[A-Z]", path.read_text()))
    assert declared - shown_codes == set()
    assert declared <= set(CODES)
