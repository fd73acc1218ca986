"""Kernels whose body is CUDA text."""

from __future__ import annotations

import pytest
import torch

import tile_core as tile
import tile_core.language as T
from tile_core.errors import CompileError
from tile_core.interpreter import ExecutionFault, interpret

from .places import PLACES, check

SCALE = """
extern "C" __global__ void scale(const float* A, float* B, const float factor, const int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) B[i] = A[i] * factor;
}
"""


def scaled(source=SCALE, entry="scale"):
    n = T.dynamic("n")

    @T.prim_func
    def main(A: T.Tensor((n,), "float32"), B: T.Tensor((n,), "float32"), factor: T.float32):
        with T.CUDASourceCodeKernel(T.ceildiv(n, 64), threads=64, source_code_or_path=source, entry_name=entry):
            pass

    return main


@pytest.mark.parametrize("place", PLACES[2:])
def test_it_is_given_the_parameters_and_the_sizes(place):
    a = torch.randn(100)
    check(place, scaled(), a, torch.zeros(100), 2.5, want={1: a * 2.5})


@pytest.mark.parametrize("place", PLACES[2:])
def test_it_stands_beside_kernels_of_the_language(place, tmp_path):
    path = tmp_path / "scale.cu"
    path.write_text(SCALE)

    @T.prim_func
    def main(A: T.Tensor((128,), "float32"), B: T.Tensor((128,), "float32"), factor: T.float32, n: T.int32):
        with T.CUDASourceCodeKernel(2, threads=64, source_code_or_path=path, entry_name="scale"):
            pass
        with T.Kernel(1, threads=64):
            for i in T.Parallel(128):
                A[i] = B[i] + 1.0
        with T.CUDASourceCodeKernel(1, threads=64, source_code_or_path=path, entry_name="scale"):
            pass

    a = torch.randn(128)
    first = a * 2
    again = first.clone()
    again[:64] = (first[:64] + 1) * 2
    check(place, main, a, torch.zeros(128), 2.0, 128, want={0: first + 1, 1: again})


def test_other_targets_say_so():
    with pytest.raises(CompileError, match="E-KERNEL-TARGET"):
        tile.compile(scaled(), target="cpu")
    with pytest.raises(ExecutionFault, match="E-RUN-EXTERNAL"):
        interpret(scaled(), torch.zeros(4).numpy(), torch.zeros(4).numpy(), 2.0)


def test_two_sources_of_one_name_are_refused():
    @T.prim_func
    def main(A: T.Tensor((128,), "float32")):
        with T.CUDASourceCodeKernel(1, source_code_or_path="__global__ void f(float* A) {}", entry_name="f"):
            pass
        with T.CUDASourceCodeKernel(1, source_code_or_path="__global__ void f(float* B) {}", entry_name="f"):
            pass

    with pytest.raises(CompileError, match="two sources define f"):
        tile.compile(main, target="cuda -arch=sm_80", execution_backend="emulate")


@pytest.mark.parametrize(
    ("source", "entry", "part"),
    [
        (None, "scale", "needs a source"),
        ("", "scale", "needs a source"),
        ("no/such/file.cu", "scale", "cannot be read"),
        (SCALE, "other", "no function 'other'"),
        (SCALE, "not a name", "no function 'not a name'"),
    ],
)
def test_a_source_that_cannot_be_used(source, entry, part):
    with pytest.raises(CompileError, match="E-SOURCE-KERNEL") as caught:
        scaled(source, entry)
    assert part in str(caught.value)


def test_its_body_is_the_text_alone():
    with pytest.raises(CompileError, match="E-SOURCE-KERNEL"):

        @T.prim_func
        def main(A: T.Tensor((128,), "float32")):
            with T.CUDASourceCodeKernel(1, source_code_or_path=SCALE, entry_name="scale") as bx:
                A[bx] = 1.0
