"""Whole kernels: their text, their line map, their machine code, and what they compute in the emulator."""

from __future__ import annotations

import json

import numpy as np
import pytest

from tile_core.dtypes import DType
from tile_core.errors import CompileError
from tile_core.ir import (
    AccessPtr,
    Block,
    Buffer,
    BufferLoad,
    BufferStore,
    Call,
    Evaluate,
    For,
    KernelLaunch,
    PrimFunc,
    Ramp,
    Select,
    Stmt,
    StringImm,
    Var,
    as_shape,
    cast,
    const,
    seq,
)
from tile_core.source import Span
from tile_cuda.device import intrinsics as device
from tile_cuda.target import ARCHITECTURES
from tile_cuda.testing import add_one, fill, gemm

F16, F32, U8, INT32 = DType("float16"), DType("float32"), DType("uint8"), DType("int32")
ZERO = const(0, "int32")


def one_thread(body: Stmt, *params: Buffer, threads: int = 1, name: str = "f") -> PrimFunc:
    tx = Var("tx")
    return PrimFunc(
        name, params, KernelLaunch((Var("bx"),), (const(1, "int32"),), (tx,), (const(threads, "int32"),), body)
    )


def body_of(text: str) -> list[str]:
    """Lines inside the kernel, without indices."""
    lines = text[text.index('extern "C"') :].rstrip().splitlines()[1:-1]
    return [line.strip() for line in lines if " = (int32_t)" not in line]


def test_a_kernel_prints_as_it_reads(flat):
    text = flat(add_one(shared_bytes=512)).kernel
    assert (
        text
        == """\
#include "tile_cuda.h"

using tile::bf16;
using tile::e4m3;
using tile::e5m2;
using tile::fp16;

extern "C" __global__ void __launch_bounds__(32) add_one_kernel(float* __restrict__ A, float* __restrict__ B) {
  TILE_SHARED(shared_memory, 512);
  float* staged = (float*)(shared_memory + 0);
  const int32_t bx = (int32_t)blockIdx.x;
  const int32_t tx = (int32_t)threadIdx.x;
  tile::store(staged + (tx * 4), (tile::load<float, 4>(A + ((bx * 128) + (tx * 4))) + tile::broadcast<float, 4>(1.0f)));
  tile::sync_threads(TILE_SYNC(0));
  tile::store(B + ((bx * 128) + (tx * 4)), tile::load<float, 4>(staged + (tx * 4)));
}
"""
    )


def test_the_same_ir_gives_the_same_bytes(flat):
    assert flat(gemm(256, 256, 64)).sources == flat(gemm(256, 256, 64)).sources


def test_registers_are_named_one_by_one_and_views_of_the_arena_are_pointers(flat):
    arena = Buffer("arena", as_shape((256,)), U8, "shared")
    view = Buffer("view", as_shape((16,)), F16, "shared", data=arena, offset=const(64, "int32"))
    out, regs = Buffer("out", as_shape((4,)), F16), Buffer("regs", as_shape((4,)), F32, "local")
    i = Var("i")
    fill_regs = For(i, ZERO, const(4, "int32"), "unroll", BufferStore(regs, const(0.5, F32), (i,)))
    four = Ramp(ZERO, const(1, "int32"), 4)
    body = seq(
        fill_regs,
        BufferStore(view, cast(BufferLoad(regs, (four,)), F16.with_lanes(4)), (four,)),
        BufferStore(out, BufferLoad(view, (four,)), (four,)),
    )
    kernel = flat(one_thread(Block((arena, regs), body), out))
    assert body_of(kernel.kernel) == [
        "TILE_SHARED(arena, 256);",
        "fp16* view = (fp16*)(arena + 64);",
        "TILE_LOCAL(float, regs, 4);",
        "#pragma unroll",
        "for (int32_t i = 0; i < 4; ++i) {",
        "regs[i] = 0.5f;",
        "}",
        "tile::store(view, tile::convert<fp16>(tile::gather<float, 4>(regs, 1)));",
        "tile::store(out, tile::load<fp16, 4>(view));",
    ]
    buffers = json.loads(kernel.sources["lines.json"])["buffers"]
    place = {"kernel": "f_kernel", "name": "view", "scope": "shared", "offset": 64, "bytes": 32, "storage": "view"}
    assert buffers == [place]
    result = np.zeros(4, np.float16)
    kernel.emulate(result, threads=1, shared=256)
    np.testing.assert_array_equal(result, np.full(4, 0.5, np.float16))


