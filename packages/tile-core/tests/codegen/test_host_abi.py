"""The packed host function, from MakePackedAPI through the C printer to a call: checks, texts, sizes, outputs."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pytest

from tile_core.codegen import abi_prelude, print_host
from tile_core.dtypes import as_dtype
from tile_core.errors import CompileError
from tile_core.ffi import include_directories, load_module
from tile_core.ir import (
    AccessPtr,
    Buffer,
    BufferLoad,
    BufferStore,
    For,
    IRModule,
    KernelLaunch,
    PrimFunc,
    SizeVar,
    Var,
    as_shape,
    binary,
    check_form,
    const,
    walk,
)
from tile_core.target import Target
from tile_core.transform.base import PassContext
from tile_core.transform.make_packed_api import MakePackedAPI
from tile_core.transform.split_host_device import SplitHostDevice


def flat(buffer: Buffer, count) -> Buffer:
    return Buffer(buffer.name, as_shape(count), buffer.dtype, data=buffer)


def scale_function(out_idx=()) -> PrimFunc:
    """C[i] = A[i] * s for A, C of shape (n, 4); `unused` is not touched."""
    n = SizeVar("n")
    a = Buffer("A", as_shape((n, 4)), as_dtype("float32"))
    c = Buffer("C", as_shape((n, 4)), as_dtype("float32"))
    unused = Buffer("unused", as_shape((n,)), as_dtype("int8"))
    scale = Var("scale", as_dtype("float32"))
    bx, i = Var("bx"), Var("i")
    count = binary("mul", n, 4)
    fa, fc = flat(a, count), flat(c, count)
    body = For(i, const(0, "int32"), count, "serial", BufferStore(fc, BufferLoad(fa, (i,)) * scale, (i,)))
    launch = KernelLaunch((bx,), (const(1, "int32"),), (), (), body)
    return PrimFunc("scale", (a, c, unused, scale), launch, (("out_idx", out_idx),) if out_idx else ())


def pack(function: PrimFunc) -> IRModule:
    context = PassContext(Target("cpu"))
    module = SplitHostDevice().apply(IRModule((function,)), context)
    check_form(module, "SPLIT")
    module = MakePackedAPI("cpu").apply(module, context)
    check_form(module, "PACKED")
    return module


@pytest.fixture(scope="module")
def compiled(tmp_path_factory):
    folder = tmp_path_factory.mktemp("abi")

    def build(function: PrimFunc, kernel: str):
        def launch(printer, call):
            return f"kernel({', '.join(printer.expr(x) for x in call.args[8:])})"

        module = pack(function)
        text = abi_prelude() + kernel + print_host(module[function.name], launch)
        source = folder / f"{function.name}{len(list(folder.iterdir()))}.c"
        source.write_text(text)
        library = source.with_suffix(".so")
        words = ["gcc", "-std=c11", "-O1", "-Wall", "-Werror", "-shared", "-fPIC"]
        words += [f"-I{d}" for d in include_directories()]
        subprocess.run([*words, str(source), "-o", str(library)], check=True)
        return load_module(Path(library)).get_function(function.name)

    return build


SCALE_KERNEL = """
static int kernel(void* from, void* to, float scale, int32_t n) {
  const float* a = (const float*)from;
  float* c = (float*)to;
  for (int32_t i = 0; i < n * 4; ++i) c[i] = a[i] * scale;
  return 0;
}
"""


@pytest.fixture(scope="module")
def scale(compiled):
    return compiled(scale_function(), SCALE_KERNEL)


def arrays(n=3):
    a = np.arange(n * 4, dtype=np.float32).reshape(n, 4)
    return a, np.zeros_like(a)


def message(call, *args) -> str:
    with pytest.raises(Exception) as caught:
        call(*args)
    return str(caught.value).strip().splitlines()[-1]


def test_a_legal_call_runs_the_kernel(scale):
    a, c = arrays()
    scale(a, c, None, 2.0)
    np.testing.assert_array_equal(c, a * 2)


def test_an_int_is_a_fine_float_and_an_unused_tensor_may_be_given(scale):
    a, c = arrays()
    scale(a, c, np.zeros(3, np.int8), 3)
    np.testing.assert_array_equal(c, a * 3)


def test_an_empty_tensor_is_fine(scale):
    scale(np.zeros((0, 4), np.float32), np.zeros((0, 4), np.float32), None, 1.0)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda a, c: (a, c, None), "argument count: expected 4, got 3"),
        (lambda a, c: (None, c, None, 1.0), "argument A: type: expected a tensor, got None"),
        (lambda a, c: (a, 3, None, 1.0), "argument C: type: expected a tensor, got int"),
        (lambda a, c: (a, c, "x", 1.0), "argument unused: type: expected a tensor or None, got str"),
        (lambda a, c: (a, c, None, "x"), "argument scale: type: expected float, got str"),
        (lambda a, c: (a[0], c, None, 1.0), "argument A: ndim: expected 2, got 1"),
        (lambda a, c: (a.astype(np.float64), c, None, 1.0), "argument A: dtype: expected float32, got float64"),
        (lambda a, c: (np.ones((3, 5), np.float32), c, None, 1.0), "argument A: shape[1]: expected 4, got 5"),
        (lambda a, c: (a, c[:2], None, 1.0), "argument C: shape[0]: expected 3, got 2"),
        (lambda a, c: (np.asfortranarray(a), c, None, 1.0), "argument A: strides[0]: expected 4, got 1"),
        (lambda a, c: (a, c, np.zeros(2, np.int8), 1.0), "argument unused: shape[0]: expected 3, got 2"),
    ],
)
def test_a_wrong_argument_is_named_with_both_sides(scale, change, text):
    assert message(scale, *change(*arrays())).endswith(text)


def test_kinds_are_checked_before_shapes(scale):
    a, c = arrays()
    assert "type" in message(scale, a[0], c, None, "x")


def test_the_callee_allocates_outputs(compiled):
    import torch

    call = compiled(scale_function(out_idx=(1,)), SCALE_KERNEL)
    a = torch.arange(12, dtype=torch.float32).reshape(3, 4)
    result = call(a, None, 2.0)
    assert isinstance(result, torch.Tensor)
    assert torch.equal(result, a * 2)


def test_an_undefined_size_is_a_compile_error():
    n, m = SizeVar("n"), SizeVar("m")
    a = Buffer("A", as_shape((binary("add", n, m),)), as_dtype("float32"))
    bx = Var("bx")
    body = BufferStore(flat(a, 1), const(1.0, "float32"), (n,))
    launch = KernelLaunch((bx,), (const(1, "int32"),), (), (), body)
    with pytest.raises(CompileError, match=r"E-ABI-SIZE.*no input defines the size n"):
        pack(PrimFunc("f", (a,), launch))


def test_linear_sizes_are_solved_and_checked():
    n = SizeVar("n")
    a = Buffer("A", as_shape((binary("add", binary("mul", n, 2), 1),)), as_dtype("float32"))
    body = BufferStore(flat(a, 1), const(1.0, "float32"), (n,))
    module = pack(PrimFunc("f", (a,), KernelLaunch((Var("bx"),), (n,), (), (), body)))
    text = print_host(module["f"], lambda printer, call: "0")
    assert "n = ((int32_t)tile_floordiv((A_tensor->shape[0] - 1LL), 2LL));" in text
    assert "== (((int64_t)n) * 2LL) + 1LL" in text.replace("((((int64_t)n) * 2LL) + 1LL)", "(((int64_t)n) * 2LL) + 1LL")


def test_launches_take_addresses_not_buffers():
    module = pack(scale_function())
    assert not [n for n in walk(module["scale"].body) if isinstance(n, AccessPtr)]
