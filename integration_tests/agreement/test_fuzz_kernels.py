"""Random kernels, compiled for the CPU, compute what the interpreter computes."""

import warnings

import numpy as np
import pytest

import tile_core as tile
from integration_tests.agreement.harness import as_tensor
from tile_core.errors import CompileError, TileWarning
from tile_core.interpreter import interpret
from tile_core.testing.compare import assert_close, to_numpy
from tile_core.testing.programs import random_program, random_program_arguments, random_program_type

pytestmark = pytest.mark.slow


def check(seed):
    function = random_program(seed, statements=8)
    interpreted = random_program_arguments(seed)
    tensors = [as_tensor(a) for a in interpreted]
    with warnings.catch_warnings():
        # That a race is not disproved is said once; here there is none.
        warnings.simplefilter("ignore", TileWarning)
        try:
            kernel = tile.compile(function, target="cpu")
        except CompileError as error:
            # An access that a condition leaves only where it lies outside is refused, rightly.
            assert error.code == "E-REGION-OUTSIDE"
            return
    kernel(*tensors)
    interpret(function, *interpreted, check_written=True)
    for param, ours, wanted in zip(function.params, tensors, interpreted):
        # Values grow through products, and a rounding error with them; what is wrong is wrong by far more.
        largest = np.nanmax(np.abs(np.nan_to_num(wanted.astype("float64"), posinf=0, neginf=0)), initial=1.0)
        narrowest = random_program_type(seed)
        assert_close(to_numpy(ours), wanted, narrowest, reduction=64, scale=float(largest), label=param.name)


@pytest.mark.layer("fuzz")
@pytest.mark.parametrize("seed", range(1000, 1020))
def test_random_kernels(seed):
    check(seed)


@pytest.mark.layer("fuzz")
@pytest.mark.parametrize("seed", range(1020, 1120))
def test_more_random_kernels(seed):
    check(seed)
