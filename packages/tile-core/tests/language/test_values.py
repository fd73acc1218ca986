"""Scalar functions, constants and element types."""

import math

import pytest

import tile_core.language as T
from tile_core.dtypes import DType
from tile_core.errors import CompileError
from tile_core.ir import Binary, Call, Cast, FloatImm, IntImm, Select, Shuffle, Var

X = Var("x", T.float32)
H = Var("h", T.float16)
I = Var("i", T.int32)
L = Var("l", T.int64)


POWERS = ("exp", "exp2", "exp10", "log", "log2", "log10", "log1p", "sqrt", "rsqrt")
ANGLES = ("sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh")
OTHERS = ("erf", "sigmoid", "floor", "ceil", "trunc", "round", "nearbyint", "abs", "fabs")


@pytest.mark.parametrize("name", [*POWERS, *ANGLES, *OTHERS])
def test_a_function_keeps_the_float_type(name):
    for value in (X, H):
        result = getattr(T, name)(value)
        assert isinstance(result, Call)
        assert result.dtype is value.dtype


@pytest.mark.parametrize("name", ["exp", "log2", "sqrt", "sigmoid", "fabs"])
def test_a_function_of_an_integer_is_a_float(name):
    assert getattr(T, name)(I).dtype is T.float32


@pytest.mark.parametrize("name", ["floor", "ceil", "trunc", "round", "nearbyint"])
def test_rounding_an_integer_is_the_integer(name):
    assert getattr(T, name)(I) is I


@pytest.mark.parametrize("name", ["isnan", "isinf", "isfinite"])
def test_a_predicate_is_a_bool(name):
    assert getattr(T, name)(H).dtype is T.bool


@pytest.mark.parametrize("name", ["pow", "fmod", "atan2", "hypot", "copysign", "nextafter"])
def test_a_function_of_two_takes_the_wider_type(name):
    function = getattr(T, name)
    assert function(X, H).dtype is T.float32
    assert function(H, 2).dtype is T.float16
    assert function(2.0, H).dtype is T.float16


def test_fused_multiply_add_and_scaling():
    assert T.fma(H, X, 1).dtype is T.float32
    assert T.ldexp(H, I).args[1].dtype is T.int32


def test_absolute_value_of_unsigned_is_itself():
    value = Var("u", T.uint8)
    assert T.abs(value) is value
    assert T.abs(I).dtype is T.int32


def test_bits():
    assert T.popcount(I).dtype is T.int32
    assert T.clz(L).dtype is T.int64
    assert T.shift_left(I, 2).op == "shl"
    assert T.bitwise_and(I, 7).op == "bitand"
    assert T.bitwise_not(I).op == "bitnot"


@pytest.mark.parametrize(("a", "b"), [(7, 2), (-7, 2), (7, -2), (-7, -2), (8, 4), (0, 3)])
def test_divisions_of_python_integers(a, b):
    assert T.floordiv(a, b) == a // b
    assert T.floormod(a, b) == a % b
    assert T.truncdiv(a, b) == int(a / b)
    assert T.truncmod(a, b) == int(math.fmod(a, b))
    assert T.ceildiv(a, b) == math.ceil(a / b)
    assert all(type(f(a, b)) is int for f in (T.floordiv, T.floormod, T.truncdiv, T.truncmod, T.ceildiv, T.cdiv))


def test_divisions_of_expressions():
    assert repr(T.ceildiv(I, 8)) == "(i + 8 - 1) // 8"
    assert T.truncmod(I, 3).op == "truncmod"
    assert repr(T.align_up(I, 4)) == "(i + 4 - 1) // 4 * 4"
    assert T.align_up(5, 4) == 8


def test_extremes_take_any_number_of_values():
    assert T.max(1, 5, 3) == 5
    assert T.min(1, 5, 3) == 1
    assert repr(T.max(I, 3, 4)) == "T.max(T.max(i, 3), 4)"
    assert repr(T.clamp(X, 0, 1)) == "T.min(T.max(x, 0.0), 1.0)"


def test_choices():
    lazy = T.if_then_else(I > 3, X, 0)
    assert isinstance(lazy, Select) and lazy.lazy and lazy.dtype is T.float32
    assert not T.Select(I > 3, X, 0).lazy
    assert T.if_then_else(True, X, None) is X
    assert repr(T.any_of(I > 1, I < 0)) == "i > 1 or i < 0"
    assert repr(T.all_of(I > 1, I)) == "i > 1 and i != 0"


