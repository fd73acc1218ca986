"""Tensors and tiles of types of eight bits or fewer: four-bit elements two a byte, six-bit ones a byte each."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import tile_core as tile
import tile_core.language as T
from tile_core.dtypes import DType
from tile_core.errors import ArgumentError, CompileError
from tile_core.interpreter import interpret
from tile_core.testing.carriers import all_values, empty_tensor, from_tensor, to_tensor, unpack_nibbles

BACKENDS = {
    "cpu": {"target": "cpu"},
    "emulated": {"target": "cuda -arch=sm_80", "execution_backend": "emulate"},
    "sm_80": {"target": "cuda -arch=sm_80"},
    "device": {"target": "cuda"},
}
ON_DEVICE = ("sm_80", "device")
BOTH = pytest.mark.parametrize(
    "backend", [pytest.param(b, marks=[pytest.mark.gpu] if b in ON_DEVICE else []) for b in BACKENDS]
)
SMALL = ("int4", "uint4", "float4_e2m1fn", "float6_e3m2fn", "float8_e5m2")
OFTEN = [pytest.param(n, marks=() if n in ("int4", "float4_e2m1fn") else pytest.mark.slow) for n in SMALL]


def compiled(function, backend, **options):
    """The kernel; on a device it takes copies of the tensors and brings them back."""
    kernel = tile.compile(function, **BACKENDS[backend], **options)
    if backend not in ON_DEVICE:
        return kernel

    def call(*tensors):
        moved = [t.cuda() for t in tensors]
        kernel(*moved)
        for tensor, result in zip(tensors, moved):
            tensor.copy_(result.cpu())

    return call


def values(dtype: str, *shape: int) -> np.ndarray:
    found = np.resize(all_values(DType(dtype)), int(np.prod(shape)))
    np.random.default_rng(7).shuffle(found)
    return found.reshape(shape)


def round_trip(m, n, dtype, bm=32, bn=64):
    @T.prim_func
    def main(A: T.Tensor((m, n), dtype), C: T.Tensor((m, n), dtype)):
        with T.Kernel(T.ceildiv(n, bn), T.ceildiv(m, bm), threads=128) as (bx, by):
            shared = T.alloc_shared((bm, bn), dtype)
            tile_ = T.alloc_fragment((bm, bn), dtype)
            T.copy(A[by * bm, bx * bn], shared)
            T.copy(shared, tile_)
            T.copy(tile_, C[by * bm, bx * bn])

    return main


def filled(m, n, dtype):
    @T.prim_func
    def main(C: T.Tensor((m, n), dtype)):
        with T.Kernel(1, threads=64) as _:
            shared = T.alloc_shared((m, n), dtype)
            T.fill(shared, 3)
            for i, j in T.Parallel(m, n):
                shared[i, j] = T.if_then_else((i + j) % 3 == 0, shared[i, j], T.cast(i - j, dtype))
            T.copy(shared, C)

    return main


def by_threads(n, dtype):
    @T.prim_func
    def main(A: T.Tensor((n,), dtype), C: T.Tensor((n,), dtype)):
        with T.Kernel(1, threads=n) as _:
            shared = T.alloc_shared((n,), dtype)
            tx = T.get_thread_binding(0)
            shared[n - 1 - tx] = A[tx]
            T.sync_threads()
            C[tx] = shared[tx]

    return main


def dequantised_gemm(m, n, k, dtype, bm=32, bn=32, bk=32):
    @T.prim_func
    def main(
        A: T.Tensor((m, k), "float16"),
        W: T.Tensor((n, k), dtype),
        S: T.Tensor((n,), "float16"),
        C: T.Tensor((m, n), "float32"),
    ):
        with T.Kernel(T.ceildiv(n, bn), T.ceildiv(m, bm), threads=128) as (bx, by):
            a = T.alloc_shared((bm, bk), "float16")
            w = T.alloc_shared((bn, bk), dtype)
            wide = T.alloc_shared((bn, bk), "float16")
            c = T.alloc_fragment((bm, bn), "float32")
            T.clear(c)
            for step in T.Pipelined(k // bk, num_stages=2):
                T.copy(A[by * bm, step * bk], a)
                T.copy(W[bx * bn, step * bk], w)
                for i, j in T.Parallel(bn, bk):
                    wide[i, j] = T.cast(w[i, j], "float16") * S[bx * bn + i]
                T.gemm(a, wide, c, transpose_B=True)
            T.copy(c, C[by * bm, bx * bn])

    return main


@BOTH
@pytest.mark.parametrize("dtype", OFTEN)
@pytest.mark.parametrize("shape", [(64, 128), pytest.param((33, 70), marks=pytest.mark.slow)])
def test_copies_move_bits(backend, dtype, shape):
    function = round_trip(*shape, dtype)
    given = to_tensor(values(dtype, *shape), DType(dtype))
    result = empty_tensor(DType(dtype), *shape)
    compiled(function, backend)(given, result)
    assert torch.equal(given, result)
    again = np.zeros_like(given.numpy())
    interpret(function, given.numpy(), again)
    assert (again == given.numpy()).all()


@BOTH
@pytest.mark.parametrize("dtype", OFTEN)
def test_fill_and_elements(backend, dtype):
    function = filled(9, 10, dtype)
    result = empty_tensor(DType(dtype), 9, 10)
    compiled(function, backend)(result)
    expected = empty_tensor(DType(dtype), 9, 10).numpy()
    interpret(function, expected)
    assert (result.numpy() == expected).all()


@BOTH
def test_threads_that_share_a_byte_do_not_race(backend):
    function = by_threads(64, "int4")
    given = values("int4", 64)
    result = empty_tensor(DType("int4"), 64)
    compiled(function, backend)(to_tensor(given, DType("int4")), result)
    assert (from_tensor(result, DType("int4")) == given[::-1]).all()


@BOTH
@pytest.mark.parametrize("dtype", OFTEN)
def test_dequantised_gemm(backend, dtype):
    m, n, k = 40, 64, 96
    w = values(dtype, n, k)
    wide = w.astype(np.float32)
    w = np.where(np.isfinite(wide), w, w.dtype.type(1))
    a, s, c = torch.randn(m, k).half(), torch.rand(n).half(), torch.zeros(m, n)
    compiled(dequantised_gemm(m, n, k, dtype), backend)(a, to_tensor(w, DType(dtype)), s, c)
    expected = a.float() @ (torch.from_numpy(w.astype(np.float32)).half() * s[:, None]).float().T
    torch.testing.assert_close(c, expected, rtol=2e-3, atol=1e-3 * float(expected.abs().max()))


def scaled_blocks(m, n, k, bm=32, bn=32, bk=32):
    """C = A · dequantised Wᵀ, W in mxfp4: e2m1 numbers, 32 along k with one e8m0 scale."""

    @T.prim_func
    def main(
        A: T.Tensor((m, k), "bfloat16"),
        W: T.Tensor((n, k), "float4_e2m1fn"),
        S: T.Tensor((n, k // 32), "float8_e8m0fnu"),
        C: T.Tensor((m, n), "float32"),
    ):
        with T.Kernel(T.ceildiv(n, bn), T.ceildiv(m, bm), threads=128) as (bx, by):
            a = T.alloc_shared((bm, bk), "bfloat16")
            w = T.alloc_shared((bn, bk), "float4_e2m1fn")
            wide = T.alloc_shared((bn, bk), "bfloat16")
            c = T.alloc_fragment((bm, bn), "float32")
            T.clear(c)
            for step in T.Pipelined(k // bk, num_stages=2):
                T.copy(A[by * bm, step * bk], a)
                T.copy(W[bx * bn, step * bk], w)
                for i, j in T.Parallel(bn, bk):
                    wide[i, j] = T.cast(w[i, j], "bfloat16") * T.cast(S[bx * bn + i, step], "bfloat16")
                T.gemm(a, wide, c, transpose_B=True)
            T.copy(c, C[by * bm, bx * bn])

    return main


@BOTH
def test_gemm_of_mxfp4_weights(backend):
    m, n, k = 48, 64, 128
    w, scales = values("float4_e2m1fn", n, k), np.random.default_rng(1).integers(120, 134, (n, k // 32), dtype=np.uint8)
    a, c = torch.randn(m, k).bfloat16(), torch.zeros(m, n)
    carried = torch.from_numpy(scales)
    compiled(scaled_blocks(m, n, k), backend)(a, to_tensor(w, DType("float4_e2m1fn")), carried, c)
    wide = w.astype(np.float32) * np.repeat(np.exp2(scales.astype(np.float32) - 127), 32, axis=1)
    expected = a.float() @ torch.from_numpy(wide).bfloat16().float().T
    torch.testing.assert_close(c, expected, rtol=2e-3, atol=1e-3 * float(expected.abs().max()))


@pytest.mark.parametrize(
    ("source", "target", "instruction"),
    [
        ("int4", "float16", "sub.f16x2"),
        ("uint4", "bfloat16", "fma.rn.bf16x2"),
        ("float4_e2m1fn", "float16", "mul.f16x2"),
        ("float8_e4m3fn", "float16", "mul.f16x2"),
    ],
)
def test_packed_weights_are_decoded_in_pairs(source, target, instruction):
    """The cast of a packed vector takes the function of the device table, not a conversion an element."""
    from tile_cuda.toolchain.nvrtc import compile_device

    @T.prim_func
    def main(A: T.Tensor((4096,), source), C: T.Tensor((4096,), target)):
        with T.Kernel(1, threads=128) as _:
            for i in T.Parallel(4096):
                C[i] = T.cast(A[i], target)

    text = tile.lower(main, target="cuda -arch=sm_80").sources["kernel.cu"]
    ptx = compile_device(text, "sm_80").ptx
    ptx = ptx if isinstance(ptx, str) else bytes(ptx).decode("utf-8", "replace")
    assert instruction in ptx
    assert "cvt.rn" not in ptx


def test_the_device_compiler_takes_small_types():
    from tile_cuda.toolchain.nvrtc import compile_device

    for function in (dequantised_gemm(64, 64, 64, "int4"), by_threads(64, "float4_e2m1fn")):
        text = tile.lower(function, target="cuda -arch=sm_80").sources["kernel.cu"]
        assert compile_device(text, "sm_80").cubin


def widened(dtype, out):
    n, m = T.dynamic("n"), T.dynamic("m")

    @T.prim_func
    def main(A: T.Tensor((m, n), dtype), C: T.Tensor((m, n), out)):
        with T.Kernel(T.ceildiv(n, 64), m, threads=32) as (bx, by):
            for j in T.Parallel(64):
                C[by, bx * 64 + j] = T.cast(A[by, bx * 64 + j], out)

    return main


def test_what_carries_packed_elements():
    kernel = compiled(widened("float4_e2m1fn", "float32"), "cpu", out_idx=[1])
    given = torch.arange(60, dtype=torch.uint8).view(6, 10)
    expected = torch.from_numpy(unpack_nibbles(given.numpy(), DType("float4_e2m1fn")).astype(np.float32))
    assert torch.equal(kernel(given), expected)
    assert torch.equal(kernel(given.view(torch.int8)), expected)
    if hasattr(torch, "float4_e2m1fn_x2"):
        assert torch.equal(kernel(given.view(torch.float4_e2m1fn_x2)), expected)


@pytest.mark.parametrize(
    ("dtype", "carrier"),
    [
        ("int4", "int8"),
        ("uint4", "uint8"),
        ("float6_e2m3fn", "uint8"),
        ("float8_e3m4", "uint8"),
        ("float8_e5m2", "float8_e5m2"),
    ],
)
def test_what_outputs_are(dtype, carrier):
    kernel = compiled(widened("float32", dtype), "cpu", out_idx=[1])
    result = kernel(torch.linspace(-4, 4, 4 * 16).view(4, 16))
    assert str(result.dtype) == f"torch.{carrier}"
    assert result.shape == (4, 8 if DType(dtype).is_packed else 16)


def test_other_tensors_are_refused():
    kernel = compiled(widened("int4", "float32"), "cpu", out_idx=[1])
    with pytest.raises(ArgumentError, match="int8 or uint8 with two int4 in a byte") as caught:
        kernel(torch.zeros(4, 8))
    assert caught.value.code == "E-ARG-DTYPE"
    with pytest.raises(ArgumentError, match="stride") as caught:
        kernel(torch.zeros(4, 16, dtype=torch.int8)[:, ::2])
    assert caught.value.code == "E-ARG-STRIDE"


def test_rows_that_end_inside_a_byte_are_refused():
    @T.prim_func
    def main(A: T.Tensor((4, 7), "int4"), C: T.Tensor((4, 7), "int32")):
        with T.Kernel(1) as _:
            T.copy(A, C)

    with pytest.raises(CompileError) as caught:
        tile.lower(main, target="cpu")
    assert caught.value.code == "E-ABI-NIBBLES"


@tile.jit(target="cpu")
def eager_dequantise(A):
    M, N = T.const("M, N")
    A: T.Tensor[[M, N], T.int4]
    C = T.empty((M, N), "float16")
    with T.Kernel(M) as row:
        for j in T.Parallel(N):
            C[row, j] = T.cast(A[row, j], "float16")
    return C


def test_eager_style_counts_elements_not_bytes():
    given = values("int4", 3, 20)
    assert (eager_dequantise(to_tensor(given, DType("int4"))).numpy() == given).all()
    with pytest.raises(ArgumentError) as caught:
        eager_dequantise(torch.zeros(3, 20))
    assert caught.value.code == "E-EAGER-DTYPE"


@BOTH
def test_scalars_of_small_types(backend):
    @T.prim_func
    def main(x: T.int4, y: T.float6_e2m3fn, z: T.uint4, C: T.Tensor((3,), "float32")):
        with T.Kernel(1, threads=32) as _:
            C[0] = T.cast(x, "float32")
            C[1] = T.cast(y, "float32")
            C[2] = T.cast(z, "float32")

    result = torch.zeros(3)
    kernel = tile.compile(main, **BACKENDS[backend])
    given = result.cuda() if backend in ON_DEVICE else result
    kernel(-3, 1.3, 9, given)
    assert given.cpu().tolist() == [-3.0, 1.25, 9.0]


def test_scalars_are_no_vectors():
    @T.prim_func
    def main(x: T.float32x2, C: T.Tensor((2,), "float32")):
        with T.Kernel(1) as _:
            C[0] = T.extract_lane(x, 0)

    with pytest.raises(CompileError) as caught:
        tile.lower(main, target="cpu")
    assert caught.value.code == "E-ABI-SCALAR"


def strided(dtype):
    m, n, step = T.dynamic("m"), T.dynamic("n"), T.dynamic("step")

    @T.prim_func
    def main(A: T.StridedTensor((m, n), (step, 1), dtype), C: T.Tensor((m, n), "float32")):
        with T.Kernel(m, threads=32) as row:
            for j in T.Parallel(64):
                if j < n:
                    C[row, j] = T.cast(A[row, j], "float32")

    return main


@BOTH
def test_strides_count_elements(backend):
    given = values("int4", 5, 40)
    carried = to_tensor(given, DType("int4"))[:, 4:16]
    result = torch.zeros(5, 24)
    kernel = tile.compile(strided("int4"), **BACKENDS[backend])
    if backend in ON_DEVICE:
        whole, result = to_tensor(given, DType("int4")).cuda(), result.cuda()
        kernel(whole[:, 4:16], result)
    else:
        kernel(carried, result)
    assert (result.cpu().numpy() == given[:, 8:32]).all()
