"""Mathematics with a say about speed and rounding, bytes and bits, whole words: the same everywhere."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

import tile_core.language as T
from integration_tests.operations.harness import everywhere, machine_code
from tile_core.errors import CompileError

pytestmark = [pytest.mark.layer("emulation"), pytest.mark.slow]

N = 256


@T.prim_func
def rounded(
    A: T.Tensor((N,), "float32"),
    B: T.Tensor((N,), "float32"),
    C: T.Tensor((N,), "float32"),
    O: T.Tensor((26, N), "float32"),
):
    with T.Kernel(1, threads=64):
        for i in T.Parallel(N):
            for m, mode in enumerate(("rn", "rz", "ru", "rd")):
                O[m, i] = T.ieee_add(A[i], B[i], mode)
                O[4 + m, i] = T.ieee_sub(A[i], B[i], mode)
                O[8 + m, i] = T.ieee_mul(A[i], B[i], mode)
                O[12 + m, i] = T.ieee_fdiv(A[i], B[i], mode)
                O[16 + m, i] = T.ieee_fmaf(A[i], B[i], C[i], mode)
                O[20 + m, i] = T.ieee_fsqrt(A[i], mode)
            O[24, i] = T.ieee_frcp(A[i], "ru") + 0 * T.ieee_frsqrt(T.abs(A[i]) + 1)
            O[25, i] = T.fmul(A[i], B[i]) + C[i]


def numbers(rng):
    found = (rng.standard_normal(N) * 10.0 ** rng.integers(-38, 38, N)).astype(np.float32)
    found[:12] = [0, -0.0, np.inf, -np.inf, np.nan, 3e38, -3e38, 1e-45, -1e-45, 1, 0.1, 1.1754944e-38]
    return found


def bounds(exact):
    """The float32 below and above a number, which are the same where it is one."""
    largest = float(np.finfo(np.float32).max)
    near = np.float32(max(-largest, min(largest, float(exact))))
    while Fraction(float(near)) > exact:
        near = np.nextafter(near, np.float32(-np.inf))
        if np.isinf(near):
            return near, np.float32(-largest)
    while True:
        after = np.nextafter(near, np.float32(np.inf))
        if Fraction(float(near)) == exact:
            return near, near
        if np.isinf(after) or Fraction(float(after)) > exact:
            return near, after
        near = after


def test_every_rounding_mode_gives_the_number_below_or_above():
    rng = np.random.default_rng(0)
    a, b, c = numbers(rng), rng.permutation(numbers(rng)), numbers(rng)
    b[20:40] = -a[20:40]
    ways = everywhere(rounded, a, b, c, np.zeros((26, N), np.float32))
    out = ways["interpreter"][3]
    exact = {0: lambda x, y, z: x + y, 4: lambda x, y, z: x - y, 8: lambda x, y, z: x * y}
    exact |= {12: lambda x, y, z: x / y if y else None, 16: lambda x, y, z: x * y + z}
    with np.errstate(over="ignore"):
        for row, function in exact.items():
            for i in range(N):
                if not np.isfinite([a[i], b[i], c[i]]).all():
                    continue
                value = function(*(Fraction(float(v)) for v in (a[i], b[i], c[i])))
                if value is None:
                    continue
                below, above = bounds(value)
                nearest, zero, up, down = out[row : row + 4, i]
                assert (down, up) == (below, above), (row, i, a[i], b[i], c[i])
                assert zero == (below if value >= 0 else above) and nearest in (below, above)
    for way, arrays in ways.items():
        same = (arrays[3].view(np.uint32) == out.view(np.uint32)) | (np.isnan(arrays[3]) & np.isnan(out))
        assert same.all(), (way, np.argwhere(~same)[:4])
    source = machine_code(rounded)
    assert "tile::ieee_fma(" in source and '"rz"' in source


@T.prim_func
def approximate(
    A: T.Tensor((N,), "float32"),
    H: T.Tensor((N,), "float16"),
    O: T.Tensor((9, N), "float32"),
    P: T.Tensor((N,), "float16"),
):
    with T.Kernel(1, threads=64):
        for i in T.Parallel(N):
            O[0, i] = T.__exp(A[i])
            O[1, i] = T.__exp10(A[i])
            O[2, i] = T.__log(A[i])
            O[3, i] = T.__log2(A[i])
            O[4, i] = T.__log10(A[i])
            O[5, i] = T.__sin(A[i])
            O[6, i] = T.__cos(A[i])
            O[7, i] = T.__tan(A[i])
            O[8, i] = T.fast_rcp(A[i])
        for i in T.Parallel(N):
            P[i] = T.__exp(H[i])


def test_approximate_functions():
    a = np.random.default_rng(1).uniform(0.1, 3.0, N).astype(np.float32)
    h = a.astype(np.float16)
    x = a.astype(np.float64)
    wanted = [np.exp(x), 10**x, np.log(x), np.log2(x), np.log10(x), np.sin(x), np.cos(x), np.tan(x), 1 / x]
    for way, (_, _, o, p) in everywhere(
        approximate, a, h, np.zeros((9, N), np.float32), np.zeros(N, np.float16)
    ).items():
        np.testing.assert_allclose(o, wanted, rtol=2e-5, atol=1e-6, err_msg=way)
        np.testing.assert_allclose(p, np.exp(h.astype(np.float64)), rtol=1e-3, err_msg=way)
    source = machine_code(approximate)
    assert all(f"tile::fast_{name}(" in source for name in ("exp", "log2", "tan", "rcp"))


@T.prim_func
def words(
    A: T.Tensor((64, 8), "float16"),
    B: T.Tensor((64, 8), "float16"),
    D: T.Tensor((64, 4), "uint32"),
    F: T.Tensor((64,), "float32"),
):
    with T.Kernel(1, threads=64):
        tx = T.get_thread_binding()
        held = T.alloc_shared((64, 8), "float16")
        T.sts128(held[tx, 0], T.ldg128(A[tx, 0]))
        T.sync_threads()
        T.stg128(B[tx, 0], T.lds128(held[63 - tx, 0]), pred=tx != 5)
        pair = T.ldg64(A[tx, 4], pred=tx < 32)
        T.stg64(D[tx, 0], pair)
        T.stg32(D[tx, 2], T.ldg32(A[tx, 2]))
        T.stg32(D[tx, 3], T.float32(1.0))
        F[tx] = T.__ldg(F, 63 - tx) if tx < 0 else T.cast(T.__ldg(A[tx, 1]), "float32")


def test_words_of_memory():
    a = np.random.default_rng(2).standard_normal((64, 8)).astype(np.float16)
    bits = a.view(np.uint32)
    zeros = (np.zeros((64, 8), np.float16), np.zeros((64, 4), np.uint32), np.zeros(64, np.float32))
    for way, (_, b, d, f) in everywhere(words, a, *zeros).items():
        flipped = a[::-1].copy()
        flipped[5] = 0
        assert np.array_equal(b, flipped), way
        assert np.array_equal(d[:32, :2], bits[:32, 2:]) and not d[32:, :2].any(), way
        assert np.array_equal(d[:, 2], bits[:, 1]) and (d[:, 3] == 0x3F800000).all(), way
        assert np.array_equal(f, a[:, 1].astype(np.float32)), way
    machine_code(words)


@T.prim_func
def bits(
    M: T.Tensor((64,), "uint32"),
    A: T.Tensor((64, 4), "int8"),
    B: T.Tensor((64, 4), "int8"),
    O: T.Tensor((5, 64), "int32"),
):
    with T.Kernel(1, threads=64):
        tx = T.get_thread_binding()
        O[0, tx] = T.__ffs(M[tx])
        O[1, tx] = T.cast(T.__fns(M[tx], 3, tx % 5 - 2), "int32")
        O[2, tx] = 7
        T.dp4a(A[tx, 0], B[tx, :], O[2, tx])
        row, column, last = T.index_to_coordinates(tx, (4, 4, 4))
        O[3, tx] = row * 100 + column * 10 + last
        O[4, tx] = T.cast(T.likely(tx > 3), "int32") + T.clamp(tx, 5, 9)


def fns(mask, base, offset):
    if offset == 0:
        return base if mask >> base & 1 else -1
    places = [p for p in (range(base, 32) if offset > 0 else range(base, -1, -1)) if mask >> p & 1]
    return places[abs(offset) - 1] if len(places) >= abs(offset) else -1


def test_bits_and_bytes():
    rng = np.random.default_rng(3)
    m = (rng.integers(0, 2**32, 64) & rng.integers(0, 2**32, 64) & rng.integers(0, 2**32, 64)).astype(np.uint32)
    m[:3] = 0, 1, 0x80000000
    a, b = (rng.integers(-128, 128, (64, 4)).astype(np.int8) for _ in range(2))
    for way, (_, _, _, o) in everywhere(bits, m, a, b, np.zeros((5, 64), np.int32)).items():
        assert o[0].tolist() == [(int(x) & -int(x)).bit_length() for x in m], way
        assert o[1].tolist() == [fns(int(x), 3, t % 5 - 2) for t, x in enumerate(m)], way
        assert np.array_equal(o[2], 7 + (a.astype(np.int32) * b).sum(axis=1)), way
        assert o[3].tolist() == [t // 16 * 100 + t // 4 % 4 * 10 + t % 4 for t in range(64)], way
        assert o[4].tolist() == [int(t > 3) + min(max(t, 5), 9) for t in range(64)], way
    assert "tile::dp4a(" in machine_code(bits)


def test_errors():
    def make(body):
        @T.prim_func
        def main(A: T.Tensor((8, 4), "float32"), D: T.Tensor((8, 4), "float64"), I: T.Tensor((8, 4), "int8")):
            with T.Kernel(1, threads=32):
                body(A, D, I)

        return main

    for body, code in (
        (lambda A, D, I: T.ieee_add(A[0, 0], 1.0, "up"), "E-OPERAND-OPTION"),
        (lambda A, D, I: T.ieee_add(A[0, 0], D[0, 0]), "E-MATH-TYPE"),
        (lambda A, D, I: T.__exp(D[0, 0]), "E-MATH-TYPE"),
        (lambda A, D, I: T.__ffs(A[0, 0]), "E-MATH-TYPE"),
        (lambda A, D, I: T.dp4a(A[0, 0], A[1, 0], A[2, 0]), "E-OP-DTYPE"),
        (lambda A, D, I: T.dp4a(I[0, 0:3], I[1, 0], I[2, 0]), "E-OPERAND-EXTENT"),
        (lambda A, D, I: T.lds32(A[0, 0]), "E-WORDS"),
        (lambda A, D, I: T.ldg32(D[0, 0]), "E-WORDS"),
        (lambda A, D, I: T.stg64(A[0, 0], A[1, 0]), "E-WORDS"),
        (lambda A, D, I: T.__ldg(A), "E-WORDS"),
        (lambda A, D, I: T.index_to_coordinates(3, 4), "E-OPERAND"),
    ):
        with pytest.raises(CompileError, match=code):
            make(body)


@T.prim_func
def lanes(A: T.Tensor((8,), "float32"), B: T.Tensor((4,), "float32")):
    with T.Kernel(1, threads=1):
        low = T.Shuffle([A[0], A[1], A[2], A[3]], [0, 1, 2, 3])
        high = A[T.Ramp(4, 1, 4)]
        B[T.Ramp(0, 1, 4)] = T.Shuffle([low, high], [7, 0, 5, 2])


def test_lanes_of_several_vectors():
    a = np.arange(8, dtype=np.float32)
    for way, (_, b) in everywhere(lanes, a, np.zeros(4, np.float32)).items():
        assert b.tolist() == [7, 0, 5, 2], way
    machine_code(lanes)
    with pytest.raises(CompileError, match="E-LANE"):
        T.Shuffle([T.float32(1), T.float32(2)], [2])
