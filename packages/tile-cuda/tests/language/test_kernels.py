"""Kernels in the language, compiled for CUDA: run by the emulator everywhere, and on a GPU where there is one."""

from __future__ import annotations

import pytest
import torch

import tile_core as tile
import tile_core.language as T
from tile_core.testing.compare import assert_close
from tile_cuda.toolchain import compile_device

EMULATED = {"target": "cuda -arch=sm_80", "execution_backend": "emulate"}
PLACES = [
    pytest.param(("cpu", EMULATED), id="emulated", marks=pytest.mark.layer("emulation")),
    pytest.param(("cuda", {"target": "cuda"}), id="device", marks=pytest.mark.gpu),
    pytest.param(("cuda", {"target": "cuda -arch=sm_80"}), id="older", marks=pytest.mark.gpu),
    pytest.param(("cuda", {"target": "cuda", "execution_backend": "nvrtc"}), id="nvrtc", marks=pytest.mark.gpu),
]


@pytest.fixture(params=PLACES)
def place(request):
    """(torch device, options of tile.compile)."""
    return request.param


def run(place, function, *inputs, **options):
    """The kernel's outputs for inputs, which are moved where it runs."""
    device, where = place
    kernel = tile.compile(function, out_idx=[-1], **where, **options)
    if where is EMULATED:
        # What the emulator runs is what NVRTC takes.
        assert compile_device(kernel.kernel_source, "sm_80", name=kernel.name).cubin
    return kernel(*(x.to(device) if isinstance(x, torch.Tensor) else x for x in inputs)).cpu()


def gemm(m, n, k, dtype, accum, out, block=(64, 64, 32), stages=2, threads=128, transpose_a=False, transpose_b=False):
    bm, bn, bk = block
    a_shape, a_tile = ((k, m), (bk, bm)) if transpose_a else ((m, k), (bm, bk))
    b_shape, b_tile = ((n, k), (bn, bk)) if transpose_b else ((k, n), (bk, bn))

    @T.prim_func
    def main(A: T.Tensor(a_shape, dtype), B: T.Tensor(b_shape, dtype), C: T.Tensor((m, n), out)):
        with T.Kernel(T.ceildiv(n, bn), T.ceildiv(m, bm), threads=threads) as (bx, by):
            a_shared = T.alloc_shared(a_tile, dtype)
            b_shared = T.alloc_shared(b_tile, dtype)
            c_local = T.alloc_fragment((bm, bn), accum)
            T.clear(c_local)
            for step in T.Pipelined(T.ceildiv(k, bk), num_stages=stages):
                if transpose_a:
                    T.copy(A[step * bk, by * bm], a_shared)
                else:
                    T.copy(A[by * bm, step * bk], a_shared)
                if transpose_b:
                    T.copy(B[bx * bn, step * bk], b_shared)
                else:
                    T.copy(B[step * bk, bx * bn], b_shared)
                T.gemm(a_shared, b_shared, c_local, transpose_A=transpose_a, transpose_B=transpose_b)
            T.copy(c_local, C[by * bm, bx * bn])

    return main


def product(place, m, n, k, dtype="float16", accum="float32", out="float32", **more):
    torch.manual_seed(m + n + k)
    integers = dtype == "int8"
    a, b = (
        (torch.randint(-9, 9, s).to(torch.int8) if integers else torch.randn(s).to(getattr(torch, dtype)))
        for s in ((m, k), (k, n))
    )
    given = (a.T.contiguous() if more.get("transpose_a") else a, b.T.contiguous() if more.get("transpose_b") else b)
    got = run(place, gemm(m, n, k, dtype, accum, out, **more), *given)
    exact = a.double() @ b.double()
    assert_close(got.double(), exact, dtype, reduction=k, label=f"{dtype} {m}x{n}x{k}")


@pytest.mark.parametrize("k", [32, 64, 96, 160])
def test_a_pipelined_gemm_of_any_trip_count(place, k):
    product(place, 64, 64, k, stages=3)


@pytest.mark.parametrize(("transpose_a", "transpose_b"), [(False, True), (True, False), (True, True)])
def test_a_gemm_of_transposed_operands(place, transpose_a, transpose_b):
    product(place, 64, 128, 64, transpose_a=transpose_a, transpose_b=transpose_b)