@pytest.mark.parametrize(
    ("value", "dtype", "text"),
    [
        (1.0, "float16", "tile::bit_cast<fp16>(uint16_t(0x3c00))"),
        (1e6, "float16", "tile::bit_cast<fp16>(uint16_t(0x7c00))"),
        (-2.0, "bfloat16", "tile::bit_cast<bf16>(uint16_t(0xc000))"),
        (float("nan"), "bfloat16", "tile::bit_cast<bf16>(uint16_t(0x7fff))"),
        (float("inf"), "float32", "(INFINITY)"),
        (0.5, "float8_e4m3fn", "e4m3(0.5f)"),
    ],
)
def test_constants_print_as_what_they_are(value, dtype, text, flat):
    out = Buffer("out", as_shape((1,)), DType(dtype))
    printed = flat(one_thread(BufferStore(out, const(value, dtype), (ZERO,)), out)).kernel
    assert body_of(printed) == [f"out[0] = {text.strip('()') if dtype == 'float32' else text};"]


@pytest.mark.parametrize(
    ("order", "text"),
    [
        ("relaxed", "tile::atomic_add<float>((out), 2.0f);"),
        ("release", "(tile::fence_device(), tile::atomic_add<float>((out), 2.0f));"),
        ("seq_cst", "(tile::fence_device(), tile::atomic_add<float>((out), 2.0f), tile::fence_device());"),
    ],
)
def test_an_atomic_update_is_fenced_as_its_order_says(order, text, flat):
    out = Buffer("out", as_shape((1,)), F32)
    address = AccessPtr(out, (ZERO,), const(1, "int32"), "rw")
    call = Call("atomic_add", (address, const(2.0, F32), StringImm(order)), DType("void"))
    assert body_of(flat(one_thread(Evaluate(call), out)).kernel) == [text]


def test_an_update_of_a_register_is_plain(flat):
    out, total = Buffer("out", as_shape((1,)), F32), Buffer("total", as_shape((1,)), F32, "local")
    address = AccessPtr(total, (ZERO,), const(1, "int32"), "rw")
    update = Evaluate(Call("atomic_max", (address, const(2.0, F32), StringImm("relaxed")), DType("void")))
    body = seq(
        BufferStore(total, const(0.0, F32), (ZERO,)), update, BufferStore(out, BufferLoad(total, (ZERO,)), (ZERO,))
    )
    assert "total[0] = tile::op_max()(total[0], float(2.0f));" in body_of(
        flat(one_thread(Block((total,), body), out)).kernel
    )


def test_loops_with_instructions_in_them_stay_loops(flat):
    out, i, j = Buffer("out", as_shape((8,)), F32), Var("i"), Var("j")
    heavy = For(i, ZERO, const(8, "int32"), "serial", device.sync_threads())
    light = For(j, ZERO, const(8, "int32"), "serial", BufferStore(out, const(0.0, F32), (j,)))
    lines = body_of(flat(one_thread(seq(heavy, light), out)).kernel)
    assert lines[:2] == ["#pragma unroll 1", "for (int32_t i = 0; i < 8; ++i) {"]
    assert lines[4] == "for (int32_t j = 0; j < 8; ++j) {"


def test_generated_lines_lead_to_the_kernels(flat):
    out = Buffer("out", as_shape((1,)), F32)
    first = BufferStore(out, const(1.0, F32), (ZERO,), span=Span("k.py", 7, 4))
    second = device.sync_threads(span=Span("k.py", 9, 4))
    kernel = flat(one_thread(seq(first, second), out))
    found = json.loads(kernel.sources["lines.json"])
    lines = kernel.kernel.splitlines()
    (sync,) = found["syncs"]
    assert sync[0] == 0 and sync[2] == "sync_threads" and "sync_threads" in lines[sync[1] - 1]
    assert found["lines"][str(sync[1])] == {"file": "k.py", "line": 9, "column": 5}
    store = next(i for i, line in enumerate(lines, 1) if "out[0]" in line)
    assert found["lines"][str(store)]["line"] == 7
    assert found["kernels"] == [{"name": "f_kernel", "threads": 1, "shared_bytes": 0}]


