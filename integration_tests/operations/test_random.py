"""Random numbers: the published answers of Philox4x32-10, and the same bits everywhere."""

from __future__ import annotations

import numpy as np
import pytest

import tile_core.language as T
from integration_tests.operations.harness import everywhere, machine_code
from tile_core.errors import CompileError
from tile_core.interpreter.operators import philox_block

pytestmark = [pytest.mark.layer("emulation"), pytest.mark.slow]

# Random123, tests/kat_vectors: counter, key, result.
KNOWN = [
    ("00000000 00000000 00000000 00000000", "00000000 00000000", "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
    ("ffffffff ffffffff ffffffff ffffffff", "ffffffff ffffffff", "408f276d 41c83b0e a20bc7c6 6d5451fd"),
    ("243f6a88 85a308d3 13198a2e 03707344", "a4093822 299f31d0", "d16cfe09 94fdcceb 5001e420 24126ea1"),
]


def words(text):
    return tuple(np.uint64(int(word, 16)) for word in text.split())


def drawn(seed, sequence, place):
    """The number at a place of a stream, as cuRAND counts."""
    mask = 0xFFFFFFFF
    block = place // 4
    counter = (block & mask, block >> 32, sequence & mask, sequence >> 32)
    found = philox_block(tuple(map(np.uint64, counter)), (np.uint64(seed & mask), np.uint64(seed >> 32)))
    return int(found[place % 4])


@pytest.mark.parametrize(("counter", "key", "result"), KNOWN)
def test_the_published_answers(counter, key, result):
    with np.errstate(over="ignore"):
        assert philox_block(words(counter), words(key)) == words(result)


@T.prim_func
def draws(
    A: T.Tensor((64, 8), "uint32"),
    U: T.Tensor((64, 4), "float32"),
    D: T.Tensor((64, 2), "float64"),
    S: T.Tensor((2,), "int64"),
):
    with T.Kernel(2, threads=32) as bx:
        tx = T.get_thread_binding()
        row = bx * 32 + tx
        T.rng_init(S[0], seq=row + S[1], off=3)
        for i in T.serial(8):
            A[row, i] = T.rng_rand()
        for i in T.serial(4):
            U[row, i] = T.rng_rand_float()
        for i in T.serial(2):
            D[row, i] = T.rng_rand_float(bit=64)


def test_bits_and_uniform_floats_are_the_same_everywhere():
    seed, stream = 0x299F31D0A4093822, 0x0370734413198A2E
    arrays = (np.zeros((64, 8), np.uint32), np.zeros((64, 4), np.float32), np.zeros((64, 2)))
    ways = everywhere(draws, *arrays, np.array([seed, stream], np.int64))
    wanted = np.array([[drawn(seed, stream + row, 3 + i) for i in range(14)] for row in range(64)], np.uint64)
    # cuRAND: x · 2^-32 + 2^-33 in fp32, fused; x · 2^-32 + 2^-32 in fp64.
    floats = (wanted[:, 8:12].astype(np.float32).astype(np.float64) * 2.0**-32 + 2.0**-33).astype(np.float32)
    doubles = wanted[:, 12:].astype(np.float64) * 2.0**-32 + 2.0**-32
    for way, (bits, uniform, wide, _) in ways.items():
        assert np.array_equal(bits, wanted[:, :8]), way
        assert np.array_equal(uniform, floats), way
        assert np.array_equal(wide, doubles), way
        assert (uniform > 0).all() and (uniform <= 1).all()
    machine_code(draws)


@T.prim_func
def normals(A: T.Tensor((128, 5), "float32"), B: T.Tensor((128, 3), "float64"), C: T.Tensor((128,), "uint32")):
    with T.Kernel(1, threads=128):
        tx = T.get_thread_binding()
        T.rng_init(42)
        for i in T.serial(5):
            A[tx, i] = T.rng_rand_float(dist="normal")
        for i in T.serial(3):
            B[tx, i] = T.rng_rand_float(64, "normal")
        C[tx] = T.rng_rand()


def test_normal_floats():
    ways = everywhere(normals, np.zeros((128, 5), np.float32), np.zeros((128, 3)), np.zeros(128, np.uint32))
    # Three pairs of fp32 from two draws each, two pairs of fp64 from four draws each.
    draw = np.array([[drawn(42, t, i) for i in range(15)] for t in range(128)], np.uint64)
    u = draw[:, 0:6:2].astype(np.float64) * 2.0**-32 + 2.0**-33
    v = draw[:, 1:6:2].astype(np.float64) * 2.0**-32 + 2.0**-33
    radius = np.sqrt(-2 * np.log(u))
    pairs = np.stack([radius * np.sin(2 * np.pi * v), radius * np.cos(2 * np.pi * v)], axis=2).reshape(128, 6)
    low, high = draw[:, 6:14:2], draw[:, 7:14:2]
    both = (low ^ (high << np.uint64(21))).astype(np.float64)
    u, v = both[:, 0::2] * 2.0**-53 + 2.0**-54, both[:, 1::2] * 2.0**-52 + 2.0**-53
    radius = np.sqrt(-2 * np.log(u))
    wide = np.stack([radius * np.sin(np.pi * v), radius * np.cos(np.pi * v)], axis=2).reshape(128, 4)
    for way, (a, b, c) in ways.items():
        np.testing.assert_allclose(a, pairs[:, :5], atol=4e-6, err_msg=way)
        np.testing.assert_allclose(b, wide[:, :3], atol=1e-12, err_msg=way)
        assert np.array_equal(c, draw[:, 14]), way
    machine_code(normals)


def test_errors():
    def make(body):
        @T.prim_func
        def main(A: T.Tensor((32,), "uint32")):
            with T.Kernel(1, threads=32):
                body(A)

        return main

    with pytest.raises(CompileError, match="E-RNG-GENERATOR"):
        make(lambda A: T.rng_init(1, generator="curandStateXORWOW_t"))
    with pytest.raises(CompileError, match="E-RNG-INIT"):
        make(lambda A: T.rng_rand())
    with pytest.raises(CompileError, match="E-OPERAND"):
        make(lambda A: T.rng_init(1.5))

    @T.macro
    def wrong(A):
        T.rng_init(1)
        T.rng_rand_float(16)

    with pytest.raises(CompileError, match="E-OPERAND-OPTION"):
        make(wrong)
