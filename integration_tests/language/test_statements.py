"""Statements as calls, indices by their CUDA names, and annotations of a launch."""

from __future__ import annotations

import pytest
import torch

import tile_core.language as T

from .places import PLACES, check

pytestmark = pytest.mark.parametrize("place", PLACES)


def test_branches_names_and_effects(place):
    @T.prim_func
    def main(A: T.Tensor((64,), "int32"), B: T.Tensor((64,), "int32")):
        with T.Kernel(64, threads=32) as bx:
            x = T.bind(A[bx] * 2, "doubled")
            with T.If(x > 10):
                with T.Then():
                    B[bx] = x
                with T.Else(), T.attr(B, "a.note", 3):
                    T.evaluate(T.call_extern("int32", "abs", x)) if False else T.evaluate(x)
                    B[bx] = -x

    a = torch.randint(0, 12, (64,), dtype=torch.int32)
    check(place, main, a, a * 0, want={1: torch.where(a * 2 > 10, a * 2, -a * 2)})


def test_indices_by_name(place):
    @T.prim_func
    def main(A: T.Tensor((4, 64), "int32"), B: T.Tensor((4, 64), "int32")):
        with T.Kernel(4, threads=64) as bx:
            tx = T.thread_binding(0, 64, thread="threadIdx.x")
            by = T.launch_thread("blockIdx.x", 4)
            A[by, tx] = bx * 100 + tx
            for i in T.thread_binding(16, thread="threadIdx.x"):
                B[bx, i] = i + 1
            with T.launch_thread("threadIdx.x", 64) as t:
                B[bx, t] = B[bx, t] + t

    index = torch.arange(64, dtype=torch.int32)
    rows = torch.stack([index + 100 * b for b in range(4)])
    marks = torch.where(index < 16, index * 2 + 1, index).expand(4, 64).contiguous()
    check(place, main, rows * 0, marks * 0, want={0: rows, 1: marks})


def test_buffers_of_any_memory_by_scope(place):
    @T.prim_func
    def main(A: T.Tensor((32, 16), "float32"), B: T.Tensor((512,), "float32")):
        with T.Kernel(1, threads=64):
            tile = T.alloc_buffer((32, 16), "float32", scope="shared.dyn")
            held = T.alloc_buffer((32, 16), "float32", scope="local.fragment")
            flat = T.decl_buffer((512,), "float32", data=tile)
            work = T.alloc_buffer((512,))
            T.copy(A, held)
            T.copy(held, tile)
            T.copy(flat, work)
            T.copy(flat, B)

    a = torch.randn(32, 16)
    check(place, main, a, torch.zeros(512), want={1: a.reshape(-1)})


def test_annotations_of_a_launch(place):
    @T.prim_func
    def main(A: T.Tensor((64,), "float32"), B: T.Tensor((64,), "float32"), C: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=64):
            T.annotate_min_blocks_per_sm(2)
            T.annotate_restrict_buffers(B)
            T.annotate_l2_hit_ratio({A: 0.5})
            for i in T.Parallel(64):
                B[i] = A[i] + C[i]

    a, c = torch.randn(64), torch.randn(64)
    kernel = check(place, main, a, torch.zeros(64), c, want={1: a + c})
    if place == "emulated":
        source = kernel.kernel_source
        assert "__launch_bounds__(64, 2)" in source
        assert "float* B" in source
        assert "__restrict__ A" in source


def test_layouts_given_as_functions_and_fragments(place):
    @T.prim_func
    def main(A: T.Tensor((64, 64), "float16"), B: T.Tensor((64, 64), "float16"), C: T.Tensor((64, 64), "float32")):
        with T.Kernel(1, threads=128):
            a, b = T.alloc_shared((64, 64), "float16"), T.alloc_shared((64, 64), "float16")
            held = T.alloc_fragment((64, 64), "float32")
            T.annotate_layout(
                {
                    a: lambda i, j: (j, i),
                    b: T.Layout((64, 64), lambda i, j: (i // 8, j // 8, i % 8, j % 8)),
                    held: T.Fragment((64, 64), forward_fn=lambda i, j: (i * 2 + j // 32, j % 32)),
                }
            )
            T.copy(A, a)
            T.copy(B, b)
            for i, j in T.Parallel(64, 64):
                held[i, j] = T.cast(a[i, j], "float32") + T.cast(b[j, i], "float32")
            T.copy(held, C)

    a, b = torch.randn(64, 64).half(), torch.randn(64, 64).half()
    check(place, main, a, b, torch.zeros(64, 64), want={2: a.float() + b.t().float()})


def test_facts_are_stated_anywhere(place):
    n = T.dynamic("n")

    @T.macro
    def halves(x):
        T.assume(x % 2 == 0)
        return x // 2

    @T.prim_func
    def main(A: T.Tensor((n,), "int32"), B: T.Tensor((n,), "int32")):
        T.assume(n % 4 == 0)
        with T.Kernel(n // 4, threads=32) as bx:
            T.assume(n > 4)
            for k in T.serial(4):
                T.assume(bx * 4 + k < n)
                if A[bx * 4 + k] > 0:
                    T.assume(A[bx * 4 + k] != 0)
                    B[bx * 4 + k] = halves(bx * 2)
                else:
                    B[bx * 4 + k] = -1

    a = torch.randint(-2, 3, (16,), dtype=torch.int32)
    blocks = torch.arange(16, dtype=torch.int32) // 4
    check(place, main, a, a * 0, want={1: torch.where(a > 0, blocks, -1)})
