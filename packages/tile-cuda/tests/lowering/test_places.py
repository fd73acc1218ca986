"""Where iterations and the tiles that they touch are placed: nobody repeats what another thread could do."""

from __future__ import annotations

import pytest

import tile_core.language as T
from tile_core.api import lower


def source(function):
    return lower(function, target="cuda -arch=sm_80").sources["kernel.cu"]


def online_softmax(n):
    @T.prim_func
    def main(X: T.Tensor((64, n), "float32"), Y: T.Tensor((64, n), "float32")):
        with T.Kernel(16, threads=128) as bx:
            x = T.alloc_fragment((4, 256), "float32")
            part = T.alloc_fragment((4,), "float32")
            total = T.alloc_fragment((4,), "float32")
            T.clear(total)
            for k in T.serial(T.ceildiv(n, 256)):
                T.copy(X[bx * 4, k * 256], x)
                T.reduce_sum(x, part, dim=1)
                for i in T.Parallel(4):
                    total[i] = total[i] + part[i]
            for k in T.serial(T.ceildiv(n, 256)):
                for i, j in T.Parallel(4, 256):
                    Y[bx * 4 + i, k * 256 + j] = X[bx * 4 + i, k * 256 + j] / total[i]

    return main


def test_a_tile_follows_what_it_is_computed_with_rather_than_its_fill():
    # Both tiles of rows lie where the reduction leaves its results, so neither passes through shared memory.
    assert "total_exchange" not in source(online_softmax(2048))


def test_threads_that_hold_one_element_share_the_iterations_that_read_it():
    text = source(online_softmax(2048))
    last = text[text.rindex("for (int32_t k") :]
    assert "if (" not in last, "one thread of a row would do the whole row"
    assert "load<float, 4>" in last


@pytest.mark.parametrize("n", [777, 1000, 1024])
def test_an_axis_of_one_iteration_does_not_make_every_thread_hold_the_tile(n):
    @T.prim_func
    def main(X: T.Tensor((8, n), "float32"), Y: T.Tensor((8, n), "float32")):
        with T.Kernel(8, threads=128) as bx:
            total = T.alloc_fragment((1, n), "float32")
            x = T.alloc_fragment((1, n), "float32")
            T.clear(total)
            for i, j in T.Parallel(1, n):
                x[i, j] = X[bx, j]
            for i, j in T.Parallel(1, n):
                total[i, j] += x[i, j]
            T.copy(total, Y[bx, 0])

    text = source(main)
    assert f"TILE_LOCAL(float, x, {-(-n // 128)});" in text
