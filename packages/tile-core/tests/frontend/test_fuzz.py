"""Kernels against Python: the same text run by Python, while tracing, and by the interpreter of the IR."""

import importlib.util
from pathlib import Path

import numpy
import pytest

from tile_core.interpreter import interpret


def _programs():
    # Test files are no package here; the generator is a module beside this file.
    spec = importlib.util.spec_from_file_location("programs", Path(__file__).with_name("programs.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


PROGRAMS = _programs()
ARRAY = [5, 1, 4, 1, 5, 9, 2, 6]
START = {"x": 3, "y": 11, "z": 500, "fuel": 20}


def run_by_python(text):
    names = {**START, "A": list(ARRAY)}
    exec(text, names)
    return [names[n] for n in START], names["A"]


def kernel(trace, lines, **names):
    body = "\n".join("        " + line for line in lines)
    head = (
        "@T.prim_func\ndef main(A: T.Tensor((8,), 'int32'), B: T.Tensor((4,), 'int32')):\n    with T.Kernel(1) as bx:\n"
    )
    return trace(head + body, **names)


@pytest.mark.parametrize("first", range(0, 400, 50))
def test_while_tracing_a_kernel_is_python(trace, first):
    for seed in range(first, first + 50):
        text = PROGRAMS.Program(seed, staged=False).text()
        found = []

        def record(values, array, found=found):
            found.append((list(values), list(array)))

        lines = [*_prelude("{}"), f"A = {ARRAY}", *text.split("\n"), "record((x, y, z, fuel), A)", "B[0] = 0"]
        kernel(trace, lines, record=record)
        assert found == [run_by_python(text)], text


@pytest.mark.parametrize("first", range(0, 400, 50))
def test_a_kernel_computes_what_python_computes(trace, first):
    for seed in range(first, first + 50):
        text = PROGRAMS.Program(seed, staged=True).text()
        lines = [*_prelude("T.alloc_var('int32', init={})"), *text.split("\n")]
        lines += [f"B[{i}] = {name}" for i, name in enumerate(START)]
        function = kernel(trace, lines)
        array, results = numpy.array(ARRAY, "int32"), numpy.zeros(4, "int32")
        interpret(function, array, results)
        values, expected = run_by_python(text)
        assert (results.tolist(), array.tolist()) == (values, expected), f"{text}\n{function.script()}"


def _prelude(form):
    return [f"{name} = {form.format(value)}" for name, value in START.items()]
