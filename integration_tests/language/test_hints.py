"""Hints about speed: what each becomes in CUDA code, and that none changes what a kernel means."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

import tile_core as tile
import tile_core.language as T
from integration_tests.operations.harness import CUDA, everywhere, machine_code
from tile_core.errors import CompileError

pytestmark = pytest.mark.layer("emulation")


def streamed(dtype: str, policy: str, columns: int = 250):
    @T.prim_func
    def main(A: T.Tensor((32, 256), dtype), B: T.Tensor((32, columns), dtype)):
        with T.Kernel(1, threads=128):
            tile_ = T.alloc_shared((32, 32), dtype)
            rows = T.alloc_fragment((32, 32), dtype)
            for k in T.Pipelined(8, num_stages=2):
                T.copy(A[0, k * 32], tile_, eviction_policy=policy)
                T.copy(tile_, rows)
                T.copy(rows, B[0, k * 32], eviction_policy=policy)

    return main


@pytest.mark.slow
@pytest.mark.parametrize(("dtype", "columns"), [("float16", 250), ("int8", 251), ("float64", 256)])
def test_an_eviction_policy_goes_with_each_access_through_registers(dtype, columns):
    source = machine_code(streamed(dtype, "evict_last", columns))
    # The device compiler makes illegal instructions of cp.async with a policy.
    assert "tile::cp_async<16>" in source and "tile::store_cached<tile::evict_last>" in source
    assert "tile::store(B" not in source
    assert "evict" not in machine_code(streamed(dtype, "evict_normal", columns))
    a = np.random.default_rng(0).integers(0, 50, (32, 256)).astype(dtype)
    for way, (_, b) in everywhere(streamed(dtype, "evict_first", columns), a, np.zeros((32, columns), dtype)).items():
        assert np.array_equal(b, a[:, :columns]), way


def test_loads_through_registers_have_the_policy_too():
    @T.prim_func
    def main(A: T.Tensor((1, 6, 6, 8), "float16"), B: T.Tensor((36, 72), "float16"), C: T.Tensor((3, 5), "int8")):
        with T.Kernel(1, threads=64):
            patches = T.alloc_shared((36, 72), "float16")
            T.im2col(A, patches, 0, 0, 3, 1, 1, 1, eviction_policy="evict_first")
            T.copy(patches, B)
            odd = T.alloc_shared((3, 5), "int8")
            T.copy(C, odd, eviction_policy="evict_last")
            for i, j in T.Parallel(3, 5):
                C[i, j] = odd[2 - i, j]

    source = machine_code(main)
    assert "tile::load_cached<tile::evict_first, fp16, 8>" in source
    assert "tile::load_cached<tile::evict_last, int8_t, 1>" in source


@pytest.mark.slow
def test_a_nest_that_prefers_it_copies_asynchronously():
    @T.prim_func
    def pipelined(A: T.Tensor((64, 256), "float16"), B: T.Tensor((64, 256), "float16")):
        with T.Kernel(1, threads=128):
            tile_ = T.alloc_shared((64, 32), "float16")
            for k in T.Pipelined(8, num_stages=3):
                for i, j in T.Parallel(64, 32, prefer_async=True):
                    tile_[i, j] = A[i, k * 32 + j]
                for i, j in T.Parallel(64, 32):
                    B[i, k * 32 + j] = tile_[63 - i, j] * 2

    @T.prim_func
    def alone(A: T.Tensor((70, 256), "float16"), B: T.Tensor((64, 256), "float16")):
        with T.Kernel(2, 2, threads=128) as (bx, by):
            tile_ = T.alloc_shared((32, 128), "float16")
            for i, j in T.Parallel(32, 128, prefer_async=True):
                tile_[i, j] = A[by * 32 + i + 6, bx * 128 + j]
            for i, j in T.Parallel(32, 128):
                B[by * 32 + i, bx * 128 + j] = tile_[i, 127 - j]

    assert "tile::cp_async<16>" in machine_code(pipelined) and "tile::cp_async<" in machine_code(alone)
    a = np.random.default_rng(0).integers(0, 50, (70, 256)).astype("float16")
    zeros, schedules = np.zeros((64, 256), "float16"), ("in_order", "latest", "random")
    for way, (_, b) in everywhere(pipelined, a[:64], zeros, schedules=schedules).items():
        assert np.array_equal(b, a[:64][::-1] * 2), way
    for way, (_, b) in everywhere(alone, a, zeros, schedules=schedules).items():
        assert np.array_equal(b, a[6:].reshape(64, 2, 128)[:, :, ::-1].reshape(64, 256)), way


@pytest.mark.parametrize("value", ["A[i, j] + 1", "A[j, i]", "A[i, 2 * j % 32]", "T.if_then_else(i > 3, A[i, j], 0)"])
def test_a_nest_that_does_more_than_copy_stays_one(value):
    from tile_core.frontend import from_source

    text = f"""
@T.prim_func
def main(A: T.Tensor((32, 32), "float16"), B: T.Tensor((32, 32), "float16")):
    with T.Kernel(1, threads=64):
        tile_ = T.alloc_shared((32, 32), "float16")
        for i, j in T.Parallel(32, 32, prefer_async=True):
            tile_[i, j] = {value}
        T.copy(tile_, B)
"""
    main = from_source(text, {"T": T}, name="main")
    assert "cp_async" not in machine_code(main)


def kept(rows: Any):
    @T.prim_func
    def main(A: T.Tensor((rows, 64), "float16"), B: T.Tensor((rows, 64), "float16")):
        with T.Kernel(rows, threads=64) as bx:
            T.annotate_l2_hit_ratio({B: 0.75})
            for i in T.Parallel(64):
                B[bx, i] = A[bx, i] + 1

    return main


@pytest.mark.parametrize("rows", [4, T.dynamic("m")], ids=["static", "dynamic"])
def test_a_tensor_that_should_stay_in_the_cache_is_the_launchs_window(rows):
    main = kept(rows)
    a = np.arange(256, dtype="float16").reshape(4, 64)
    for way, (_, b) in everywhere(main, a, np.zeros_like(a)).items():
        assert np.array_equal(b, a + 1), way
    sources = tile.lower(main, target=CUDA).sources
    assert ".hit_ratio = 0.75f" in sources["host.c"]
    assert json.loads(sources["lines.json"])["kernels"][0]["l2_window"] == [1, 0.75]


def test_a_launch_has_one_window():
    with pytest.raises(CompileError, match="E-ANNOTATE") as caught:

        @T.prim_func
        def main(A: T.Tensor((64,), "float16"), B: T.Tensor((64,), "float16")):
            with T.Kernel(1, threads=64):
                T.annotate_l2_hit_ratio({A: 0.5, B: 0.5})
                T.copy(A, B)

        main.script()
    assert "found A, B" in str(caught.value)
