"""Conversions of the interpreter against ml_dtypes and numpy, and against the definition of rounding."""

from __future__ import annotations

from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest

import tile_core.language as T
from tile_core.casts import FORMATS, ROUNDINGS, cast_rule, constant_bits, number_types, round_constant
from tile_core.dtypes import DType
from tile_core.errors import CompileError
from tile_core.interpreter import numpy_type
from tile_core.interpreter.values import convert
from tile_core.ir import Call, Var
from tile_core.testing.carriers import all_values, equal_values

TYPES = {d.name: d for d in number_types()}
SMALL = [d for d in TYPES.values() if d.bits <= 16]


@pytest.fixture(autouse=True)
def quiet():
    with np.errstate(all="ignore"):
        yield


def test_formats_are_those_of_ml_dtypes():
    for name, form in FORMATS.items():
        if name in ("tfloat32", "float16", "float32", "float64"):
            continue
        info = ml_dtypes.finfo(getattr(ml_dtypes, name))
        assert (info.nexp, info.nmant) == (form.exponent, form.mantissa)
        assert float(info.max) == form.largest_value
        assert float(info.smallest_normal) == 2.0**form.least_exponent


@pytest.mark.parametrize("source", SMALL, ids=str)
@pytest.mark.parametrize("saturate", [True, False])
def test_every_value_of_a_small_type_converts_as_ml_dtypes_does(source, saturate):
    values = all_values(source)
    wide = np.asarray(values).astype(np.float32)  # exact
    for target in TYPES.values():
        if target is source or not target.is_float or target.name == "tfloat32":
            continue
        form, expected = FORMATS[target.name], wide
        if target.bits <= 8 and saturate:
            low = -form.largest_value if form.signed else form.value(0)
            expected = np.where(np.isnan(wide), wide, np.clip(wide, low, form.largest_value))
        expected = expected.astype(numpy_type(target)).astype(np.float64)
        if form.nan is None:
            expected = np.where(np.isnan(wide), form.largest_value, expected)  # ml_dtypes has -0 for NaN here
        if not form.signed:
            # ml_dtypes rounds float32 subnormals up to the next power, whatever is nearer.
            tiny = (wide > 0) & (wide < 2.0**-126)
            expected = np.where(tiny, np.where(wide >= 1.5 * 2.0**-127, 2.0**-126, 2.0**-127), expected)
        assert equal_values(convert(values, source, target, saturate=saturate), expected).all(), target


@pytest.mark.parametrize("source", SMALL, ids=str)
def test_small_floats_become_the_nearest_integers_in_range(source):
    values = all_values(source)
    for target in TYPES.values():
        if target.is_float or target.is_bool or target is source:
            continue
        found = convert(values, source, target)
        if not source.is_float:
            expected = (
                values.astype(np.int64) & ((1 << target.bits) - 1) if target.bits < 64 else values.astype(np.int64)
            )
            if target.kind == "i" and target.bits < 64:
                expected = np.where(expected >> (target.bits - 1), expected - (1 << target.bits), expected)
            assert (found.astype(np.int64) == expected).all(), target
            continue
        wide = np.asarray(values).astype(np.float64)
        for value, integer in {float(v): int(i) for v, i in zip(wide, found) if v == v}.items():
            bounded = max(min(value, float(target.max_value) + 1), float(target.min_value) - 1)
            assert integer == max(target.min_value, min(target.max_value, int(bounded))), (target, value)
        assert not found[np.isnan(wide)].any()


def _neighbours(target: DType) -> list[float]:
    form = FORMATS[target.name]
    return [form.value(m) for m in range(form.largest + 1)]


