"""Wrong arguments for compiled kernels: the text that the author of the call sees, from the generated checks.

The order is that of the checks: argument count, kinds, then for each tensor ndim, type, shape, strides, device,
storage, then the stated conditions.
"""

import ctypes
from pathlib import Path

import pytest
import torch

import tile_core.language as T
from tile_core.errors import ArgumentError
from tile_core.plugin import registry


def compiled(function, **options):
    return registry.runtime().compile(function, {"target": "cpu", **options})


@pytest.fixture(scope="module")
def scale():
    M = T.dynamic("M")

    @T.prim_func
    def scale(
        A: T.Tensor((M, 8), T.float32),
        B: T.Tensor((M, 8), T.float32),
        n: T.int32,
        s: T.float32,
        C: T.Tensor((M, 8), T.float32),
    ):
        with T.Kernel(M, threads=32) as i:
            for j in T.Parallel(8):
                C[i, j] = A[i, j] * s + B[i, j] * T.cast(n, T.float32)

    return compiled(scale, out_idx=-1)


A, B = torch.ones(3, 8), torch.ones(3, 8)


def tail(*lines):
    return "".join(f"\n{line}" for line in lines)


CASES = {
    "one too few": (
        (A, B, 1),
        "E-ARG-COUNT",
        "scale: takes 4 arguments, got 3",
        tail(
            "   expected: 4",
            "   got:      3",
            "   inputs:   A: float32[M, 8], B: float32[M, 8], n: int32, s: float32",
            "  help: call scale(A, B, n, s)",
        ),
    ),
    "the output passed": (
        (A, B, 1, 2.0, A),
        "E-ARG-COUNT",
        "scale: takes 4 arguments, got 5",
        tail("  help: do not pass C: the kernel allocates and returns what out_idx names"),
    ),
    "None": (
        (A, None, 1, 2.0),
        "E-ARG-NONE",
        "scale: B is None, and the kernel uses it",
        tail("   expected: a tensor", "   got:      None", "  help: pass a tensor for B"),
    ),
    "a number for a tensor": (
        (A, 3, 1, 2.0),
        "E-ARG-TYPE",
        "scale: B must be a tensor, got int",
        tail("   expected: a tensor", "   got:      int", "  help: pass a tensor for B"),
    ),
    "a tensor for a number": (
        (A, B, 1, A),
        "E-ARG-TYPE",
        "scale: s must be a float, got a tensor",
        tail("   expected: a float", "   got:      a tensor", "  help: pass a float for s"),
    ),
    "a float for an int": (
        (A, B, 1.5, 2.0),
        "E-ARG-TYPE",
        "scale: n must be an int, got float",
        tail("   expected: an int", "   got:      float", "  help: pass an int for n"),
    ),
    "ndim": (
        (A[0], B, 1, 2.0),
        "E-ARG-NDIM",
        "scale: A must have 2 dimensions, got 1",
        tail("   declared: A: float32[M, 8]", "   expected: 2", "   got:      1", "  help: reshape A"),
    ),
    "dtype": (
        (A, B.double(), 1, 2.0),
        "E-ARG-DTYPE",
        "scale: B must be of type float32, got float64",
        tail("  help: convert it: B.to(torch.float32), or compile the kernel for float64"),
    ),
    "bool is no int8": (
        (A.bool(), B, 1, 2.0),
        "E-ARG-DTYPE",
        "scale: A must be of type float32, got bool",
        tail("  help: convert it: A.to(torch.float32), or compile the kernel for bool"),
    ),
    "a fixed extent": (
        (torch.ones(3, 9), B, 1, 2.0),
        "E-ARG-SHAPE",
        "scale: shape[1] of A must be 8, got 9",
        tail(
            "   expected: 8",
            "   got:      9",
            "  help: the kernel was compiled for this extent; compile it for 9, or declare the dimension with "
            "T.dynamic",
        ),
    ),
    "a shared extent": (
        (A, B[:2], 1, 2.0),
        "E-ARG-SHAPE",
        "scale: shape[0] of B must be 3, got 2",
        tail("   expected: 3", "   got:      2", "  help: M is also A.shape[0]"),
    ),
    "strides": (
        (torch.ones(8, 3).t(), B, 1, 2.0),
        "E-ARG-STRIDE",
        "scale: strides[0] of A must be 8, got 1",
        tail(
            "   expected: 8",
            "   got:      1",
            "  help: pass A.contiguous(), or declare the parameter as T.StridedTensor",
        ),
    ),
    "meta": (
        (torch.empty(3, 8, device="meta"), B, 1, 2.0),
        "E-ARG-STORAGE",
        "scale: A has no memory",
        tail(
            "   expected: a tensor with storage",
            "   got:      a tensor on device meta",
            "  help: pass a real tensor; under torch.compile, torch.func or fake tensors, make the kernel an operator: "
            "tile.op",
        ),
    ),
}


