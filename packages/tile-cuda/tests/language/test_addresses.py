"""Tensors beyond 2^31 elements, and rows whose pitch is no multiple of 16 bytes or that end inside a tile."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import tile_core as tile
import tile_core.language as T
from tile_core.ir import Binary, BufferLoad, BufferStore, KernelLaunch, Var, walk
from tile_core.layout.tables import evaluate_map

EMULATED = {"target": "cuda -arch=sm_80", "execution_backend": "emulate"}


def doubled(m, n, dtype, block=(32, 128)):
    """B = A + A through shared memory."""
    rows, columns = block

    @T.prim_func
    def main(A: T.Tensor((m, n), dtype), B: T.Tensor((m, n), dtype)):
        with T.Kernel(T.ceildiv(n, columns), T.ceildiv(m, rows), threads=128) as (bx, by):
            s = T.alloc_shared((rows, columns), dtype)
            T.copy(A[by * rows, bx * columns], s)
            for i, j in T.Parallel(rows, columns):
                B[by * rows + i, bx * columns + j] = s[i, j] + s[i, j]

    return main


def pipelined(m, n, dtype, block=(32, 128)):
    """C = sums of the tiles of a row of A."""
    rows, columns = block

    @T.prim_func
    def main(A: T.Tensor((m, n), dtype), C: T.Tensor((m, columns), "float32")):
        with T.Kernel(T.ceildiv(m, rows), threads=128) as by:
            s = T.alloc_shared((rows, columns), dtype)
            c = T.alloc_fragment((rows, columns), "float32")
            T.clear(c)
            for k in T.Pipelined(T.ceildiv(n, columns), num_stages=2):
                T.copy(A[by * rows, k * columns], s)
                for i, j in T.Parallel(rows, columns):
                    c[i, j] += T.cast(s[i, j], "float32")
            T.copy(c, C[by * rows, 0])

    return main


# Addresses beyond 2^31


def device_functions(function):
    module = tile.lower(function, target="cuda -arch=sm_80").module
    return [f for f in module.functions if f.attr("calling_convention") == "device"]


@pytest.mark.parametrize("dynamic", [False, True], ids=["constant shape", "dynamic shape"])
def test_addresses_are_computed_in_64_bits(dynamic):
    """Evaluated at the last block and thread, without a tensor: the address is right, and nothing on the way to it that
    is computed in 32 bits goes beyond them."""
    m, n = 70_000, 40_000
    # Of a dynamic shape, the first is the version for aligned rows.
    kernel = device_functions(doubled(*((T.dynamic("m"), T.dynamic("n")) if dynamic else (m, n)), "int8"))[0]
    launch = kernel.body
    assert isinstance(launch, KernelLaunch)
    values = {v: np.int64(v_) for v, v_ in zip(launch.grid_vars, (-(-n // 128) - 1, -(-m // 32) - 1))}
    values[launch.thread_vars[0]] = np.int64(127)
    values.update((p, np.int64({"m": m, "n": n}[p.name])) for p in kernel.params if isinstance(p, Var))
    seen = 0
    for node in walk(launch.body):
        if not isinstance(node, (BufferLoad, BufferStore)) or node.buffer.memory.level != "device":
            continue
        index = getattr(node.indices[0], "base", node.indices[0])
        assert index.dtype.name == "int64"
        known = {**values, **{v: np.int64(0) for v in walk(index) if isinstance(v, Var) and v not in values}}
        (address,) = evaluate(index, known)
        row, column = (-(-m // 32) - 1) * 32 + 127 // 8, (-(-n // 128) - 1) * 128 + 127 % 8 * 16
        assert address == row * n + column > 2**31
        for part in walk(index):
            if isinstance(part, Binary) and part.dtype.name == "int32":
                assert abs(evaluate(part, known)[0]) < 2**31
        seen += 1
    assert seen >= 2


def evaluate(expr, values):
    return [int(x) for x in evaluate_map(tuple(values), (expr,), list(values.values()))]


def test_smaller_tensors_keep_their_addresses_in_32_bits():
    assert "int64" not in tile.lower(doubled(4096, 4096, "float16"), target="cuda -arch=sm_80").sources["kernel.cu"]


@pytest.mark.layer("emulation")
def test_the_same_kernel_on_a_small_tensor_of_dynamic_shape():
    kernel = tile.compile(doubled(T.dynamic("m"), T.dynamic("n"), "int8"), **EMULATED)
    a = torch.randint(-60, 60, (70, 150), dtype=torch.int8)
    b = torch.full_like(a, 77)
    kernel(a, b)
    assert torch.equal(b, a + a)


@pytest.mark.gpu
def test_a_tensor_beyond_31_bits_on_a_device():
    kernel = tile.compile(doubled(70_000, 40_000, "int8"), target="cuda -arch=sm_80")
    a = torch.randint(-60, 60, (70_000, 40_000), dtype=torch.int8, device="cuda")
    b = torch.full_like(a, 77)
    kernel(a, b)
    assert torch.equal(b, a + a)


# Rows

WIDTHS = [
    # elements a row, type, the widest access that a row's pitch allows
    (128, "float16", 8),
    (136, "float16", 8),
    (132, "float16", 4),
    (130, "float16", 2),
    (77, "float16", 1),
    (100, "float32", 4),
    (98, "float32", 2),
    (33, "float32", 1),
    (144, "int8", 16),
    (100, "int8", 4),
    (51, "int8", 1),
]


def cases():
    quick = {(130, "float16"), (100, "int8"), (33, "float32")}
    return [pytest.param(*w, marks=() if w[:2] in quick else pytest.mark.slow, id=f"{w[1]}-{w[0]}") for w in WIDTHS]


@pytest.mark.parametrize(("n", "dtype", "width"), WIDTHS, ids=lambda v: str(v))
def test_rows_are_copied_as_wide_as_their_pitch_allows(n, dtype, width):
    text = tile.lower(doubled(50, n, dtype), target="cuda -arch=sm_80").sources["kernel.cu"]
    names = {"float16": "fp16", "float32": "float", "int8": "int8_t"}
    wide = [w for w in (2, 4, 8, 16) if f"tile::load<{names[dtype]}, {w}>(A" in text]
    assert wide == ([width] if width > 1 else [])
    assert "iota" not in text, "one condition decides about a vector"


@pytest.mark.parametrize(
    ("n", "dtype", "width"), [(136, "float16", 16), (132, "float16", 8), (130, "float16", 4), (77, "float16", 0)]
)
def test_asynchronous_copies_are_as_wide_as_the_pitch_allows(n, dtype, width):
    text = tile.lower(pipelined(50, n, dtype), target="cuda -arch=sm_80").sources["kernel.cu"]
    assert [w for w in (4, 8, 16) if f"cp_async<{w}>" in text] == ([width] if width else [])


@pytest.mark.layer("emulation")
@pytest.mark.parametrize(("n", "dtype", "width"), cases())
def test_rows_of_any_pitch_are_copied_right(n, dtype, width):
    for make in (doubled, pipelined):
        kernel = tile.compile(make(50, n, dtype), **EMULATED)
        integer = dtype == "int8"
        real = torch.randn(50, n).to(getattr(torch, dtype)) if not integer else None
        a = torch.randint(-60, 60, (50, n), dtype=torch.int8) if real is None else real
        if make is doubled:
            out, right = torch.full_like(a, 77), a + a
        else:
            out = torch.full((50, 128), 77.0)
            padded = torch.nn.functional.pad(a.float(), (0, -n % 128))
            right = padded.reshape(50, -1, 128).sum(1)
        kernel(a, out)
        torch.testing.assert_close(out, right, rtol=1e-5, atol=1e-5)
