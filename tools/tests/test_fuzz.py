"""The fuzzer: the same kernel for the same seed, kernels that trace, files that read back, a minimiser that keeps the
fault."""

import numpy as np
import pytest

from tile_core.errors import TileError
from tools.fuzz import judge as judging
from tools.fuzz.__main__ import main, read, text_of
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


def test_kernels_vary():
    text = "".join(random_kernel(seed).source for seed in range(300))
    for part in (
        "T.Pipelined",
        "while ",
        "T.gemm(",
        "T.gemm_sp(",
        "T.cumsum",
        "reduce_absmax",
        "T.dynamic",
        "bfloat16",
        "threads=160",
    ):
        assert part in text


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
    assert not judging._difference(a, a.copy())
    assert judging._difference(a, np.array([0.0, 1.0, np.inf], "float32"))


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
