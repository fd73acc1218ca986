"""Many kernels compiled at once: the same kernels as one by one, errors typed, workers replaced."""

import io
import os
import pickle
import subprocess
import sys
import textwrap
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

import tile_core as tile
import tile_core.language as T
import tile_runtime.parallel
from tile_core.settings import settings
from tile_runtime.compiler import Request, clear_memory, disk_cache
from tile_runtime.options import CompileOptions
from tile_runtime.parallel import Progress, WorkerPool, compile_all, worker_count


def make(value, threads=32):
    @T.prim_func
    def plus(A: T.Tensor((8,), "float32"), B: T.Tensor((8,), "float32")):
        with T.Kernel(1, threads=threads):
            for i in T.Parallel(8):
                B[i] = A[i] + value

    return plus


def wrong():
    """A function whose lowering fails: a product of tiles that do not fit."""

    @T.prim_func
    def product(A: T.Tensor((16, 16), "float32")):
        with T.Kernel(1, threads=32):
            a = T.alloc_shared((16, 16), "float32")
            c = T.alloc_fragment((16, 16), "float32")
            T.copy(A, a)
            for i in T.serial(4):
                for j in T.Parallel(16):
                    c[j + 100, i] = a[j, i]

    return product


@pytest.fixture(autouse=True)
def cache(tmp_path):
    with settings.scope(cache_dir=tmp_path / "cache"):
        clear_memory()
        yield
        clear_memory()


@pytest.fixture(scope="module")
def pool():
    with WorkerPool(2) as pool:
        yield pool


OPTIONS = CompileOptions.read({"target": "cpu", "out_idx": [-1]})


def test_kernels_come_in_order_from_workers_and_are_kept(pool, monkeypatch):
    monkeypatch.setattr(Request, "compiled", lambda self: pytest.fail("compiled here"))
    kernels = compile_all([make(float(v)) for v in (1, 2, 3, 1)], OPTIONS, pool=pool)
    assert [kernel(torch.zeros(8))[0].item() for kernel in kernels] == [1, 2, 3, 1]
    assert kernels[0] is kernels[3] and len(disk_cache().keys()) == 3
    assert {"lowering", "compiling", "loading"} <= set(kernels[0].artifact.notes["seconds"])
    clear_memory()
    assert [kernel.origin for kernel in compile_all([make(2.0)], OPTIONS, pool=pool)] == ["disk"]


def test_a_worker_finds_what_we_would_compile(pool):
    (theirs,) = compile_all([make(4.0)], OPTIONS, pool=pool)
    with settings.scope(disable_cache=True):
        ours = tile.compile(make(4.0), target="cpu", out_idx=[-1])
    assert theirs.artifact.sources == ours.artifact.sources
    assert theirs.explain() == ours.explain()


def test_without_a_cache_kernels_come_all_the_same(pool):
    with settings.scope(disable_cache=True):
        kernels = compile_all([make(1.0), make(1.0)], OPTIONS, pool=pool)
    assert kernels[0] is not kernels[1] and kernels[1](torch.ones(8))[3].item() == 2
    assert not disk_cache().keys()


def test_an_error_is_the_one_of_a_single_compile(pool):
    with pytest.raises(tile.CompileError) as alone:
        tile.compile(wrong(), target="cpu")
    with pytest.raises(tile.CompileError) as together:
        compile_all([make(1.0), wrong()], CompileOptions.read({"target": "cpu"}), pool=pool)
    assert str(together.value) == str(alone.value)
    kernels = compile_all([wrong(), make(1.0)], CompileOptions.read({"target": "cpu"}), ignore_error=True, pool=pool)
    assert kernels[0] is None and kernels[1] is not None


class _End:
    """Ends the process that reads it."""

    def __reduce__(self):
        return os._exit, (3,)


