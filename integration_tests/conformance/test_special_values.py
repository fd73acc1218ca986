"""NaN, infinities and zeros of both signs: what operations make of them, in the interpreter and on the CPU."""

import numpy as np
import pytest

import tile_core.language as T
from integration_tests.agreement.harness import FLOATS, agree
from tile_core.dtypes import DType
from tile_core.interpreter import numpy_type

SPECIAL = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -3.0], "float32")

# (expression, what it is in numpy, on float32 values)
OPERATIONS = (
    (lambda a, b: T.max(a, b), np.fmax),
    (lambda a, b: T.min(a, b), np.fmin),
    (lambda a, b: T.if_then_else(a < b, 1.0, 0.0), np.less),
    (lambda a, b: T.if_then_else(a >= b, 1.0, 0.0), np.greater_equal),
    (lambda a, b: T.if_then_else(a == b, 1.0, 0.0), np.equal),
    (lambda a, b: T.if_then_else(a != b, 1.0, 0.0), np.not_equal),
    (lambda a, b: T.Select(a > b, a, b), lambda a, b: np.where(a > b, a, b)),
    (lambda a, b: a + b, np.add),
    (lambda a, b: a * b, np.multiply),
    (lambda a, b: a / b, np.divide),
    (lambda a, b: T.abs(a), lambda a, b: np.abs(a)),
    (lambda a, b: -a, lambda a, b: -a),
    (lambda a, b: T.exp(a), lambda a, b: np.exp(a)),
    (lambda a, b: T.exp2(a), lambda a, b: np.exp2(a)),
    (lambda a, b: T.log(a), lambda a, b: np.log(a)),
    (lambda a, b: T.sqrt(a), lambda a, b: np.sqrt(a)),
    (lambda a, b: T.rsqrt(a), lambda a, b: 1 / np.sqrt(a)),
    (lambda a, b: T.tanh(a), lambda a, b: np.tanh(a)),
    (lambda a, b: T.sigmoid(a), lambda a, b: 1 / (1 + np.exp(-a))),
    (lambda a, b: T.floor(a), lambda a, b: np.floor(a)),
    (lambda a, b: T.clamp(a, -2.0, 2.0), lambda a, b: np.fmin(np.fmax(a, -2), 2)),
    (lambda a, b: T.if_then_else(T.isnan(a), 1.0, 0.0), lambda a, b: np.isnan(a)),
    (lambda a, b: T.if_then_else(T.isinf(a), 1.0, 0.0), lambda a, b: np.isinf(a)),
    (lambda a, b: T.if_then_else(T.isfinite(a), 1.0, 0.0), lambda a, b: np.isfinite(a)),
)


@pytest.mark.parametrize("dtype", FLOATS)
def test_special_values(dtype):
    functions = tuple(ours for ours, _ in OPERATIONS)
    count, rows = SPECIAL.size**2, len(functions)

    @T.prim_func
    def special(A: T.Tensor((count,), dtype), B: T.Tensor((count,), dtype), C: T.Tensor((rows, count), dtype)):
        with T.Kernel(1, threads=32) as bx:
            for i in T.Parallel(count):
                for k, function in enumerate(functions):
                    C[k, i] = function(A[i], B[i])

    a, b = np.repeat(SPECIAL, SPECIAL.size), np.tile(SPECIAL, SPECIAL.size)
    held = numpy_type(DType(dtype))
    with np.errstate(all="ignore"):
        expected = np.stack([np.asarray(theirs(a, b), "float32") for _, theirs in OPERATIONS]).astype(held)
    # Functions of float64 are compared with float32 answers.
    limit = "float32" if dtype == "float64" else dtype
    agree(special, [a.astype(held), b.astype(held), np.zeros((rows, count), held)], {2: expected}, dtype=limit)
