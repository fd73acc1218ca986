"""jit and compile on the CPU backend: styles, specialisation, processes, the quick way of a call."""

import os
import subprocess
import sys
import textwrap

import pytest
import torch

import tile_core.language as T
from tile_core.errors import ArgumentError, OptionError
from tile_core.plugin import registry


def jit(function=None, **options):
    options = {"target": "cpu", **options}
    return registry.runtime().jit(function, options) if function else lambda f: registry.runtime().jit(f, options)


def test_lazy_style_returns_kernels():
    @jit(out_idx=[-1])
    def scaled(M, N, factor=2.0, dtype="float32"):
        @T.prim_func
        def main(A: T.Tensor((M, N), dtype), B: T.Tensor((M, N), dtype)):
            with T.Kernel(M, threads=32) as i:
                for j in T.Parallel(N):
                    B[i, j] = A[i, j] * T.cast(factor, dtype)

        return main

    assert scaled.mode == "lazy"
    kernel, A = scaled(3, 4), torch.rand(3, 4)
    assert torch.equal(kernel(A), A * 2)
    assert scaled(3, 4) is kernel
    assert torch.equal(scaled(3, 4, 3.0)(A), A * 3)
    assert torch.equal(scaled(3, 4, factor=3.0)(A), A * 3)
    assert torch.equal(scaled(3, 4, dtype="float64")(A.double()), A.double() * 2)
    assert kernel.script() == scaled.trace(3, 4).with_attr("out_idx", (1,)).script()


def test_an_eager_function_is_compiled_for_sizes_by_name():
    @jit
    def row_sums(A, block: int = 16, dtype="float32"):
        M, N = T.const("M, N")
        A: T.Tensor[[M, N], dtype]
        B = T.empty((M,), dtype)
        with T.Kernel(T.ceildiv(M, block), threads=32) as bx:
            total = T.alloc_fragment((block,), dtype)
            part = T.alloc_fragment((block, N), dtype)
            T.copy(A[bx * block, 0], part)
            T.reduce_sum(part, total, dim=1)
            T.copy(total, B[bx * block])
        return B

    kernel, a = row_sums.compile(M=32, N=8), torch.rand(32, 8)
    torch.testing.assert_close(kernel(a), a.sum(1))
    assert row_sums.compile(N=8, M=32) is kernel
    assert row_sums.compile(M=64, N=8) is not kernel
    assert row_sums.compile(M=32, N=8, block=8) is not kernel
    assert row_sums.trace(M=32, N=8).script() == row_sums.trace(torch.empty(32, 8)).script()
    assert row_sums.parse_cache_key(M=32, N=8) == row_sums.parse_cache_key(N=8, M=32)
    assert row_sums.get_kernel_source(M=32, N=8) == kernel.get_kernel_source()
    first, second = row_sums.par_compile([{"M": 32, "N": 8}, {"M": 48, "N": 8}])
    assert first is kernel and second(torch.ones(48, 8)).sum() == 48 * 8
    torch.testing.assert_close(row_sums(a), a.sum(1))
    with pytest.raises(ArgumentError, match="Q is neither a parameter"):
        row_sums.compile(M=32, N=8, Q=1)
    with pytest.raises(ArgumentError, match="unexpected keyword argument 'M'"):
        row_sums(a, M=32)  # a call has tensors


def test_eager_style_runs():
    @jit
    def plus(A, B, block: int = 32):
        M, N = T.const("M, N")
        A: T.Tensor[[M, N], T.float32]
        B: T.Tensor[[M, N], T.float32]
        C = T.empty((M, N), T.float32)
        D = T.empty((N, M), T.float32)
        with T.Kernel(T.ceildiv(M, block), threads=32) as bx:
            for i, j in T.Parallel(block, N):
                if bx * block + i < M:
                    C[bx * block + i, j] = A[bx * block + i, j] + B[bx * block + i, j]
                    D[j, bx * block + i] = A[bx * block + i, j] - B[bx * block + i, j]
        return C, D

    assert plus.mode == "eager"
    for shape in ((40, 3), (40, 3), (40, 3), (7, 5), (40, 3), (7, 5)):
        A, B = torch.rand(shape), torch.rand(shape)
        C, D = plus(A, B)
        assert torch.equal(C, A + B) and torch.equal(D, (A - B).t())
        C, D = plus(A, B, block=16)
        assert torch.equal(C, A + B)
    assert plus.compile(A, B) is plus.compile(torch.rand(shape), B)
    assert plus.compile(A, B, 16) is not plus.compile(A, B)
    with pytest.raises(ArgumentError, match="B must have extent 7 in dimension 0, got 6"):
        plus(A, B[:6])
    with pytest.raises(ArgumentError, match="missing a required argument"):
        plus(A)


def test_dynamic_sizes_need_one_kernel():
    M = T.dynamic("M")
    traces = []

    @jit
    def double(A):
        A: T.Tensor[[M, 4], T.float32]
        traces.append(1)
        C = T.empty((M, 4), T.float32)
        with T.Kernel(M, threads=32) as i:
            for j in T.Parallel(4):
                C[i, j] = A[i, j] * 2
        return C

    for size in (1, 5, 3, 0, 5, 17):
        A = torch.rand(size, 4)
        assert torch.equal(double(A), A * 2)
    kernel = double.compile(A)
    assert all(double.compile(torch.rand(size, 4)) is kernel for size in (2, 9))
    assert len(traces) <= 2