def test_a_worker_that_dies_is_told_and_replaced(monkeypatch):
    with WorkerPool(1) as pool:
        with monkeypatch.context() as patch:
            patch.setattr(tile_runtime.parallel, "_job", lambda request: pickle.dumps(_End()))
            with pytest.raises(tile.InternalError) as caught:
                compile_all([make(5.0)], OPTIONS, pool=pool)
        assert caught.value.code == "E-WORKER-DIED"
        assert caught.value.summary == "the process that compiled plus ended with exit code 3"
        (kernel,) = compile_all([make(6.0)], OPTIONS, pool=pool)
        assert kernel(torch.zeros(8))[0].item() == 6


def test_a_worker_that_is_ended_while_it_compiles_leaves_nothing(monkeypatch, tmp_path):
    compiler = tmp_path / "slow-compiler"
    compiler.write_text('#!/bin/sh\ncase "$*" in *--version*) echo slow ;; *-E*) exit 1 ;; *) sleep 60 ;; esac\n')
    compiler.chmod(0o755)
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setenv("TILE_CC", str(compiler))
    monkeypatch.setenv("TMPDIR", str(scratch))
    pool = WorkerPool(1)
    with ThreadPoolExecutor(1) as thread:
        waiting = thread.submit(compile_all, [make(9.0)], OPTIONS, pool=pool)
        while not list(scratch.glob("tile-cpu-*")):
            assert not waiting.done()
            time.sleep(0.05)
        pool.close()
        with pytest.raises(tile.InternalError, match="E-WORKER-DIED"):
            waiting.result(20)
    assert list(scratch.iterdir()) == []


def test_a_registry_that_workers_cannot_have_is_served_here(pool):
    from tile_core.plugin import registry

    with registry.use(registry.Registry(registry.current()._entry_points)):
        (kernel,) = compile_all([make(8.0)], OPTIONS, pool=pool)
    assert kernel(torch.zeros(8))[0].item() == 8


@pytest.mark.parametrize("number", [0, -1, 1.5, True, "2"])
def test_num_workers_is_checked(number):
    with pytest.raises(tile.OptionError, match="E-WORKERS"):
        tile.par_compile([make(1.0)], target="cpu", num_workers=number)


def test_par_compile_of_the_front_door():
    kernels = tile.par_compile([make(1.0), make(2.0)], target="cpu", out_idx=[-1], num_workers=1)
    assert [kernel(torch.zeros(8))[0].item() for kernel in kernels] == [1, 2]
    assert tile.par_compile([], target="cpu") == []
    assert worker_count(None, 1) == 1 and worker_count(7, 3) == 3


def test_the_bar_counts_and_names_failures():
    file = io.StringIO()
    bar = Progress(4, wanted=True, file=file)
    for failed in (False, True, False, False):
        bar.step(failed)
    bar.end()
    last = file.getvalue().split("\r")[-1]
    assert last.startswith("compiled 4/4 [########################] ") and last.endswith(" s, 1 failed\n")
    quiet = Progress(4, wanted=False, file=file)
    quiet.step()
    assert file.getvalue().endswith("1 failed\n")


JIT = """
    import torch, sys
    import tile_core as tile, tile_core.language as T

    @tile.jit(target="cpu", out_idx=[-1])
    def plus(value, n=8):
        @T.prim_func
        def main(A: T.Tensor((n,), "float32"), B: T.Tensor((n,), "float32")):
            with T.Kernel(1, threads=32):
                for i in T.Parallel(n):
                    B[i] = A[i] + value
        return main

    kernels = plus.par_compile([dict(value=1.0), dict(value=2.0, n=16), (3.0,)], num_workers=2)
    assert kernels[0] is plus(1.0) and kernels[1] is plus(2.0, n=16)
    print([kernel(torch.zeros(n))[-1].item() for kernel, n in zip(kernels, (8, 16, 8))])
"""


@pytest.mark.slow
def test_a_script_without_a_main_guard_compiles_in_parallel(tmp_path):
    (tmp_path / "script.py").write_text(textwrap.dedent(JIT))
    run = subprocess.run(
        [sys.executable, str(tmp_path / "script.py")],
        capture_output=True,
        text=True,
        env={**os.environ, "TILE_CACHE_DIR": str(tmp_path / "cache")},
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout == "[1.0, 2.0, 3.0]\n"