@pytest.mark.parametrize("kind", CASES)
def test_the_text_names_the_argument_and_both_sides(scale, kind):
    args, code, summary, end = CASES[kind]
    with pytest.raises(ArgumentError) as caught:
        scale(*args)
    text = str(caught.value)
    assert text.startswith(f"error[{code}]: {summary}\n")
    assert text.endswith(end)


def test_the_text_shows_the_line_of_the_parameter(scale):
    with pytest.raises(ArgumentError) as caught:
        scale(A, B[0], 1, 2.0)
    lines = Path(__file__).read_text().splitlines()
    line = 1 + next(n for n, text in enumerate(lines) if text.strip().startswith("B: T.Tensor"))
    assert caught.value.span.line == line
    assert f"  --> test_arguments.py:{line}:9\n" in str(caught.value)
    assert "        B: T.Tensor((M, 8), T.float32),\n" in str(caught.value)


class DLTensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("dtype", ctypes.c_uint32),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
        ("context", ctypes.c_void_p),  # this and the next make it a DLManagedTensor
        ("deleter", ctypes.c_void_p),
    )


class Elsewhere:
    """A float32[3, 8] that DLPack places on another device; nothing may read its memory."""

    def __init__(self, device_type, device_id):
        self.shape = (ctypes.c_int64 * 2)(3, 8)
        self.strides = (ctypes.c_int64 * 2)(8, 1)
        self.tensor = DLTensor(
            1 << 20, device_type, device_id, 2, 2 | 32 << 8 | 1 << 16, self.shape, self.strides, 0, None, None
        )

    def __dlpack_device__(self):
        return self.tensor.device_type, self.tensor.device_id

    def __dlpack__(self, **options):
        new = ctypes.pythonapi.PyCapsule_New
        new.restype, new.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
        return new(ctypes.addressof(self.tensor), b"dltensor", None)


@pytest.mark.parametrize(("device", "name"), [((2, 1), "cuda:1"), ((8, 0), "metal:0"), ((14, 3), "device type 14:3")])
def test_a_tensor_of_another_device_is_refused(scale, device, name):
    with pytest.raises(ArgumentError) as caught:
        scale(A, Elsewhere(*device), 1, 2.0)
    text = str(caught.value)
    assert text.startswith(f"error[E-ARG-DEVICE]: scale: B must be on cpu, got {name}\n")
    assert text.endswith(
        f"   expected: cpu\n   got:      {name}\n  help: move it: B.to(…), or compile the kernel for that device"
    )


def test_right_arguments_pass_whatever_their_layout_allows(scale):
    assert torch.equal(scale(A, B, 2, 3), A * 3 + B * 2)
    assert torch.equal(scale(A, B, True, False), A * 0 + B)
    one = torch.ones(16, 8)[::16]  # a stride of an axis with one element is never used
    assert torch.equal(scale(one, B[:1], 1, 1.0), one + B[:1])
    assert scale(torch.ones(0, 8), torch.ones(0, 8), 1, 1.0).shape == (0, 8)
    assert torch.equal(scale(A=A, s=2.0, n=1, B=B), A * 2 + B)


