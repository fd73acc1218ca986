"""Vector types: packing, lanes, arithmetic on pairs, bits seen as other types."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import tile_core as tile
import tile_core.language as T
from tile_core.dtypes import DType
from tile_core.errors import ArgumentError, CompileError
from tile_core.interpreter import interpret
from tile_core.ir import Var
from tile_core.testing.carriers import all_values, empty_tensor, equal_values, from_tensor, to_tensor

pytestmark = pytest.mark.slow

BACKENDS = {"cpu": {"target": "cpu"}, "emulated": {"target": "cuda -arch=sm_80", "execution_backend": "emulate"}}
N = 256


def check(function, inputs, output, compile_device=False):
    """The output of the interpreter, which the CPU and the emulated kernel must give too."""
    shape, dtype = output
    given = [to_tensor(values, DType(name)) for values, name in inputs]
    expected = empty_tensor(dtype, *shape)
    arrays = [v if DType(n).bits > 4 else t.numpy() for (v, n), t in zip(inputs, given)]
    result = expected.view(torch.uint8).numpy() if dtype.bits == 4 else from_tensor(expected, dtype)
    interpret(function, *arrays, result)
    for backend, options in BACKENDS.items():
        found = empty_tensor(dtype, *shape)
        tile.compile(function, **options)(*given, found)
        same = equal_values(from_tensor(found, dtype), from_tensor(expected, dtype))
        assert same.all(), backend
    if torch.cuda.is_available():
        moved = [t.cuda() for t in (*given, empty_tensor(dtype, *shape))]
        tile.compile(function, target="cuda")(*moved)
        assert equal_values(from_tensor(moved[-1].cpu(), dtype), from_tensor(expected, dtype)).all(), "device"
    if compile_device:
        from tile_cuda.toolchain.nvrtc import compile_device as compile_cubin

        assert compile_cubin(tile.lower(function, target="cuda -arch=sm_80").sources["kernel.cu"], "sm_80").cubin
    return from_tensor(expected, dtype)


def floats(n=N, dtype=np.float32):
    return np.random.default_rng(n).normal(0, 3, n).astype(dtype)


def test_lanes_are_packed_and_taken_apart():
    @T.prim_func
    def main(A: T.Tensor((N,), "float32"), C: T.Tensor((N,), "float32")):
        with T.Kernel(1, threads=64) as _:
            tx = T.get_thread_binding(0)
            v = T.float32x4(A[tx * 4], A[tx * 4 + 1], A[tx * 4 + 2], 7)
            w = v * T.float32x4(2.0) + v
            C[tx * 4] = T.extract_lane(w, 3)
            C[tx * 4 + 1] = T.extract_lane(w, 0)
            C[tx * 4 + 2] = T.extract_lane(w, tx % 4)
            C[tx * 4 + 3] = T.extract_lane(T.max(w, T.float32x4(1.0)), 1)

    a = floats()
    c = check(main, [(a, "float32")], ((N,), DType("float32")), compile_device=True)
    rows = a.reshape(-1, 4).copy()
    rows[:, 3] = 7
    w = rows * np.float32(2) + rows
    assert (c[0::4] == w[:, 3]).all()
    assert (c[1::4] == w[:, 0]).all()
    assert (c[2::4] == w[np.arange(64), np.arange(64) % 4]).all()


def test_buffers_of_vectors():
    @T.prim_func
    def main(A: T.Tensor((8, N // 32), "float32x4"), C: T.Tensor((8, N // 32), "float32x4")):
        with T.Kernel(1, threads=64) as _:
            shared = T.alloc_shared((8, N // 32), "float32x4")
            T.copy(A, shared)
            for i, j in T.Parallel(8, N // 32):
                C[i, j] = shared[i, j] * shared[i, N // 32 - 1 - j]

    a = floats().reshape(8, -1)
    c = check(main, [(a, "float32")], ((8, N // 8), DType("float32")), compile_device=True)
    parts = a.reshape(8, -1, 4)
    assert (c.reshape(8, -1, 4) == parts * parts[:, ::-1]).all()


def test_local_vectors_and_variables():
    @T.prim_func
    def main(A: T.Tensor((N,), "float16"), C: T.Tensor((N,), "float16")):
        with T.Kernel(1, threads=32) as _:
            tx = T.get_thread_binding(0)
            pairs = T.alloc_local((4,), "float16x2")
            total = T.alloc_var("float16x2", init=T.float16x2(0.0))
            shown = T.view(A, (N // 2,), "float16x2")
            for i in T.unroll(4):
                pairs[i] = shown[tx * 4 + i]
            for i in T.serial(4):
                total = T.fma2(pairs[i], pairs[i], total)
            out = T.view(C, (N // 2,), "float16x2")
            for i in T.serial(4):
                out[tx * 4 + i] = T.sub2(total, pairs[i])

    check(main, [(floats(dtype=np.float16), "float16")], ((N,), DType("float16")), compile_device=True)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_arithmetic_on_pairs(dtype):
    pair = f"{dtype}x2"

    @T.prim_func
    def main(A: T.Tensor((N,), dtype), B: T.Tensor((N,), dtype), C: T.Tensor((7, N // 2), pair)):
        with T.Kernel(1, threads=128) as _:
            tx = T.get_thread_binding(0)
            a, b = T.view(A, (N // 2,), pair)[tx], T.view(B, (N // 2,), pair)[tx]
            C[0, tx] = T.add2(a, b)
            C[1, tx] = T.sub2(a, b)
            C[2, tx] = T.mul2(a, b)
            C[3, tx] = T.max2(a, b)
            C[4, tx] = T.min2(a, b)
            C[5, tx] = T.abs2(a)
            C[6, tx] = T.fma2(a, b, T.Cast(pair, T.float32x2(0.5)))

    from tile_core.interpreter import numpy_type

    a, b = floats().astype(numpy_type(DType(dtype))), floats(N + 0).astype(numpy_type(DType(dtype)))[::-1].copy()
    a[:4], b[2:6] = np.nan, np.nan
    if dtype == "float32":
        # The fused result of two float32 products needs more than the double that the interpreter computes in.
        a, b = np.round(a * 64) / 64, np.round(b * 64) / 64
    c = check(main, [(a, dtype), (b, dtype)], ((7, N), DType(dtype)), compile_device=True)
    assert equal_values(c[0], a + b).all()
    assert np.isnan(c[3].astype(np.float32)).sum() == 2


BITS = [
    ("uint8", "int4x2", 1), ("int4x8", "uint32", 8), ("uint32", "int8x4", 1), ("float32", "uint32", 1),
    ("float16x2", "uint32", 2), ("uint32", "float8_e4m3fnx4", 1), ("int64", "float32x2", 1),
    ("float4_e2m1fnx4", "uint16", 4), ("uint8", "float6_e3m2fn", 1), ("int32x4", "float64x2", 4),
    ("uint4", "float4_e2m1fn", 1),
]  # fmt: skip


@pytest.mark.parametrize(("source", "target", "lanes"), BITS)
def test_bits_as_another_type(source, target, lanes):
    scalar, wide = DType(source.split("x")[0]), DType(*_split(target))
    count = 256
    inputs = count * lanes
    held = wide.scalar

    @T.prim_func
    def main(A: T.Tensor((count,), source), C: T.Tensor((count,), target)):
        with T.Kernel(1, threads=128) as _:
            for i in T.Parallel(count):
                C[i] = T.reinterpret(A[i], target)

    values = all_values(scalar, inputs)[:inputs]
    if scalar.bits > 8:
        # No NaN among the results: their bits are compared as numbers.
        values = np.arange(inputs).astype(values.dtype) if scalar.is_int else values
    c = check(main, [(values, scalar.name)], ((count * wide.lanes,), held))
    assert to_tensor(c, held).view(torch.uint8).equal(to_tensor(values, scalar).view(torch.uint8))


def _split(name):
    base, mark, lanes = name.rpartition("x")
    return (base, int(lanes)) if mark and lanes.isdecimal() else (name, 1)


def test_packed_weights_become_halves_by_one_cast():
    @T.prim_func
    def main(W: T.Tensor((N,), "uint32"), C: T.Tensor((N,), "float16x8")):
        with T.Kernel(1, threads=128) as _:
            for i in T.Parallel(N):
                C[i] = T.cast(T.reinterpret(W[i], "int4x8"), "float16x8")

    words = np.random.default_rng(0).integers(0, 1 << 32, N, dtype=np.uint32)
    c = check(main, [(words, "uint32")], ((N * 8,), DType("float16")), compile_device=True)
    nibbles = (words[:, None] >> (4 * np.arange(8, dtype=np.uint32))) & 15
    assert (c.reshape(N, 8) == ((nibbles ^ 8).astype(np.int64) - 8)).all()


def test_tensors_of_vectors_need_whole_vectors():
    @T.prim_func
    def main(A: T.Tensor((T.dynamic("n"),), "float32x4"), C: T.Tensor((4,), "float32x4")):
        with T.Kernel(1) as _:
            for i in T.Parallel(4):
                C[i] = A[i]

    kernel = tile.compile(main, target="cpu")
    with pytest.raises(ArgumentError, match="a multiple of 4"):
        kernel(torch.zeros(6), torch.zeros(16))
    with pytest.raises(ArgumentError, match="float32 with the lanes of float32x4"):
        kernel(torch.zeros(16).half(), torch.zeros(16))


def test_wrong_uses_are_errors():
    pair, four = Var("p", DType("float32", 2)), Var("q", DType("float32", 4))
    for call, code in (
        (lambda: T.extract_lane(pair, 2), "E-LANE"),
        (lambda: T.extract_lane(T.float32(1), 0), "E-LANE"),
        (lambda: T.add2(four, four), "E-PACKED2"),
        (lambda: T.mul2(pair, T.float16x2(1, 2)), "E-PACKED2"),
        (lambda: T.float32x4(1, 2, 3), "E-CONVERT"),
        (lambda: T.reinterpret(four, "float32x2"), "E-REINTERPRET"),
    ):
        with pytest.raises(CompileError) as caught:
            call()
        assert caught.value.code == code


def test_what_is_known_of_types():
    assert T.dtype("float4_e2m1fnx2").bits == 4 and T.dtype("float4_e2m1fnx2").bytes == 1
    assert T.dtype("float8_e4m3fn").as_torch() is torch.float8_e4m3fn
    assert T.dtype("int4").as_torch() is torch.int8
    assert T.dtype("float32x4").as_torch() is torch.float32
    assert T.is_float4("float4_e2m1fn") and not T.is_float4(torch.float16)
    assert T.is_float4_e2m1fn(T.float4_e2m1fn)
    assert T.is_f8f6f4_family(torch.float8_e5m2) and not T.is_f8f6f4_family("float8_e5m2fnuz")
    assert T.get_tvm_dtype(torch.bfloat16) is T.bfloat16
