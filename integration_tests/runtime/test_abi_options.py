"""What a call checks, made stricter or laxer: options, conditions known when compiling, calls without checks."""

import ctypes

import pytest
import torch

import tile_core as tile
import tile_core.language as T


def copy(dtype, extent=4):
    @T.prim_func
    def copy(A: T.Tensor((extent,), dtype), B: T.Tensor((extent,), "uint8")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(extent):
                B[i] = T.reinterpret(A[i], "uint8")

    return copy


def compiled(function, **options):
    return tile.compile(function, target="cpu", **options)


RELAXED = [
    ("float8_e4m3fn", torch.float8_e4m3fnuz, "tl.relax_fp8_dtypes"),
    ("float8_e4m3fnuz", torch.float8_e4m3fn, "tl.relax_fp8_dtypes"),
    ("float8_e5m2", torch.float8_e5m2fnuz, "tl.relax_fp8_dtypes"),
]


@pytest.mark.parametrize(("declared", "given", "option"), RELAXED)
def test_float8_types_of_one_family_pass_only_when_asked(declared, given, option):
    A, B = torch.ones(4).to(given), torch.zeros(4, dtype=torch.uint8)
    with pytest.raises(tile.ArgumentError, match="E-ARG-DTYPE"):
        compiled(copy(declared))(A, B)
    compiled(copy(declared), pass_configs={option: True})(A, B)
    assert torch.equal(B, A.view(torch.uint8))
    other = torch.ones(4).to(torch.float8_e5m2 if "e4m3" in declared else torch.float8_e4m3fn)
    with pytest.raises(tile.ArgumentError, match="E-ARG-DTYPE"):
        compiled(copy(declared), pass_configs={option: True})(other, B)


@T.prim_func
def invert(A: T.Tensor((4,), "bool"), B: T.Tensor((4,), "int32")):
    with T.Kernel(1, threads=32):
        for i in T.Parallel(4):
            B[i] = T.if_then_else(A[i], 0, 1)


@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8])
def test_bool_takes_bytes_only_when_asked(dtype):
    A, B = torch.tensor([0, 1, 1, 0], dtype=dtype), torch.zeros(4, dtype=torch.int32)
    with pytest.raises(tile.ArgumentError, match=r"A must be of type bool, got u?int8"):
        compiled(invert)(A, B)
    compiled(invert, pass_configs={"tl.relax_bool_storage": True})(A, B)
    assert B.tolist() == [1, 0, 0, 1]


def test_a_call_without_checks_takes_what_is_given():
    kernel = compiled(copy("uint8"), out_idx=[-1])
    A = torch.arange(4, dtype=torch.int8)
    with pytest.raises(tile.ArgumentError, match="E-ARG-DTYPE"):
        kernel(A)
    assert kernel(A, skip_tensor_validation=True).tolist() == [0, 1, 2, 3]
    assert kernel(A=A, skip_tensor_validation=True).tolist() == [0, 1, 2, 3]
    with pytest.raises(tile.ArgumentError, match="E-ARG-DTYPE"):
        kernel(A, skip_tensor_validation=False)
    with pytest.raises(tile.ArgumentError, match="A must be a tensor, got int"):
        kernel(1, skip_tensor_validation=True)
    with pytest.raises(tile.ArgumentError, match="takes 1 argument, got 2"):
        kernel(A, A, skip_tensor_validation=True)


@tile.jit(target="cpu")
def bytes_of(A, dtype="float8_e4m3fn"):
    N = T.const("N")
    A: T.Tensor[[N], dtype]
    B = T.empty((N,), "uint8")
    with T.Kernel(1, threads=32):
        for i in T.Parallel(N):
            B[i] = T.reinterpret(A[i], "uint8")
    return B


@pytest.mark.parametrize(("declared", "given", "option"), RELAXED)
def test_float8_types_of_one_family_pass_to_eager_functions_only_when_asked(declared, given, option):
    A = torch.ones(4).to(given)
    with pytest.raises(tile.ArgumentError, match="E-EAGER-DTYPE"):
        bytes_of(A, declared)
    relaxed = tile.jit(bytes_of.function, target="cpu", pass_configs={option: True})
    for _ in range(3):  # found by tracing, by types, and as the kernel of the last call
        assert torch.equal(relaxed(A, declared), A.view(torch.uint8))
    other = torch.ones(4).to(torch.float8_e5m2 if "e4m3" in declared else torch.float8_e4m3fn)
    with pytest.raises(tile.ArgumentError, match="E-EAGER-DTYPE"):
        relaxed(other, declared)


def test_an_eager_function_may_state_the_relaxation_itself():
    @tile.jit(target="cpu")
    def inverted(A):
        A: T.Tensor[[4], T.bool]
        B = T.empty((4,), "int32")
        T.annotate_pass_configs({"tl.relax_bool_storage": True})
        with T.Kernel(1, threads=32):
            for i in T.Parallel(4):
                B[i] = T.if_then_else(A[i], 0, 1)
        return B

    assert inverted(torch.tensor([0, 1, 1, 0], dtype=torch.int8)).tolist() == [1, 0, 0, 1]
    assert inverted(torch.tensor([False, True, True, False])).tolist() == [1, 0, 0, 1]
    with pytest.raises(tile.ArgumentError, match="A must be bool, got int32"):
        inverted(torch.zeros(4, dtype=torch.int32))
    strict = tile.jit(inverted.function, target="cpu", pass_configs={"tl.relax_bool_storage": False})
    with pytest.raises(tile.ArgumentError, match="A must be bool, got int8"):
        strict(torch.zeros(4, dtype=torch.int8))


