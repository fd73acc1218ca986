"""Reductions, scans, shuffles, votes and atomics beside numpy."""

from __future__ import annotations

import numpy as np
import pytest

pytestmark = pytest.mark.layer("emulation")

OPERATORS = {
    "sum": np.add,
    "prod": np.multiply,
    "max": np.maximum,
    "min": np.minimum,
    "bitand": np.bitwise_and,
    "bitor": np.bitwise_or,
    "bitxor": np.bitwise_xor,
}
ATOMICS = {"add": "sum", "max": "max", "min": "min", "and": "bitand", "or": "bitor", "xor": "bitxor"}
TYPES = {"int8_t": np.int8, "int32_t": np.int32, "uint64_t": np.uint64, "tile::fp16": np.float16, "float": np.float32}


def plain(ctype: str) -> str:
    return ctype.replace("::", "_")


def fits(op: str, ctype: str) -> bool:
    return not (ctype in ("tile::fp16", "float") and op.startswith("bit"))


def source() -> tuple[str, list[str]]:
    text, names = ['#include "tile_cuda.h"'], []

    def kernel(name: str, ctype: str, body: str) -> None:
        names.append(name)
        text.append(f'extern "C" __global__ void {name}({ctype}* x, {ctype}* y) {{ int t = threadIdx.x; {body} }}')

    for ctype in TYPES:
        for op in OPERATORS:
            if fits(op, ctype):
                kernel(f"reduce8_{op}_{plain(ctype)}", ctype, f"y[t] = tile::warp_reduce_{op}(x[t], 8);")
                kernel(f"scan_{op}_{plain(ctype)}", ctype, f"y[t] = tile::warp_scan_{op}(x[t], 16);")
                call = f"tile::block_reduce_{op}(TILE_SYNC(0), x[t], ({ctype}*)shared)"
                kernel(f"block_{op}_{plain(ctype)}", ctype, f"TILE_SHARED(shared, 2048); y[t] = {call};")
        for name, op in ATOMICS.items():
            if fits(op, ctype):
                kernel(f"atomic_{name}_{plain(ctype)}", ctype, f"tile::atomic_{name}(y + t % 4, x[t]);")
        kernel(f"rotate_{plain(ctype)}", ctype, "y[t] = tile::shfl(x[t], (t + 1) % 32);")
        kernel(f"down_{plain(ctype)}", ctype, "y[t] = tile::shfl_down(x[t], 3, 16);")
        kernel(f"vote_{plain(ctype)}", ctype, f"y[t] = {ctype}(tile::ballot(x[t] > {ctype}(0)) >> t & 1);")
    return "\n".join(text) + "\n", names


@pytest.fixture(scope="module")
def unit(emulated):
    return emulated(*source())


def values(ctype: str, count: int) -> np.ndarray:
    held = TYPES[ctype]
    random = np.random.default_rng(count)
    if np.issubdtype(held, np.integer):
        return random.integers(1, 4, count).astype(held)
    return random.choice([0.5, 1.0, 2.0], count).astype(held)


CASES = [(op, ctype) for ctype in TYPES for op in OPERATORS if fits(op, ctype)]


@pytest.mark.parametrize(("op", "ctype"), CASES)
def test_eight_lanes_reduce_to_one_value(op, ctype, unit):
    x = values(ctype, 32)
    y = np.zeros_like(x)
    unit.run(f"reduce8_{op}_{plain(ctype)}", {"x": x, "y": y})
    with np.errstate(over="ignore"):
        expected = OPERATORS[op].reduce(x.reshape(4, 8), axis=1, dtype=x.dtype).repeat(8)
    np.testing.assert_array_equal(y, expected)


@pytest.mark.parametrize(("op", "ctype"), CASES)
def test_a_scan_holds_what_came_before(op, ctype, unit):
    x = values(ctype, 32)
    y = np.zeros_like(x)
    unit.run(f"scan_{op}_{plain(ctype)}", {"x": x, "y": y})
    with np.errstate(over="ignore"):
        expected = OPERATORS[op].accumulate(x.reshape(2, 16), axis=1, dtype=x.dtype).reshape(-1)
    np.testing.assert_array_equal(y, expected)


@pytest.mark.parametrize("threads", [1, 32, 33, 96, 160])
@pytest.mark.parametrize(("op", "ctype"), [("sum", "int32_t"), ("max", "float"), ("min", "tile::fp16")])
def test_a_block_of_any_size_reduces_to_one_value(op, ctype, threads, unit):
    x = values(ctype, threads)
    y = np.zeros_like(x)
    unit.run(f"block_{op}_{plain(ctype)}", {"x": x, "y": y}, threads=threads, shared=2048)
    np.testing.assert_array_equal(y, np.full(threads, OPERATORS[op].reduce(x, dtype=x.dtype)))


@pytest.mark.parametrize("ctype", TYPES)
@pytest.mark.parametrize("name", ATOMICS)
def test_atomic_updates_of_all_threads_count(name, ctype, unit):
    if not fits(ATOMICS[name], ctype):
        return
    x = values(ctype, 64)
    y = np.ones(4, x.dtype)
    unit.run(f"atomic_{name}_{plain(ctype)}", {"x": x, "y": y}, threads=64)
    columns = np.concatenate([np.ones((1, 4), x.dtype), x.reshape(16, 4)])
    np.testing.assert_array_equal(y, OPERATORS[ATOMICS[name]].reduce(columns, axis=0, dtype=x.dtype))


@pytest.mark.parametrize("ctype", TYPES)
def test_shuffles_move_values_of_every_size(ctype, unit):
    x = np.arange(32).astype(TYPES[ctype])
    y = np.zeros_like(x)
    unit.run(f"rotate_{plain(ctype)}", {"x": x, "y": y})
    np.testing.assert_array_equal(y, np.roll(x, -1))
    unit.run(f"down_{plain(ctype)}", {"x": x, "y": y})
    lanes = np.arange(32)
    np.testing.assert_array_equal(y, np.where(lanes % 16 + 3 < 16, lanes + 3, lanes).astype(x.dtype))


@pytest.mark.parametrize("ctype", TYPES)
def test_a_vote_has_a_bit_for_each_lane(ctype, unit):
    x = (np.arange(32) % 3).astype(TYPES[ctype])
    y = np.zeros_like(x)
    unit.run(f"vote_{plain(ctype)}", {"x": x, "y": y})
    np.testing.assert_array_equal(y, (x > 0).astype(x.dtype))
