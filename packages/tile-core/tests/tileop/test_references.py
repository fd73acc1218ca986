"""What tile ops compute: references beside plain numpy, with the corner cases that the docstrings promise."""

import numpy as np
import pytest

from tile_core.dtypes import DType
from tile_core.ir import Buffer, as_shape, const, full_region
from tile_core.tileop import REDUCE_KINDS, AtomicUpdate, Copy, Fill, Gemm, Reduce, Scan, accumulator_type

NAN, INF = np.nan, np.inf


def region(shape, dtype="float32"):
    return full_region(Buffer("t", as_shape(shape), DType(dtype), "shared"))


def reduce(values, kind, axis, dst_dtype, held=None, nan_propagate=False):
    values = np.asarray(values)
    shape = values.shape[:axis] + values.shape[axis + 1 :]
    op = Reduce(
        region(values.shape, values.dtype.name),
        region(shape, dst_dtype),
        kind,
        axis,
        clear=held is None,
        nan_propagate=nan_propagate,
    )
    op.check()
    dst = np.zeros(shape, accumulator_type(DType(dst_dtype))) if held is None else np.asarray(held)
    return op.reference({"src": values, "dst": dst}, None)["dst"]


def test_max_skips_nan_and_is_minus_infinity_of_nothing():
    values = np.array([[1, NAN, 3], [NAN, NAN, NAN]], "float32")
    assert reduce(values, "max", 1, "float32").tolist() == [3, -INF]
    assert reduce(values, "min", 1, "float32").tolist() == [1, INF]
    assert reduce(values, "absmax", 1, "float32").tolist() == [3, 0]


def test_nan_propagates_when_asked():
    values = np.array([[1, NAN, 3], [1, 2, 3]], "float32")
    assert np.array_equal(reduce(values, "max", 1, "float32", nan_propagate=True), [NAN, 3], equal_nan=True)


def test_what_the_destination_holds_takes_part_unless_cleared():
    values = np.array([[1, 2], [3, 4]], "float32")
    assert reduce(values, "sum", 0, "float32", held=np.array([10, 20], "float32")).tolist() == [14, 26]
    assert reduce(values, "max", 0, "float32", held=np.array([NAN, 20], "float32")).tolist() == [3, 20]
    assert reduce(-values, "abssum", 0, "float32", held=np.array([-1, 1], "float32")).tolist() == [3, 7]


def test_integers_widen_before_they_are_combined():
    values = np.array([[-128, -128], [100, 100]], "int8")
    assert reduce(values, "sum", 1, "int32").tolist() == [-256, 200]
    assert reduce(values, "absmax", 1, "int32").tolist() == [128, 100]
    assert reduce(values, "sum", 1, "int8").tolist() == [0, -56]


@pytest.mark.parametrize("kind", ["bitand", "bitor", "bitxor"])
@pytest.mark.parametrize("dtype", ["int8", "uint16", "int64", "bool"])
def test_bits(kind, dtype, rng):
    values = rng.integers(0, 2 if dtype == "bool" else 100, (5, 7)).astype(dtype)
    function = {"bitand": np.bitwise_and, "bitor": np.bitwise_or, "bitxor": np.bitwise_xor}[kind]
    assert np.array_equal(reduce(values, kind, 1, dtype), function.reduce(values, 1))


@pytest.mark.parametrize("kind", REDUCE_KINDS)
def test_an_empty_axis_gives_the_identity(kind):
    dtype = "int32" if kind.startswith("bit") else "float32"
    identity = {"max": -INF, "min": INF, "bitand": -1}.get(kind, 0)
    assert reduce(np.zeros((3, 0), dtype), kind, 1, dtype).tolist() == [identity] * 3


@pytest.mark.parametrize("transpose_a", [False, True])
@pytest.mark.parametrize("transpose_b", [False, True])
@pytest.mark.parametrize("clear", [False, True])
def test_gemm(transpose_a, transpose_b, clear, rng):
    a, b = rng.standard_normal((5, 7)).astype("float32"), rng.standard_normal((7, 3)).astype("float32")
    c = rng.standard_normal((5, 3)).astype("float32")
    left, right = (a.T if transpose_a else a), (b.T if transpose_b else b)
    op = Gemm(region(left.shape), region(right.shape), region((5, 3)), transpose_a, transpose_b, clear_accum=clear)
    op.check()
    assert (op.m, op.n, op.k) == (5, 3, 7)
    assert [e.kind for e in op.effects()] == ["read", "read", *(["write"] if clear else ["read", "write"])]
    result = op.reference({"a": left, "b": right, "c": c}, None)["c"]
    assert np.allclose(result, a @ b + (0 if clear else c), atol=1e-5)


def test_integer_products_wrap_in_the_accumulator():
    a = np.full((1, 2), 2**16, "int32")
    op = Gemm(region((1, 2), "int32"), region((2, 1), "int32"), region((1, 1), "int32"), clear_accum=True)
    op.check()
    assert op.reference({"a": a, "b": a.T, "c": np.zeros((1, 1), "int32")}, None)["c"].tolist() == [[0]]


@pytest.mark.parametrize("reverse", [False, True])
def test_scans(reverse):
    values = np.array([[1, NAN, 3, 2], [4, 5, -6, 7]], "float32")
    op = Scan(region((2, 4)), region((2, 4)), "max", 1, reverse)
    op.check()
    result = op.reference({"src": values, "dst": values}, None)["dst"].tolist()
    assert result == ([[3, 3, 3, 2], [7, 7, 7, 7]] if reverse else [[1, 1, 3, 3], [4, 5, 5, 7]])
    op = Scan(region((2, 4), "int32"), region((2, 4), "int32"), "sum", 0, reverse)
    whole = np.arange(8, dtype="int32").reshape(2, 4)
    result = op.reference({"src": whole, "dst": whole}, None)["dst"].tolist()
    assert result == ([[4, 6, 8, 10], [4, 5, 6, 7]] if reverse else [[0, 1, 2, 3], [4, 6, 8, 10]])


@pytest.mark.parametrize(("kind", "expected"), [("add", 9), ("max", 6), ("min", 3), ("and", 2), ("or", 7), ("xor", 5)])
def test_atomic_updates(kind, expected):
    op = AtomicUpdate(region((2,), "int32"), const(3, "int32"), kind)
    op.check()
    assert [e.kind for e in op.effects()] == ["accumulate"]
    result = op.reference({"dst": np.array([6, 6], "int32")}, lambda e: e.value)["dst"]
    assert result.tolist() == [expected] * 2


def test_a_copy_reshapes_and_a_fill_fills():
    op = Copy(region((1, 4)), region((4,)))
    op.check()
    assert op.reference({"src": np.ones((1, 4)), "dst": np.zeros(4)}, None)["dst"].shape == (4,)
    op = Fill(region((2, 2)), const(3.0, "float32"))
    assert op.reference({"dst": np.zeros((2, 2))}, lambda e: e.value)["dst"].tolist() == [[3, 3], [3, 3]]
