"""RequireAlignment: what the start of a tensor must be a multiple of, asked at the call."""

from __future__ import annotations

import re

import pytest
import torch

import tile_core as tile
import tile_core.language as T
from tile_core.errors import ArgumentError

SM_80 = "cuda -arch=sm_80"
EMULATED = {"target": SM_80, "execution_backend": "emulate"}


def moved(dtype, count=256, width=None):
    """A copy of `count` elements, of as many at once as `width` says."""

    @T.prim_func
    def main(A: T.Tensor((count,), dtype), B: T.Tensor((count,), dtype)):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(count, coalesced_width=width):
                B[i] = A[i]

    return main


def asked(function):
    """Tensor → multiple, as the launcher checks it."""
    found = re.findall(
        r'"(\w+)", "alignment", "a multiple of (\d+) bytes"', tile.lower(function, SM_80).sources["host.c"]
    )
    return {name: int(size) for name, size in found}


@pytest.mark.parametrize(
    ("dtype", "count", "width", "size"),
    [("float16", 256, None, 16), ("float32", 64, None, 8), ("float16", 256, 2, 4), ("int8", 1024, None, 16)],
)
def test_a_call_asks_for_the_widest_access(dtype, count, width, size):
    assert asked(moved(dtype, count, width)) == {"A": size, "B": size}


@pytest.mark.parametrize(("dtype", "count"), [("float32", 33), ("float64", 32), ("float16", 31)])
def test_a_kernel_without_vectors_takes_any_start(dtype, count):
    assert asked(moved(dtype, count)) == {}


def test_copies_past_the_registers_and_joined_atomics_count():
    @T.prim_func
    def main(A: T.Tensor((256, 64), "float16"), B: T.Tensor((64,), "float16"), C: T.Tensor((3,), "float16")):
        with T.Kernel(1, threads=32):
            tile_ = T.alloc_shared((64, 64), "float16")
            for k in T.Pipelined(4, num_stages=2):
                T.copy(A[k * 64, 0], tile_)
                for i in T.Parallel(32):
                    T.atomic_addx2(B[i * 2], tile_[i, 0])
            C[0] = T.float16(1)

    assert "cp_async<16>" in tile.lower(main, SM_80).sources["kernel.cu"]
    assert asked(main) == {"A": 16, "B": 4}


def test_a_part_of_another_tensor_is_refused_with_what_to_pass():
    kernel = tile.compile(moved("float16"), **EMULATED)
    whole, out = torch.arange(300).half(), torch.zeros(256).half()
    with pytest.raises(
        ArgumentError, match=r"A must start at a multiple of 16 bytes, got one 6 bytes past it"
    ) as caught:
        kernel(whole[3:259], out)
    assert caught.value.code == "E-ARG-ALIGNMENT" and "A.clone()" in str(caught.value)
    kernel(whole[8:264], out)
    assert torch.equal(out, whole[8:264])


def test_a_kernel_of_unknown_sizes_takes_its_second_version():
    n = T.dynamic("n")

    @T.prim_func
    def main(A: T.Tensor((n,), "float16"), B: T.Tensor((n,), "float16")):
        with T.Kernel(T.ceildiv(n, 128), threads=16) as bx:
            tile_ = T.alloc_shared((128,), "float16")
            T.copy(A[bx * 128], tile_)
            T.copy(tile_, B[bx * 128])

    assert asked(main) == {}
    kernel = tile.compile(main, **EMULATED)
    whole = torch.arange(400).half()
    for start, count in ((0, 256), (1, 256), (8, 200), (5, 199)):
        out = torch.zeros(count + 3).half()[3:]
        kernel(whole[start : start + count], out)
        assert torch.equal(out, whole[start : start + count])


def test_what_the_kernels_author_promises_is_asked_too():
    @T.prim_func
    def main(A: T.Buffer((8,), "float32", align=64), B: T.Tensor((8,), "float32")):
        with T.Kernel(1, threads=1):
            B[0] = A[0]

    assert asked(main) == {"A": 64}