@pytest.mark.parametrize(
    ("dtype", "accum", "out"),
    [
        ("float16", "float16", "float16"),
        ("bfloat16", "float32", "float32"),
        ("float32", "float32", "float32"),
        ("int8", "int32", "int32"),
    ],
)
def test_a_gemm_of_every_kind_of_element(place, dtype, accum, out):
    product(place, 64, 64, 64, dtype, accum, out)


def test_a_gemm_whose_sizes_are_no_multiples(place):
    product(place, 70, 90, 50)


@pytest.mark.parametrize("shape", [(64, 128), (37, 77)])
def test_softmax_over_rows(place, shape):
    m, n = shape

    @T.prim_func
    def main(X: T.Tensor((m, n), "float32"), Y: T.Tensor((m, n), "float32")):
        with T.Kernel(T.ceildiv(m, 4), threads=128) as bx:
            x = T.alloc_fragment((4, n), "float32")
            top = T.alloc_fragment((4,), "float32")
            total = T.alloc_fragment((4,), "float32")
            T.copy(X[bx * 4, 0], x)
            T.reduce_max(x, top, dim=1)
            for i, j in T.Parallel(4, n):
                x[i, j] = T.exp(x[i, j] - top[i])
            T.reduce_sum(x, total, dim=1)
            for i, j in T.Parallel(4, n):
                x[i, j] = x[i, j] / total[i]
            T.copy(x, Y[bx * 4, 0])

    x = torch.randn(m, n)
    assert_close(run(place, main, x), torch.softmax(x, dim=1), reduction=n)


@pytest.mark.parametrize("n", [1, 31, 128, 1000])
def test_elements_at_an_edge(place, n):
    @T.prim_func
    def main(A: T.Tensor((n,), "float16"), B: T.Tensor((n,), "float32"), C: T.Tensor((n,), "float32")):
        with T.Kernel(T.ceildiv(n, 256), threads=64) as bx:
            for i in T.Parallel(256):
                C[bx * 256 + i] = T.max(T.cast(A[bx * 256 + i], "float32"), B[bx * 256 + i]) * 2.0

    a, b = torch.randn(n).half(), torch.randn(n)
    assert_close(run(place, main, a, b), torch.maximum(a.float(), b) * 2)


def test_a_kernel_that_brings_a_function_of_its_own(place):
    @T.prim_func
    def main(A: T.Tensor((256,), "float32"), B: T.Tensor((256,), "float32")):
        with T.Kernel(2, threads=128) as bx:
            T.import_source("__device__ float twice(float x) { return x + x; }")
            for i in T.Parallel(128):
                B[bx * 128 + i] = T.call_extern("float32", "twice", A[bx * 128 + i])

    a = torch.randn(256)
    assert_close(run(place, main, a), a * 2)


def test_two_gemms_in_a_row_with_the_second_operand_in_registers(place):
    @T.prim_func
    def main(
        A: T.Tensor((64, 64), "float16"),
        B: T.Tensor((64, 64), "float16"),
        C: T.Tensor((64, 64), "float16"),
        D: T.Tensor((64, 64), "float32"),
    ):
        with T.Kernel(1, threads=128):
            a, b, c = (T.alloc_shared((64, 64), "float16") for _ in range(3))
            product = T.alloc_fragment((64, 64), "float32")
            rounded = T.alloc_fragment((64, 64), "float16")
            total = T.alloc_fragment((64, 64), "float32")
            T.copy(A, a)
            T.copy(B, b)
            T.copy(C, c)
            T.clear(product)
            T.gemm(a, b, product)
            T.copy(product, rounded)
            T.clear(total)
            T.gemm(rounded, c, total)
            T.copy(total, D)

    a, b, c = (torch.randn(64, 64).half() for _ in range(3))
    exact = (a.float() @ b.float()).half().float() @ c.float()
    assert_close(run(place, main, a, b, c), exact, "float16", reduction=64, scale=8)


