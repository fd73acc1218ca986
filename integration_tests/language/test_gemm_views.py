"""T.gemm on views and parts of shared tiles: on CUDA by the matrix instructions, as for tiles of their own."""

from __future__ import annotations

import numpy as np
import pytest

import tile_core as tile
import tile_core.language as T
from integration_tests.operations.harness import CUDA, everywhere, machine_code

pytestmark = pytest.mark.layer("emulation")


def product(kind: str):
    """C = A B in steps of 32, whose operands are tiles in the way that `kind` says."""

    @T.prim_func
    def main(A: T.Tensor((64, 128), "float16"), B: T.Tensor((128, 64), "float16"), C: T.Tensor((64, 64), "float32")):
        with T.Kernel(1, threads=128):
            c = T.alloc_fragment((64, 64), "float32")
            b = T.alloc_shared((2, 32, 64), "float16")
            T.clear(c)
            if kind == "a reshaped tile":
                a = T.reshape(T.alloc_shared((64 * 32,), "float16"), (64, 32))
                for k in T.serial(4):
                    T.copy(A[0, k * 32], a)
                    T.copy(B[k * 32, 0], b[0, :, :])
                    T.gemm(a, b[0, :, :], c)
            if kind == "a stage of a reshaped tile":
                rows = T.alloc_shared((128, 32), "float16")
                a = T.view(rows, (2, 64, 32))
                for k in T.serial(4):
                    T.copy(A[0, k * 32], rows[k % 2 * 64 : k % 2 * 64 + 64, :])
                    T.copy(B[k * 32, 0], b[k % 2, :, :])
                    T.gemm(a[k % 2, :, :], b[k % 2, :, :], c)
            if kind == "bytes":
                a = T.view(T.alloc_shared((64, 64), "uint8"), (64, 32), "float16")
                for k in T.serial(4):
                    T.copy(A[0, k * 32], a)
                    T.copy(B[k * 32, 0], b[1, :, :])
                    T.gemm(a, b[1, :, :], c)
            if kind == "a reshaped tile in a pipeline":
                a = T.reshape(T.alloc_shared((64 * 32,), "float16"), (64, 32))
                own = T.alloc_shared((32, 64), "float16")
                for k in T.Pipelined(4, num_stages=2):
                    T.copy(A[0, k * 32], a)
                    T.copy(B[k * 32, 0], own)
                    T.gemm(a, own, c)
            if kind == "a transposed view":
                a = T.alloc_shared((64, 32), "float16")
                turned = T.reshape(T.alloc_shared((32, 64), "float16"), (64, 32))
                for k in T.serial(4):
                    T.copy(A[0, k * 32], a)
                    for i, j in T.Parallel(64, 32):
                        turned[i, j] = B[k * 32 + j, i]
                    T.gemm(a, turned, c, transpose_B=True)
            T.copy(c, C)

    return main


KINDS = (
    "a reshaped tile",
    "a stage of a reshaped tile",
    "bytes",
    "a reshaped tile in a pipeline",
    "a transposed view",
)


@pytest.mark.parametrize("kind", KINDS)
def test_views_of_shared_tiles_go_to_the_matrix_instructions(kind):
    source = tile.lower(product(kind), target=CUDA).sources["kernel.cu"]
    assert "tile::mma_" in source and source.count("tile::ldmatrix<4, ") >= 2
    if "pipeline" in kind:
        # Both tiles, in the prologue and in the loop.
        assert source.count("tile::cp_async<16>") == 4


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS[1:4])
def test_products_of_views(kind):
    machine_code(product(kind))
    random = np.random.default_rng(0)
    a = random.integers(-3, 4, (64, 128)).astype("float16")
    b = random.integers(-3, 4, (128, 64)).astype("float16")
    zeros, schedules = np.zeros((64, 64), "float32"), ("latest", "random")
    for way, (_, _, c) in everywhere(product(kind), a, b, zeros, schedules=schedules).items():
        assert np.array_equal(c, a.astype("float32") @ b.astype("float32")), way
