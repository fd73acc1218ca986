"""Ways to write a kernel that TileLang code uses: threads left out, scopes by name, one extent in parentheses."""

from __future__ import annotations

import pytest
import torch

import tile_core.language as T
from tile_core.errors import CompileError

from .places import PLACES, check

everywhere = pytest.mark.parametrize("place", PLACES)


@everywhere
def test_a_kernel_that_asks_for_a_thread_has_128(place):
    @T.prim_func
    def main(A: T.Tensor((256,), "int32")):
        with T.Kernel(2) as bx:
            tx = T.get_thread_binding(0)
            A[bx * T.get_thread_extent(0) + tx] = tx

    check(place, main, torch.zeros(256, dtype=torch.int32), want={0: torch.arange(128, dtype=torch.int32).repeat(2)})


@everywhere
def test_the_scope_that_is_named_decides(place):
    @T.prim_func
    def main(A: T.Tensor[64, T.float32], B: T.Tensor[(64), T.float32]):
        with T.Kernel(1, threads=64):
            tile_ = T.alloc_fragment((64,), "float32", "shared")
            total = T.alloc_fragment((1,), "float32", "local")
            total[0] = 1.0
            T.copy(A, tile_)
            for j in T.serial(64):
                total[0] += tile_[j]
            B[T.get_thread_binding(0)] = total[0]

    scopes = {b.name: b.scope for b in _allocations(main)}
    assert scopes == {"tile_": "shared", "total": "local"}
    a = torch.arange(64, dtype=torch.float32)
    check(place, main, a, torch.zeros(64), want={1: torch.full((64,), 1 + a.sum().item())})


def _allocations(function):
    from tile_core.ir import Block, walk

    return [buffer for node in walk(function.body) if isinstance(node, Block) for buffer in node.allocations]


def test_a_scope_off_the_chip():
    with pytest.raises(CompileError) as caught:

        @T.prim_func
        def main(A: T.Tensor((64,), "float32")):
            with T.Kernel(1, threads=64):
                T.alloc_fragment((64,), "float32", "global")

    assert caught.value.code == "E-ALLOC-SCOPE"


def test_a_second_thread_axis_is_not_invented():
    with pytest.raises(CompileError) as caught:

        @T.prim_func
        def main(A: T.Tensor((64,), "float32")):
            with T.Kernel(1):
                A[T.get_thread_binding(1)] = 1.0

    assert caught.value.code == "E-KERNEL-THREADS"


@everywhere
def test_registers_that_no_target_moves(place):
    @T.prim_func
    def main(A: T.Tensor((64,), "int32")):
        with T.Kernel(1, threads=64):
            T.disable_warp_group_reg_alloc()
            T.no_set_max_nreg()
            for i in T.Parallel(64):
                A[i] = i

    check(place, main, torch.zeros(64, dtype=torch.int32), want={0: torch.arange(64, dtype=torch.int32)})


@pytest.mark.parametrize("name", ["disable_warp_group_reg_alloc", "no_set_max_nreg"])
def test_a_wish_about_registers_outside_a_kernel(name):
    with pytest.raises(CompileError) as caught:

        @T.prim_func
        def main(A: T.Tensor((64,), "int32")):
            getattr(T, name)()
            with T.Kernel(1, threads=64):
                A[0] = 1

    assert caught.value.code == "E-KERNEL-OUTSIDE"