def test_conversions():
    assert isinstance(T.cast(X, "float16"), Cast)
    assert T.cast(X, "float32") is X
    assert isinstance(T.Cast("float32", X), Cast)
    assert T.cast(3, "float16").value == 3.0
    assert T.float16(X).dtype is T.float16
    assert T.float16(1).value == 1.0 and T.int8(-1).value == -1
    assert T.bool(3).value == 1
    assert math.isinf(T.float32("inf").value)
    assert T.reinterpret(X, "int32").dtype is T.int32
    assert T.reinterpret("uint16", H).dtype is T.uint16
    assert isinstance(T.int32(), Var)
    assert isinstance(T.float32x4(1, X, 2.0, H), Shuffle)


@pytest.mark.parametrize("name", ["float16", "bfloat16", "float32", "float64", "float8_e4m3fn"])
def test_limits_of_floats(name):
    import ml_dtypes
    import numpy

    limits = ml_dtypes.finfo(getattr(ml_dtypes, name, None) or getattr(numpy, name))
    assert T.max_value(name).value == float(limits.max)
    assert T.min_value(name).value == float(limits.min)


def test_limits_of_integers_and_infinity():
    assert (T.min_value("int8").value, T.max_value("uint16").value) == (-128, 65535)
    assert isinstance(T.infinity("float16"), FloatImm) and math.isinf(T.infinity("float16").value)
    assert (-T.infinity()).value == -math.inf


def test_vector_types_and_aliases():
    assert T.float16x8 is DType("float16", 8)
    assert T.half is T.float16 and T.float is T.float32 and T.int is T.int32 and T.boolean is T.bool
    assert T.dtype("float16").bits == 16
    assert T.dtype(int) is T.int32
    assert T.float16 == "float16"


def test_vectors():
    assert T.Ramp(I, 1, 4).dtype is DType("int32", 4)
    assert T.Broadcast(X, 2).dtype is DType("float32", 2)
    assert T.exp(T.Broadcast(H, 2)).dtype is DType("float16", 2)


def test_ordinary_operators_fold_and_convert():
    assert isinstance(IntImm(3) + 4, IntImm)
    assert isinstance(I + 1, Binary)
    assert (I / 2).dtype is T.float32
    assert (I + X).dtype is T.float32


def test_dynamic_names():
    m, n = T.dynamic("m, n")
    assert (m.name, n.name) == ("m", "n")
    assert T.symbolic("k", "int64").dtype is T.int64
    assert T.dyn["j"].name == "j"


def test_what_does_not_convert_is_refused():
    for call in (
        lambda: T.float32(object()),
        lambda: T.int32(float("nan")),
        lambda: T.uint8(-1),
        lambda: T.handle(1),
        lambda: T.float32("abc"),
    ):
        with pytest.raises(CompileError) as caught:
            call()
        assert caught.value.code == "E-CONVERT"


def test_missing_names_are_attribute_errors_that_name_near_ones():
    assert not hasattr(T, "printf")
    assert getattr(T, "tma_store_wait", None) is None
    with pytest.raises(AttributeError) as caught:
        T.pipelined
    assert "T.Pipelined" in str(caught.value)
    with pytest.raises(AttributeError):
        T.__wrapped__


def test_all_names_exist():
    for name in T.__all__:
        assert getattr(T, name) is not None


def test_arguments_have_the_names_that_kernels_call_them_by():
    assert T.ceildiv(lhs=7, rhs=2) == 4
    for call in (
        lambda: T.clamp(dst=X, min_val=0, max_val=1),
        lambda: T.atan2(x1=X, x2=X),
        lambda: T.ldexp(x1=X, x2=I),
        lambda: T.fma(x=X, y=X, z=X),
        lambda: T.likely(cond=I < 3),
    ):
        assert call().dtype in (T.float32, T.bool)
    rows = T.Layout(shape=[4, 8], forward_fn=lambda i, j: i * 8 + j)
    assert rows == T.Layout([4, 8], lambda i, j: i * 8 + j)
    spread = T.Fragment(shape=[4, 8], forward_fn=lambda i, j: (i * 8 + j, 0))
    assert spread == T.Fragment([4, 8], lambda i, j: (i * 8 + j, 0))
