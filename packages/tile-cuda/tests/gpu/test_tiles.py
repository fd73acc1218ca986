"""Kernels on tiles through the whole pipeline, on an NVIDIA GPU."""

from __future__ import annotations

import pytest
import torch

import tile_core as tile
from tile_cuda.testing import tiles

pytestmark = pytest.mark.gpu


def run(function, *tensors):
    tile.compile(function, target="cuda -arch=sm_80")(*tensors)
    torch.cuda.synchronize()


def normal(*shape, dtype=torch.float16):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape))).to(dtype).cuda()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("stages", [0, 2, 3, 4])
def test_gemm(dtype, stages):
    a, b = normal(512, 384, dtype=dtype), normal(384, 256, dtype=dtype)
    c = torch.zeros(512, 256, device="cuda")
    name = str(dtype).removeprefix("torch.")
    run(tiles.tiled_gemm(512, 256, 384, (128, 128, 32), name, stages=stages), a, b, c)
    torch.testing.assert_close(c, a.float() @ b.float(), rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize("transpose_a", [False, True])
@pytest.mark.parametrize("transpose_b", [False, True])
def test_gemm_at_edges(transpose_a, transpose_b):
    a, b, c = normal(200, 136), normal(136, 152), torch.zeros(200, 152, device="cuda")
    function = tiles.tiled_gemm(200, 152, 136, (64, 64, 32), transpose_a=transpose_a, transpose_b=transpose_b, stages=3)
    run(function, a.T.contiguous() if transpose_a else a, b.T.contiguous() if transpose_b else b, c)
    torch.testing.assert_close(c, a.float() @ b.float(), rtol=1e-2, atol=1e-2)


def test_gemm_of_bytes():
    a = torch.randint(-8, 8, (128, 128), dtype=torch.int8)
    b = torch.randint(-8, 8, (128, 128), dtype=torch.int8)
    c = torch.zeros(128, 128, dtype=torch.int32, device="cuda")
    run(
        tiles.tiled_gemm(128, 128, 128, (64, 64, 64), "int8", "int32", "int32", transpose_b=True), a.cuda(), b.cuda(), c
    )
    assert torch.equal(c.cpu(), a.int() @ b.int().T)


@pytest.mark.parametrize(("shape", "rows"), [((256, 1024), 4), ((100, 300), 3)])
def test_softmax(shape, rows):
    x, y = normal(*shape, dtype=torch.float32), torch.zeros(*shape, device="cuda")
    run(tiles.softmax(*shape, rows), x, y)
    torch.testing.assert_close(y, torch.softmax(x, 1), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("policy", ["FullRow", "Square"])
def test_attention(policy):
    import tile_core.language as T

    q, k, v, o = normal(512, 64) / 8, normal(512, 64), normal(512, 64), normal(512, 64)
    run(tiles.attention(512, 64, 64, 64, policy=getattr(T.GemmWarpPolicy, policy)), q, k, v, o)
    expected = torch.softmax(q.float() @ k.float().T, 1) @ v.float()
    torch.testing.assert_close(o.float(), expected, rtol=2e-2, atol=2e-2)
