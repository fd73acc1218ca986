"""Each pass of the CPU's pipeline computes what its input computes: the examples, and random kernels."""

import importlib.util
import warnings
from pathlib import Path

import numpy as np
import pytest

import tile_cpu.reference  # noqa: F401  (the interpreter learns the CPU's intrinsics)
from tile_core.errors import CompileError, TileWarning
from tile_core.testing.passes import random_arguments, run_each_pass
from tile_core.testing.programs import random_program, random_program_arguments, random_program_type

pytestmark = pytest.mark.slow

EXAMPLES = Path(__file__).parents[4] / "docs" / "examples"


def load(name):
    spec = importlib.util.spec_from_file_location(f"pass_example_{name}", EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def check(function, arguments, mcpu="x86-64-v3", **limits):
    checked = run_each_pass(function, arguments, f"cpu -mcpu={mcpu}", check_written=True, **limits)
    assert "VectorizeLoop" in checked
    return checked


def values(function, seed=0):
    """Normal values for every parameter."""
    return random_arguments(function, seed)


@pytest.mark.parametrize(("m", "n", "k"), [(64, 64, 64), (70, 50, 33)])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_gemm(m, n, k, dtype):
    function = load("gemm").matmul.trace(m, n, k, block_M=32, block_N=32, block_K=16, dtype=dtype)
    check(function, values(function), reduction=k, scale=8)


def test_softmax():
    function = load("softmax").softmax.trace(10, 77)
    check(function, values(function), reduction=77)


def test_rmsnorm():
    function = load("rmsnorm").rmsnorm.trace(_tensor(10, 77), _tensor(77))
    check(function, values(function), reduction=77, scale=4)


def test_a_chain_of_element_wise_operations():
    eager = load("elementwise").gated
    function = eager.trace(_tensor(5000), _tensor(5000))
    check(function, values(function))


@pytest.mark.parametrize("causal", [False, True])
def test_flash_attention(causal):
    function = load("flash_attention").attention.trace(1, 2, 1, 40, 50, 16, causal, block_M=16, block_N=16)
    check(function, values(function), reduction=50, scale=2)


@pytest.mark.parametrize("seed", range(25))
def test_random_kernels(seed):
    check_random(seed)


@pytest.mark.parametrize("seed", range(25, 200))
def test_more_random_kernels(seed):
    check_random(seed)


def check_random(seed):
    function = random_program(seed)
    with warnings.catch_warnings():
        # That a race is not disproved is said once; here there is none.
        warnings.simplefilter("ignore", TileWarning)
        try:
            check(function, random_program_arguments(seed), dtype=random_program_type(seed), reduction=32, scale=8)
        except CompileError as error:
            # An access that a condition leaves only where it lies outside is refused, rightly.
            assert error.code == "E-REGION-OUTSIDE"


def _tensor(*shape):
    import torch

    return torch.from_numpy(np.zeros(shape, "float32"))
