"""Matrix instructions: the fragment layouts of the PTX ISA, rounding, and a pipelined gemm that uses them."""

from __future__ import annotations

import ctypes
import importlib.util
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

_spec = importlib.util.spec_from_file_location("gemm_source", Path(__file__).parent / "gemm_source.py")
_gemm = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_gemm)

SCHEDULES = [("in_order", 0), ("latest", 0), ("random", 1), ("random", 2)]
TYPES = {
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "tf32": np.float32,
    "f64": np.float64,
    "s8": np.int8,
    "u8": np.uint8,
    "e4m3": ml_dtypes.float8_e4m3fn,
    "e5m2": ml_dtypes.float8_e5m2,
    "f32": np.float32,
    "s32": np.int32,
}


@pytest.mark.parametrize("schedule, seed", SCHEDULES)
@pytest.mark.parametrize("depth", [32, 64, 96, 128, 256])
def test_a_pipelined_gemm_is_clean_and_right(hand_written, schedule, seed, depth):
    kernel = hand_written(_gemm.gemm_source(), **_gemm.VIEWS)
    a, b = (np.random.default_rng(depth + i).standard_normal((64, depth)).astype("f2") for i in range(2))
    c = np.zeros((64, 64), "f4")
    sizes = {"N": ctypes.c_int(64), "K": ctypes.c_int(depth)}
    report = kernel.run((1, 1), 128, _gemm.ARENA, schedule, seed, A=a, B=b, C=c, **sizes, fresh=("C",))
    assert report.clean, report.render()
    assert np.allclose(c, a.astype("f4") @ b.astype("f4").T, rtol=1e-3, atol=1e-3)


def test_a_wait_that_is_off_by_one_names_tile_copy_and_use(hand_written):
    kernel = hand_written(_gemm.gemm_source(pending=2), **_gemm.VIEWS)
    a, b, c = np.ones((64, 128), "f2"), np.ones((64, 128), "f2"), np.zeros((64, 64), "f4")
    sizes = {"N": ctypes.c_int(64), "K": ctypes.c_int(128)}
    report = kernel.run((1, 1), 128, _gemm.ARENA, "latest", A=a, B=b, C=c, **sizes)
    assert {f.buffer for f in report.findings} == {"A_shared", "B_shared"}
    for finding in report.findings:
        letter = finding.buffer[0].lower()
        assert kernel.lines(f"copy_{letter}", f"load_{letter}") == finding.lines
    assert not np.array_equal(c, a.astype("f4") @ b.astype("f4").T)


