"""Printed kernels compute what the interpreter computes: every operator, conversion and function, scalar and vector.

The emulator runs them; one unit for each element type holds all its expressions, since compiling is what costs.
"""

from __future__ import annotations

import numpy as np
import pytest

from tile_core.dtypes import DType
from tile_core.interpreter import interpret
from tile_core.ir import (
    Broadcast,
    Buffer,
    BufferLoad,
    BufferStore,
    Expr,
    KernelLaunch,
    PrimFunc,
    Ramp,
    Var,
    as_shape,
    binary,
    const,
    seq,
)
from tile_cuda.codegen import generate_kernels
from tile_cuda.target import ARCHITECTURES
from tile_cuda.testing.expressions import FLOATS, INTEGERS, tables
from tile_cuda.toolchain import compile_device

pytestmark = pytest.mark.layer("emulation")


@pytest.mark.parametrize("name", [*FLOATS, *INTEGERS])
def test_expressions_agree_with_the_interpreter(name, emulated):
    kernels = {table.function().name: table for table in tables(name)}
    text, _ = generate_kernels({n: t.function() for n, t in kernels.items()}, ARCHITECTURES["sm_80"])
    unit = emulated(text, list(kernels))
    for kernel, table in kernels.items():
        given = table.arguments()
        unit.run(kernel, {p.name: g for p, g in zip(table.function().params, given)}, threads=1)
        table.check(given)


def ramp(start: int, stride: int, lanes: int) -> Expr:
    return Ramp(const(start, "int32"), const(stride, "int32"), lanes)


def test_strided_indexed_and_guarded_accesses_agree_with_the_interpreter(emulated):
    dtype, lanes = DType("float32"), 4
    a, out = (Buffer(name, as_shape((64,)), dtype) for name in ("A", "out"))
    where = Buffer("where", as_shape((4,)), DType("int32"))
    picked = BufferLoad(where, (ramp(0, 1, lanes),))
    mask = binary("lt", picked, Broadcast(const(20, "int32"), lanes))
    first = binary("lt", BufferLoad(where, (const(0, "int32"),)), const(0, "int32"))
    body = seq(
        BufferStore(out, BufferLoad(a, (ramp(1, 3, lanes),)), (ramp(0, 2, lanes),)),
        BufferStore(out, BufferLoad(a, (picked,), mask), (ramp(20, 1, lanes),)),
        BufferStore(
            out, BufferLoad(a, (ramp(8, 1, lanes),)), (binary("add", picked, Broadcast(const(30, "int32"), 4)),), mask
        ),
        BufferStore(out, BufferLoad(a, (ramp(12, 1, lanes),), Broadcast(first, lanes)), (ramp(12, 1, lanes),)),
        BufferStore(out, BufferLoad(a, (ramp(16, 1, lanes),), mask), (ramp(16, 1, lanes),)),
        BufferStore(out, BufferLoad(a, (ramp(0, 1, lanes),)), (ramp(8, 1, lanes),), Broadcast(first, lanes)),
        BufferStore(out, BufferLoad(a, (ramp(5, 1, 3),)), (ramp(61, 1, 3),)),
    )
    function = PrimFunc("accesses", (a, out, where), KernelLaunch((Var("bx"),), (const(1, "int32"),), (), (), body))
    given = [np.arange(64, dtype=np.float32), np.full(64, -1, np.float32), np.array([3, 1, 31, 7], np.int32)]
    expected = [g.copy() for g in given]
    interpret(function, *expected)
    text, _ = generate_kernels({"accesses": function}, ARCHITECTURES["sm_80"])
    assert "tile::load_if<float, 4>" in text and "tile::gather_at_if<float, 4>" in text
    emulated(text, ["accesses"]).run("accesses", dict(zip(("A", "out", "where"), given)), threads=1)
    np.testing.assert_array_equal(given[1], expected[1])


@pytest.mark.layer("nvrtc")
@pytest.mark.parametrize(("name", "arch"), [("float16", "sm_75"), ("bfloat16", "sm_90a"), ("int64", "sm_80")])
def test_expressions_compile_for_devices(name, arch):
    text, _ = generate_kernels({t.function().name: t.function() for t in tables(name)}, ARCHITECTURES[arch])
    assert compile_device(text, arch, name=name).cubin[:4] == b"\x7fELF"
