"""The tvm_ffi execution backend on a hand-written library: calls, outputs, allocators, texts of failed checks."""

import subprocess
import threading

import numpy as np
import pytest
import torch

from tile_core.codegen.host_c import abi_prelude
from tile_core.dtypes import DType
from tile_core.errors import ArgumentError, InternalError, ToolchainError
from tile_core.ffi import include_directories
from tile_core.ir import Buffer, Evaluate, IntImm, IRModule, PrimFunc, SizeVar, Var
from tile_core.plugin.api import Artifact
from tile_core.source import Span, add_source
from tile_core.target import Target
from tile_runtime.backends.tvm_ffi import LIBRARY, available, build

# C = A + s * B and, from the second entry, also D = A - s * B. The checks are those of the packed ABI, written by hand.
STUB = r"""
static const char kernel[] = "axpy";
static int checked(const TVMFFIAny* args, int32_t num_args) {
  if (num_args != 3) return tile_bad_int(kernel, "", "argument count", 3, num_args);
  DLTensor* A = tile_tensor(&args[0]);
  DLTensor* B = tile_tensor(&args[1]);
  if (!A) return tile_bad_type(kernel, "A", "a tensor", &args[0]);
  if (!B) return tile_bad_type(kernel, "B", "a tensor", &args[1]);
  if (!tile_is_float(&args[2])) return tile_bad_type(kernel, "s", "float", &args[2]);
  if (A->ndim != 2) return tile_bad_int(kernel, "A", "ndim", 2, A->ndim);
  if (tile_dtype(A) != TILE_DTYPE(2, 32, 1)) return tile_bad_dtype(kernel, "A", "float32", A);
  if (A->shape[1] != 4) return tile_bad_int(kernel, "A", "shape[1]", 4, A->shape[1]);
  if (A->strides[1] != 1) return tile_bad_int(kernel, "A", "strides[1]", 1, A->strides[1]);
  if (A->device.device_type != kDLCPU) return tile_bad_device(kernel, "A", "cpu", A->device);
  if (!A->data && A->shape[0])
    return tile_raise("tile.ArgumentError", kernel, "A", "storage", "a tensor with storage", "none");
  if (B->shape[0] != A->shape[0]) return tile_bad_int(kernel, "B", "shape[0]", A->shape[0], B->shape[0]);
  if (tile_float(&args[2]) == 7) return tile_bad_condition(kernel, "", "s != 7", 7);
  if (tile_float(&args[2]) == 8) return tile_raise("tile.LaunchError", kernel, "", "launch", "success", "failure 8");
  return 0;
}
static int run(const TVMFFIAny* args, int32_t num_args, TVMFFIAny* result, int count) {
  TVMFFIObjectHandle outputs[2];
  if (checked(args, num_args) != 0) return -1;
  DLTensor* A = tile_tensor(&args[0]);
  DLTensor* B = tile_tensor(&args[1]);
  int64_t shape[2] = {A->shape[0], 4};
  for (int k = 0; k < count; ++k) {
    if (tile_alloc(2, shape, A->dtype, A->device, &outputs[k]) != 0) return -1;
    float* C = (float*)tile_data(tile_tensor_of(outputs[k]));
    for (int64_t i = 0; i < shape[0] * 4; ++i)
      C[i] = ((float*)tile_data(A))[i] + (k ? -1 : 1) * (float)tile_float(&args[2]) * ((float*)tile_data(B))[i];
  }
  return tile_return(outputs, count, result);
}
TVM_FFI_DLL_EXPORT int __tvm_ffi_axpy(void* self, const TVMFFIAny* args, int32_t num_args, TVMFFIAny* result) {
  return run(args, num_args, result, 1);
}
TVM_FFI_DLL_EXPORT int __tvm_ffi_both(void* self, const TVMFFIAny* args, int32_t num_args, TVMFFIAny* result) {
  return run(args, num_args, result, 2);
}
TVM_FFI_DLL_EXPORT int __tvm_ffi_iota(void* self, const TVMFFIAny* args, int32_t num_args, TVMFFIAny* result) {
  TVMFFIObjectHandle output;
  int64_t shape[1] = {args[0].v_int64};
  if (tile_alloc(1, shape, (DLDataType){2, 32, 1}, (DLDevice){kDLCPU, 0}, &output) != 0) return -1;
  for (int64_t i = 0; i < shape[0]; ++i) ((float*)tile_data(tile_tensor_of(output)))[i] = i;
  return tile_return(&output, 1, result);
}
"""

SOURCE = add_source("<axpy>", "def axpy(A: T.Tensor((M, 4)), B: T.Tensor((M, 4)), s: T.float32, C): ...\n")
FLOAT32 = DType("float32")
M = SizeVar("M")


def tensor(name, column):
    return Buffer(name, (M, IntImm(4)), FLOAT32, span=Span(SOURCE, 1, column, column + 1))


