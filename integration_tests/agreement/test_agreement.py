"""The interpreter, the CPU backend and torch agree: 2,000 generated cases an op, seeded.

`harness` says what a case is. Each test prints how many it ran.
"""

import itertools
import random

import numpy as np
import pytest
import torch

from integration_tests.agreement.elements import OPERATIONS, cast_kernel, element_kernel, operands
from integration_tests.agreement.harness import FLOATS, INTEGERS, NUMBERS, agree, as_tensor
from integration_tests.agreement.tiles import copy_kernel, fill_kernel, gemm_kernel, reduce_kernel, sparse_gemm_kernel
from tile_core.dtypes import DType
from tile_core.testing.compare import to_numpy
from tile_core.testing.supply import random_array
from tile_runtime.sparse import compress, randn_semi_sparse

CASES = 2000
EXTENTS = (1, 7, 8, 15, 16, 17, 31, 32, 33, 64)


pytestmark = pytest.mark.slow


def plan(kernels: int, seed: int):
    """(number of kernels, cases in each, a seeded random.Random, a numpy generator)."""
    return kernels, -(-CASES // kernels), random.Random(seed), np.random.default_rng(seed)


def small(shape, source, rng, target=None):
    """Values of type `source` that every numeric type can hold; none below 0 where `target` cannot hold those.

    What comes of a float outside an integer's range is left open by the language (and by torch).
    """
    if source == "bool":
        return random_array(shape, source, rng)
    unsigned = source.startswith("u") or (DType(source).is_float and target is not None and target.startswith("u"))
    return random_array(shape, source, rng, low=0 if unsigned else -100, high=100)


def converted(array: np.ndarray, source: str, target: str) -> np.ndarray:
    """The array as torch converts it."""
    if source == target:
        return array
    return to_numpy(as_tensor(array).to(getattr(torch, target)))


def test_copies():
    count, cases, pick, rng = plan(40, 1)
    pairs = list(itertools.product(NUMBERS, NUMBERS))
    pick.shuffle(pairs)
    for source, target in pairs[:count]:
        rows, columns = pick.choice(EXTENTS), pick.choice(EXTENTS)
        height, width = rows + pick.randrange(5), columns + pick.randrange(9)
        x, y = small((cases, height, width), source, rng, target), small((cases, height, width), target, rng)
        offsets = np.stack([rng.integers(0, bound + 2, cases) for bound in (height, width, height, width)], 1)
        expected = y.copy()
        for b, (top, left, to_top, to_left) in enumerate(offsets.tolist()):
            tile = np.zeros((rows, columns), x.dtype)
            part = x[b, top : top + rows, left : left + columns]
            tile[: part.shape[0], : part.shape[1]] = part
            target_part = expected[b, to_top : to_top + rows, to_left : to_left + columns]
            target_part[...] = converted(tile, source, target)[: target_part.shape[0], : target_part.shape[1]]
        agree(
            copy_kernel(cases, height, width, rows, columns, source, target),
            [x, offsets.astype("int32"), y],
            {2: expected},
            label=f"copy {source} → {target} {rows}×{columns}",
        )
    print(f"copy: {count * cases} cases")


def test_fills():
    count, cases, pick, rng = plan(40, 2)
    for i in range(count):
        dtype = NUMBERS[i % len(NUMBERS)]
        rows, columns = pick.choice(EXTENTS), pick.choice(EXTENTS)
        top, left = pick.randrange(rows), pick.randrange(columns)
        values = random_array((cases, 2), dtype, rng)
        expected = np.repeat(values[:, 0], rows * columns).reshape(cases, rows, columns)
        expected[:, top:, left:] = values[:, 1, None, None]
        y = np.zeros((cases, rows, columns), values.dtype)
        agree(fill_kernel(cases, rows, columns, top, left, dtype), [values, y], {1: expected}, label=f"fill {dtype}")
    print(f"fill: {count * cases} cases")


REDUCE_DTYPES = (
    ("float32", "float32"),
    ("float16", "float32"),
    ("bfloat16", "float32"),
    ("float16", "float16"),
    ("float64", "float64"),
    ("int8", "int32"),
    ("int32", "int32"),
    ("int64", "int64"),
    ("uint8", "uint8"),
    ("uint32", "uint32"),
)


def test_reductions():
    count, cases, pick, rng = plan(40, 3)
    for i in range(count):
        source, target = REDUCE_DTYPES[i % len(REDUCE_DTYPES)]
        floats = DType(source).is_float
        kinds = ("sum", "max", "min", "abssum", "absmax", *(() if floats else ("bitand", "bitor", "bitxor")))
        rows, columns, axis = pick.choice(EXTENTS), pick.choice(EXTENTS), pick.randrange(2)
        clear = pick.random() < 0.6
        x = random_array((cases, rows, columns), source, rng)
        length = rows if axis == 1 else columns
        held = random_array((len(kinds), cases, length), target, rng)
        expected = np.stack(
            [_reduced(kind, x, axis + 1, target, None if clear else held[k]) for k, kind in enumerate(kinds)]
        )
        agree(
            reduce_kernel(cases, rows, columns, axis, kinds, clear, (source, target)),
            [x, held, np.zeros_like(held)],
            {2: expected},
            reduction=x.shape[axis + 1],
            scale=4.0,
            label=f"reduce {source} → {target} {rows}×{columns} axis {axis}",
        )
    print(f"each reduction: {count * cases} cases (bitand, bitor, bitxor: the integer half of them)")


def _reduced(kind, x, axis, target, held):
    """The reduction in torch, in float64 for floats; in numpy for integers, which torch would widen."""
    if DType(target).is_float:
        values = as_tensor(x).double()
        result = {
            "sum": lambda v: v.sum(axis),
            "max": lambda v: v.amax(axis),
            "min": lambda v: v.amin(axis),
            "abssum": lambda v: v.abs().sum(axis),
            "absmax": lambda v: v.abs().amax(axis),
        }[kind](values)
        if held is not None:
            before = as_tensor(held).double()
            combine = {"sum": torch.add, "abssum": torch.add, "min": torch.minimum}.get(kind, torch.maximum)
            result = combine(result, before)
        return to_numpy(result.to(getattr(torch, target)))
    values = x.astype(target)
    function = {
        "sum": np.add,
        "abssum": np.add,
        "max": np.maximum,
        "absmax": np.maximum,
        "min": np.minimum,
        "bitand": np.bitwise_and,
        "bitor": np.bitwise_or,
        "bitxor": np.bitwise_xor,
    }[kind]
    with np.errstate(over="ignore"):
        result = function.reduce(np.abs(values) if kind.startswith("abs") else values, axis=axis)
        result = result.astype(target)
        return result if held is None else function(result, held)


GEMM_DTYPES = (
    ("float32", "float32", "float32"),
    ("float16", "float16", "float32"),
    ("bfloat16", "bfloat16", "float32"),
    ("float64", "float64", "float64"),
    ("int8", "int8", "int32"),
    ("uint8", "int8", "int32"),
    ("float16", "float16", "float16"),
    ("int32", "int32", "int32"),
)


def test_products():
    count, cases, pick, rng = plan(40, 4)
    for i in range(count):
        a_type, b_type, c_type = dtypes = GEMM_DTYPES[i % len(GEMM_DTYPES)]
        m, n, k = (pick.choice(EXTENTS) for _ in range(3))
        transposed = (pick.random() < 0.5, pick.random() < 0.5)
        clear = pick.random() < 0.4
        a = random_array((cases, *((k, m) if transposed[0] else (m, k))), a_type, rng)
        b = random_array((cases, *((n, k) if transposed[1] else (k, n))), b_type, rng)
        c = random_array((cases, m, n), c_type, rng)
        agree(
            gemm_kernel(cases, m, n, k, transposed, clear, dtypes),
            [a, b, c],
            {2: _product(a, b, c, transposed, clear)},
            reduction=k,
            scale=4.0,
            label=f"gemm {a_type}·{b_type} → {c_type} {m}×{n}×{k}",
        )
    print(f"gemm: {count * cases} cases")


def _product(a, b, c, transposed, clear):
    left = a.swapaxes(1, 2) if transposed[0] else a
    right = b.swapaxes(1, 2) if transposed[1] else b
    if c.dtype.kind == "i":
        with np.errstate(over="ignore"):
            result = left.astype("int64") @ right.astype("int64") + (0 if clear else c)
        return result.astype(c.dtype)
    result = torch.matmul(
        as_tensor(np.ascontiguousarray(left)).double(), as_tensor(np.ascontiguousarray(right)).double()
    )
    if not clear:
        result = result + as_tensor(c).double()
    return to_numpy(result.to(as_tensor(c).dtype))


SPARSE_DTYPES = tuple(
    itertools.product(
        (
            ("float16", "float32"),
            ("float32", "float32"),
            ("int8", "int32"),
            ("bfloat16", "float32"),
            ("uint8", "int32"),
        ),
        ("int16", "uint8", "int32", "uint16", "int8", "uint32"),
    )
)


def test_products_of_a_sparse_a():
    count, cases, pick, rng = plan(40, 7)
    torch.manual_seed(7)
    for i in range(count):
        (dtype, c_type), places = SPARSE_DTYPES[7 * i % len(SPARSE_DTYPES)]
        covered = DType(places).bits // (2 if dtype == "float32" else 1)
        m, n, k = pick.choice(EXTENTS), pick.choice(EXTENTS), covered * pick.choice((1, 2, 3))
        turned = {f"transpose_{name}": pick.random() < 0.5 for name in "AEB"}
        clear = pick.random() < 0.4
        whole = randn_semi_sparse(cases * m, k, getattr(torch, dtype), "cpu").reshape(cases, m, k)
        kept, e = compress(whole, getattr(torch, places))
        b, c = random_array((cases, k, n), dtype, rng), random_array((cases, m, n), c_type, rng)
        expected = _product(to_numpy(whole), b, c, (False, False), clear)
        given = [to_numpy(kept), e.numpy(), b]
        given = [np.ascontiguousarray(x.swapaxes(1, 2)) if t else x for x, t in zip(given, turned.values())]
        agree(
            sparse_gemm_kernel(cases, [x.shape[1:] for x in (*given, c)], turned, clear, (dtype, places, c_type)),
            [*given, c],
            {3: expected},
            reduction=k,
            scale=4.0,
            label=f"gemm_sp {dtype} by {places} → {c_type} {m}×{n}×{k} {turned}",
        )
    print(f"gemm_sp: {count * cases} cases")


@pytest.mark.parametrize("dtype", (*FLOATS, *INTEGERS))
def test_elementwise_operations(dtype):
    rng = np.random.default_rng(5)
    table = [operation for operation in OPERATIONS if dtype in operation.types]
    count = CASES
    xs, ys, expected = [], [], []
    for operation in table:
        x, y = operands(operation, dtype, count, rng)
        xs.append(x)
        ys.append(y)
        expected.append(_answer(operation, x, y))
    agree(
        element_kernel(count, dtype, tuple(operation.ours for operation in table)),
        [np.stack(xs), np.stack(ys), np.zeros((len(table), count), xs[0].dtype)],
        {2: np.stack(expected)},
        label=f"element-wise {dtype}",
    )
    print(f"{dtype}: {count} cases each of {len(table)} operations")


def _answer(operation, x, y):
    if operation.theirs is not None and x.dtype.kind != "u":
        return to_numpy(operation.theirs(as_tensor(x), as_tensor(y)).to(as_tensor(x).dtype))
    with np.errstate(all="ignore"):
        wide = x.dtype.kind not in "iuf"
        result = operation.numpy(x.astype("float32"), y.astype("float32")) if wide else operation.numpy(x, y)
        return np.asarray(result).astype(x.dtype)


@pytest.mark.parametrize("source", NUMBERS)
@pytest.mark.parametrize("signed", [True, False], ids=["signed", "unsigned"])
def test_casts(source, signed):
    rng = np.random.default_rng(6)
    count = CASES
    targets = tuple(name for name in NUMBERS if name.startswith("u") != signed)
    x = small((count,), source, rng, targets[0])
    if DType(source).is_int:
        # Integers wrap, so they are cast over their whole range; to floats the conversion rounds.
        x[::2] = random_array((len(x[::2]),), source, rng)
    expected = {i + 1: converted(x, source, target) for i, target in enumerate(targets)}
    outputs = [np.zeros(count, e.dtype) for e in expected.values()]
    agree(cast_kernel(count, source, targets), [x, *outputs], expected, label=f"cast from {source}")
    print(f"{source}: {count} cases to each of {len(targets)} types")
