"""Products of 16 bits go to global memory by way of shared memory, 16 bytes a thread in whole rows."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import tile_core as tile
import tile_core.language as T
from tile_core.testing.compare import assert_close
from tile_cuda.testing import tiles
from tile_cuda.testing.banks import bank_accesses

TARGET = "cuda -arch=sm_80"


def product(m, n, k, block=(64, 64, 32), out="float16", **how):
    return tiles.tiled_gemm(m, n, k, block, out=out, **how)


def last_copy(function, **options):
    """(candidate of the copy to the result, why "staged" was not taken or None)."""
    artifact = tile.lower(function, target=TARGET, pass_configs=options)
    choice = [c for c in artifact.choices if c.op.name == "copy"][-1]
    return choice.taken, dict(choice.considered).get("staged")


def test_rows_leave_in_pieces_of_16_bytes():
    artifact = tile.lower(product(256, 256, 64), target=TARGET)
    assert "tile::store(C + " in artifact.sources["kernel.cu"]
    assert "tile::load<fp16, 8>(c_staged" in artifact.sources["kernel.cu"]


@pytest.mark.parametrize("block", [(64, 64, 32), (128, 128, 32), (64, 128, 32), (32, 128, 32)], ids=str)
def test_no_two_lanes_meet_in_a_bank(block):
    found = bank_accesses(tile.lower(product(256, 256, 64, block), target=TARGET).module)
    staged = [a for a in found if a.tile.startswith("c_staged")]
    assert {a.kind for a in staged} == {"load", "store"}
    assert all(a.trips == a.least for a in staged)


@pytest.mark.parametrize(
    ("function", "options", "reason"),
    [
        (product(64, 64, 64, out="float32"), {}, "lanes that hold float32 fill sectors of memory by themselves"),
        (product(64, 63, 64), {}, "rows of C are not known to begin and end at multiples of 16 bytes"),
        (product(128, 128, 64, (128, 128, 64), stages=4), {}, "shared memory has no room for the tile"),
        (product(64, 64, 64), {"tl.disable_staged_stores": True}, "tl.disable_staged_stores is set"),
        (tiles.swapped(64, 64, 32), {}, "only tiles in registers are staged"),
    ],
)
def test_what_is_not_staged_says_why(function, options, reason):
    taken, why = last_copy(function, **options)
    assert taken == "threads"
    assert why.startswith(reason)


def test_a_tile_that_lies_in_rows_is_stored_from_where_it_is():
    @T.prim_func
    def main(X: T.Tensor((64, 256), "float16"), Y: T.Tensor((64, 256), "float16")):
        with T.Kernel(4, threads=128) as bx:
            x = T.alloc_fragment((16, 256), "float16")
            T.copy(X[bx * 16, 0], x)
            for i, j in T.Parallel(16, 256):
                x[i, j] = x[i, j] * 2.0
            T.copy(x, Y[bx * 16, 0])

    assert "x_staged" not in tile.lower(main, target=TARGET).sources["kernel.cu"]


@pytest.mark.layer("emulation")
@pytest.mark.parametrize(("m", "n"), [(64, 64), (70, 72), (1, 8), (65, 200)])
def test_tiles_at_the_edges(m, n):
    kernel = tile.compile(product(m, n, 32), target=TARGET, execution_backend="emulate")
    a, b = torch.randn(m, 32).half(), torch.randn(32, n).half()
    c = torch.full((m, n), float("nan"), dtype=torch.float16)
    kernel(a, b, c)
    assert_close(c, a @ b, reduction=32, scale=8)


@pytest.mark.layer("emulation")
def test_tile_after_tile_in_a_block_with_batches_and_another_type():
    """Shared memory is used again by the next tile's operands: the emulator finds who does not wait."""

    @T.prim_func
    def main(
        A: T.Tensor((3, 64, 32), "bfloat16"), B: T.Tensor((3, 32, 64), "bfloat16"), C: T.Tensor((3, 64, 64), "bfloat16")
    ):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((64, 16), "bfloat16")
            b = T.alloc_shared((16, 64), "bfloat16")
            c = T.alloc_fragment((64, 64), "float32")
            for batch in T.serial(3):
                T.clear(c)
                for k in T.Pipelined(2, num_stages=2):
                    T.copy(A[batch, :, k * 16 : (k + 1) * 16], a)
                    T.copy(B[batch, k * 16 : (k + 1) * 16, :], b)
                    T.gemm(a, b, c)
                T.copy(c, C[batch, :, :])

    kernel = tile.compile(main, target=TARGET, execution_backend="emulate")
    assert "c_staged" in kernel.get_kernel_source()
    a, b = torch.randn(3, 64, 32).bfloat16(), torch.randn(3, 32, 64).bfloat16()
    c = torch.full((3, 64, 64), float("nan"), dtype=torch.bfloat16)
    kernel(a, b, c)
    assert_close(c, a.float().matmul(b.float()).bfloat16(), reduction=32, scale=8)
    assert np.isfinite(c.float().numpy()).all()
