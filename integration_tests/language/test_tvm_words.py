"""Names of TVM that mean something here: typed parameters, blocks with declared accesses, pointers, barriers."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import tile_core as tile
import tile_core.language as T
from integration_tests.operations.harness import CUDA, everywhere
from tile_core.errors import ArgumentError, CompileError
from tile_core.frontend import from_source

pytestmark = pytest.mark.layer("emulation")

TENSORS = "A: T.Tensor((64,), 'float32'), B: T.Tensor((64,), 'float32')"


def refused(body: str, code: str, head: str = TENSORS) -> str:
    text = f"@T.prim_func\ndef main({head}):\n" + "\n".join("    " + line for line in body.splitlines()) + "\n"
    with pytest.raises(CompileError, match=code) as caught:
        from_source(text, {"T": T}, name="main").script()
    return str(caught.value)


def test_a_handle_becomes_a_tensor():
    m = T.dynamic("m")

    @T.prim_func
    def main(a: T.handle, b: T.handle, factor: T.int32):
        A = T.match_buffer(a, (m, 64), "int32")
        B = T.match_buffer(b, (m, 64), "int32", align=16)
        with T.Kernel(m, threads=64) as bx:
            for i in T.Parallel(64):
                B[bx, i] = A[bx, i] * factor

    kernel = tile.compile(main, target="cpu")
    a, b = torch.arange(192, dtype=torch.int32).reshape(3, 64), torch.zeros(3, 64, dtype=torch.int32)
    kernel(a, b, 3)
    assert torch.equal(b, a * 3)
    with pytest.raises(ArgumentError, match="a must be of type int32") as caught:
        kernel(a.float(), b, 1)
    assert caught.value.span is not None


def test_what_match_buffer_does_not_take():
    head = "a: T.handle, B: T.Tensor((64,), 'float32')"
    kernel = "\nwith T.Kernel(1):\n    B[0] = 1.0"
    twice = "A = T.match_buffer(a, (64,))\nC = T.match_buffer(a, (64,))" + kernel
    assert "once and before its kernels" in refused(twice, "E-MATCH-BUFFER", head)
    refused("A = T.match_buffer(B, (64,))" + kernel, "E-MATCH-BUFFER", head)
    refused("A = T.match_buffer(a)" + kernel, "E-MATCH-BUFFER", head)
    refused("with T.Kernel(1):\n    A = T.match_buffer(a, (64,))\n    B[0] = A[0]", "E-MATCH-BUFFER", head)
    found = refused("A = T.match_buffer(a, (64,), scope='shared', offset_factor=4)" + kernel, "E-MATCH-BUFFER", head)
    assert "scope='shared', offset_factor=4" in found
    used = "A = T.match_buffer(a, (64,))\nwith T.Kernel(1):\n    C = T.make_tensor(a, (64,))\n    B[0] = A[0] + C[0]"
    assert "used as a pointer" in refused(used, "E-MATCH-BUFFER", head)


def test_a_block_does_what_it_declares():
    @T.prim_func
    def main(A: T.Tensor((64,), "float32"), B: T.Tensor((64,), "float32")):
        with T.sblock("root"):
            T.reads(A[0:64])
            T.writes(B)
            with T.Kernel(1, threads=64), T.sblock("copy"):
                T.reads(A[0:64])
                T.writes([B[0:64]])
                staged = T.sblock_alloc_buffer((64,), "float32", scope="shared")
                T.copy(A, staged)
                T.tvm_storage_sync("shared.dyn")
                for i in T.Parallel(64):
                    B[i] = staged[63 - i]

    a = np.arange(64, dtype=np.float32)
    for way, (_, b) in everywhere(main, a, np.zeros_like(a)).items():
        assert np.array_equal(b, a[::-1]), way


@pytest.mark.parametrize(
    ("declared", "text"),
    [
        ("T.reads(B)", "the block reads A, which T.reads does not name"),
        ("T.reads(A)\n        T.writes()", "the block writes B, which T.writes does not name"),
        ("T.writes(A[3])", "T.writes names A"),
        ("T.reads(3)", "no part of a buffer"),
    ],
)
def test_a_block_that_does_something_else(declared, text):
    body = f"with T.Kernel(1):\n    with T.sblock():\n        {declared}\n        T.copy(A, B)"
    assert text in refused(body, "E-SBLOCK")


def test_declarations_outside_of_a_block_and_odd_blocks():
    refused("with T.Kernel(1):\n    T.reads(A)\n    T.copy(A, B)", "E-SBLOCK")
    refused("with T.Kernel(1):\n    with T.sblock(no_realize=True):\n        T.copy(A, B)", "E-SBLOCK")
    refused("with T.Kernel(1):\n    T.sblock_alloc_buffer((64,), data=A)", "E-SBLOCK")


def test_barriers_by_the_memory_that_they_are_for():
    everywhere_else = "with T.Kernel(1, threads=32):\n    T.tvm_storage_sync('global')\n    T.copy(A, B)"
    assert "T.sync_grid()" in refused(everywhere_else, "E-SYNC-SCOPE")

    @T.prim_func
    def main(A: T.Tensor((64,), "int32")):
        with T.Kernel(1, threads=64):
            tx = T.get_thread_binding()
            row = T.alloc_shared((64,), "int32")
            row[tx] = A[tx]
            T.tvm_storage_sync("warp")
            T.tvm_storage_sync("shared")
            A[tx] = row[63 - tx]

    source = tile.lower(main, target=CUDA).sources["kernel.cu"]
    assert "tile::sync_warp(" in source and "tile::sync_threads(" in source


def test_a_pointer_in_tvms_order():
    @T.prim_func
    def main(A: T.Tensor((4, 16), "float32"), B: T.Tensor((4,), "float32")):
        with T.Kernel(1):
            T.import_source("static inline float second(const float* p) { return p[1]; }")
            for i in T.serial(4):
                pointer = T.tvm_access_ptr(T.type_annotation("float32"), A, i * 16 + 3, 2, 1)
                B[i] = T.call_extern("float32", "second", pointer)

    a, b = torch.arange(64.0).reshape(4, 16), torch.zeros(4)
    tile.compile(main, target="cpu")(a, b)
    assert torch.equal(b, a[:, 4])
    wrong = "with T.Kernel(1):\n    T.evaluate(T.tvm_access_ptr('float16', A, 0, 4, 1))"
    assert "of its element type" in refused(wrong, "E-POINTER")


def test_the_layout_of_an_operand_by_name():
    @T.prim_func
    def main(A: T.Tensor((64, 64), "float16"), B: T.Tensor((64, 64), "float16")):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((64, 64), "float16")
            T.annotate_layout({a: T.make_mma_swizzle_layout(a)})
            T.copy(A, a)
            for i, j in T.Parallel(64, 64):
                B[i, j] = a[j, i]

    assert "^" in tile.lower(main, target=CUDA).sources["kernel.cu"]
    a = np.arange(4096, dtype=np.float16).reshape(64, 64)
    for way, (_, b) in everywhere(main, a, np.zeros_like(a)).items():
        assert np.array_equal(b, a.T), way
    refused("with T.Kernel(1):\n    T.make_mma_swizzle_layout(A)\n    T.copy(A, B)", "E-ANNOTATE")
