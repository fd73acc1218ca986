"""Kernels given as text, so that the lines in messages do not move when the tests do."""

import re

import pytest

import tile_core.language as T
from tile_core.errors import TileError
from tile_core.frontend import from_source


@pytest.fixture
def trace():
    """Runs a text with T in scope and returns what it defines last."""

    def run(text, **names):
        return from_source(text, {"T": T, **names})

    return run


@pytest.fixture
def body(trace):
    """Traces statements inside a kernel over A, B (float32[64, 32]) and n (int32) and returns the printed body."""

    def run(statements, threads="threads=32", **names):
        lines = "\n".join("        " + line for line in statements.strip("\n").split("\n"))
        text = (
            "@T.prim_func\n"
            'def main(A: T.Tensor((64, 32), "float32"), B: T.Tensor((64, 32), "float32"), n: T.int32):\n'
            f"    with T.Kernel(4, {threads}) as bx:\n{lines}\n"
        )
        function = trace(text, **names)
        return "\n".join(line[8:] for line in function.script().split("\n")[3:] if line.strip())

    return run


@pytest.fixture
def message():
    """The text of the error that a call raises, with the made-up source name replaced."""

    def run(call, *args, **names):
        with pytest.raises(TileError) as caught:
            call(*args, **names)
        return re.sub(r"<tile source \w+>", "kernel.py", str(caught.value))

    return run
