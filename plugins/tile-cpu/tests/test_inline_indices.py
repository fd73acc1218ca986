"""Named indices in parallel loops: code is as wide as where the index stands in place of its name."""

import numpy as np
import pytest
import torch

import tile_core as tile
import tile_core.language as T
from tile_core.testing.compare import assert_close


def scaled(n, named):
    """Y = exp(X) * f, with the bound asked by the kernel, and the factor read inside the loop."""

    @T.prim_func
    def main(X: T.Tensor((4, n), "float16"), Y: T.Tensor((4, n), "float16")):
        with T.Kernel(4) as row:
            factor = T.alloc_fragment((1,), "float32")
            T.fill(factor, 0.5)
            for k in T.serial(T.ceildiv(n, 256)):
                for j in T.Parallel(256):
                    if named:
                        column = k * 256 + j
                        value = T.cast(X[row, column], "float32")
                        Y[row, column] = T.exp(value) * factor[0]
                    else:
                        Y[row, k * 256 + j] = T.exp(T.cast(X[row, k * 256 + j], "float32")) * factor[0]

    return main


@pytest.mark.parametrize("n", [1024, 1000])
def test_a_named_index_makes_no_gather(n):
    source = tile.lower(scaled(n, True), target="cpu").sources["kernel.cpp"]
    assert "gather" not in source and "scatter" not in source
    assert "tile::load<tile::fp16>(tile::full<" in source


@pytest.mark.parametrize("n", [1024, 1000, 3])
@pytest.mark.parametrize("named", [True, False])
def test_they_compute_the_same(n, named):
    x, y = torch.randn(4, n).half(), torch.full((4, n), float("nan"), dtype=torch.float16)
    tile.compile(scaled(n, named), target="cpu")(x, y)
    assert_close(y, (x.float().exp() * 0.5).half())


def test_a_name_for_something_read_from_memory_stays():
    @T.prim_func
    def main(X: T.Tensor((64,), "float32"), I: T.Tensor((64,), "int32"), Y: T.Tensor((64,), "float32")):
        with T.Kernel(1):
            for j in T.Parallel(64):
                place = I[j]
                Y[j] = X[place] + T.cast(place, "float32")

    x, i, y = (
        torch.randn(64),
        torch.from_numpy(np.random.default_rng(0).permutation(64).astype("int32")),
        torch.empty(64),
    )
    tile.compile(main, target="cpu")(x, i, y)
    assert_close(y, x[i.long()] + i.float())
