"""Conversions and operators: what the language defines, element type by element type."""

import math

import ml_dtypes
import numpy as np
import pytest

from tile_core.dtypes import SCALAR_NAMES, DType
from tile_core.interpreter import convert, interpret, numpy_type
from tile_core.interpreter.operators import BINARY, INTRINSICS, apply_binary, apply_intrinsic
from tile_core.interpreter.values import poison, wrap
from tile_core.ir import BINARY_OPERATORS, Binary, Buffer, BufferStore, PrimFunc, as_shape, const, intrinsics

NUMBERS = [n for n in SCALAR_NAMES if n not in ("void", "handle")]


@pytest.mark.parametrize("source", NUMBERS)
@pytest.mark.parametrize("target", NUMBERS)
def test_every_type_converts_to_every_other(source, target):
    values = np.array([0, 1, 1, 0]).astype(numpy_type(DType(source)))
    with np.errstate(all="ignore"):
        result = np.asarray(convert(values, DType(source), DType(target)))
    assert result.dtype == numpy_type(DType(target))
    if "float8_e8m0fnu" not in (source, target):  # has no zero
        assert result.astype("float64").tolist() == [0, 1, 1, 0]


@pytest.mark.parametrize(
    ("source", "value", "target", "expected"),
    [
        ("float32", 2.7, "int32", 2),
        ("float32", -2.7, "int32", -2),
        ("float32", math.nan, "int32", 0),
        ("float32", math.inf, "int8", 127),
        ("float32", -1.0, "uint8", 0),
        ("float64", 2.0**63, "int64", 2**63 - 1),
        ("float64", -(2.0**63), "int64", -(2**63)),
        ("int32", 300, "int8", 44),
        ("int32", -1, "uint16", 65535),
        ("int32", 9, "int4", -7),
        ("float32", 0.5, "bool", True),
        ("int64", 256, "bool", True),
        ("float32", 1 + 2**-9, "bfloat16", 1.0),
        ("float32", 65520.0, "float16", math.inf),
        ("float32", 1 + 2**-11, "tfloat32", 1.0),
        ("float32", 1 + 3 * 2**-11, "tfloat32", 1 + 2**-9),
    ],
)
@pytest.mark.parametrize("array", [False, True])
def test_conversions_at_the_edges(source, value, target, expected, array):
    given = np.asarray([value]).astype(numpy_type(DType(source)))
    with np.errstate(all="ignore"):
        result = convert(given if array else given[0], DType(source), DType(target))
    assert np.asarray(result).reshape(-1)[0] == expected


@pytest.mark.parametrize("name", NUMBERS)
def test_poison_is_nan_where_there_is_one(name):
    held = poison(4, DType(name))
    assert held.dtype == numpy_type(DType(name)) and held.shape == (4,)
    if DType(name).is_float and name not in ("float6_e2m3fn", "float6_e3m2fn", "float4_e2m1fn"):
        assert np.isnan(held.astype("float32")).all()


def test_every_operator_and_pure_core_intrinsic_has_a_rule():
    assert set(BINARY) == set(BINARY_OPERATORS)
    core = {name for name, row in intrinsics().items() if row.pure and row.effect == "none"}
    assert {n for n in INTRINSICS if n in core} >= {"exp", "erf", "fma", "reinterpret", "vector_reduce", "infinity"}


INTEGER = ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"]
FLOAT = ["float16", "bfloat16", "float32", "float64"]


@pytest.mark.parametrize("dtype", INTEGER)
@pytest.mark.parametrize("op", ["floordiv", "floormod", "truncdiv", "truncmod"])
def test_integer_division_rounds_as_it_says(op, dtype):
    info = np.iinfo(dtype)
    a = [v for v in (info.max, 7, 1, 0, -1, -7, info.min) if v >= info.min]
    b = [v for v in (info.max, 3, 1, -1, -3, info.min) if v >= info.min and v]
    for x in a:
        for y in b:
            q = x // y if op.startswith("floor") else (abs(x) // abs(y)) * (1 if (x < 0) == (y < 0) else -1)
            exact = q if op.endswith("div") else x - q * y
            if exact > info.max:
                continue  # the smallest number divided by -1
            with np.errstate(all="ignore"):
                got = apply_binary(op, np.dtype(dtype).type(x), np.dtype(dtype).type(y), DType(dtype))
            assert int(got) == exact, (op, x, y)
            assert got.dtype == dtype


