"""Arithmetic of half numbers on vectors: the machine's own, where it has it, rounds as the language says."""

import pytest
import torch

import tile_core as tile
import tile_core.language as T


@pytest.mark.parametrize("count", [7, 8, 20, 32, 4096])
def test_a_product_is_rounded_before_it_is_added_to(count):
    @T.prim_func
    def main(A: T.Tensor((count,), "float16"), B: T.Tensor((count,), "float16"), C: T.Tensor((count,), "float16")):
        with T.Kernel(1, threads=32) as _:
            for i in T.Parallel(count):
                C[i] = A[i] * B[i] + C[i] - A[i] / B[i]

    a, b, c = (torch.randn(count).half() for _ in range(3))
    expected = (a * b + c) - a / b
    tile.compile(main, target="cpu")(a, b, c)
    assert torch.equal(c, expected)
