"""How far functions are from the exact value, in units of the last place: the bounds that docs/language.md states."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
import torch

import tile_core as tile
import tile_core.language as T
from tile_core.interpreter import interpret

pytestmark = pytest.mark.layer("emulation")

N = 4096
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
TYPES = {"float32": np.float32, "float16": np.float16}


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
    """The table of the page: function → bound for float32, bound for float16."""
    page = (Path(__file__).resolve().parents[2] / "docs" / "language.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `T\.(\w+)` \| ([\d.]+) \| ([\d.]+) \|$", page, flags=re.M)
    return {name: {"float32": float(a), "float16": float(b)} for name, a, b in rows}


def places(found, exact, dtype):
    """The distance in units of the last place of the exact value."""
    held = TYPES[dtype]
    with np.errstate(over="ignore", invalid="ignore"):
        unit = np.spacing(np.abs(exact).astype(held)).astype(np.float64)
        apart = np.abs(found.astype(np.float64) - exact) / np.maximum(unit, np.finfo(held).smallest_subnormal)
    inside = np.isfinite(exact.astype(held).astype(np.float64)) & np.isfinite(found)
    return apart[inside].max()


def worst(dtype, way):
    random = np.random.default_rng(7)
    held = TYPES[dtype]
    most = float(np.finfo(held).max)
    domains = [domain for _, domain in FUNCTIONS.values()]
    a = np.stack([random.uniform(low, min(high, most), N).astype(held) for low, high in domains])
    b = np.zeros_like(a)
    if way == "interpreter":
        interpret(functions(dtype), a.copy(), b)
    else:
        device = "cuda" if way == "cuda" else "cpu"
        out = torch.from_numpy(b).to(device)
        tile.compile(functions(dtype), target=way)(torch.from_numpy(a).to(device), out)
        b = out.cpu().numpy()
    with np.errstate(over="ignore"):
        exact = [function(row.astype(np.float64)) for row, (function, _) in zip(a, FUNCTIONS.values())]
        return {name: places(found, e, dtype) for name, found, e in zip(FUNCTIONS, b, exact)}


@pytest.mark.parametrize("dtype", list(TYPES))
@pytest.mark.parametrize("way", ["interpreter", "cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def test_functions_stay_within_their_bounds(dtype, way):
    bounds = stated()
    assert set(bounds) == set(FUNCTIONS)
    found = worst(dtype, way)
    beyond = {name: (value, bounds[name][dtype]) for name, value in found.items() if value > bounds[name][dtype]}
    assert not beyond, beyond
