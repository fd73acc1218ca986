"""Vectors are as wide as the accesses to memory allow, whatever is computed between them."""

from __future__ import annotations

import pytest
import torch

import tile_core as tile
import tile_core.language as T
from tile_core.testing.compare import assert_close

TARGET = "cuda -arch=sm_80"


def doubled(count, dtype):
    """Computed in fp32."""

    @T.prim_func
    def main(X: T.Tensor((count,), dtype), Y: T.Tensor((count,), dtype)):
        with T.Kernel(T.ceildiv(count, 1024), threads=128) as bx:
            for i in T.Parallel(1024):
                Y[bx * 1024 + i] = T.exp2(T.cast(X[bx * 1024 + i], "float32")) * 0.5

    return main


@pytest.mark.parametrize(("dtype", "lanes"), [("float32", 4), ("float16", 8), ("bfloat16", 8)])
def test_16_bytes_are_loaded_and_stored_though_arithmetic_is_wider(dtype, lanes):
    source = tile.lower(doubled(4096, dtype), target=TARGET).sources["kernel.cu"]
    short = {"float32": "float", "float16": "fp16", "bfloat16": "bf16"}[dtype]
    assert source.count(f"tile::load<{short}, {lanes}>") == 1
    assert source.count("tile::store(Y") == 1


@pytest.mark.layer("emulation")
@pytest.mark.parametrize("count", [4096, 1000, 1001])
def test_wide_vectors_compute_what_narrow_ones_do(count):
    kernel = tile.compile(doubled(count, "float16"), target=TARGET, execution_backend="emulate")
    x, y = torch.randn(count).half(), torch.full((count,), float("nan"), dtype=torch.float16)
    kernel(x, y)
    assert_close(y, (torch.exp2(x.float()) * 0.5).half())
