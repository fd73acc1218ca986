"""Whole kernels in the emulator: right numbers, and no race, missing wait, misaligned or stray access."""

from __future__ import annotations

import pytest
import torch

import tile_core as tile
import tile_core.language as T
from tile_cuda.testing import tiles
from tile_cuda.toolchain.nvrtc import compile_device


def run(function, *tensors):
    """Runs a kernel, which the emulator must find clean."""
    tile.compile(function, target="cuda -arch=sm_80", execution_backend="emulate")(*tensors)


def normal(*shape, dtype=torch.float16):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape))).to(dtype)


def close(found, expected, tolerance):
    torch.testing.assert_close(found.float(), expected.float(), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("k", [32, 64, 96, 256])
@pytest.mark.parametrize("stages", [0, 2, 3])
def test_pipelined_gemm(k, stages):
    a, b, c = normal(64, k), normal(k, 64), torch.zeros(64, 64)
    run(tiles.tiled_gemm(64, 64, k, (64, 64, 32), stages=stages), a, b, c)
    close(c, a.float() @ b.float(), 1e-2)


def test_gemm_at_edges():
    a, b, c = normal(70, 48), normal(88, 48), torch.zeros(70, 88)
    run(tiles.tiled_gemm(70, 88, 48, (32, 64, 32), transpose_b=True), a, b, c)
    close(c, a.float() @ b.float().T, 1e-2)


def test_gemm_of_bytes():
    a = torch.randint(-8, 8, (64, 64), dtype=torch.int8)
    b = torch.randint(-8, 8, (64, 64), dtype=torch.int8)
    c = torch.zeros(64, 64, dtype=torch.int32)
    run(tiles.tiled_gemm(64, 64, 64, (64, 64, 32), "int8", "int32", "int32", transpose_b=True), a, b, c)
    assert torch.equal(c, a.int() @ b.int().T)


def test_gemm_without_matrix_instructions():
    a, b, c = normal(32, 32, dtype=torch.float32), normal(32, 32, dtype=torch.float32), torch.zeros(32, 32)
    run(tiles.tiled_gemm(32, 32, 32, (32, 32, 16), "float32"), a, b, c)
    close(c, a @ b, 1e-4)


@pytest.mark.parametrize(
    ("shape", "rows", "threads"), [((32, 64), 16, 128), ((8, 1024), 4, 128), ((10, 100), 3, 128), ((8, 64), 4, 96)]
)
def test_softmax(shape, rows, threads):
    x, y = normal(*shape, dtype=torch.float32), torch.zeros(*shape)
    run(tiles.softmax(*shape, rows, threads), x, y)
    close(y, torch.softmax(x, 1), 1e-5)


@pytest.mark.parametrize("axis", [0, 1])
def test_reductions(axis):
    x = normal(32, 48, dtype=torch.float32)
    y = torch.zeros(48 if axis == 0 else 32)
    run(tiles.reduce(32, 48, axis), x, y)
    close(y, x.sum(axis), 1e-4)


def test_scan_through_shared_memory():
    x, y = normal(12, 20, dtype=torch.float32), torch.zeros(12, 20)
    run(tiles.column_scan(12, 20), x, y)
    close(y, x.cumsum(0), 1e-4)


def test_transpose():
    a, b = normal(50, 70, dtype=torch.float32), torch.zeros(70, 50)
    run(tiles.swapped(50, 70, 32), a, b)
    assert torch.equal(b, a.T)


@pytest.mark.parametrize("policy", [T.GemmWarpPolicy.FullRow, T.GemmWarpPolicy.Square])
def test_attention(policy):
    q, k, v, o = normal(128, 32), normal(128, 32) + 0.25, normal(128, 32) - 0.5, torch.zeros(128, 32).half()
    run(tiles.attention(128, 32, 64, 32, policy=policy), q, k, v, o)
    close(o, torch.softmax(q.float() @ k.float().T, 1) @ v.float(), 2e-2)


@pytest.mark.parametrize(
    ("function", "arch"),
    [
        (tiles.tiled_gemm(256, 256, 256, (128, 128, 32), stages=3), "sm_80"),
        (tiles.tiled_gemm(64, 64, 64, (64, 64, 32)), "sm_75"),
        (tiles.tiled_gemm(64, 64, 64, (64, 64, 32), "bfloat16"), "sm_90a"),
        (tiles.softmax(64, 1024, 4), "sm_80"),
        (tiles.attention(256, 64, 64, 64), "sm_86"),
    ],
    ids=["gemm", "gemm-sm75", "gemm-sm90a", "softmax", "attention"],
)
def test_the_device_compiler_takes_the_source(function, arch):
    source = tile.lower(function, target=f"cuda -arch={arch}").sources["kernel.cu"]
    assert compile_device(source, arch).cubin