@pytest.mark.parametrize("target", [d for d in TYPES.values() if d.is_float and d.bits <= 8], ids=str)
@pytest.mark.parametrize("source", ["float32", "float64", "int32", "int64", "uint64"])
def test_wide_values_round_once_in_every_mode(source, target):
    values = all_values(DType(source))[:600]
    random = np.random.default_rng(1).integers(0, 1 << 32, values.size, dtype=np.uint32)
    magnitudes = _neighbours(target)
    form = FORMATS[target.name]
    for mode in ROUNDINGS:
        found = convert(values, DType(source), target, mode, True, random if mode == "rs" else None).astype(np.float64)
        for value, bits, result in zip(values, random, found):
            if value != value or abs(float(value)) >= magnitudes[-1] or (not form.signed and value <= magnitudes[0]):
                continue
            exact = abs(Fraction(value.item()))
            above = int(np.searchsorted(magnitudes, float(exact)))
            while above and Fraction(magnitudes[above - 1]) >= exact:
                above -= 1
            while Fraction(magnitudes[above]) < exact:
                above += 1
            high = Fraction(magnitudes[above])
            low = high if high == exact else Fraction(magnitudes[above - 1])
            if low == high:
                assert abs(result) == float(exact)
                continue
            part = (exact - low) / (high - low)
            up = {
                "rn": part > Fraction(1, 2) or (part == Fraction(1, 2) and (above % 2 == 0 or not form.signed)),
                "rz": False,
                "rp": value > 0,
                "rm": value < 0,
                "rs": int(part * 2**32) + int(bits) >= 2**32,
            }[mode]
            assert abs(result) == float(high if up else low), (mode, value)


def test_stochastic_rounding_has_the_value_as_mean():
    values = np.full(1 << 14, 1.0 + 0.3 * 2.0**-3, dtype=np.float32)
    random = np.random.default_rng(5).integers(0, 1 << 32, values.size, dtype=np.uint32)
    found = convert(values, DType("float32"), DType("float8_e4m3fn"), "rs", True, random).astype(np.float64)
    assert set(found) == {1.0, 1.125}
    assert abs(found.mean() - values[0]) < 0.002


def test_directed_rounding_stops_at_the_largest_value():
    far = np.array([1e30, -1e30], dtype=np.float32)
    half = DType("float16")
    assert convert(far, DType("float32"), half, "rz").tolist() == [65504.0, -65504.0]
    assert convert(far, DType("float32"), half, "rp").tolist() == [np.inf, -65504.0]
    assert convert(far, DType("float32"), half, "rm").tolist() == [65504.0, -np.inf]
    assert convert(far, DType("float32"), half).tolist() == [np.inf, -np.inf]


def test_every_pair_has_a_rule():
    for source in TYPES.values():
        for target in TYPES.values():
            rule = cast_rule(source, target)
            assert rule.outside in ("wraps", "clamps", "infinity", "saturates", "truth")
            assert (rule.nan == "none") == (not source.is_float or FORMATS[source.name].nan is None)


@pytest.mark.parametrize(
    ("dtype", "options", "said"),
    [
        ("float16", {"round": "ru"}, "no rounding mode"),
        ("int8", {"round": "rs", "rbits": 1}, "does not round by 'rs'"),
        ("float8_e4m3fn", {"round": "rs"}, "without rbits"),
        ("float8_e4m3fn", {"rbits": 3}, "with rbits"),
    ],
)
def test_what_a_cast_does_not_do_is_an_error(dtype, options, said):
    with pytest.raises(CompileError) as caught:
        T.cast(Var("x", DType("float32")), dtype, **options)
    assert caught.value.code == "E-CAST"
    assert said in str(caught.value)


def test_a_cast_without_options_is_a_plain_one():
    x = Var("x", DType("float32"))
    assert not isinstance(T.cast(x, "float16", round="rn"), Call)
    assert not isinstance(T.cast(x, "float16", sat=False), Call)
    assert isinstance(T.cast(x, "float16", round="rz"), Call)
    assert isinstance(T.cast(x, "float8_e4m3fn", sat=False), Call)
    assert T.cast(x, "float32x4", round="rn").dtype.lanes == 4


@pytest.mark.parametrize("dtype", [d for d in TYPES.values() if d.is_float], ids=str)
def test_constants_are_rounded_as_conversions_round(dtype):
    values = all_values(DType("float64"))[:3000]
    expected = convert(values, DType("float64"), dtype).astype(np.float64)
    found = np.array([round_constant(float(v), dtype) for v in values])
    assert equal_values(found, expected).all()
    if dtype.bits <= 16:
        held = numpy_type(dtype)
        bits = np.array([constant_bits(float(v), dtype) for v in values]).astype(f"uint{held.itemsize * 8}").view(held)
        assert equal_values(bits, expected).all()


def test_a_constant_is_rounded_before_it_is_widened():
    assert T.cast(T.float8_e4m3fn(1e30), "float32").value == 448.0
    assert T.cast(T.float16(0.1), "float64").value == float(np.float16(0.1))
    assert T.cast(T.float4_e2m1fn(float("nan")), "float32").value == 6.0
