"""CppPrinter: operators whose meaning differs from C++'s; HostPythonPrinter: expressions that Python computes alike."""

from __future__ import annotations

import pytest

from tile_core.codegen import CppPrinter, HostPythonPrinter, element_count
from tile_core.dtypes import DType
from tile_core.errors import InternalError
from tile_core.ir import (
    AccessPtr,
    Binary,
    Buffer,
    Cast,
    IntImm,
    Let,
    Select,
    SizeVar,
    Unary,
    Var,
    as_shape,
    const,
)

I8, I32, I64, F32, U8 = (DType(name) for name in ("int8", "int32", "int64", "float32", "uint8"))
X, Y, SMALL = Var("x", I32), Var("y", I32), Var("small", I8)


def int32(value: int) -> IntImm:
    return IntImm(value, I32)


@pytest.mark.parametrize(
    ("node", "text"),
    [
        (Binary("add", X, Y), "(x + y)"),
        (Binary("floordiv", X, Y), "tile::floordiv(x, y)"),
        (Binary("floordiv", X, int32(8)), "(x >> 3)"),
        (Binary("floormod", X, int32(8)), "(x & 7)"),
        (Binary("floormod", X, int32(6)), "tile::floormod(x, 6)"),
        (Binary("floordiv", Var("v", I32.with_lanes(4)), const(8, I32.with_lanes(4))), None),
        (Binary("min", X, Y), "tile::minimum(x, y)"),
        (Binary("shl", X, Y), "tile::shift_left(x, y)"),
        (Binary("add", SMALL, SMALL), "(int8_t)(small + small)"),
        (Unary("neg", SMALL), "(int8_t)(-small)"),
        (Cast(F32, X), "tile::convert<float>(x)"),
        (IntImm(5, I64), "int64_t(5LL)"),
        (Let(X, Y, Binary("add", X, X)), "[&](int32_t x) { return (x + x); }(y)"),
    ],
)
def test_an_operator_prints_with_the_languages_meaning(node, text):
    if text is None:  # vectors have no shortcut: their operands need not be signed
        with pytest.raises(InternalError, match="cannot print"):
            CppPrinter().expr(node)
        return
    assert CppPrinter().expr(node) == text


def test_a_view_is_a_cast_of_what_it_views():
    arena = Buffer("arena", as_shape((256,)), U8, "shared")
    view = Buffer("view", as_shape((16,)), F32, "shared", data=arena, offset=int32(64))
    printer = CppPrinter()
    assert printer.expr(AccessPtr(view, (int32(0),), int32(1))) == "(((float*)(arena + 64)))"
    assert printer.expr(AccessPtr(view, (X,), int32(1))) == "(((float*)(arena + 64)) + x)"
    assert element_count(view) == 16


def test_a_local_buffer_of_unknown_size_is_a_fault_of_ours():
    with pytest.raises(InternalError, match="has no constant size"):
        element_count(Buffer("b", (SizeVar("n"),), F32, "local"))


@pytest.mark.parametrize(
    ("node", "value"),
    [
        (Binary("floordiv", X, Y), -4),
        (Binary("floormod", X, Y), 1),
        (Binary("truncdiv", X, Y), -3),
        (Binary("max", X, Y), 2),
        (Binary("and", Binary("lt", X, Y), Unary("not", Binary("eq", X, Y))), True),
        (Binary("shl", Y, int32(3)), 16),
        (Select(Binary("gt", X, Y), X, Y), 2),
        (Cast(F32, Y), 2.0),
        (Unary("bitnot", Y), -3),
        (Let(Var("z", I32), Y, Binary("mul", Y, Y)), 4),
        (IntImm(-3, I32), -3),
    ],
)
def test_host_expressions_mean_in_python_what_they_mean(node, value):
    class Call:
        truncdiv = staticmethod(lambda a, b: int(a / b))

    assert eval(HostPythonPrinter().expr(node), {"call": Call, "x": -7, "y": 2}) == value


def test_an_operation_that_is_not_the_hosts_is_a_fault_of_ours():
    from tile_core.ir import Call

    with pytest.raises(InternalError, match="no host operation exp in Python"):
        HostPythonPrinter().expr(Call("exp", (X,), F32))