def function(outputs):
    params = (tensor("A", 9), tensor("B", 30), Var("s", FLOAT32), tensor("C", 65), tensor("D", 65))
    params = params[: 3 + outputs]
    return PrimFunc("axpy", params, Evaluate(IntImm(0)), (("out_idx", tuple(range(3, 3 + outputs))),))


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    folder = tmp_path_factory.mktemp("stub")
    (folder / "stub.c").write_text(abi_prelude() + STUB)
    includes = [f"-I{path}" for path in include_directories()]
    command = ["cc", "-std=gnu11", "-shared", "-fPIC", "-O1", *includes, "stub.c", "-o", LIBRARY]
    subprocess.run(command, cwd=folder, check=True, timeout=60)
    return folder / LIBRARY


def artifact(library, entry="axpy", prim_func=None):
    prim_func = prim_func or function(2 if entry == "both" else 1)
    return Artifact(Target("cpu"), "axpy", prim_func, IRModule((prim_func,)), {}, {LIBRARY: library}, entry=entry)


@pytest.fixture(scope="module")
def axpy(library):
    return build(artifact(library))


A, B = torch.randn(3, 4), torch.randn(3, 4)


def test_one_output_comes_as_a_tensor(axpy):
    result = axpy(A, B, 2)
    assert type(result) is torch.Tensor and torch.equal(result, A + 2 * B)


def test_several_outputs_come_as_a_list(library):
    results = build(artifact(library, "both"))(A, B, 2.0)
    assert type(results) is list and torch.equal(results[0], A + 2 * B) and torch.equal(results[1], A - 2 * B)


