"""Accuracy and special values of the element-wise functions, vector and scalar, on each instruction set."""

from __future__ import annotations

import ctypes
import math

import ml_dtypes
import numpy as np
import pytest

TYPES = {
    "float": np.float32, "double": np.float64, "fp16": np.float16, "bf16": ml_dtypes.bfloat16, "int8_t": np.int8,
    "uint8_t": np.uint8, "int32_t": np.int32, "uint32_t": np.uint32, "int64_t": np.int64,
}  # fmt: skip
SPECIAL = [
    0.0,
    -0.0,
    math.inf,
    -math.inf,
    math.nan,
    1.0,
    -1.0,
    0.5,
    -0.5,
    2.0,
    1e-45,
    -1e-45,
    1.1754942e-38,
    3.4028235e38,
    -3.4028235e38,
]

erf = np.vectorize(math.erf, otypes=[np.float64])

# name: (reference in fp64 or wider, lowest, highest argument, ulp of fp32 allowed to a vector)
FLOAT_FUNCTIONS = {
    "exp": (np.exp, -104, 89, 1.5), "exp2": (np.exp2, -151, 129, 1.5), "expm1": (np.expm1, -20, 88, 1.5),
    "exp10": (lambda x: np.power(10.0, x), -45.5, 38.6, 2), "log": (np.log, 0, 3e38, 1.5),
    "log2": (np.log2, 0, 3e38, 2), "log10": (np.log10, 0, 3e38, 2), "log1p": (np.log1p, -1, 3e38, 2),
    "sqrt": (np.sqrt, 0, 3e38, 0.51),
    "rsqrt": (lambda x: 1 / np.sqrt(x), 0, 3e38, 1.5),
    "cbrt": (np.cbrt, -3e38, 3e38, 1.5), "sin": (np.sin, -131072, 131072, 2), "cos": (np.cos, -131072, 131072, 2),
    "tan": (np.tan, -131072, 131072, 4), "asin": (np.arcsin, -1, 1, 1.5), "acos": (np.arccos, -1, 1, 1.5),
    "atan": (np.arctan, -100, 100, 1.5), "sinh": (np.sinh, -88, 88, 2.5), "cosh": (np.cosh, -88, 88, 2.5),
    "tanh": (np.tanh, -10, 10, 3), "asinh": (np.arcsinh, -100, 100, 2.5), "acosh": (np.arccosh, 1, 100, 2.5),
    "atanh": (np.arctanh, -1, 1, 2.5), "erf": (erf, -4.5, 4.5, 2.5),
    "sigmoid": (lambda x: 1 / (1 + np.exp(-x)), -87, 88, 3),
    "floor": (np.floor, -1e7, 1e7, 0), "ceil": (np.ceil, -1e7, 1e7, 0), "trunc": (np.trunc, -1e7, 1e7, 0),
    "round": (np.round, -1e7, 1e7, 0), "nearbyint": (np.round, -1e7, 1e7, 0), "abs": (np.abs, -1e7, 1e7, 0),
}  # fmt: skip


@pytest.fixture(scope="module")
def library(build, march):
    return build("elementwise.cpp", march)


def pointer(array: np.ndarray) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data)


def call(library, name: str, *inputs: np.ndarray, out: type | None = None) -> np.ndarray:
    arrays = [np.ascontiguousarray(x) for x in inputs]
    result = np.zeros(arrays[0].shape, out or arrays[0].dtype)
    getattr(library, name)(*map(pointer, arrays), pointer(result), len(result))
    return result


def samples(low: float, high: float, dtype=np.float32) -> np.ndarray:
    """Uniform over the range, dense near 0 and 1, and evenly spread over the exponents; an odd count leaves a tail."""
    rng = np.random.default_rng(7)
    spread = np.exp2(rng.uniform(-126, 127, 20001)) * rng.choice([-1, 1], 20001)
    parts = [rng.uniform(low, high, 60000), rng.normal(0, 1, 40000), 1 + rng.normal(0, 1e-3, 20000), spread]
    x = np.concatenate(parts).astype(dtype)
    return x[(x >= low) & (x <= high)]


