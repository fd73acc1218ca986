"""Random kernels run side by side and in order give the same bits; their texts parse back to equal functions."""

import numpy as np
import pytest

from tile_core.interpreter import interpret
from tile_core.ir.parser import parse
from tile_core.ir.structural import assert_structural_equal
from tile_core.testing.programs import random_program, random_program_arguments


@pytest.mark.parametrize("seed", range(60))
def test_a_batch_computes_what_the_order_computes(seed):
    function = random_program(seed)
    given = random_program_arguments(seed)
    together = [a.copy() for a in given]
    interpret(function, *together, check_written=True)
    interpret(function, *given, check_written=True, batch=False)
    for a, b in zip(together, given):
        assert np.array_equal(a, b, equal_nan=a.dtype.kind == "f")


@pytest.mark.parametrize("seed", range(60, 160))
def test_random_kernels_print_and_parse(seed):
    function = random_program(seed)
    assert_structural_equal(function, parse(function.script()))