def test_a_library_given_as_bytes_leaves_no_file(library, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    axpy = build(artifact(library.read_bytes()))
    assert list(tmp_path.iterdir()) == []
    assert torch.equal(axpy(A, B, 2), A + 2 * B)


def test_numpy_arrays_give_torch_tensors(axpy, library):
    result = axpy(A.numpy(), B.numpy(), 2)
    assert type(result) is torch.Tensor and torch.equal(result, A + 2 * B)
    results = build(artifact(library, "both"))(A.numpy(), B.numpy(), 2)
    assert [type(r) for r in results] == [torch.Tensor, torch.Tensor]


def test_a_kernel_of_scalars_alone_can_allocate(library):
    iota = PrimFunc("iota", (Var("n", DType("int64")), tensor("C", 0)), Evaluate(IntImm(0)), (("out_idx", (1,)),))
    result = build(artifact(library, "iota", iota))(5)
    assert type(result) is torch.Tensor and torch.equal(result, torch.arange(5.0))


def test_parameters_and_tensors_with_gradients_pass(axpy):
    weight = torch.nn.Parameter(A.clone())
    assert torch.equal(axpy(weight, B.clone().requires_grad_(), 1), A + B)


def test_an_empty_tensor_passes(axpy):
    assert axpy(torch.empty(0, 4), torch.empty(0, 4), 1).shape == (0, 4)


def test_outputs_of_eight_threads_do_not_mix(axpy):
    wrong = []

    def work(number):
        mine = torch.full((3, 4), float(number))
        for _ in range(200):
            if not torch.equal(axpy(mine, mine, 1), mine * 2) or not torch.equal(axpy(mine.numpy(), mine, 1), mine * 2):
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert wrong == []


DECLARED_A = """\
  --> <axpy>:1:10
    1 | def axpy(A: T.Tensor((M, 4)), B: T.Tensor((M, 4)), s: T.float32, C): ...
      |          ^
   declared: A: float32[M, 4]
"""
DECLARED_B = """\
  --> <axpy>:1:31
    1 | def axpy(A: T.Tensor((M, 4)), B: T.Tensor((M, 4)), s: T.float32, C): ...
      |                               ^
   declared: B: float32[M, 4]
"""

TEXTS = {
    "too few": (
        (A, B),
        "error[E-ARG-COUNT]: axpy: takes 3 arguments, got 2\n"
        "   expected: 3\n   got:      2\n"
        "   inputs:   A: float32[M, 4], B: float32[M, 4], s: float32\n"
        "  help: call axpy(A, B, s)",
    ),
    "the output too": (
        (A, B, 1.0, A),
        "error[E-ARG-COUNT]: axpy: takes 3 arguments, got 4\n"
        "   expected: 3\n   got:      4\n"
        "   inputs:   A: float32[M, 4], B: float32[M, 4], s: float32\n"
        "  help: do not pass C: the kernel allocates and returns what out_idx names",
    ),
    "None": (
        (A, None, 1.0),
        "error[E-ARG-NONE]: axpy: B is None, and the kernel uses it\n" + DECLARED_B + "   expected: a tensor\n"
        "   got:      None\n"
        "  help: pass a tensor for B",
    ),
    "a list": (
        ([1.0], B, 1.0),
        "error[E-ARG-TYPE]: axpy: A must be a tensor, got a list or tuple\n" + DECLARED_A + "   expected: a tensor\n"
        "   got:      a list or tuple\n"
        "  help: pass a tensor for A",
    ),
    "a text for a number": (
        (A, B, "x"),
        "error[E-ARG-TYPE]: axpy: s must be a float, got str\n"
        "   declared: s: float32\n   expected: a float\n   got:      str\n"
        "  help: pass a float for s",
    ),
    "ndim": (
        (A[0], B, 1.0),
        "error[E-ARG-NDIM]: axpy: A must have 2 dimensions, got 1\n" + DECLARED_A + "   expected: 2\n"
        "   got:      1\n"
        "  help: reshape A",
    ),
    "dtype": (
        (A.half(), B, 1.0),
        "error[E-ARG-DTYPE]: axpy: A must be of type float32, got float16\n" + DECLARED_A + "   expected: float32\n"
        "   got:      float16\n"
        "  help: convert it: A.to(torch.float32), or compile the kernel for float16",
    ),
    "fixed extent": (
        (torch.zeros(3, 5), B, 1.0),
        "error[E-ARG-SHAPE]: axpy: shape[1] of A must be 4, got 5\n" + DECLARED_A + "   expected: 4\n"
        "   got:      5\n"
        "  help: the kernel was compiled for this extent; compile it for 5, or declare the dimension with T.dynamic",
    ),
    "shared extent": (
        (A, B[:2], 1.0),
        "error[E-ARG-SHAPE]: axpy: shape[0] of B must be 3, got 2\n" + DECLARED_B + "   expected: 3\n"
        "   got:      2\n"
        "  help: M is also A.shape[0]",
    ),
    "strides": (
        (torch.zeros(4, 3).t(), B, 1.0),
        "error[E-ARG-STRIDE]: axpy: strides[1] of A must be 1, got 3\n" + DECLARED_A + "   expected: 1\n"
        "   got:      3\n"
        "  help: pass A.contiguous(), or declare the parameter as T.StridedTensor",
    ),
    "condition": (
        (A, B, 7),
        "error[E-ARG-CONDITION]: axpy: the arguments break the condition s != 7\n"
        "   expected: s != 7\n   got:      7\n"
        "  help: the kernel states it with T.assume; pass arguments that fulfil it, or remove it",
    ),
    "meta": (
        (torch.empty(3, 4, device="meta"), B, 1.0),
        "error[E-ARG-STORAGE]: axpy: A has no memory\n" + DECLARED_A + "   expected: a tensor with storage\n"
        "   got:      a tensor on device meta\n"
        "  help: pass a real tensor; under torch.compile, torch.func or fake tensors, make the kernel an operator: "
        "tile.op",
    ),
    "sparse": (
        (A, B.to_sparse(), 1.0),
        "error[E-ARG-TYPE]: axpy: B must be a dense tensor, got a torch.sparse_coo tensor\n"
        + DECLARED_B
        + "   expected: "
        "a dense tensor\n"
        "   got:      a torch.sparse_coo tensor\n"
        "  help: pass a dense tensor for B",
    ),
}


@pytest.mark.parametrize("kind", TEXTS)
def test_the_text_of_a_failed_check(axpy, kind):
    args, text = TEXTS[kind]
    with pytest.raises(ArgumentError) as caught:
        axpy(*args)
    assert str(caught.value) == text
    assert caught.value.__cause__ is None and caught.value.__suppress_context__


def test_a_fake_tensor_is_refused(axpy):
    from torch._subclasses.fake_tensor import FakeTensorMode

    fake = FakeTensorMode().from_tensor(A)
    with pytest.raises(ArgumentError) as caught:
        axpy(fake, B, 1.0)
    assert caught.value.code == "E-ARG-STORAGE"


def test_an_argument_error_is_a_value_error(axpy):
    with pytest.raises(ValueError, match="takes 3 arguments"):
        axpy()


def test_a_failed_launch_is_typed(axpy):
    with pytest.raises(ToolchainError) as caught:
        axpy(A, B, 8)
    assert str(caught.value) == (
        "error[E-LAUNCH]: axpy: the launch failed\n   axpy: launch: expected success, got failure 8"
    )


def test_other_errors_pass_as_they_are(axpy):
    class Odd:
        def __dlpack__(self, **options):
            raise KeyError("odd")

        def __dlpack_device__(self):
            return (1, 0)

    with pytest.raises(KeyError, match="odd"):
        axpy(Odd(), B, 1.0)


def test_a_broken_library_is_typed(tmp_path):
    (tmp_path / LIBRARY).write_bytes(b"no library")
    with pytest.raises(ToolchainError) as caught:
        build(artifact(tmp_path / LIBRARY))
    assert caught.value.code == "E-LIBRARY" and LIBRARY in str(caught.value)


def test_an_artifact_without_library_or_entry_is_our_fault(library):
    with pytest.raises(InternalError, match="has no entry 'nothing'"):
        build(artifact(library, "nothing"))
    bare = artifact(library)
    bare.binaries.clear()
    with pytest.raises(InternalError, match=f"holds no {LIBRARY}"):
        build(bare)


def test_errors_leak_nothing(axpy):
    import resource

    def raised(times):
        for _ in range(times):
            try:
                axpy(A)
            except ArgumentError:
                continue

    raised(2000)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    raised(20_000)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 1500  # KiB


def test_it_is_available_here():
    assert available()


def test_numpy_stays_zero_copy(axpy):
    held = np.ones((3, 4), np.float32)
    view = held[:, :]
    assert torch.equal(axpy(view, B, 0), torch.from_numpy(held))