@pytest.mark.parametrize("dtype", INTEGER)
@pytest.mark.parametrize("op", ["add", "sub", "mul", "min", "max", "bitand", "bitor", "bitxor", "shl", "shr"])
def test_integer_operators_wrap(op, dtype, rng):
    info = np.iinfo(dtype)
    a = rng.integers(info.min, info.max, 50, dtype=dtype, endpoint=True)
    b = rng.integers(info.min, info.max, 50, dtype=dtype, endpoint=True)
    if op in ("shl", "shr"):
        b = (b % info.bits).astype(dtype)
    python = {
        "add": lambda x, y: x + y,
        "sub": lambda x, y: x - y,
        "mul": lambda x, y: x * y,
        "min": min,
        "max": max,
        "bitand": lambda x, y: x & y,
        "bitor": lambda x, y: x | y,
        "bitxor": lambda x, y: x ^ y,
        "shl": lambda x, y: x << y,
        "shr": lambda x, y: x >> y,
    }[op]
    with np.errstate(all="ignore"):
        got = apply_binary(op, a, b, DType(dtype))
    for x, y, z in zip(a.tolist(), b.tolist(), got.tolist()):
        wrapped = (python(x, y) - info.min) % (1 << info.bits) + info.min
        assert z == wrapped, (op, x, y)


@pytest.mark.parametrize("dtype", FLOAT)
@pytest.mark.parametrize("op", ["add", "sub", "mul", "div"])
def test_float_operators_round_once(op, dtype, rng):
    held = numpy_type(DType(dtype))
    a, b = rng.standard_normal(200).astype(held), rng.standard_normal(200).astype(held)
    wide = np.longdouble if dtype == "float64" else np.float64
    exact = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide}[op](
        a.astype(wide), b.astype(wide)
    )
    got = apply_binary(op, a, b, DType(dtype))
    assert got.dtype == held
    # float32 holds sums and products of two 16-bit floats closely enough to round them right.
    middle = np.float32 if dtype in ("float16", "bfloat16") else held
    assert np.array_equal(got, exact.astype(middle).astype(held))


@pytest.mark.parametrize("dtype", FLOAT)
def test_min_and_max_give_the_number(dtype):
    held = numpy_type(DType(dtype))
    a, b = np.array([1, np.nan, np.nan], held), np.array([np.nan, 2, np.nan], held)
    for op in ("min", "max"):
        with np.errstate(all="ignore"):
            got = apply_binary(op, a, b, DType(dtype)).astype("float32")
        assert got[:2].tolist() == [1, 2] and np.isnan(got[2])


@pytest.mark.parametrize("dtype", FLOAT)
@pytest.mark.parametrize(
    ("name", "reference"),
    [
        ("exp", math.exp),
        ("exp2", lambda x: 2.0**x),
        ("log", math.log),
        ("log1p", math.log1p),
        ("sqrt", math.sqrt),
        ("rsqrt", lambda x: 1 / math.sqrt(x)),
        ("sin", math.sin),
        ("tanh", math.tanh),
        ("erf", math.erf),
        ("sigmoid", lambda x: 1 / (1 + math.exp(-x))),
        ("floor", math.floor),
        ("ceil", math.ceil),
        ("trunc", math.trunc),
        ("round", round),
        ("nearbyint", round),
    ],
)
def test_functions_of_floats(name, reference, dtype, rng):
    held = numpy_type(DType(dtype))
    values = np.concatenate([rng.uniform(0.1, 4, 50), [0.5, 1.5, 2.5]]).astype(held)
    got = apply_intrinsic(name, [values], [DType(dtype)], DType(dtype))
    assert got.dtype == held
    expected = np.array([reference(float(v)) for v in values])
    tolerance = {"float16": 1e-3, "bfloat16": 8e-3, "float32": 3e-7, "float64": 1e-15}[dtype]
    assert np.allclose(got.astype("float64"), expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("dtype", INTEGER)
def test_bits_are_counted(dtype, rng):
    info = np.iinfo(dtype)
    values = rng.integers(info.min, info.max, 50, dtype=dtype, endpoint=True)
    ones = apply_intrinsic("popcount", [values], [DType(dtype)], DType(dtype))
    zeros = apply_intrinsic("clz", [values], [DType(dtype)], DType(dtype))
    for value, one, zero in zip(values.tolist(), ones.tolist(), zeros.tolist()):
        pattern = value % (1 << info.bits)
        assert one == bin(pattern).count("1")
        assert zero == info.bits - pattern.bit_length()


def test_bits_are_reinterpreted():
    assert apply_intrinsic("reinterpret", [np.float32(1.0)], [DType("float32")], DType("int32")) == 0x3F800000
    got = apply_intrinsic("reinterpret", [np.array([0x3F80], "uint16")], [DType("uint16")], DType("bfloat16"))
    assert got.dtype == ml_dtypes.bfloat16 and got.tolist() == [1.0]


def test_four_bit_integers_wrap():
    assert wrap(np.array([7, 8, 15, 16, -9]), DType("int4")).tolist() == [7, -8, -1, 0, 7]


def test_a_sum_of_five_thousand_terms_is_evaluated():
    total = const(1.0, "float32")
    buffer = Buffer("A", as_shape((1,)), DType("float32"))
    for _ in range(5000):
        total = Binary("add", total, const(1.0, "float32"))
    a = np.zeros(1, "float32")
    interpret(PrimFunc("f", (buffer,), BufferStore(buffer, total, (const(0, "int32"),))), a)
    assert a[0] == 5001
