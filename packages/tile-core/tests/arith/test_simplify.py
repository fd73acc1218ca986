"""The canonical forms that the lowering passes count on."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tile_core.arith import Prover, Simplifier, simplify
from tile_core.dtypes import DType
from tile_core.ir import (
    Binary,
    Broadcast,
    Buffer,
    BufferLoad,
    FloatImm,
    IntImm,
    Let,
    Ramp,
    SizeVar,
    Unary,
    Var,
    as_shape,
    binary,
    cast,
    const,
    select,
)

x, y, z = Var("x"), Var("y"), Var("z")
i, j, bx = Var("i"), Var("j"), Var("bx")
n, m = SizeVar("n"), SizeVar("m")
RANGES = {i: (0, 8), j: (0, 16), bx: (0, 100)}


def ramp(base, stride, lanes):
    base = base if not isinstance(base, int) else const(base, "int32")
    return Ramp(base, const(stride, "int32"), lanes)


def broadcast(value, lanes):
    return Broadcast(const(value, "int32") if isinstance(value, int) else value, lanes)


FORMS = [
    (lambda: (x * 8 + i) // 8, "x"),
    (lambda: (x * 8 + i) % 8, "i"),
    (lambda: (x * 8 + i) // 32, "x // 4"),
    (lambda: (x * 8 + i) % 32, "x % 4 * 8 + i"),
    (lambda: (x // 4) // 3, "x // 12"),
    (lambda: (x // 4 + 5) // 3, "(x + 8) // 12 + 1"),
    (lambda: x % 12 // 4, "x // 4 % 3"),
    (lambda: x % 12 % 4, "x % 4"),
    (lambda: x // 4 * 4 + x % 4, "x"),
    (lambda: x - x // 8 * 8, "x % 8"),
    (lambda: y + x * 3 + z * 6 - (x + z * 2) // 4 * 12, "y + (x + z * 2) % 4 * 3"),
    (lambda: (x // 4 % 8) * 4 + x // 32 * 32 + x % 4, "x"),
    (lambda: (bx * 128 + j * 8 + i) // 8 % 16, "j"),
    (lambda: (x + 17) // 8, "(x + 1) // 8 + 2"),
    (lambda: (9 * x) // 8, "x + x // 8"),
    (lambda: x // -8, "-x // 8"),
    (lambda: x - y - x, "-y"),
    (lambda: (x - 1) * n + n, "x * n"),
    (lambda: (bx * 128 + i) * n, "(bx * 128 + i) * n"),
    (lambda: (bx * n + i) // n, "(bx * n + i) // n"),
    (lambda: (bx * n + 3 * n) // n, "bx + 3"),
    (lambda: binary("min", i, j + 8), "i"),
    (lambda: binary("max", i, 8), "8"),
    (lambda: binary("min", x, binary("min", x + 1, x + 2)), "x"),
    (lambda: select(i < 4, i, 4), "T.min(i, 4)"),
    (lambda: select(i < 9, x, y), "x"),
    (lambda: select(x < y, z, z), "z"),
    (lambda: i < 8, "T.bool(1)"),
    (lambda: i + 1 <= 7, "i < 7"),
    (lambda: bx * 128 + i >= n, "n <= bx * 128 + i"),
    (lambda: x * 4 + 3 < y * 4, "x < y"),
    (lambda: x // 8 < 3, "x < 24"),
    (lambda: x // 8 >= 3, "x >= 24"),
    (lambda: 2 * x + 4 * y == 3, "T.bool(0)"),
    (lambda: (i >= 0) & (i < n), "i < n"),
    (lambda: (x < 5) & (x < 3), "x < 3"),
    (lambda: (x < 5) & (x > 7), "T.bool(0)"),
    (lambda: (x < 5) | (x > 3), "T.bool(1)"),
    (lambda: (x < y) & ~(x < y), "T.bool(0)"),
    (lambda: ~((x < y) & (y < z)), "y <= x or z <= y"),
    (lambda: (x << 3) >> 3, "x"),
    (lambda: (x * 8 + i) & 7, "i"),
    (lambda: cast(cast(x, "int64"), "int32"), "x"),
    (lambda: Let(y, x * 4, y // 4 + i), None),
    (lambda: ramp(x * 16, 1, 16) % broadcast(32, 16), "T.Ramp(x % 2 * 16, 1, 16)"),
    (lambda: ramp(x * 16, 1, 16) // broadcast(32, 16), "T.Broadcast(x // 2, 16)"),
    (lambda: ramp(i, 1, 4) + broadcast(j, 4) * broadcast(2, 4), "T.Ramp(i + j * 2, 1, 4)"),
    (lambda: ramp(x, 8, 4) // broadcast(8, 4), "T.Ramp(x // 8, 1, 4)"),
    (lambda: ramp(x, 8, 4) % broadcast(8, 4), "T.Broadcast(x % 8, 4)"),
    (lambda: ramp(i, 1, 4) < broadcast(11, 4), "T.Broadcast(T.bool(1), 4)"),
    (lambda: ramp(i, 1, 4) >= broadcast(11, 4), "T.Broadcast(T.bool(0), 4)"),
]


@pytest.mark.parametrize("number", range(len(FORMS)))
def test_canonical_form(number):
    make, text = FORMS[number]
    new = Simplifier(RANGES).simplify(make())
    if text is not None:
        # Constants print as the language writes them; spelling is the printer's business.
        assert _plain(repr(new)) == _plain(text)


def _plain(text: str) -> str:
    spellings = {"T.bool(1)": "True", "T.bool(0)": "False", "T.ramp": "T.Ramp", "T.broadcast": "T.Broadcast"}
    for name, short in spellings.items():
        text = text.replace(name, short)
    return text


def test_equal_structures_become_the_identical_object():
    simplifier = Simplifier()
    assert simplifier.simplify((x + y) // 3) is simplifier.simplify((y + x) // 3)
    assert simplifier.simplify(x * y + 1) is simplifier.simplify(1 + y * x)


def test_memory_may_wrap_so_nothing_is_regrouped():
    a = Buffer("A", as_shape(16), DType("int32"))
    load = BufferLoad(a, (i,))
    kept = Simplifier(RANGES).simplify((load * 8) // 8)
    assert isinstance(kept, Binary) and kept.op == "floordiv"
    small = Buffer("B", as_shape(16), DType("int8"))
    narrow = cast(BufferLoad(small, (i,)), "int32")
    assert isinstance(Simplifier(RANGES).simplify((narrow * 8) // 8).dtype, DType)
    assert Simplifier(RANGES).simplify((narrow * 8) // 8 - narrow).value == 0


def test_floats_change_only_by_exact_identities():
    f = Var("f", DType("float32"))
    assert simplify(f * 1.0) is f
    assert simplify(f / 1.0) is f
    assert simplify(f - 0.0) is f
    assert simplify(f + FloatImm(-0.0)) is f
    assert isinstance(simplify(f + 0.0), Binary)
    assert isinstance(simplify(f * 0.0), Binary)
    assert isinstance(simplify(f - f), Binary)
    assert simplify(Unary("neg", Unary("neg", f))) is f
    assert isinstance(simplify(f < f), Binary)


def test_facts_decide_and_are_taken_back():
    prover = Prover(RANGES)
    guard = bx * 128 + j * 8 + i < n
    with prover.assume(guard):
        assert prover.proves(bx * 128 + j * 8 < n)
        assert prover.proves(n > 0)
        assert prover.simplify(guard).value == 1
    with prover.assume(n % 8 == 0):
        assert prover.divides(8, n * 3 + 16)
        assert repr(prover.simplify((n + i) // 8)) == "n // 8"
        assert repr(prover.simplify((n + i) % 8)) == "i"
        assert prover.simplify(n // 8 * 8) is n
    assert not prover.divides(8, n)
    assert not prover.proves(guard)
    assert prover.solver_queries <= 1


def test_symbolic_loop_ranges_are_facts():
    prover = Prover({i: (0, 8)})
    k = Var("k")
    with prover.bind(k, 0, (n + 7) // 8):
        assert prover.proves(k * 8 < n)
        assert not prover.proves(k * 8 + i < n)
        with prover.assume(n % 8 == 0):
            assert prover.proves(k * 8 + i < n)
    assert prover.solver_queries <= 1


def test_a_step_makes_a_modulus():
    prover = Prover()
    with prover.bind(x, 4, 5, step=16):
        assert prover.divides(4, x)
        assert prover.bounds(x).lo == 4 and prover.bounds(x).hi == 68
        assert repr(prover.simplify(x % 16)) == "4"


def test_a_refuted_condition_comes_with_values():
    decision = Prover({i: (0, 8)}).decide(i < 7)
    assert decision.refuted and decision.witness == {i: 7}
    # Neither corner fails: the solver finds the hole.
    prover = Prover({x: (0, 4096), y: (0, 4096)})
    decision = prover.decide((x * 7 - y * 5 != 1234) | (x < 1000) | (x > 1003))
    assert decision.refuted
    assert decision.witness[x] * 7 - decision.witness[y] * 5 == 1234
    assert prover.solver_queries == 1


def test_what_depends_on_memory_is_unknown_not_refuted():
    table = Buffer("table", as_shape(16), DType("int32"))
    prover = Prover({i: (0, 16)})
    assert prover.decide(BufferLoad(table, (i,)) < 100).outcome == "unknown"


def test_thousands_of_terms():
    total = x
    for k in range(5000):
        total = total + Var(f"v{k % 50}") * k
    assert simplify(total).dtype is total.dtype
    a = Buffer("A", as_shape(8000), DType("int32"))
    loads = BufferLoad(a, (const(0, "int32"),))
    floats = Var("f", DType("float32"))
    for k in range(5000):
        loads = loads + BufferLoad(a, (const(k, "int32"),))
        floats = floats + FloatImm(float(k))
    assert simplify(loads).dtype is loads.dtype
    assert simplify(floats).dtype is floats.dtype


def test_importing_arith_loads_no_solver():
    code = "import sys, tile_core.arith; print([m for m in ('z3', 'numpy', 'torch', 'tvm_ffi') if m in sys.modules])"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "[]"


def test_constants_are_bool_where_the_condition_is():
    assert isinstance(simplify(const(3, "int32") < 4), IntImm)