# PTX ISA, section "Matrix fragments": where element i of a lane's fragment lies, for registers of `per` elements.
def _fragments(m, k, a_bits):
    per = max(1, 32 // a_bits)
    group, place = np.arange(32) // 4, np.arange(32) % 4
    a, b, c = [], [], []
    for i in range(m * k // 32):
        upper = (i // per) % 2 == 1 if m == 16 else False
        right = (i // per) // (m // 8)
        a.append((group + 8 * upper, place * per + i % per + 4 * per * right))
    for i in range(8 * k // 32):
        b.append((place * per + i % per + 4 * per * (i // per), group))
    for i in range(m * 8 // 32):
        c.append((group + 8 * (i // 2), place * 2 + i % 2))
    return a, b, c


@pytest.mark.parametrize(
    "m, k, a_type, c_type",
    [
        (16, 8, "f16", "f32"),
        (16, 16, "f16", "f32"),
        (16, 16, "f16", "f16"),
        (16, 8, "bf16", "f32"),
        (16, 16, "bf16", "f32"),
        (16, 4, "tf32", "f32"),
        (16, 8, "tf32", "f32"),
        (16, 16, "s8", "s32"),
        (16, 32, "s8", "s32"),
        (16, 32, "u8", "s32"),
        (16, 32, "e4m3", "f32"),
        (16, 32, "e5m2", "f32"),
        (8, 4, "f64", "f64"),
    ],
)
def test_mma_multiplies_the_fragments_of_the_isa(hand_written, m, k, a_type, c_type):
    count = {"a": m * k // 32, "b": 8 * k // 32, "c": m * 8 // 32}
    text = {name: f"{{0}} {name}[{n}]" for name, n in count.items()}
    words = {1: "uint8_t", 2: "uint16_t", 4: "uint32_t", 8: "uint64_t"}
    narrow, wide = (words[np.dtype(TYPES[t]).itemsize] for t in (a_type, c_type))
    loads = "\n".join(
        f"for (int i = 0; i < {n}; ++i) {name}[i] = {name.upper()}[threadIdx.x * {n} + i];" for name, n in count.items()
    )
    declared = [text[n].format(wide if n == "c" else narrow) for n in count]
    kernel = hand_written(f"""
extern "C" __global__ void __launch_bounds__(32) product(const {narrow}* A, const {narrow}* B, {wide}* C) {{
    {"; ".join(declared)};
    {loads}
    emu::mma({m}, 8, {k}, emu::Element::{a_type}, emu::Element::{a_type}, emu::Element::{c_type}, c, a, b, c);
    for (int i = 0; i < {count["c"]}; ++i) C[threadIdx.x * {count["c"]} + i] = c[i];
}}
""")
    random = np.random.default_rng(m * k)
    a, b, c = (
        random.integers(0 if a_type == "u8" else -3, 4, shape).astype(TYPES[t])
        for shape, t in (((m, k), a_type), ((k, 8), a_type), ((m, 8), c_type))
    )
    places = _fragments(m, k, np.dtype(TYPES[a_type]).itemsize * 8)
    held = [np.stack([x[place] for place in where], axis=1) for x, where in zip((a, b, c), places)]
    held = [np.ascontiguousarray(h) for h in held]
    report = kernel.run(1, 32, 0, A=held[0], B=held[1], C=held[2])
    assert report.clean, report.render()
    wanted = a.astype("f8") @ b.astype("f8") + c.astype("f8")
    for i, place in enumerate(places[2]):
        assert np.array_equal(held[2][:, i].astype("f8"), wanted[place])


@pytest.mark.parametrize("name", ["f16", "bf16", "e4m3", "e5m2"])
def test_narrow_types_round_like_ml_dtypes(hand_written, name):
    dtype = np.dtype(TYPES[name])
    word = {1: "uint8_t", 2: "uint16_t"}[dtype.itemsize]
    kernel = hand_written(f"""
extern "C" __global__ void __launch_bounds__(32) convert(const double* A, {word}* B, double* C, int n) {{
    for (int i = threadIdx.x; i < n; i += 32) {{
        {word} bits;
        emu::encode(emu::Element::{name}, &bits, A[i]);
        B[i] = bits;
        C[i] = emu::decode(emu::Element::{name}, &bits);
    }}
}}
""")
    limit = float(ml_dtypes.finfo(dtype).max)
    values = np.random.default_rng(1).standard_normal(4000) * np.exp2(np.random.default_rng(2).uniform(-20, 6, 4000))
    # bf16 goes through fp32, as the conversion instruction does
    values = np.clip(values, -limit, limit).astype("f4").astype("f8")
    values = np.concatenate([values, [0.0, -0.0, limit, -limit, np.nan, 2.0**-24, 2.0**-17]])
    bits, back = np.zeros(len(values), dtype), np.zeros(len(values))
    report = kernel.run(1, 32, 0, A=values, B=bits, C=back, n=ctypes.c_int(len(values)))
    assert report.clean, report.render()
    assert np.array_equal(bits.astype("f8"), values.astype(dtype).astype("f8"), equal_nan=True)
    assert np.array_equal(back, bits.astype("f8"), equal_nan=True)


def test_ldmatrix_transposes_when_asked(hand_written):
    for transposed in (False, True):
        kernel = hand_written(f"""
extern "C" __global__ void __launch_bounds__(32) load(const uint16_t* A, uint16_t* B) {{
    TILE_SHARED(arena, 512);
    uint16_t* S = (uint16_t*)(arena + 0);
    TILE_LOCAL(uint16_t, r, 8);
    for (int i = 0; i < 8; ++i) S[threadIdx.x * 8 + i] = A[threadIdx.x * 8 + i];
    tile::sync_warp(TILE_SYNC(0));
    tile::ldmatrix<4, {str(transposed).lower()}>(r, S + threadIdx.x * 8);
    for (int i = 0; i < 8; ++i) B[threadIdx.x * 8 + i] = r[i];
}}
""")
        a, b = np.arange(256, dtype="u2"), np.zeros((32, 4, 2), "u2")
        report = kernel.run(1, 32, 512, A=a, B=b)
        assert report.clean, report.render()
        matrices = a.reshape(4, 8, 8)
        matrices = matrices.transpose(0, 2, 1) if transposed else matrices
        for lane in range(32):
            wanted = matrices[:, lane // 4, 2 * (lane % 4) : 2 * (lane % 4) + 2]
            assert np.array_equal(b[lane], wanted)
        # one warp that loads before it has met again reads what other lanes wrote
        assert kernel.run(1, 32, 512, A=a, B=b, off=(0,)).findings[0].kind == "race"
