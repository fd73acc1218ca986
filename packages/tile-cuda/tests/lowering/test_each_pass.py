"""Every pass of the pipeline keeps what a kernel computes: interpreted before and after each, on numpy."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import tile_core.language as T
import tile_cuda.reference  # noqa: F401  (what the device functions compute)
from tile_core.errors import CompileError, TileWarning
from tile_core.testing.passes import random_arguments, run_each_pass
from tile_core.testing.programs import random_program, random_program_arguments
from tile_cuda.testing import tiles

pytestmark = pytest.mark.slow


def check(function, arguments=None, arch="sm_80", **tolerance):
    tolerance = {"reduction": 64, **tolerance}
    given = random_arguments(function) if arguments is None else arguments
    checked = run_each_pass(
        function, given, f"cuda -arch={arch}", unfinished=("LowerTileOp", "ApplyLayouts"), **tolerance
    )
    assert checked[-1] == "RequireAlignment"


@pytest.mark.parametrize("transpose_a", [False, True])
@pytest.mark.parametrize("transpose_b", [False, True])
@pytest.mark.parametrize("types", [("float16", "float32", "float16"), ("int8", "int32", "int32")], ids="-".join)
def test_gemm_in_every_orientation(types, transpose_a, transpose_b):
    check(tiles.tiled_gemm(64, 64, 64, (32, 32, 32), *types, transpose_a, transpose_b))


@pytest.mark.parametrize(
    "types",
    [
        ("bfloat16", "float32", "float32"),
        ("float16", "float16", "float16"),
        ("tfloat32", "float32", "float32"),
        ("float32", "float32", "float32"),
        ("float64", "float64", "float64"),
        ("int32", "int32", "int32"),
    ],
    ids="-".join,
)
def test_gemm_in_every_type(types):
    check(tiles.tiled_gemm(64, 32, 32, (32, 32, 16), *types, transpose_b=True))


@pytest.mark.parametrize("policy", [T.GemmWarpPolicy.Square, T.GemmWarpPolicy.FullRow, T.GemmWarpPolicy.FullCol])
def test_gemm_under_every_warp_policy(policy):
    check(tiles.tiled_gemm(64, 64, 64, (64, 64, 32), policy=policy))


@pytest.mark.parametrize("stages", [0, 1, 2, 3, 4])
def test_gemm_at_every_depth(stages):
    check(tiles.tiled_gemm(32, 32, 96, (32, 32, 32), stages=stages, threads=64))


def test_gemm_at_edges():
    check(tiles.tiled_gemm(70, 90, 50, (32, 64, 32), stages=3))


@pytest.mark.parametrize(
    ("dtype", "accumulator", "places", "depth"),
    [
        ("float16", "float32", "int16", 32),
        ("tfloat32", "float32", "uint8", 16),
        ("int8", "int32", "int32", 64),
        ("float16", "float16", "int16", 16),
    ],
)
def test_gemm_of_a_sparse_a(dtype, accumulator, places, depth):
    function = tiles.sparse_gemm(40, 32, 2 * depth, (32, 32, depth), dtype, accumulator, places)
    given = random_arguments(function)
    # Pairs of places in order, for halves and bytes; of words, whole codes of one.
    codes = [0x4, 0xE] if dtype == "tfloat32" else [0x4, 0x8, 0x9, 0xC, 0xD, 0xE]
    bits = given[1].dtype.itemsize * 8
    nibbles = np.random.default_rng(0).choice(codes, (*given[1].shape, bits // 4))
    given[1][:] = (nibbles << np.arange(0, bits, 4)).sum(-1).astype(given[1].dtype)
    check(function, given)


def test_gemm_before_cp_async():
    check(tiles.tiled_gemm(32, 32, 64, (32, 32, 32)), arch="sm_75")


@pytest.mark.parametrize("threads", [96, 100])
def test_gemm_on_odd_numbers_of_threads(threads):
    check(tiles.tiled_gemm(48, 32, 32, (48, 32, 16), threads=threads))


@pytest.mark.parametrize(
    ("shape", "rows", "threads", "dtype"),
    [
        ((32, 64), 16, 128, "float32"),
        ((8, 1024), 4, 128, "float32"),
        ((10, 100), 3, 128, "float32"),
        ((8, 64), 4, 96, "float32"),
        ((10, 72), 3, 128, "float16"),
    ],
)
def test_softmax(shape, rows, threads, dtype):
    check(tiles.softmax(*shape, rows, threads, dtype))


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("shape", [(64, 64), (7, 9), (32, 48), (1, 40), (40, 1)])
@pytest.mark.parametrize("threads", [128, 100, 32])
def test_reductions(axis, shape, threads):
    check(tiles.reduce(*shape, axis, threads))


@pytest.mark.parametrize("kind", ["max", "min", "abssum", "absmax"])
def test_kinds_of_reduction(kind):
    check(tiles.reduce(16, 64, 1, kind=kind))


def test_scan():
    check(tiles.column_scan(12, 20))


@pytest.mark.parametrize("shape", [(64, 64), (65, 63)])
def test_elementwise(shape):
    check(tiles.elementwise(*shape, 32, 32))


@pytest.mark.parametrize("shape", [(64, 96), (50, 70)])
def test_transposes(shape):
    check(tiles.swapped(*shape, 32))


@pytest.mark.parametrize("policy", [T.GemmWarpPolicy.FullRow, T.GemmWarpPolicy.Square])
def test_attention(policy):
    check(tiles.attention(128, 32, 64, 32, policy=policy))


@pytest.mark.parametrize("seed", range(12))
def test_random_kernels(seed):
    check_random(seed)


@pytest.mark.parametrize("seed", range(12, 120))
def test_more_random_kernels(seed):
    check_random(seed)


def check_random(seed):
    with warnings.catch_warnings():
        # That a race is not disproved is said once; here there is none.
        warnings.simplefilter("ignore", TileWarning)
        try:
            check(random_program(seed), random_program_arguments(seed), scale=8)
        except CompileError as error:
            # An access that a condition leaves only where it lies outside is refused, rightly.
            assert error.code == "E-REGION-OUTSIDE"
