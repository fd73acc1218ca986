"""check_pass: a pass turns one text into another and computes the same."""

from __future__ import annotations

import textwrap

import numpy
import pytest

from tile_core import tileop  # noqa: F401  (the parser needs the core ops)
from tile_core.interpreter import interpret, numpy_type
from tile_core.ir import Buffer, IRModule, PrimFunc, assert_structural_equal, parse
from tile_core.target import Target
from tile_core.transform import PassContext


def read(text: str) -> PrimFunc:
    """The function in a text."""
    function = parse(textwrap.dedent(text))
    assert isinstance(function, PrimFunc)
    return function


def run(function: PrimFunc, sizes: dict[str, int], seed: int = 0) -> list[numpy.ndarray]:
    """The function's buffers after a run on random inputs; `sizes` gives shape variables."""
    random = numpy.random.default_rng(seed)
    arrays = []
    for param in function.params:
        assert isinstance(param, Buffer)
        shape = [sizes[e.name] if hasattr(e, "name") else e.value for e in param.shape]
        values = random.integers(-8, 8, shape) if param.dtype.is_int else random.standard_normal(shape)
        arrays.append(values.astype(numpy_type(param.dtype)))
    interpret(function, *arrays, sizes=sizes)
    return arrays


@pytest.fixture
def apply():
    """Runs passes over a text: (function, *passes) → function."""

    def run_passes(text: str, *passes, vector_bits: int = 128, options=None) -> PrimFunc:
        context = PassContext(Target("cpu", {"vector_bits": vector_bits}), options)
        module = IRModule((read(text),))
        for pass_ in passes:
            module = pass_().apply(module, context)
        return module.functions[0]

    return run_passes


@pytest.fixture
def check_pass(apply):
    """Compares the result of a pass with a text, and what both compute for each of the given sizes."""

    def check(pass_, before: str, after: str | None, sizes=({},), **options) -> PrimFunc:
        changed = apply(before, pass_, **options)
        original = read(before)
        if after is not None:
            assert_structural_equal(changed, read(after))
        for given in sizes:
            for a, b in zip(run(original, given), run(changed, given)):
                numpy.testing.assert_array_equal(a, b)
        return changed

    return check
