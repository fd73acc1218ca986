"""The fuzzer: the same kernel for the same seed, kernels that trace, files that read back, a minimiser that keeps the
fault."""

from collections import Counter

import numpy as np
import pytest
import torch

from tile_core.dtypes import DType
from tile_core.errors import TileError
from tools.fuzz import judge as judging
from tools.fuzz.__main__ import main, read, text_of
from tools.fuzz.coverage import AXES, axes, missing, report
from tools.fuzz.judge import Verdict, arguments, judge, traced
from tools.fuzz.kernels import Program, random_kernel
from tools.fuzz.minimise import minimise

SMALL = Program(
    """@T.prim_func
def kernel(X: T.Tensor((40,), "float32"), Z0: T.Tensor((40,), "float32")):
    with T.Kernel(3, threads=32) as bx:
        t0 = T.alloc_shared((16,), "float32")
        T.copy(X[bx * 16 : bx * 16 + 16], t0)
        for k in T.serial(3):
            for i in T.Parallel(16):
                t0[i] = T.max(t0[i], T.cast(1.0, "float32")) + T.cast(k, "float32")
        T.copy(t0, Z0[bx * 16 : bx * 16 + 16])
""",
    seed=4,
)


def test_a_seed_is_a_kernel():
    assert random_kernel(12) == random_kernel(12)
    assert random_kernel(12) != random_kernel(13)
    assert len({random_kernel(seed).source for seed in range(50)}) == 50


@pytest.mark.layer("fuzz")
@pytest.mark.parametrize("seed", range(8))
def test_kernels_trace_or_are_refused_with_a_code(seed):
    program = random_kernel(seed)
    try:
        function = traced(program)
    except TileError as error:
        assert error.code != "E-INTERNAL"
    else:
        assert len(arguments(function, program)) == len(function.params)


@pytest.mark.slow
@pytest.mark.layer("fuzz")
def test_every_value_of_every_axis_comes_up():
    counts = Counter(pair for seed in range(1500) for pair in axes(random_kernel(seed)))
    assert missing(counts) == []
    assert report(counts).count("\n") == len(AXES) - 1


@pytest.mark.layer("fuzz")
def test_interpreter_and_cpu_agree(tmp_path, monkeypatch):
    assert judge(SMALL, ("cpu",)).kind == "agree"


@pytest.mark.layer("fuzz")
def test_a_difference_is_a_fault(monkeypatch):
    def wrong(kernel, tensors, schedule):
        kernel(*tensors)
        tensors[1][3] += 1

    monkeypatch.setattr(judging, "_call", wrong)
    verdict = judge(SMALL, ("cpu",))
    assert (verdict.kind, verdict.where) == ("differs", "cpu")
    assert verdict.detail.startswith("Z0: 1 of 40 differ, first at (3,)")


def test_nan_equals_nan_and_nothing_else():
    a = np.array([np.nan, 1.0, np.inf], "float32")
    expected = judging.Argument(DType("float32"), a, (3,), ())
    assert not expected.difference(torch.tensor([torch.nan, 1.0, torch.inf]))
    assert expected.difference(torch.tensor([0.0, 1.0, torch.inf])).startswith("1 of 3 differ, first at (0,)")


def test_gaps_between_rows_are_compared():
    values = np.arange(10, dtype="int32")
    expected = judging.Argument(DType("int32"), values, (2, 4), (6, 1))
    assert expected.array().tolist() == [[0, 1, 2, 3], [6, 7, 8, 9]]
    tensor = expected.tensor()
    assert tensor.stride() == (6, 1) and not expected.difference(tensor)
    tensor.as_strided((10,), (1,), 0)[5] = 0
    assert expected.difference(tensor).startswith("1 of 10 differ, first at (5,)")


def test_four_bits_lie_two_in_a_byte():
    expected = judging.Argument(DType("int4"), np.array([1, -2, 3, 4], "int8"), (4,), ())
    tensor = expected.tensor()
    assert expected.array().tolist() == [0xE1, 0x43] == tensor.tolist()
    assert not expected.difference(tensor)


def test_a_file_reads_back(tmp_path):
    program = random_kernel(3)
    path = tmp_path / "kernel.py"
    path.write_text(text_of(program, "differs cpu\nwhat differs"))
    assert read(path) == program


def test_the_minimiser_keeps_the_fault_and_drops_the_rest():
    def fails(program):
        try:
            traced(program)
        except Exception:
            return False
        return "T.max" in program.source

    smaller = minimise(SMALL, fails, seconds=60)
    assert "T.max" in smaller.source
    assert "serial" not in smaller.source
    assert len(smaller.source) < len(SMALL.source) / 2


def test_one_fault_is_told_from_another():
    difference = Verdict("differs", "cpu", "Z0: 1 of 3 differ")
    assert difference.same_fault(Verdict("differs", "cpu", "Z1: 2 of 3 differ"))
    assert not difference.same_fault(Verdict("differs", "cuda", "Z0: 1 of 3 differ"))
    broken = Verdict("compile", "cuda", "Traceback (most recent call last):\n  File 3\nKeyError: 'x'")
    assert not broken.same_fault(Verdict("compile", "cuda", "Traceback (most recent call last):\nNameError: t0"))
    assert not Verdict("agree").is_fault and not Verdict("refused").is_fault


def test_a_seed_is_shown_with_its_text(capsys):
    assert main(["--seed", "1", "--places", "cpu"]) in (0, 1)
    assert "@T.prim_func" in capsys.readouterr().out
