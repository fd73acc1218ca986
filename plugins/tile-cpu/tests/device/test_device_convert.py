"""convert between all pairs of types agrees with numpy and ml_dtypes, bit for bit where the value fits the target."""

from __future__ import annotations

import ctypes
import itertools

import ml_dtypes
import numpy as np
import pytest

TYPES = {
    "bool": np.bool_, "int8_t": np.int8, "int16_t": np.int16, "int32_t": np.int32, "int64_t": np.int64,
    "uint8_t": np.uint8, "uint16_t": np.uint16, "uint32_t": np.uint32, "uint64_t": np.uint64, "fp16": np.float16,
    "bf16": ml_dtypes.bfloat16, "float": np.float32, "double": np.float64,
}  # fmt: skip
FLOATS = ("fp16", "bf16", "float", "double")


def values(kind: str) -> np.ndarray:
    """All values of a 16-bit type or smaller; else random ones, with rounding ties of the half types among them."""
    dtype = np.dtype(TYPES[kind])
    rng = np.random.default_rng(11)
    if kind == "bool":
        return np.array([False, True, True, False, True] * 7)
    if dtype.itemsize <= 2:
        return np.arange(2 ** (8 * dtype.itemsize), dtype=f"u{dtype.itemsize}").view(dtype)
    if kind not in FLOATS:
        bits = rng.integers(0, 256, 20003 * dtype.itemsize, np.uint8).view(dtype)
        return np.concatenate([bits, bits >> np.uint8(dtype.itemsize * 8 - 20).astype(dtype), bits % 300])
    halves = np.concatenate(
        [np.arange(65536, dtype=np.uint16).view(h).astype(np.float64) for h in (np.float16, ml_dtypes.bfloat16)]
    )
    halves = halves[np.isfinite(halves)]
    with np.errstate(all="ignore"):
        ties = (halves[:-1] + halves[1:]) / 2
        x = np.concatenate(
            [
                halves,
                ties,
                ties * (1 + 2e-16),
                ties * (1 - 2e-16),
                ties * (1 + 1e-9),
                rng.normal(0, 100, 9999),
                [np.inf, -np.inf, np.nan],
            ]
        )
        return x.astype(dtype)


def fits(x: np.ndarray, to: str, source: str) -> np.ndarray:
    """Where C++ defines the conversion: anything but a float outside the range of an integer target."""
    if source not in FLOATS or to in FLOATS or to == "bool":
        return np.ones(x.shape, bool)
    info = np.iinfo(TYPES[to])
    wide = np.nan_to_num(np.trunc(x.astype(np.float64)), nan=np.inf, posinf=np.inf, neginf=-np.inf)
    return (wide >= float(info.min)) & (wide <= np.nextafter(float(info.max) + 1, 0))


def expected(x: np.ndarray, to: str) -> np.ndarray:
    dtype = TYPES[to]
    with np.errstate(all="ignore"):
        if to in ("fp16", "bf16") and x.dtype.kind in "iub":
            # An integer beyond 2^24 rounds to fp32 first, as torch does.
            return x.astype(np.float32).astype(dtype)
        if to == "bf16" and x.dtype == np.float64:
            return round_to_bf16(x)
        return x.astype(dtype)


def round_to_bf16(x: np.ndarray) -> np.ndarray:
    """fp64 → bf16 rounded once (ml_dtypes goes through fp32): nearest of the two neighbours, ties to the even one."""
    down = x.astype(np.float32)
    odd = down.view(np.uint32) & 1 == 0
    inexact = np.isfinite(x) & (down.astype(np.float64) != x)
    step = np.where((down.astype(np.float64) > x) == (x > 0), -1, 1)
    sticky = (down.view(np.int32) + np.where(inexact & odd, step, 0)).astype(np.int32).view(np.float32)
    return sticky.astype(ml_dtypes.bfloat16)


@pytest.fixture(scope="module")
def library(build, march):
    return build("convert.cpp", march)


@pytest.mark.parametrize("form", ["", "_scalar"])
@pytest.mark.parametrize("source", TYPES)
def test_conversion_is_exact_or_correctly_rounded(library, source, form):
    x = values(source)
    for to in TYPES:
        y = x[fits(x, to, source)]
        found = np.zeros(y.shape, TYPES[to])
        function = getattr(library, f"convert_{to}_{source}{form}")
        function(ctypes.c_void_p(y.ctypes.data), ctypes.c_void_p(found.ctypes.data), len(y))
        wanted = expected(y, to)
        same = (found == wanted) | ((found != found) & (wanted != wanted))
        bad = np.flatnonzero(~same)
        assert not len(bad), (
            f"{source} → {to}: {y[bad[0]]!r} gave {found[bad[0]]!r}, wanted {wanted[bad[0]]!r} ({len(bad)} of {len(y)})"
        )
        if to in FLOATS:
            numbers = found == found
            assert np.array_equal(
                np.signbit(found[numbers].astype(np.float64)), np.signbit(wanted[numbers].astype(np.float64))
            )


def test_every_pair_has_a_function(library):
    for to, source in itertools.product(TYPES, TYPES):
        assert hasattr(library, f"convert_{to}_{source}") and hasattr(library, f"convert_{to}_{source}_scalar")
