"""Rows of a length that threads do not divide evenly: apart from each other, with registers empty behind their end."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import tile_core as tile
import tile_core.language as T
from tile_core.testing.compare import assert_close
from tile_cuda.layouts import Places, coalesced, in_rows, padded, reduced
from tile_cuda.testing import tiles

TARGET = "cuda -arch=sm_80"


@pytest.mark.parametrize(
    ("shape", "threads", "vector"),
    [
        ((4, 777), 128, 1), ((4, 100), 128, 4), ((16, 52), 128, 4),
        ((8, 12), 64, 1), ((8, 48), 64, 4), ((2, 4, 96), 128, 1), ((8, 33), 64, 1), ((2, 1001), 256, 1),
    ],
)  # fmt: skip
def test_every_row_has_threads_of_its_own(shape, threads, vector):
    fragment = in_rows(shape, threads, vector)
    owners = fragment.tables()[0].reshape(-1, shape[-1])
    sets = [set(row) for row in owners.tolist()]
    assert all(a == b or not a & b for a in sets for b in sets)
    result = reduced(fragment, [len(shape) - 1])
    assert result is not None and result.regs <= -(-len(sets) * len(sets[0]) // threads)


@pytest.mark.parametrize("shape", [(4, 256), (1, 777), (4, 512), (777,)])
def test_where_threads_divide_rows_or_there_is_one_nothing_changes(shape):
    assert in_rows(shape, 128, 1) == coalesced(shape, 128, 1)


def test_rows_that_would_leave_many_registers_empty_share_threads():
    assert in_rows((5, 130), 128, 1) == coalesced((5, 130), 128, 1)


def test_what_lies_in_a_register_is_told_by_a_closed_form():
    fragment = in_rows((4, 777), 128, 1)
    places = Places(fragment)
    assert int((places.table >= 0).sum()) == 4 * 777
    full = padded(fragment)
    assert full is not None and full.domain == (4, 800)
    assert (Places(full).table >= 0).all()


def test_a_tile_without_gaps_has_no_padding():
    assert padded(coalesced((4, 256), 128, 2)) is None
    assert padded(coalesced((4, 777), 128, 1)) is None


@pytest.mark.parametrize("n", [777, 100, 1001])
def test_a_softmax_of_uneven_rows_needs_no_shared_memory(n):
    source = tile.lower(tiles.softmax(8, n, 4), target=TARGET).sources["kernel.cu"]
    assert "TILE_SHARED" not in source and "sync_threads" not in source
    assert "shfl_xor" in source


@pytest.mark.layer("emulation")
@pytest.mark.parametrize(
    ("n", "rows", "threads"),
    [(777, 4, 128), (100, 4, 128), (33, 8, 64), (1001, 2, 128), (43, 3, 128), (50, 4, 96), (130, 5, 128), (12, 8, 64)],
)  # fmt: skip
def test_softmax(n, rows, threads):
    kernel = tile.compile(tiles.softmax(9, n, rows, threads), target=TARGET, execution_backend="emulate")
    x = torch.randn(9, n) - 3.0
    y = torch.full_like(x, float("nan"))
    kernel(x, y)
    assert_close(y, x.softmax(-1))


@pytest.mark.layer("emulation")
@pytest.mark.parametrize("kind", ["sum", "max", "min", "abssum"])
@pytest.mark.parametrize("dtype", ["float32", "int32"])
def test_registers_behind_the_end_take_no_part(kind, dtype):
    """All values are negative, and the columns of the last round are few: what lies in empty registers would show."""

    @T.prim_func
    def main(X: T.Tensor((4, 70), dtype), Y: T.Tensor((4,), dtype)):
        with T.Kernel(1, threads=128):
            x = T.alloc_fragment((4, 70), dtype)
            y = T.alloc_fragment((4,), dtype)
            T.copy(X, x)
            T.reduce(x, y, kind, 1, True)
            T.copy(y, Y)

    kernel = tile.compile(main, target=TARGET, execution_backend="emulate")
    x = -torch.arange(1, 281).reshape(4, 70).to(getattr(torch, dtype))
    y = torch.zeros(4, dtype=x.dtype)
    kernel(x, y)
    values = x.numpy()
    wanted = {"sum": values.sum(1), "max": values.max(1), "min": values.min(1), "abssum": np.abs(values).sum(1)}[kind]
    assert_close(y, wanted.astype(values.dtype), reduction=70, scale=200)