def test_a_tensor_that_is_not_used_may_be_none():
    @T.prim_func
    def ignore(A: T.Tensor((4,), T.float32), bias: T.Tensor((4,), T.float32), C: T.Tensor((4,), T.float32)):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(4):
                C[i] = A[i]

    kernel, A = compiled(ignore, out_idx=-1), torch.rand(4)
    assert torch.equal(kernel(A, None), A)
    assert torch.equal(kernel(A, A), A)
    with pytest.raises(ArgumentError, match="bias must be a tensor or None, got int"):
        kernel(A, 1)
    with pytest.raises(ArgumentError, match="shape"):
        kernel(A, A[:2])


def test_a_stated_condition_is_checked():
    K = T.dynamic("K")

    @T.prim_func
    def halves(A: T.Tensor((K,), T.float32), C: T.Tensor((K,), T.float32)):
        T.assume(K % 2 == 0)
        with T.Kernel(1, threads=32):
            for i in T.Parallel(K):
                C[i] = A[i] / 2

    kernel = compiled(halves, out_idx=-1)
    assert torch.equal(kernel(torch.ones(4)), torch.ones(4) / 2)
    with pytest.raises(ArgumentError) as caught:
        kernel(torch.ones(3))
    assert caught.value.code == "E-ARG-CONDITION"
    assert caught.value.summary == "halves: the arguments break the condition K % 2 == 0"


def test_strided_parameters_take_their_strides_from_the_tensor():
    M, N, S = T.dynamic("M, N, S")

    @T.prim_func
    def rows(A: T.StridedTensor((M, N), (S, 1), T.float32), C: T.Tensor((M, N), T.float32)):
        with T.Kernel(M, threads=32) as i:
            for j in T.Parallel(N):
                C[i, j] = A[i, j]

    kernel, wide = compiled(rows, out_idx=-1), torch.rand(5, 12)
    assert torch.equal(kernel(wide[:, 3:9]), wide[:, 3:9])
    with pytest.raises(ArgumentError, match=r"strides\[1\] of A must be 1, got 2"):
        kernel(wide[:, ::2])


def test_several_outputs_come_in_the_order_of_out_idx():
    @T.prim_func
    def both(C: T.Tensor((4,), T.float32), A: T.Tensor((4,), T.float32), D: T.Tensor((4,), T.int64)):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(4):
                C[i] = A[i] + 1
                D[i] = T.cast(A[i], T.int64)

    A = torch.tensor([1.0, 2.5, -3.0, 4.0])
    D, C = compiled(both, out_idx=[2, 0])(A)
    assert torch.equal(C, A + 1) and torch.equal(D, A.long())


@pytest.mark.parametrize(
    "dtype",
    ["bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
    + ["float16", "bfloat16", "float32", "float64"],
)
def test_every_type_passes_through(dtype):
    def copy(A: T.Tensor((37,), dtype), C: T.Tensor((37,), dtype)):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(37):
                C[i] = A[i]

    values = torch.arange(37) % 2 if dtype == "bool" else torch.arange(37)
    A = values.to(getattr(torch, dtype))
    result = compiled(T.prim_func(copy), out_idx=-1)(A)
    assert result.dtype is A.dtype and torch.equal(result, A)


def test_calls_from_many_threads_agree(scale):
    import threading

    wrong = []

    def work(number):
        mine = torch.full((number + 1, 8), float(number))
        for _ in range(100):
            if not torch.equal(scale(mine, mine, 1, 1.0), mine * 2):
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert wrong == []


@pytest.mark.parametrize(("dtype", "least", "most"), [("int8", -128, 127), ("uint16", 0, 65535)])
def test_an_integer_that_its_type_cannot_hold_is_refused(dtype, least, most):
    kind = getattr(T, dtype)

    @T.prim_func
    def fill(n: kind, A: T.Tensor((4,), "int32")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(4):
                A[i] = n

    kernel = registry.runtime().compile(fill, {"target": "cpu", "out_idx": [1]})
    assert [kernel(n).tolist()[0] for n in (least, most)] == [least, most]
    for n in (least - 1, most + 1):
        with pytest.raises(ArgumentError, match="E-ARG-RANGE") as caught:
            kernel(n)
        assert f"n must be from {least} to {most}, got {n}" in caught.value.summary
