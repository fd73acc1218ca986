"""What swizzled tiles ask of the arithmetic: operands of bit operators, their bounds, and guards under a Select."""

from __future__ import annotations

import pytest

from tile_core.arith import Prover, Simplifier
from tile_core.dtypes import DType
from tile_core.ir import Buffer, BufferLoad, IntImm, Select, Var, as_shape, binary, const, walk


@pytest.fixture
def indices():
    return Var("thread"), Var("other"), Var("lane"), Var("k")


def test_operands_of_bit_operators_are_simplified(indices):
    thread, _, lane, _ = indices
    prover = Prover(solver=False)
    prover.bind(thread, 0, 128)
    prover.bind(lane, 0, 8)
    chunk = (thread % 4 * 8 + lane) // 8
    assert repr(prover.simplify(chunk ^ (thread // 8 % 4))) == "thread % 4 ^ thread // 8 % 4"
    assert repr(prover.simplify(chunk | (thread // 8 % 4))) == "thread % 4 | thread // 8 % 4"


def test_the_solver_uses_the_bounds_of_bit_operators(indices):
    thread, other, _, k = indices
    prover = Prover()
    prover.bind(thread, 0, 128)
    prover.bind(other, 0, 128)
    prover.bind(k, 1, 8)

    def row(version, who):
        return version % 2 * 2048 + who // 4 * 32 + (who % 4 ^ (who // 8 % 4)) * 8

    one, two = row(k, thread), row(k + 1, other)
    apart = binary("or", binary("le", one + 8, two), binary("le", two + 8, one))
    assert prover.decide(apart).outcome == "proven"
    # The same version may be the same place; what has no translation gives no witness.
    same = binary("or", binary("le", one + 8, row(k, other)), binary("le", row(k, other) + 8, one))
    assert prover.decide(same).outcome != "proven"


@pytest.mark.parametrize("lazy", [False, True])
def test_only_a_lazy_select_lends_its_condition_to_what_is_read_under_it(indices, lazy):
    thread, *_ = indices
    prover = Prover(solver=False)
    prover.bind(thread, 0, 10)
    buffer = Buffer("X", as_shape((64,)), DType("int32"))
    guarded = Select(binary("ge", thread, 2), BufferLoad(buffer, (thread,)), const(0, "int32"), True)
    outer = Select(binary("ge", thread, 8), guarded, const(1, "int32"), lazy)
    guards = [n for n in (prover.simplify(outer).true_value,) if isinstance(n, Select)]
    assert len(guards) == (0 if lazy else 1)


@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"])
def test_masks_and_shifts_as_wide_as_their_type_stay_in_it(dtype):
    x = Var("x", DType(dtype))
    width = x.dtype.bits - (1 if dtype.startswith("i") else 0)
    for expr in (binary("bitand", x, (1 << width) - 1), binary("shr", x, x.dtype.bits - 1)):
        found = Simplifier().simplify(expr)
        numbers = [n for n in walk(found) if isinstance(n, IntImm)]
        assert all(x.dtype.min_value <= n.value <= x.dtype.max_value for n in numbers), found
