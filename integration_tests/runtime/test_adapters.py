"""One suite for every execution backend: the same kernel, the same calls, the same texts.

What an execution backend cannot do is said in GAPS, by the name of the case; a case that passes although it is listed
fails, so that the table stays true.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import tile_core as tile
import tile_core.language as T
from tile_core.codegen import HostCall, print_host_python
from tile_core.errors import ArgumentError, TileError
from tile_core.plugin import registry
from tile_core.plugin.api import Reason, resolve

GOLDEN = Path(__file__).parent / "golden"
M = T.dynamic("M")


@T.prim_func
def scale(
    A: T.Tensor((M, 8), "float32"),
    bias: T.Tensor((8,), "float32"),
    n: T.int32,
    s: T.float32,
    on: T.bool,
    C: T.Tensor((M, 8), "float32"),
):
    T.assume(n < 100)
    with T.Kernel(M, threads=32) as i:
        for j in T.Parallel(8):
            C[i, j] = T.if_then_else(on, A[i, j] * s + T.cast(n, "float32"), A[i, j])


@T.prim_func
def strided(A: T.StridedTensor((4,), (T.dynamic("sa"),), "float32"), C: T.Tensor((4,), "float32")):
    with T.Kernel(1, threads=32):
        for i in T.Parallel(4):
            C[i] = A[i] * 2


@T.prim_func
def linear(A: T.Tensor((M * 2 + 1,), "float32"), B: T.Tensor((M,), "float32"), C: T.Tensor((M,), "float32")):
    with T.Kernel(M, threads=32) as i:
        C[i] = A[2 * i + 1] + B[i]


@T.prim_func
def pair(A: T.Tensor((4,), "float32"), C: T.Tensor((4,), "float32"), D: T.Tensor((M, 4), "int32")):
    with T.Kernel(1, threads=32):
        for i in T.Parallel(4):
            C[i] = A[i] + 1


@T.prim_func
def either(A: T.Tensor((M,), "float32"), B: T.Tensor((M, 2), "int8"), C: T.Tensor((4,), "int32")):
    with T.Kernel(1, threads=32):
        for i in T.Parallel(4):
            C[i] = M


class Recorded(HostCall):
    """The host function as the Python printer prints it; launches are taken down instead of made."""

    takes_stream = False

    def __init__(self, kernel: Any) -> None:
        artifact = tile.lower(kernel.prim_func, "cpu")
        host = artifact.host.functions[0]
        self.launches: list[Any] = []
        super().__init__(kernel.prim_func, print_host_python(host), lambda *given: self.launches.append(given))


ADAPTERS = ("tvm_ffi", "cython", "python")

GAPS: dict[str, set[str]] = {
    # launches are recorded, not made, so there is nothing to compare
    "python": {"results", "several outputs", "linear sizes", "first of two sizes", "strides", "numpy arrays"},
    # arguments are read through torch
    "cython": {"numpy arrays"},
}


@pytest.fixture(params=ADAPTERS)
def adapter(request):
    if request.param in ("tvm_ffi", "python"):
        return request.param
    outcome = resolve(registry.execution_backend(request.param).available)()
    assert not isinstance(outcome, Reason), f"{outcome}; tools/dev.py makes an environment that has it"
    return request.param


def build(adapter: str, function: Any, **options: Any) -> Any:
    backend = "tvm_ffi" if adapter == "python" else adapter
    kernel = tile.compile(function, target="cpu", execution_backend=backend, **options)
    return Recorded(kernel) if adapter == "python" else kernel


ones = torch.ones


def results(make):
    kernel = make(scale, out_idx=-1)
    A = torch.rand(3, 8)
    assert torch.allclose(kernel(A, ones(8), 2, 3.0, True), A * 3 + 2)
    assert torch.allclose(kernel(A, None, True, 3, 1), A * 3 + 1)
    assert torch.equal(kernel(A, None, 2, 3.0, False), A)
    assert kernel(ones(0, 8), None, 1, 1.0, True).shape == (0, 8)
    assert torch.equal(kernel(ones(5, 16)[:, ::2].contiguous(), None, 0, 1.0, True), ones(5, 8))
    full = make(scale)
    C = torch.zeros(3, 8)
    assert full(A, None, 1, 2.0, True, C) is None and torch.allclose(C, A * 2 + 1)
    assert torch.allclose(kernel(torch.nn.Parameter(A), None, 2, 3.0, True), A * 3 + 2)


def several_outputs(make):
    outputs = make(pair, out_idx=[1, 2])
    with pytest.raises(tile.CompileError):
        outputs(ones(4))
    first = make(pair, out_idx=[1])(ones(4), None)
    assert torch.equal(first, ones(4) * 2)


def linear_sizes(make):
    kernel = make(linear, out_idx=-1)
    A, B = torch.rand(7), torch.rand(3)
    assert torch.equal(kernel(A, B), A[1::2] + B)


def first_of_two_sizes(make):
    kernel = make(either, out_idx=-1)
    assert kernel(ones(7), None).tolist() == [7] * 4
    assert kernel(None, torch.zeros(9, 2, dtype=torch.int8)).tolist() == [9] * 4
    assert kernel(ones(9), torch.zeros(9, 2, dtype=torch.int8)).tolist() == [9] * 4


def strides(make):
    kernel = make(strided, out_idx=-1)
    A = torch.arange(8.0)
    assert torch.equal(kernel(A[::2]), A[::2] * 2)
    assert torch.equal(kernel(A[:4]), A[:4] * 2)


def numpy_arrays(make):
    kernel = make(scale, out_idx=-1)
    assert torch.equal(kernel(np.ones((2, 8), np.float32), None, 1, 2.0, True), ones(2, 8) * 3)


WORKS = {
    "results": results,
    "linear sizes": linear_sizes,
    "first of two sizes": first_of_two_sizes,
    "strides": strides,
    "numpy arrays": numpy_arrays,
}


@pytest.mark.parametrize("case", WORKS)
def test_what_works(adapter, case):
    if case in GAPS.get(adapter, ()):
        with pytest.raises((AssertionError, TileError)):
            WORKS[case](lambda function, **options: build(adapter, function, **options))
    else:
        WORKS[case](lambda function, **options: build(adapter, function, **options))


A, C = ones(3, 8), ones(3, 8)
GOOD = (A, ones(8), 1, 2.0, True, C)


def changed(place: int, value: Any) -> tuple[Any, ...]:
    return (*GOOD[:place], value, *GOOD[place + 1 :])


# Cases in the order of the checks; each is wrong in what comes after it too where that is possible.
WRONG = {
    "no argument at all": (scale, ()),
    "one too many": (scale, (*GOOD, 1)),
    "None for a used tensor": (scale, changed(0, None)),
    "a number for a tensor": (scale, changed(0, 1)),
    "a list for a tensor": (scale, changed(0, [1.0])),
    "a number for an optional tensor": (scale, changed(1, 1)),
    "a tensor for a number": (scale, changed(2, A)),
    "a float for an int": (scale, changed(2, 1.5)),
    "an int beyond its type": (scale, changed(2, 1 << 31)),
    "a text for a float": (scale, changed(3, "two")),
    "None for a float": (scale, changed(3, None)),
    "a float for a bool": (scale, changed(4, 1.0)),
    "dimensions": (scale, changed(0, ones(8, dtype=torch.float64))),
    "element type": (scale, changed(0, ones(3, 9, dtype=torch.float16))),
    "shape": (scale, changed(0, ones(3, 9))),
    "shape against another": (scale, changed(5, ones(2, 8))),
    "shape of an optional tensor": (scale, changed(1, ones(9))),
    "strides": (scale, changed(0, ones(8, 3).t())),
    "storage": (scale, changed(0, torch.ones(3, 8, device="meta"))),
    "sparse": (scale, changed(0, torch.eye(3, 8).to_sparse())),
    "condition": (scale, changed(2, 100)),
    "linear size without a whole solution": (linear, (ones(6), ones(2), ones(2))),
    "linear size against another": (linear, (ones(7), ones(2), ones(3))),
    "neither of two sizes": (either, (None, None, torch.zeros(4, dtype=torch.int32))),
    "two sizes that differ": (
        either,
        (ones(3), torch.zeros(4, 2, dtype=torch.int8), torch.zeros(4, dtype=torch.int32)),
    ),
    "the negative bit": (strided, (torch.complex(ones(4), ones(4)).conj().imag, ones(4))),
}


@pytest.fixture(scope="module")
def built():
    kernels: dict[Any, Any] = {}

    def get(adapter, function):
        key = (adapter, function.name)
        if key not in kernels:
            kernels[key] = build(adapter, function)
        return kernels[key]

    return get


def text_of(kernel: Any, arguments: tuple[Any, ...]) -> str:
    with pytest.raises(ArgumentError) as caught:
        kernel(*arguments)
    error = caught.value
    lines = [f"{error.code}: {error.summary}", *(f"   {fact}" for fact in error.facts)]
    return "\n".join([*lines, f"  help: {error.help}"] if error.help else lines)


def test_the_texts_are_the_agreed_ones(adapter, built):
    found = "\n\n".join(f"{case}\n{text_of(built(adapter, f), given)}" for case, (f, given) in WRONG.items()) + "\n"
    path = GOLDEN / "argument_errors.txt"
    assert found == path.read_text(encoding="utf-8"), f"{adapter} differs from {path.name}"


def test_a_wrong_call_launches_nothing(built):
    kernel = built("python", scale)
    kernel.launches.clear()
    for function, given in WRONG.values():
        if function is scale:
            with pytest.raises(ArgumentError):
                kernel(*given)
    assert kernel.launches == []
    kernel(*GOOD)
    assert len(kernel.launches) == 1


@pytest.mark.gpu
@pytest.mark.parametrize("name", ["tvm_ffi", "nvrtc", "cython"])
def test_what_works_on_a_gpu(name):
    outcome = resolve(registry.execution_backend(name).available)()
    assert not isinstance(outcome, Reason), outcome
    kernel = tile.compile(scale, target="cuda", execution_backend=name, out_idx=-1)
    A = torch.rand(3, 8, device="cuda")
    assert torch.allclose(kernel(A, None, 2, 3.0, True), A * 3 + 2)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        result = kernel(A, None, 1, 2.0, True)
    torch.cuda.current_stream().wait_stream(side)
    assert torch.allclose(result, A * 2 + 1)
    if name == "cython":
        result = kernel(A, None, 1, 2.0, True, stream=side)
        torch.cuda.current_stream().wait_stream(side)
        assert torch.allclose(result, A * 2 + 1)
    for case, value, text in (
        ("device", A.cpu(), "E-ARG-DEVICE: scale: A must be on cuda, got cpu:0"),
        ("shape", ones(3, 9, device="cuda"), "E-ARG-SHAPE: scale: shape[1] of A must be 8, got 9"),
    ):
        assert text_of(kernel, (value, None, 1, 2.0, True)).startswith(text), case
