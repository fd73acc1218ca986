"""Masked, strided and indexed access, reductions, tile copies and the loop over the grid."""

from __future__ import annotations

import ctypes

import ml_dtypes
import numpy as np
import pytest

TYPES = {
    "int8_t": np.int8, "bool": np.bool_, "int16_t": np.int16, "fp16": np.float16, "bf16": ml_dtypes.bfloat16,
    "int32_t": np.int32, "float": np.float32, "int64_t": np.int64, "double": np.float64, "uint8_t": np.uint8,
}  # fmt: skip
ACCESSED = [kind for kind in TYPES if kind != "uint8_t"]


@pytest.fixture(scope="module")
def library(build, march):
    return build("memory.cpp", march)


def pointer(array: np.ndarray, offset: int = 0) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data + offset * array.itemsize)


def random(kind: str, *shape: int) -> np.ndarray:
    rng = np.random.default_rng(4)
    if kind == "bool":
        return rng.integers(0, 2, shape).astype(bool)
    return rng.integers(1, 100, shape).astype(TYPES[kind])


@pytest.mark.parametrize("kind", ACCESSED)
def test_partial_access_touches_only_the_first_lanes(library, kind):
    width = getattr(library, f"lanes_{kind}")()
    x = random(kind, width)
    for n in range(width + 1):
        y = np.zeros(width + 2, TYPES[kind])
        getattr(library, f"partial_{kind}")(pointer(x), pointer(y, 1), n)
        assert np.array_equal(y[1 : n + 1], x[:n]) and not y[0] and not y[n + 1 :].any()


@pytest.mark.parametrize("kind", ["float", "double", "int8_t", "bf16"])
def test_a_partial_load_may_end_at_the_end_of_the_mapping(library, kind):
    """The bytes after the row are not readable: a load that touched them would fault."""
    import mmap

    page = mmap.PAGESIZE
    size = np.dtype(TYPES[kind]).itemsize
    block = mmap.mmap(-1, 2 * page)
    address = ctypes.addressof(ctypes.c_char.from_buffer(block))
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.mprotect(ctypes.c_void_p(address + page), ctypes.c_size_t(page), 0) == 0
    try:
        for n in range(1, getattr(library, f"lanes_{kind}")()):
            y = np.zeros(64, TYPES[kind])
            getattr(library, f"partial_{kind}")(ctypes.c_void_p(address + page - n * size), pointer(y), n)
            getattr(library, f"partial_{kind}")(pointer(y), ctypes.c_void_p(address + page - n * size), n)
    finally:
        libc.mprotect(ctypes.c_void_p(address + page), ctypes.c_size_t(page), mmap.PROT_READ | mmap.PROT_WRITE)


@pytest.mark.parametrize("kind", ACCESSED)
def test_predicated_access_skips_false_lanes(library, kind):
    n = 131
    x, y = random(kind, n), np.zeros(n, TYPES[kind])
    when = np.random.default_rng(0).integers(0, 2, n).astype(np.int8)
    getattr(library, f"predicated_{kind}")(pointer(x), pointer(y), pointer(when), n)
    assert np.array_equal(y, np.where(when.astype(bool), x, np.zeros(1, TYPES[kind])[0]))


@pytest.mark.parametrize("kind", ACCESSED)
@pytest.mark.parametrize("stride, out_stride", [(1, 1), (3, 1), (1, 5), (0, 2), (-2, 1)])
def test_strided_access(library, kind, stride, out_stride):
    n = 70
    x, y = random(kind, 1 + 3 * n), np.zeros(n * out_stride, TYPES[kind])
    start = 2 * n if stride < 0 else 0
    arguments = pointer(x, start), ctypes.c_int64(stride), pointer(y), ctypes.c_int64(out_stride), n
    getattr(library, f"strided_{kind}")(*arguments)
    assert np.array_equal(y[::out_stride], x[start + stride * np.arange(n)])
    assert np.count_nonzero(y) == np.count_nonzero(y[::out_stride])


def test_indexed_access_and_iota(library):
    rng = np.random.default_rng(0)
    x, y = rng.random(200).astype(np.float32), np.zeros(101, np.float32)
    index, out_index = rng.integers(0, 200, 101).astype(np.int32), rng.permutation(101).astype(np.int32)
    library.indexed(pointer(x), pointer(index), pointer(y), pointer(out_index), 101)
    assert np.array_equal(y[out_index], x[index])
    counted = np.zeros(77, np.int32)
    library.count_up(pointer(counted), 5, -3, 77)
    assert np.array_equal(counted, 5 - 3 * np.arange(77))


