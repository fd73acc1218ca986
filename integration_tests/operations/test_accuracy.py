"""How far functions are from the exact value, in units of the last place: the bounds that docs/language.md states.

The exact value is numpy's in float64 for shorter types, and for float64 one of 40 digits at some of the points.
"""

from __future__ import annotations

import re
from pathlib import Path

import ml_dtypes
import mpmath
import numpy as np
import pytest
import torch

import tile_core as tile
import tile_core.language as T
from tile_core.interpreter import interpret

pytestmark = [pytest.mark.layer("emulation"), pytest.mark.slow]

N = 4096
# Points at which float64 is compared.
SOME = 192
_LARGE = (-80.0, 80.0)
# Function of the language → the same in float64, and where it is tried.
FUNCTIONS = {
    "exp": (np.exp, _LARGE),
    "exp2": (np.exp2, (-100.0, 100.0)),
    "exp10": (lambda x: np.power(10.0, x), (-30.0, 30.0)),
    "log": (np.log, (1e-3, 1e6)),
    "log2": (np.log2, (1e-3, 1e6)),
    "log10": (np.log10, (1e-3, 1e6)),
    "log1p": (np.log1p, (-0.9, 1e3)),
    "sqrt": (np.sqrt, (0.0, 1e6)),
    "rsqrt": (lambda x: 1 / np.sqrt(x), (1e-3, 1e6)),
    "sin": (np.sin, (-20.0, 20.0)),
    "cos": (np.cos, (-20.0, 20.0)),
    "tan": (np.tan, (-1.5, 1.5)),
    "asin": (np.arcsin, (-1.0, 1.0)),
    "acos": (np.arccos, (-1.0, 1.0)),
    "atan": (np.arctan, (-50.0, 50.0)),
    "sinh": (np.sinh, (-20.0, 20.0)),
    "cosh": (np.cosh, (-20.0, 20.0)),
    "tanh": (np.tanh, (-9.0, 9.0)),
    "asinh": (np.arcsinh, (-1e3, 1e3)),
    "acosh": (np.arccosh, (1.0, 1e3)),
    "atanh": (np.arctanh, (-0.99, 0.99)),
    "erf": (lambda x: torch.erf(torch.from_numpy(x)).numpy(), (-4.0, 4.0)),
    "sigmoid": (lambda x: 1 / (1 + np.exp(-x)), (-80.0, 80.0)),
}
EXACT = {
    "exp10": lambda x: mpmath.power(10, x),
    "exp2": lambda x: mpmath.power(2, x),
    "log": mpmath.log,
    "log2": lambda x: mpmath.log(x, 2),
    "log1p": mpmath.log1p,
    "rsqrt": lambda x: 1 / mpmath.sqrt(x),
    "sigmoid": lambda x: 1 / (1 + mpmath.exp(-x)),
}
TYPES = {"float32": np.float32, "float16": np.float16, "bfloat16": ml_dtypes.bfloat16, "float64": np.float64}
CUDA = "cuda -arch=sm_80"


def functions(dtype):
    names = list(FUNCTIONS)
    count = len(names)

    @T.prim_func
    def main(A: T.Tensor((count, N), dtype), B: T.Tensor((count, N), dtype)):
        with T.Kernel(1, threads=128):
            for i in T.Parallel(N):
                for k, name in enumerate(names):
                    B[k, i] = getattr(T, name)(A[k, i])

    return main


def stated():
    """The table of the page: function → type → bound."""
    page = (Path(__file__).resolve().parents[2] / "docs" / "language.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `T\.(\w+)` \| ([\d.]+) \| ([\d.]+) \| ([\d.]+) \| ([\d.]+) \|$", page, flags=re.M)
    return {name: dict(zip(("float64", "float32", "bfloat16", "float16"), map(float, row))) for name, *row in rows}


def places(found, exact, dtype):
    """The distance in units of the last place of the exact value."""
    held = TYPES[dtype]
    with np.errstate(over="ignore", invalid="ignore"):
        unit = np.spacing(np.abs(exact).astype(held)).astype(np.float64)
        apart = np.abs(found.astype(np.float64) - exact)
        apart = apart / np.maximum(unit, float(ml_dtypes.finfo(held).smallest_subnormal))
    inside = np.isfinite(exact.astype(held).astype(np.float64)) & np.isfinite(found.astype(np.float64))
    return apart[inside].max()


def places64(name, found, points):
    """`places` for float64."""
    mpmath.mp.dps = 40
    function = EXACT.get(name) or getattr(mpmath, name)
    apart = []
    for value, point in zip(found[:SOME], points[:SOME]):
        exact = function(mpmath.mpf(float(point)))
        apart.append(float(abs(mpmath.mpf(float(value)) - exact) / np.spacing(abs(float(exact)))))
    return max(apart)


def worst(dtype, way):
    random = np.random.default_rng(7)
    held = TYPES[dtype]
    most = float(ml_dtypes.finfo(held).max)
    domains = [domain for _, domain in FUNCTIONS.values()]
    a = np.stack([random.uniform(low, min(high, most), N).astype(held) for low, high in domains])
    # Rounding may take a point past the end of the domain.
    a = np.stack([row.clip(held(low), held(min(high, most))).astype(held) for row, (low, high) in zip(a, domains)])
    b = np.zeros_like(a)
    if way == "interpreter":
        interpret(functions(dtype), a.copy(), b)
    else:
        device = "cuda" if way == "cuda" else "cpu"
        target, options = (CUDA, {"execution_backend": "emulate"}) if way == "emulated" else (way, {})
        out = as_torch(b).to(device)
        tile.compile(functions(dtype), target=target, **options)(as_torch(a).to(device), out)
        b = out.cpu().view(torch.int16).numpy().view(held) if dtype == "bfloat16" else out.cpu().numpy()
    if dtype == "float64":
        return {name: places64(name, found, row) for name, found, row in zip(FUNCTIONS, b, a)}
    with np.errstate(over="ignore"):
        exact = [function(row.astype(np.float64)) for row, (function, _) in zip(a, FUNCTIONS.values())]
        return {name: places(found, e, dtype) for name, found, e in zip(FUNCTIONS, b, exact)}


def as_torch(array):
    if array.dtype == ml_dtypes.bfloat16:
        return torch.from_numpy(array.view(np.int16).copy()).view(torch.bfloat16)
    return torch.from_numpy(array.copy())


WAYS = ["interpreter", "cpu", pytest.param("emulated", marks=pytest.mark.slow)]


@pytest.mark.parametrize("dtype", list(TYPES))
@pytest.mark.parametrize("way", [*WAYS, pytest.param("cuda", marks=pytest.mark.gpu)])
def test_functions_stay_within_their_bounds(dtype, way):
    bounds = stated()
    assert set(bounds) == set(FUNCTIONS)
    found = worst(dtype, way)
    beyond = {name: (value, bounds[name][dtype]) for name, value in found.items() if value > bounds[name][dtype]}
    assert not beyond, beyond