def test_a_tensor_that_does_not_fit_is_said_before_what_is_wrong_in_the_body():
    @tile.jit(target="cpu")
    def broken(A):
        A: T.Tensor[[4], T.bool]
        with T.Kernel(1, threads=32):
            A[0, 0] = True

    with pytest.raises(tile.ArgumentError, match="E-EAGER-DTYPE"):
        broken(torch.zeros(4))
    with pytest.raises(tile.CompileError, match="A"):
        broken(torch.zeros(4, dtype=torch.bool))


def test_an_eager_call_without_checks_takes_what_is_given():
    A = torch.arange(4, dtype=torch.int8)
    with pytest.raises(tile.ArgumentError, match="E-EAGER-DTYPE"):
        bytes_of(A, "uint8")
    assert bytes_of(A, "uint8", skip_tensor_validation=True).tolist() == [0, 1, 2, 3]
    with pytest.raises(tile.ArgumentError, match="E-EAGER-DTYPE"):
        bytes_of(A, "uint8", skip_tensor_validation=False)
    with pytest.raises(tile.ArgumentError, match="must have 1 dimensions, got 2"):  # sizes cannot be told
        bytes_of(A[None], "uint8", skip_tensor_validation=True)

    @tile.jit(target="cpu", pass_configs={"tl.disable_tensor_validation": True})
    def first_four(A, B):
        A: T.Tensor[[4], T.int32]
        B: T.Tensor[[4], T.int32]
        with T.Kernel(1, threads=32):
            for i in T.Parallel(4):
                B[i] = A[i] + 1

    B = torch.zeros(4, dtype=torch.int32)
    first_four(torch.arange(9, dtype=torch.int32), B)
    assert B.tolist() == [1, 2, 3, 4]


def test_a_condition_that_is_false_when_traced_is_an_error_there():
    N = 12
    with pytest.raises(tile.CompileError, match="E-ASSUME-FALSE"):

        @T.prim_func
        def broken(A: T.Tensor((N,), "float32")):
            T.assume(N % 8 == 0)
            with T.Kernel(1, threads=32):
                A[0] = 1.0


def test_a_condition_that_sizes_contradict_is_an_error_of_the_compile():
    M = T.dynamic("M")

    @T.prim_func
    def broken(A: T.Tensor((M * 2,), "float32")):
        T.assume(M < 0)
        with T.Kernel(1, threads=32):
            A[0] = 1.0

    with pytest.raises(tile.CompileError) as caught:
        compiled(broken)
    assert caught.value.code == "E-ABI-ASSUME"


def test_a_condition_that_always_holds_is_not_checked():
    M = T.dynamic("M")

    @T.prim_func
    def fine(A: T.Tensor((M * 2,), "float32")):
        T.assume(M >= 0)
        T.assume(M * 2 % 2 == 0)
        with T.Kernel(1, threads=32):
            A[0] = 1.0

    assert '"condition"' not in tile.lower(fine, "cpu").host.functions[0].script()


def test_a_caller_in_c_that_passes_no_array_gets_a_sentence():
    import tvm_ffi

    kernel = compiled(copy("uint8"))
    library = ctypes.CDLL(str(kernel.artifact.binaries["kernel.so"]))
    entry = library.__tvm_ffi_copy
    entry.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int32, ctypes.c_void_p)
    result = (ctypes.c_int64 * 2)()
    assert entry(None, None, 2, ctypes.addressof(result)) == -1
    ffi = ctypes.CDLL(tvm_ffi.libinfo.find_libtvm_ffi())
    error = ctypes.c_void_p()
    ffi.TVMFFIErrorMoveFromRaised(ctypes.byref(error))
    assert error.value
    ffi.TVMFFIObjectDecRef(error)


def test_the_first_tensor_may_be_the_one_that_is_not_used():
    M = T.dynamic("M")

    @T.prim_func
    def second(A: T.Tensor((7,), "float32"), B: T.Tensor((M,), "float32"), C: T.Tensor((M,), "float32")):
        with T.Kernel(M, threads=32) as i:
            C[i] = B[i] + 1

    kernel = compiled(second, out_idx=[-1])
    assert kernel(None, torch.zeros(3)).tolist() == [1, 1, 1]
    assert kernel(torch.zeros(7), torch.zeros(3)).tolist() == [1, 1, 1]
    with pytest.raises(tile.ArgumentError, match=r"shape\[0\] of A must be 7, got 8"):
        kernel(torch.zeros(8), torch.zeros(3))


def test_a_size_that_only_an_unused_tensor_has_and_nobody_needs_is_free():
    K = T.dynamic("K")

    @T.prim_func
    def free(A: T.Tensor((K, K), "float32"), B: T.Tensor((4,), "float32")):
        with T.Kernel(1, threads=32):
            B[0] = 1.0

    kernel = compiled(free)
    B = torch.zeros(4)
    for given in (None, torch.zeros(3, 3)):
        kernel(given, B)
        assert B[0] == 1


@pytest.mark.parametrize("tensor", [torch.ones(1), torch.ones(1, 1)[0]])
def test_a_single_negated_element_is_refused_where_its_extent_is_one(tensor):
    N = T.dynamic("N")

    @T.prim_func
    def twice(A: T.Tensor((N,), "float32"), B: T.Tensor((N,), "float32")):
        with T.Kernel(N, threads=32) as i:
            B[i] = A[i] * 2

    kernel = compiled(twice, out_idx=[-1])
    negated = torch.complex(tensor, tensor).conj().imag
    assert negated.is_neg()
    with pytest.raises(tile.ArgumentError, match="E-ARG-LAZY"):
        kernel(negated)
    assert kernel(negated.resolve_neg()).tolist() == [-2.0]
    with pytest.raises(tile.ArgumentError, match="E-ARG-DTYPE"):
        kernel(torch.complex(tensor, tensor).conj())