BLOCK = 2.0


def test_a_changed_global_or_closure_takes_effect(monkeypatch):
    offset = 1.0

    @jit
    def affine(A):
        N = T.const("N")
        A: T.Tensor[[N], T.float32]
        C = T.empty((N,), T.float32)
        with T.Kernel(1, threads=32):
            for i in T.Parallel(N):
                C[i] = A[i] * BLOCK + offset
        return C

    A = torch.rand(9)
    for _ in range(3):
        torch.testing.assert_close(affine(A), A * 2 + 1)
    monkeypatch.setitem(globals(), "BLOCK", 3.0)
    for _ in range(3):
        torch.testing.assert_close(affine(A), A * 3 + 1)
    offset = -1.0
    for _ in range(3):
        torch.testing.assert_close(affine(A), A * 3 - 1)


def test_a_redefined_function_gives_its_own_kernel():
    def define(factor):
        @jit
        def same_name(A):
            N = T.const("N")
            A: T.Tensor[[N], T.float32]
            C = T.empty((N,), T.float32)
            with T.Kernel(1, threads=32):
                for i in T.Parallel(N):
                    C[i] = A[i] * factor
            return C

        return same_name

    two, three, A = define(2), define(3), torch.ones(4)
    assert two(A).eq(2).all() and three(A).eq(3).all() and two(A).eq(2).all()


def test_out_idx_in_the_eager_style_is_refused():
    with pytest.raises(OptionError, match="out_idx has no meaning here"):

        @jit(out_idx=-1)
        def eager(A):
            A: T.Tensor[[4], T.float32]
            with T.Kernel(1, threads=32):
                A[0] = 1.0


def test_a_profiler_times_and_checks():
    @jit(out_idx=-1)
    def negated(dtype="float16"):
        M = T.dynamic("M")

        @T.prim_func
        def main(A: T.Tensor((M, 8), dtype), B: T.Tensor((M, 8), dtype)):
            with T.Kernel(M, threads=32) as i:
                for j in T.Parallel(8):
                    B[i, j] = -A[i, j]

        return main

    profiler = negated().get_profiler()
    sizes = {"M": 33}
    profiler.assert_allclose(lambda A: -A, dynamic_symbolic_constraints=sizes)
    profiler.assert_consistent(3, dynamic_symbolic_constraints=sizes)
    assert profiler.do_bench(n_warmup=1, n_repeat=3, dynamic_symbolic_constraints=sizes) > 0
    with pytest.raises(AssertionError, match="B: "):
        profiler.assert_allclose(lambda A: A, dynamic_symbolic_constraints=sizes)


PROGRAM = """
import torch
import tile_core.language as T
from tile_core.plugin import registry
from tile_core.transform import Pipeline
from tile_cpu.toolchain import CompilerToolchain

done = []
for owner, name in ((Pipeline, "run"), (CompilerToolchain, "build")):
    def spy(*args, real=getattr(owner, name), name=name, **kwargs):
        done.append(name)
        return real(*args, **kwargs)
    setattr(owner, name, spy)

def plus(A, B):
    N = T.const("N")
    A: T.Tensor[[N], T.float32]
    B: T.Tensor[[N], T.float32]
    C = T.empty((N,), T.float32)
    with T.Kernel(1, threads=32):
        for i in T.Parallel(N):
            C[i] = A[i] + B[i]
    return C

A, B = torch.rand(100), torch.rand(100)
kernel = registry.runtime().jit(plus, {"target": "cpu"})
print(torch.equal(kernel(A, B), A + B), *done)
"""


@pytest.fixture
def process(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(textwrap.dedent(PROGRAM))

    def start(**environment):
        return subprocess.Popen(
            [sys.executable, str(program)],
            env={**os.environ, "TILE_CACHE_DIR": str(tmp_path / "cache"), **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def finish(running):
        out, err = running.communicate(timeout=120)
        assert running.returncode == 0, err
        return out.strip().splitlines()[-1]

    return start, finish


@pytest.mark.slow
def test_a_second_process_runs_no_pass_and_no_compiler(process):
    start, finish = process
    assert finish(start()) == "True run build"
    assert finish(start()) == "True"
    # and needs none: the entry that another compiler built for the same input serves
    assert finish(start(PATH="/nowhere", TILE_CC="")) == "True"


@pytest.mark.slow
def test_two_processes_compile_one_kernel_at_once(process):
    start, finish = process
    results = [finish(running) for running in [start(), start()]]
    assert [result.split()[0] for result in results] == ["True", "True"]
    assert finish(start()) == "True"


def test_a_missing_compiler_is_a_typed_error(process):
    start, _ = process
    running = start(PATH="/nowhere", TILE_CC="")
    _, err = running.communicate(timeout=120)
    assert running.returncode != 0
    assert "error[E-CC-MISSING]: " in err
