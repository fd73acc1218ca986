"""A kernel called in a process that was forked after it ran: the threads that its team had are not there."""

import subprocess
import sys

import pytest

SCRIPT = """
import os, signal, sys
import torch
import tile_core as tile
import tile_core.language as T

@T.prim_func
def double(A: T.Tensor((4096,), "float32"), B: T.Tensor((4096,), "float32")):
    with T.Kernel(64) as bx:
        for i in T.Parallel(64):
            B[bx * 64 + i] = A[bx * 64 + i] * 2

kernel = tile.compile(double, target="cpu", out_idx=-1, compile_flags=sys.argv[1:])
x = torch.arange(4096.0)
kernel(x)
child = os.fork()
if child == 0:
    signal.alarm(60)
    right = all((kernel(x).numpy() == x.numpy() * 2).all() for _ in range(3))
    os._exit(0 if right else 3)
assert os.waitpid(child, 0)[1] == 0, "the child hung or was wrong"
assert (kernel(x).numpy() == x.numpy() * 2).all()
"""


@pytest.mark.slow
@pytest.mark.parametrize("flags", [(), ("-fno-openmp", "-pthread")], ids=["openmp", "own threads"])
def test_a_forked_process_runs_kernels_of_its_parent(flags, monkeypatch, tmp_path):
    monkeypatch.setenv("TILE_NUM_THREADS", "4")
    script = tmp_path / "forking.py"
    script.write_text(SCRIPT)
    run = subprocess.run([sys.executable, str(script), *flags], capture_output=True, text=True, timeout=200)
    assert run.returncode == 0, run.stderr