def test_an_instruction_that_the_architecture_lacks_is_an_error_with_its_line(flat):
    with pytest.raises(CompileError) as caught:
        flat(gemm(128, 128, 32), "sm_75")
    assert (caught.value.code, caught.value.summary, caught.value.help) == (
        "E-CUDA-FEATURE",
        "cp_async needs sm_80, and the target is sm_75",
        "compile for cuda -arch=sm_80 or newer",
    )


def test_too_much_shared_memory_names_the_buffers(flat):
    with pytest.raises(CompileError) as caught:
        flat(add_one(shared_bytes=100 * 1024), "sm_86")
    assert caught.value.code == "E-CUDA-SHARED"
    assert caught.value.summary == "add_one_kernel needs 102400 bytes of shared memory a block; sm_86 has 101376"
    assert list(caught.value.facts) == ["staged: 102400 bytes at 0"]


def test_too_many_threads_and_clusters_are_errors(flat):
    out = Buffer("out", as_shape((1,)), F32)
    function = one_thread(BufferStore(out, const(1.0, F32), (ZERO,)), out, threads=2048)
    with pytest.raises(CompileError) as caught:
        flat(function)
    assert caught.value.code == "E-CUDA-THREADS"
    assert caught.value.summary == "f_kernel asks for 2048 threads a block; a block has at most 1024"
    launch = one_thread(BufferStore(out, const(1.0, F32), (ZERO,)), out).body
    with pytest.raises(CompileError) as caught:
        flat(PrimFunc("f", (out,), launch.with_(cluster=(2,))))
    assert caught.value.code == "E-CUDA-FEATURE"
    assert caught.value.summary == "f_kernel asks for clusters of 2 blocks, which this version does not launch"


def test_a_choice_without_lanes_is_a_conditional(flat):
    out = Buffer("out", as_shape((1,)), F32)
    value = Select(const(True, "bool"), const(1.0, F32), const(2.0, F32))
    assert body_of(flat(one_thread(BufferStore(out, value, (ZERO,)), out)).kernel) == ["out[0] = (true ? 1.0f : 2.0f);"]


@pytest.mark.layer("nvrtc")
@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_kernels_become_machine_code_for_every_architecture(arch, flat):
    function = gemm(256, 256, 128) if ARCHITECTURES[arch].number >= 80 else add_one(shared_bytes=512)
    binaries = flat(function, arch).build()
    assert sorted(binaries) == ["kernel.cubin", "kernel.ptx", "kernel.so", "ptxas.txt"]
    assert binaries["kernel.cubin"] in binaries["kernel.so"] and binaries["kernel.ptx"] in binaries["kernel.so"]
    assert f".target {arch}".encode() in binaries["kernel.ptx"]


@pytest.mark.layer("emulation")
def test_a_pipelined_gemm_is_right_and_free_of_races(flat):
    random = np.random.default_rng(0)
    for k in (32, 64, 96):
        a, b = (random.standard_normal(shape).astype(np.float16) for shape in ((128, k), (k, 128)))
        d = np.zeros((128, 128), np.float16)
        flat(gemm(128, 128, k)).emulate(a, b, d, threads=128, shared=32768)
        np.testing.assert_allclose(d, a.astype(np.float32) @ b.astype(np.float32), rtol=2e-3, atol=2e-2)


@pytest.mark.layer("emulation")
def test_threads_share_through_the_arena(flat):
    a = np.arange(1024, dtype=np.float32)
    b = np.zeros_like(a)
    flat(add_one(shared_bytes=512)).emulate(a, b, grid=(8,), threads=32, shared=512)
    np.testing.assert_array_equal(b, a + 1)


def test_a_kernel_without_inputs_allocates_where_the_caller_is(flat):
    text = flat(fill().with_attr("out_idx", (0,))).sources["host.c"]
    assert "(DLDevice){kDLCUDA, tile_current_device()}" in text