def test_a_product_whose_blocks_share_the_sum(place):
    @T.prim_func
    def main(A: T.Tensor((64, 256), "float16"), B: T.Tensor((256, 64), "float16"), C: T.Tensor((64, 64), "float32")):
        with T.Kernel(4, threads=128) as part:
            a, b = T.alloc_shared((64, 64), "float16"), T.alloc_shared((64, 64), "float16")
            c = T.alloc_fragment((64, 64), "float32")
            T.clear(c)
            T.copy(A[0, part * 64], a)
            T.copy(B[part * 64, 0], b)
            T.gemm(a, b, c)
            T.atomic_add(C, c)

    device, where = place
    a, b = torch.randn(64, 256).half(), torch.randn(256, 64).half()
    total = torch.zeros(64, 64, device=device)
    tile.compile(main, **where)(a.to(device), b.to(device), total)
    assert_close(total.cpu(), a.float() @ b.float(), reduction=256)


def test_a_histogram_of_atomic_updates(place):
    @T.prim_func
    def main(A: T.Tensor((1000,), "int32"), B: T.Tensor((16,), "int32")):
        with T.Kernel(T.ceildiv(1000, 128), threads=128) as bx:
            for i in T.Parallel(128):
                if bx * 128 + i < 1000:
                    T.atomic_add(B[A[bx * 128 + i]], 1)

    device, where = place
    a = torch.randint(0, 16, (1000,), dtype=torch.int32)
    counts = torch.zeros(16, dtype=torch.int32, device=device)
    tile.compile(main, **where)(a.to(device), counts)
    assert torch.equal(counts.cpu(), torch.bincount(a, minlength=16).int())


def test_sums_along_rows(place):
    @T.prim_func
    def main(A: T.Tensor((16, 128), "float32"), B: T.Tensor((16, 128), "float32")):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((16, 128), "float32")
            T.copy(A, a)
            T.cumsum(a, dim=1)
            T.copy(a, B)

    a = torch.randn(16, 128)
    assert_close(run(place, main, a), a.cumsum(1), reduction=128, scale=4)


def test_threads_that_the_kernel_names_meet_where_it_says(place):
    @T.prim_func
    def main(A: T.Tensor((128,), "float32"), B: T.Tensor((128,), "float32")):
        with T.Kernel(1, threads=128):
            shared = T.alloc_shared((128,), "float32")
            tx = T.get_thread_binding()
            shared[tx] = A[tx]
            T.sync_threads()
            B[tx] = shared[127 - tx]

    a = torch.randn(128)
    assert torch.equal(run(place, main, a), a.flip(0))


def test_a_transpose_through_shared_memory(place):
    @T.prim_func
    def main(A: T.Tensor((96, 70), "float16"), B: T.Tensor((70, 96), "float16")):
        with T.Kernel(3, 3, threads=128) as (bx, by):
            rows, columns = T.alloc_shared((32, 32), "float16"), T.alloc_shared((32, 32), "float16")
            T.copy(A[by * 32, bx * 32], rows)
            for i, j in T.Parallel(32, 32):
                columns[i, j] = rows[j, i]
            T.copy(columns, B[bx * 32, by * 32])

    a = torch.randn(96, 70).half()
    assert torch.equal(run(place, main, a), a.T)


def test_integers_of_64_bits(place):
    @T.prim_func
    def main(A: T.Tensor((100,), "int64"), B: T.Tensor((100,), "int64")):
        with T.Kernel(1, threads=96):
            for i in T.Parallel(100):
                B[i] = A[i] // 3 + A[i] % 7

    a = torch.randint(-(2**40), 2**40, (100,))
    assert torch.equal(run(place, main, a), a // 3 + a % 7)


@pytest.mark.layer("emulation")
@pytest.mark.parametrize(
    ("arch", "dtype", "accum", "out"),
    [
        ("sm_75", "float16", "float32", "float32"),
        ("sm_80", "float64", "float64", "float64"),
        ("sm_89", "float8_e4m3fn", "float32", "float32"),
        ("sm_89", "float8_e5m2", "float32", "float32"),
        ("sm_90a", "bfloat16", "float32", "float32"),
    ],
)
def test_a_gemm_for_other_architectures(arch, dtype, accum, out):
    kernel = tile.compile(
        gemm(64, 64, 64, dtype, accum, out),
        out_idx=[-1],
        target=f"cuda -arch={arch}",
        execution_backend="emulate",
    )
    a, b = (torch.randn(64, 64).to(getattr(torch, dtype)) for _ in range(2))
    assert_close(kernel(a, b).double(), a.double() @ b.double(), "float16" if "8" in dtype else out, reduction=64)
    assert compile_device(kernel.kernel_source, arch).cubin
