"""Atomic updates on the CPU: many blocks, one element; tiles; every element type and kind."""

import pytest
import torch

import tile_core as tile
import tile_core.language as T

BLOCKS = 512


def updated(kind, dtype, start, values):
    """One element after all blocks have updated it."""
    operation = getattr(T, f"atomic_{kind}")

    @T.prim_func
    def main(A: T.Tensor((BLOCKS,), dtype), B: T.Tensor((2,), dtype)):
        with T.Kernel(BLOCKS) as bx:
            operation(B[1], A[bx])

    result = torch.tensor([7, start], dtype=values.dtype)
    tile.compile(main, target="cpu")(values, result)
    assert result[0] == 7
    return result[1]


@pytest.mark.parametrize("dtype", ["int8", "int32", "int64"])
def test_integers(dtype):
    torch_type = getattr(torch, dtype)
    values = torch.randint(0, 3, (BLOCKS,)).to(torch_type)
    assert updated("add", dtype, 1, values) == (values.sum() + 1).to(torch_type)
    values = torch.randint(0, 100, (BLOCKS,)).to(torch_type)
    assert updated("max", dtype, 1, values) == max(1, int(values.max()))
    assert updated("min", dtype, 1, values) == min(1, int(values.min()))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_floats(dtype):
    torch_type = getattr(torch, dtype)
    # Small whole numbers and quarters: every order of summation gives the same.
    values = (torch.randint(-2, 3, (BLOCKS,)) / 4).to(torch_type)
    assert updated("add", dtype, 1, values) == values.double().sum() + 1
    values = torch.randn(BLOCKS).to(torch_type)
    assert updated("max", dtype, -9, values) == values.max()
    assert updated("min", dtype, 9, values) == values.min()


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_a_number_wins_over_nan(dtype):
    values = torch.randn(BLOCKS).to(getattr(torch, dtype))
    largest = values.max()
    values[::7] = float("nan")
    values[1] = largest
    assert updated("max", dtype, float("nan"), values) == largest
    values[:] = float("nan")
    assert torch.isnan(updated("min", dtype, float("nan"), values))


def test_every_memory_order_counts():
    orders = ("relaxed", "consume", "acquire", "release", "acq_rel", "seq_cst")

    @T.prim_func
    def main(B: T.Tensor((6,), "int32")):
        with T.Kernel(BLOCKS):
            for i, order in enumerate(orders):
                T.atomic_add(B[i], i + 1, memory_order=order)

    result = torch.zeros(6, dtype=torch.int32)
    tile.compile(main, target="cpu")(result)
    assert result.tolist() == [BLOCKS * (i + 1) for i in range(6)]


def test_a_tile_is_added_to_a_tensor_with_odd_edges():
    @T.prim_func
    def main(A: T.Tensor((8, 30, 21), "float32"), C: T.Tensor((30, 21), "float32")):
        with T.Kernel(T.ceildiv(21, 16), T.ceildiv(30, 16), 8) as (bx, by, bz):
            c = T.alloc_fragment((16, 16), "float32")
            T.copy(A[bz, by * 16, bx * 16], c)
            T.atomic_add(C[by * 16, bx * 16], c)

    values = torch.randint(-8, 9, (8, 30, 21)).float()
    result = torch.ones(30, 21)
    tile.compile(main, target="cpu")(values, result)
    assert torch.equal(result, values.sum(0) + 1)