def ulp_error(found: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Distance in units of the last place of the result type; results below the smallest normal count in its units."""
    info = ml_dtypes.finfo(found.dtype)
    exact = wanted.astype(np.longdouble)
    with np.errstate(all="ignore"):
        exponent = np.floor(np.log2(np.maximum(np.abs(exact), np.longdouble(info.smallest_normal))))
        unit = np.exp2(exponent - info.nmant)
        error = np.abs(found.astype(np.longdouble) - exact) / unit
    rounded = wanted.astype(found.dtype)
    same = (found == rounded) | (np.isnan(found.astype(np.float64)) & np.isnan(wanted.astype(np.float64)))
    return np.where(
        same & ~np.isfinite(wanted.astype(np.float64)) | same & np.isinf(rounded.astype(np.float64)), 0, error
    )


@pytest.mark.parametrize("form", ["", "_scalar"])
@pytest.mark.parametrize("name", FLOAT_FUNCTIONS)
def test_fp32_function_is_within_its_ulp_bound(library, name, form):
    reference, low, high, bound = FLOAT_FUNCTIONS[name]
    x = samples(low, high)
    with np.errstate(all="ignore"):
        wanted = reference(x.astype(np.float64))
    error = ulp_error(call(library, f"{name}_float{form}", x), wanted)
    worst = int(np.nanargmax(error))
    assert not np.isnan(error).any() and error[worst] <= bound, f"{name}({x[worst]!r}): {error[worst]:.3f} ulp"


@pytest.mark.parametrize("name", FLOAT_FUNCTIONS)
def test_fp32_function_treats_special_values_as_libm_does(library, name):
    x = np.array(SPECIAL * 3 + [0.0], np.float32)
    with np.errstate(all="ignore"):
        wanted = FLOAT_FUNCTIONS[name][0](x.astype(np.float64)).astype(np.float32)
    found = call(library, f"{name}_float", x)
    assert np.array_equal(np.isnan(found), np.isnan(wanted))
    assert np.array_equal(np.isinf(found), np.isinf(wanted)) and np.array_equal(
        found[np.isinf(found)], wanted[np.isinf(found)]
    )
    zeros = wanted == 0
    if name in ("sin", "tan", "tanh", "erf", "sqrt", "asin", "atan", "round", "trunc"):
        assert np.array_equal(np.signbit(found[zeros]), np.signbit(wanted[zeros]))
    finite = np.isfinite(wanted)
    assert (ulp_error(found[finite], wanted[finite].astype(np.float64)) <= FLOAT_FUNCTIONS[name][3] + 1).all()


@pytest.mark.parametrize("name", ["exp", "log", "sqrt", "tanh", "sigmoid", "floor", "round", "abs"])
def test_fp64_function_is_within_two_ulp(library, name):
    reference, low, high, _ = FLOAT_FUNCTIONS[name]
    x = samples(*{"exp": (-700, 709), "log": (0, 1e300), "sqrt": (0, 1e300)}.get(name, (low, high)), np.float64)
    error = ulp_error(call(library, f"{name}_double", x), reference(x.astype(np.longdouble)))
    assert error.max() <= 2.5, f"{name}({x[int(error.argmax())]!r}): {error.max()}"


@pytest.mark.parametrize("name", ["exp", "log"])
def test_fp64_function_treats_special_values_as_libm_does(library, name):
    x = np.array([*SPECIAL, 710.0, -746.0, -744.0, 5e-324, 1e308] * 2 + [1.0])
    with np.errstate(all="ignore"):
        wanted = getattr(np, name)(x)
    assert np.allclose(call(library, f"{name}_double", x), wanted, rtol=1e-15, atol=5e-324, equal_nan=True)


@pytest.mark.parametrize("form", ["", "_scalar"])
@pytest.mark.parametrize("kind", ["fp16", "bf16"])
@pytest.mark.parametrize("name", ["exp", "tanh", "abs", "floor"])
def test_half_function_is_right_for_every_value(library, name, kind, form):
    x = np.arange(65536, dtype=np.uint16).view(TYPES[kind])
    found = call(library, f"{name}_{kind}{form}", x).astype(np.float64)
    with np.errstate(all="ignore"):
        wanted = FLOAT_FUNCTIONS[name][0](x.astype(np.float64))
        # fp32 on the way may turn a tie: one unit of the half type is allowed where the exact result sits on one.
        rounded = wanted.astype(TYPES[kind])
    same = (found == rounded.astype(np.float64)) | (np.isnan(found) & np.isnan(wanted))
    off = ~same
    assert off.mean() < 1e-3
    assert (ulp_error(found[off].astype(TYPES[kind]), wanted[off]) <= 0.51).all()


@pytest.mark.parametrize("form", ["", "_scalar"])
@pytest.mark.parametrize("kind", ["fp16", "bf16"])
@pytest.mark.parametrize("name", ["add", "sub", "mul", "div"])
def test_half_arithmetic_rounds_each_operation_once(library, name, kind, form):
    rng = np.random.default_rng(1)
    x, y = (rng.integers(0, 65536, 40001).astype(np.uint16).view(TYPES[kind]) for _ in range(2))
    operation = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide}[name]
    with np.errstate(all="ignore"):
        wanted = operation(x.astype(np.float32), y.astype(np.float32)).astype(TYPES[kind])
    found = call(library, f"{name}_{kind}{form}", x, y)
    nan = np.isnan(wanted.astype(np.float32))
    assert np.array_equal(np.isnan(found.astype(np.float32)), nan)
    assert np.array_equal(found[~nan].view(np.uint16), wanted[~nan].view(np.uint16))


def integer_operands(kind: str) -> tuple[np.ndarray, np.ndarray]:
    info = np.iinfo(TYPES[kind])
    edges = np.array(
        [info.min, info.min + 1, info.max, 0, 1, 2, 3, 7] + ([-1, -2, -7] if info.min < 0 else []), TYPES[kind]
    )
    rng = np.random.default_rng(3)
    x, y = np.meshgrid(edges, edges)
    random = [rng.integers(info.min, info.max, 5000, TYPES[kind], endpoint=True) for _ in range(2)]
    small = rng.integers(-20 if info.min < 0 else 0, 20, 5000).astype(TYPES[kind])
    return np.concatenate([x.ravel(), random[0], random[0]]), np.concatenate([y.ravel(), random[1], small])


def truncated(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """C division and remainder of Python integers, 0 for a division by zero."""
    quotient = np.array(
        [
            0 if b == 0 else (abs(int(a)) // abs(int(b))) * (1 if (a < 0) == (b < 0) else -1)
            for a, b in zip(x, y, strict=True)
        ],
        object,
    )
    return quotient, np.array(
        [0 if b == 0 else int(a) - int(q) * int(b) for a, b, q in zip(x, y, quotient, strict=True)], object
    )


def integer_power(base: int, exponent: int, bits: int) -> int:
    """Wrapping power; a negative exponent leaves only the bases whose inverse is an integer."""
    if exponent >= 0:
        return pow(base, exponent, 1 << bits)
    return {1: 1, -1: -1 if exponent & 1 else 1}.get(base, 0)


def wrap(values, dtype) -> np.ndarray:
    bits = np.dtype(dtype).itemsize * 8
    return np.array([int(v) & ((1 << bits) - 1) for v in values], f"u{bits // 8}").view(dtype)


@pytest.mark.parametrize("form", ["", "_scalar"])
@pytest.mark.parametrize("kind", ["int8_t", "uint8_t", "int32_t", "uint32_t", "int64_t"])
def test_integer_functions(library, kind, form):
    dtype = TYPES[kind]
    x, y = integer_operands(kind)
    quotient, remainder = truncated(x, y)
    pairs = list(zip(x, y, strict=True))
    bits = np.dtype(dtype).itemsize * 8
    wanted = {
        "truncdiv": quotient, "truncmod": remainder,
        "floordiv": [0 if b == 0 else int(a) // int(b) for a, b in pairs],
        "floormod": [0 if b == 0 else int(a) % int(b) for a, b in pairs],
        "maximum": [max(int(a), int(b)) for a, b in pairs], "minimum": [min(int(a), int(b)) for a, b in pairs],
        "shift_left": [int(a) << int(b) if 0 <= b < bits else 0 for a, b in pairs],
        "shift_right": [int(a) >> int(b) if 0 <= b < bits else (-1 if a < 0 else 0) for a, b in pairs],
        "pow": [integer_power(int(a), int(b), bits) for a, b in pairs],
    }  # fmt: skip
    for name, values in wanted.items():
        found = call(library, f"{name}_{kind}{form}", x, y)
        bad = np.flatnonzero(found != wrap(values, dtype))
        assert not len(bad), f"{name}({x[bad[0]]}, {y[bad[0]]}) = {found[bad[0]]}, wanted {wrap(values, dtype)[bad[0]]}"


def test_bit_counts(library):
    x = np.array([0, 1, 2, 3, 255, 256, -1, -(2**31), 2**31 - 1, 12345] * 5, np.int32)
    unsigned = x.astype(np.int64) & 0xFFFFFFFF
    assert np.array_equal(call(library, "popcount_int32_t", x), [bin(v).count("1") for v in unsigned])
    assert np.array_equal(call(library, "clz_int32_t", x), [32 - int(v).bit_length() for v in unsigned])
    small = np.arange(256, dtype=np.uint8)
    assert np.array_equal(call(library, "popcount_uint8_t", small), [bin(v).count("1") for v in range(256)])
    assert np.array_equal(call(library, "clz_uint8_t", small), [8 - v.bit_length() for v in range(256)])
    assert np.array_equal(call(library, "abs_int8_t", small.view(np.int8)), np.abs(small.view(np.int8)))


def float_operands() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(5)
    x, y = np.meshgrid(np.array(SPECIAL, np.float32), np.array(SPECIAL, np.float32))
    return (
        np.concatenate(
            [
                x.ravel(),
                rng.normal(0, 10, 5000).astype(np.float32),
                np.round(rng.normal(0, 20, 5000)).astype(np.float32),
            ]
        ),
        np.concatenate(
            [y.ravel(), rng.normal(0, 3, 5000).astype(np.float32), np.round(rng.normal(0, 5, 5000)).astype(np.float32)]
        ),
    )


@pytest.mark.parametrize("form", ["", "_scalar"])
@pytest.mark.parametrize(
    "name", ["fmod", "floormod", "floordiv", "maximum", "minimum", "copysign", "nextafter", "pow", "atan2", "hypot"]
)
def test_float_function_of_two_operands(library, name, form):
    x, y = float_operands()
    reference = {
        "fmod": np.fmod, "floormod": np.mod, "floordiv": np.floor_divide, "maximum": np.fmax, "minimum": np.fmin,
        "copysign": np.copysign, "nextafter": np.nextafter, "pow": np.power, "atan2": np.arctan2, "hypot": np.hypot,
    }[name]  # fmt: skip
    with np.errstate(all="ignore"):
        wanted = reference(x, y)
    found = call(library, f"{name}_float{form}", x, y)
    if name in ("pow", "atan2", "hypot"):
        assert np.allclose(found, wanted, rtol=3e-7, atol=1e-44, equal_nan=True)
        return
    bad = np.flatnonzero((found != wanted) & ~(np.isnan(found) & np.isnan(wanted)))
    assert not len(bad), f"{name}({x[bad[0]]}, {y[bad[0]]}) = {found[bad[0]]}, wanted {wanted[bad[0]]}"


def test_float_functions_of_other_types(library):
    rng = np.random.default_rng(2)
    x, y = rng.normal(0, 10, 1001), np.round(rng.normal(0, 4, 1001))
    with np.errstate(all="ignore"):
        for name, reference in (("floordiv", np.floor_divide), ("floormod", np.mod), ("maximum", np.fmax)):
            assert np.array_equal(call(library, f"{name}_double", x, y), reference(x, y), equal_nan=True)
        a, b = x.astype(np.float16), y.astype(np.float16)
        assert np.array_equal(call(library, "maximum_fp16", a, b), np.fmax(a, b))
        assert np.array_equal(call(library, "nextafter_fp16", a, b), np.nextafter(a, b))
        p, q = x.astype(ml_dtypes.bfloat16), y.astype(ml_dtypes.bfloat16)
        assert np.array_equal(call(library, "copysign_bf16", p, q).view(np.uint16), np.copysign(p, q).view(np.uint16))


@pytest.mark.parametrize("kind", ["float", "double", "fp16", "bf16"])
def test_classification(library, kind):
    x = np.array([0, 1, -2, math.inf, -math.inf, math.nan, 1e-30, 3e4] * 5 + [math.nan], np.float64).astype(TYPES[kind])
    wide = x.astype(np.float64)
    assert np.array_equal(
        call(library, f"classify_{kind}", x, out=np.int32), np.isnan(wide) + 2 * np.isinf(wide) + 4 * np.isfinite(wide)
    )


def test_ldexp_reaches_subnormals_and_infinity(library):
    x = np.linspace(-2, 2, 1001, dtype=np.float32)
    e = np.random.default_rng(0).integers(-160, 160, 1001).astype(np.int32)
    found = np.zeros_like(x)
    library.ldexp_float(pointer(x), pointer(e), pointer(found), len(x))
    with np.errstate(all="ignore"):
        assert np.array_equal(found, np.ldexp(x, e))


def test_masks_of_different_lane_sizes_combine(library):
    rng = np.random.default_rng(0)
    x, i = rng.random(1003).astype(np.float32), rng.integers(0, 6, 1003)
    inside, chosen = np.zeros(1003, bool), np.zeros(1003, np.float32)
    library.mixed(pointer(x), pointer(i), pointer(inside), pointer(chosen), 1003)
    wanted = (i >= 3) & (x < 0.5)
    assert np.array_equal(inside, wanted) and np.array_equal(chosen, np.where(wanted, x, np.float32(-1)))


@pytest.mark.parametrize("divisor", [3.0, -7.1, 1e-3, 1.0000001, 1.9999999, 3e18, 1e30, 1e-30, 0.0, math.inf, math.nan])
def test_division_by_one_divisor_rounds_as_the_machine_does(library, divisor):
    rng = np.random.default_rng(3)
    spread = np.exp2(rng.uniform(-35, 100, 200001)) * rng.choice([-1, 1], 200001)
    x = np.concatenate([spread, rng.normal(0, 1, 200000), [0, -0.0, math.inf, -math.inf, math.nan, 3e38]]).astype(
        np.float32
    )
    found = np.zeros_like(x)
    library.divide_by_one(pointer(x), ctypes.c_float(divisor), pointer(found), len(x))
    with np.errstate(all="ignore"):
        wanted = x / np.float32(divisor)
    bad = np.flatnonzero((found != wanted) & ~(np.isnan(found) & np.isnan(wanted)))
    bad = bad[(np.abs(wanted[bad]) > 2.0**-100) | ~np.isfinite(wanted[bad])]
    assert not len(bad), f"{x[bad[0]]!r} / {divisor} = {found[bad[0]]!r}, wanted {wanted[bad[0]]!r}"


@pytest.mark.parametrize("form", ["", "_scalar"])
@pytest.mark.parametrize("kind", ["float", "bf16"])
def test_fma_rounds_once(library, kind, form):
    rng = np.random.default_rng(4)
    x, y = (rng.normal(0, 1, 20001).astype(TYPES[kind]) for _ in range(2))
    z = -(x.astype(np.float64) * y.astype(np.float64) * (1 + rng.normal(0, 1e-7, 20001))).astype(TYPES[kind])
    found = call(library, f"fma_{kind}{form}", x, y, z)
    exact = x.astype(np.longdouble) * y.astype(np.longdouble) + z.astype(np.longdouble)
    assert (ulp_error(found, exact) <= 0.5).all()


def test_lanes_are_rearranged_and_reinterpreted(library):
    x = np.random.default_rng(0).normal(0, 1, 16).astype(np.float32)
    out, bits, back = np.zeros(8, np.float32), np.zeros(9, np.int32), np.zeros(8, np.float32)
    library.rearrange(pointer(x), pointer(out), pointer(bits), pointer(back))
    assert np.array_equal(out, x[15::-2]) and np.array_equal(bits, x[:9].view(np.int32)) and np.array_equal(back, x[:8])


def test_a_vector_is_reduced_by_the_name_of_the_operation(library, march):
    rng = np.random.default_rng(0)
    x, y = rng.integers(-9, 9, 16).astype(np.float32), rng.integers(1, 4, 16).astype(np.int32)
    out, whole = np.zeros(3, np.float32), np.zeros(3, np.int32)
    library.across(pointer(x), pointer(y), pointer(out), pointer(whole))
    for n in (4, 8, 16):
        wanted = (
            [x[:n].sum(), x[:n].max(), np.abs(x[:n]).max()],
            [y[:n].min(), np.bitwise_xor.reduce(y[:n]), y[:n].prod()],
        )
        if np.array_equal(out, wanted[0]) and np.array_equal(whole, wanted[1]):
            return
    raise AssertionError(f"no width explains {out} and {whole}")
