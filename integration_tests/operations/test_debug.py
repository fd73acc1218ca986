"""Printed values and checked conditions: on the CPU an error, in the emulator a finding, in CUDA printf and a trap."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import tile_core as tile
import tile_core.language as T
from integration_tests.operations.harness import CUDA, everywhere, machine_code
from tile_core.errors import CompileError
from tile_core.interpreter import ExecutionFault, interpret
from tile_emulator import emulation

pytestmark = [pytest.mark.layer("emulation"), pytest.mark.slow]


CHECKED_LINE = 26


@T.prim_func
def checked(A: T.Tensor((64,), "int32"), B: T.Tensor((64,), "float32"), n: T.int32):
    with T.Kernel(2, threads=32) as bx:
        for i in T.Parallel(32):
            T.device_assert(A[bx * 32 + i] < n, "index")
            B[A[bx * 32 + i]] = 1.0


def test_a_condition_that_holds():
    a = torch.arange(64, dtype=torch.int32)
    for target, options in (("cpu", {}), (CUDA, {"execution_backend": "emulate"})):
        b = torch.zeros(64)
        tile.compile(checked, target=target, **options)(a, b, 64)
        assert (b == 1).all()
    assert "tile::device_assert(" in machine_code(checked)


def test_a_condition_that_does_not_hold():
    a = torch.arange(64, dtype=torch.int32)
    a[40] = 1 << 28  # far outside: what follows must not be reached
    place = f"test_debug.py:{CHECKED_LINE}: index: A[bx * 32 + i] < n does not hold"
    line = f"{place}, where A[bx * 32 + i] = 268435456, n = 64 [block bx = 1]"
    with pytest.raises(tile.DeviceAssertError) as failed:
        tile.compile(checked, target="cpu")(a, torch.zeros(64), 64)
    assert line in str(failed.value)
    with pytest.raises(ExecutionFault) as fault:
        interpret(checked, a.numpy().copy(), np.zeros(64, np.float32), 64)
    assert line in str(fault.value) and fault.value.span.line == CHECKED_LINE
    with emulation(raises=False) as session:
        tile.compile(checked, target=CUDA, execution_backend="emulate")(a, torch.zeros(64), 64)
    assert line in session.reports[0].findings[0].summary
    # The next launch begins afresh.
    kernel = tile.compile(checked, target="cpu")
    kernel(torch.zeros(64, dtype=torch.int32), torch.zeros(64), 64)


@T.prim_func
def told(A: T.Tensor((2, 3), "float32"), B: T.Tensor((2, 3), "int8")):
    with T.Kernel(1, threads=32) as bx:
        held = T.alloc_fragment((2, 3), "float32")
        T.copy(A, held)
        T.print(held, "held", warp_id=0)
        T.print(B[1, 0:2])
        T.print("100 % done")
        T.print(A[1, 2] * 2, msg="value")
        for i in T.Parallel(2):
            T.print(B[i, 0])


TOLD = [
    *(f"held: held[{i}, {j}] = {i * 3 + j + 0.5:g} [block bx = 0]" for i in range(2) for j in range(3)),
    "B[1, 0] = 3 [block bx = 0]",
    "B[1, 1] = 4 [block bx = 0]",
    "100 % done [block bx = 0]",
    "value: A[1, 2] * 2.0 = 11 [block bx = 0]",
    "B[i, 0] = 0 [block bx = 0]",
    "B[i, 0] = 3 [block bx = 0]",
]


@pytest.mark.parametrize("way", ["interpreter", "cpu", CUDA])
def test_what_is_printed(way, capfd):
    a, b = np.arange(6).reshape(2, 3).astype(np.float32) + 0.5, np.arange(6).reshape(2, 3).astype(np.int8)
    if way == "interpreter":
        interpret(told, a, b)
    else:
        options = {"execution_backend": "emulate"} if way == CUDA else {}
        kernel = tile.compile(told, target=way, **options)
        with emulation("in_order"):
            kernel(torch.from_numpy(a), torch.from_numpy(b))
    lines = capfd.readouterr().out.splitlines()
    shown = [line.replace("T.float32(", "").replace("2.0)", "2.0") for line in lines]
    # Blocks of one thread each may come in any order; a printed line stays whole.
    assert sorted(shown) == sorted(TOLD), shown
    assert [line for line in shown if line.startswith("held")] == TOLD[:6]


def test_each_thread_prints_in_code_for_threads(capfd):
    @T.prim_func
    def main(A: T.Tensor((4,), "int32")):
        with T.Kernel(1, threads=4):
            tx = T.get_thread_binding()
            T.print(tx + A[tx])

    a = np.arange(4, dtype=np.int32) * 10
    everywhere(main, a)
    lines = [line.rpartition(" [")[0].rpartition(" = ")[2] for line in capfd.readouterr().out.splitlines()]
    assert sorted(lines) == sorted(["0", "11", "22", "33"] * 3)
    assert "printf" not in machine_code(main) and "tile::device_print(" in machine_code(main)


def test_errors():
    def make(body):
        @T.prim_func
        def main(A: T.Tensor((32,), "float32")):
            with T.Kernel(1, threads=32):
                body(A)

        return main

    with pytest.raises(CompileError, match="E-ASSUME-FALSE"):
        make(lambda A: T.device_assert(1 > 2, "never"))
    with pytest.raises(CompileError, match="E-DEBUG-THREAD"):
        make(lambda A: T.print(A, warp_id=1))
    with pytest.raises(CompileError, match="E-DEBUG-VALUE"):
        make(lambda A: T.print(T.Broadcast(T.float32(1), 4)))
    with pytest.raises(CompileError, match="E-OPERAND"):
        make(lambda A: T.print([1, 2]))
