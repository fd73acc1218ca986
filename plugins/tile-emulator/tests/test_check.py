"""``tile check``: texts, JSON and exit codes."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from tile_core.cli.main import main
from tile_core.errors import CompileError
from tile_emulator import check
from tile_emulator.execution import build

_spec = importlib.util.spec_from_file_location("execution_artifacts", Path(__file__).parent / "test_execution.py")
_artifacts = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_artifacts)

KERNEL = """
import tile_core.language as T

def mirror(N=T.dynamic("n")):
    @T.prim_func
    def mirror(A: T.Tensor((N,), "float32"), B: T.Tensor((N,), "float32")):
        with T.Kernel(T.ceildiv(N, 128), threads=128) as bx:
            held = T.alloc_shared((128,), "float32")
            T.copy(A[bx * 128], held)
            T.copy(held, B[bx * 128])
    return mirror
"""


@pytest.fixture
def compiled(monkeypatch, tmp_path):
    """The file's path, with its kernel lowered as asked: `check` is about running and telling."""
    path = tmp_path / "mirror.py"
    path.write_text(KERNEL)

    def lower_as(synchronised: bool):
        def compile_(function, target=None, execution_backend=None):
            assert (target, execution_backend) == ("cuda", "emulate")
            entry = build(_artifacts.mirror(synchronised, out_idx=()))
            return type("Kernel", (), {"entry": entry, "__call__": lambda self, *a: self.entry(*a)})()

        monkeypatch.setattr(check, "api", SimpleNamespace(compile=compile_))
        return path

    return lower_as


def test_a_clean_kernel_exits_with_0(compiled, capsys):
    assert main(["check", str(compiled(True)), "--seeds", "2", "--size", "n=200"]) == 0
    assert capsys.readouterr().out == "mirror: clean in 4 runs\n"


def test_findings_exit_with_1_and_name_both_lines(compiled, capsys):
    assert main(["check", str(compiled(False)), "--seeds", "0"]) == 1
    text = capsys.readouterr().out
    assert text.startswith("mirror: findings in 2 runs\n  [in_order]\n  race: held, byte ")
    assert "mirror.py:11" in text and "mirror.py:13" in text


def test_json_has_findings_and_state(compiled, capsys):
    assert main(["check", str(compiled(False)), "--seeds", "1", "--json", "--exhaustive"]) == 1
    (kernel,) = json.loads(capsys.readouterr().out)["kernels"]
    assert kernel["state"] == "findings"
    assert kernel["runs"] == ["in_order", "latest", "random, seed 0", "exhaustive"]
    assert kernel["agents"] == 4 and kernel["orders"] == 1
    finding = kernel["findings"][0]
    assert (finding["kind"], finding["buffer"]) == ("race", "held")
    assert {access["line"] for access in finding["accesses"]} == {11, 13}


def test_exhaustive_says_that_all_orders_ran(compiled, capsys):
    assert main(["check", str(compiled(True)), "--seeds", "0", "--exhaustive"]) == 0
    text = capsys.readouterr().out
    assert text == "mirror: clean in 3 runs; all orders of 4 warps and their copies: 1 order can differ\n"


def test_redundant_lists_each_synchronisation(compiled, capsys):
    assert main(["check", str(compiled(True)), "--seeds", "0", "--redundant"]) == 0
    assert "synchronisation 0 (sync_threads at mirror.py:12) is needed" in capsys.readouterr().out


def test_a_kernel_that_does_not_compile_is_unchecked(compiled, monkeypatch, capsys):
    path = compiled(True)

    def refuse(function, **options):
        raise CompileError("E-CODEGEN-DTYPE", "this one can't")

    monkeypatch.setattr(check, "api", SimpleNamespace(compile=refuse))
    assert main(["check", str(path)]) == 1
    text = capsys.readouterr().out
    assert text.startswith("mirror: unchecked in 0 runs") and "this one can't" in text


@pytest.mark.parametrize("words", [[], ["--seeds", "-1"], ["--size", "n"], ["--frequency", "3"]])
def test_a_wrong_command_line_exits_with_2(compiled, words, capsys):
    path = compiled(True)
    assert main(["check", *([str(path)] if words else []), *words]) == 2