@pytest.mark.parametrize("kind", ACCESSED)
@pytest.mark.parametrize("rows, columns", [(1, 1), (16, 16), (33, 50), (64, 64), (7, 40), (40, 7)])
def test_tile_copies(library, kind, rows, columns):
    x = random(kind, rows, columns + 3)
    plain, turned = np.zeros((rows, columns + 2), TYPES[kind]), np.zeros((columns, rows + 1), TYPES[kind])
    pitches = [ctypes.c_int64(v) for v in (columns + 3, columns + 2, rows + 1)]
    getattr(library, f"tile_{kind}")(pointer(x), pitches[0], pointer(plain), pitches[1], rows, columns)
    getattr(library, f"transpose_{kind}")(pointer(x), pitches[0], pointer(turned), pitches[2], rows, columns)
    assert np.array_equal(plain[:, :columns], x[:, :columns]) and not plain[:, columns:].any()
    assert np.array_equal(turned[:, :rows], x[:, :columns].T) and not turned[:, rows:].any()


@pytest.mark.parametrize("kind", ["float", "double", "int32_t", "int8_t", "int64_t", "fp16", "bf16"])
def test_reductions(library, kind):
    carried = np.float32 if kind in ("fp16", "bf16") else TYPES[kind]
    rng = np.random.default_rng(6)
    for n in [0, 1, 2, 15, 16, 17, 63, 64, 65, 130, 257]:
        x = rng.integers(-3, 4, n).astype(TYPES[kind])
        out = np.zeros(6, carried)
        getattr(library, f"reduce_{kind}")(pointer(x), n, pointer(out))
        wide = x.astype(carried)
        integral = np.issubdtype(carried, np.integer)
        lowest = np.iinfo(carried).min if integral else -np.inf
        highest = np.iinfo(carried).max if integral else np.inf
        wanted = [
            wide.sum(dtype=carried),
            wide.max(initial=lowest),
            wide.min(initial=highest),
            np.abs(wide).sum(dtype=carried),
        ]
        wanted += [np.abs(wide).max(initial=0), wide.prod(dtype=carried)]
        assert np.array_equal(out, np.array(wanted, carried)), n


def test_max_and_min_drop_nan(library):
    x = np.full(40, np.nan, np.float32)
    x[[3, 38]] = -5, 2
    out = np.zeros(6, np.float32)
    library.reduce_float(pointer(x), 40, pointer(out))
    assert out[1] == 2 and out[2] == -5 and np.isnan(out[0])


@pytest.mark.parametrize("kind", ["uint8_t", "int32_t", "int64_t"])
def test_bit_reductions(library, kind):
    rng = np.random.default_rng(8)
    for n in [1, 5, 64, 100, 300]:
        x = rng.integers(0, 120, n).astype(TYPES[kind]) | TYPES[kind](4)
        x[n // 2] = 0 if n == 100 else x[n // 2]
        out = np.zeros(5, TYPES[kind])
        getattr(library, f"bits_{kind}")(pointer(x), n, pointer(out))
        wanted = [f.reduce(x) for f in (np.bitwise_and, np.bitwise_or, np.bitwise_xor)] + [x.any(), x.all()]
        assert np.array_equal(out, np.array(wanted).astype(TYPES[kind])), n


def test_bit_reductions_of_truth_values(library):
    rng = np.random.default_rng(8)
    for n in (1, 5, 64, 100, 300):
        for share in (0.0, 0.02, 0.98, 1.0):
            x, out = rng.random(n) < share, np.zeros(5, bool)
            library.bits_bool(pointer(x), n, pointer(out))
            assert np.array_equal(out, [x.all(), x.any(), np.bitwise_xor.reduce(x), x.any(), x.all()]), (n, share)


def test_inactive_lanes_of_an_expression_do_not_count(library):
    library.sum_of_exp.restype = ctypes.c_float
    x = np.zeros(100, np.float32)
    for n in (0, 1, 7, 16, 65, 100):
        assert library.sum_of_exp(pointer(x), n) == n


@pytest.mark.parametrize("flags", [("-fopenmp",), ("-pthread",)], ids=["openmp", "threads"])
class TestGrid:
    @pytest.mark.parametrize("threads", [0, 1, 2, 5])
    @pytest.mark.parametrize("extent", [(1, 1, 1), (7, 5, 3), (1000, 1, 2), (0, 3, 1)])
    def test_each_block_runs_once_with_its_own_scratch(self, build, flags, threads, extent):
        library = build("memory.cpp", "native", *flags)
        seen = np.zeros(int(np.prod(extent)), np.int32)
        for launch in range(1, 4):
            assert library.grid(pointer(seen), *extent, threads) == 0
            assert (seen == launch).all()

    def test_scratch_that_cannot_be_had_is_reported(self, build, flags):
        assert build("memory.cpp", "native", *flags).too_much_scratch() == 1

    def test_a_launch_inside_a_launch_runs_serially(self, build, flags):
        count = np.zeros(1, np.int32)
        assert build("memory.cpp", "native", *flags).nested(pointer(count)) == 0
        assert count[0] == 32

    def test_a_failed_assertion_is_reported_by_its_launch_only(self, build, flags):
        library = build("memory.cpp", "native", *flags)
        message = ctypes.c_char_p()
        assert library.asserts(9, ctypes.byref(message)) == 2 and message.value == b"x < limit"
        assert library.asserts(10, ctypes.byref(message)) == 0 and message.value is None
