"""Conversions in compiled kernels are the interpreter's, bit for bit: every pair of element types, every mode.

One kernel converts one source type to all the others; 4-bit types come two a byte.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch

import tile_core as tile
from tile_core.casts import cast_rule, number_types
from tile_core.dtypes import DType
from tile_core.interpreter.values import convert
from tile_core.testing.carriers import all_values, empty_tensor, equal_values, from_tensor, to_tensor

TYPES = number_types()
OFTEN = ("float32", "float8_e4m3fn", "int4")
BACKENDS = {
    "cpu": {"target": "cpu"},
    "emulated": {"target": "cuda -arch=sm_80", "execution_backend": "emulate"},
    "sm_80": {"target": "cuda -arch=sm_80"},
    "device": {"target": "cuda"},
}
ON_DEVICE = ("sm_80", "device")


def _marks(backend: str, source: str) -> list[pytest.MarkDecorator]:
    if backend in ON_DEVICE:
        return [pytest.mark.gpu]
    return [] if source in OFTEN else [pytest.mark.slow]


PAIRS = [
    pytest.param(backend, source, marks=_marks(backend, source.name), id=f"{backend}-{source}")
    for backend in BACKENDS
    for source in TYPES
]
MODES = ("float16", "tfloat32", "float32", "float8_e4m3fn", "float8_e5m2", "float8_e4m3b11fnuz", "float8_e8m0fnu",
         "float4_e2m1fn", "int8", "int32", "int4", "int64")  # fmt: skip


def _kernel(source: DType, casts: list[tuple[str, str]], count: int, block: int = 1024) -> str:
    outputs = "".join(f', Y{i}: T.Tensor(({count},), "{name}")' for i, (name, _) in enumerate(casts))
    stores = "\n".join(
        f'            Y{i}[b * {block} + i] = T.cast(X[b * {block} + i], "{name}"{options})'
        for i, (name, options) in enumerate(casts)
    )
    return f"""
import tile_core.language as T

@T.prim_func
def conversions(X: T.Tensor(({count},), "{source}"), R: T.Tensor(({count},), "uint32"){outputs}):
    with T.Kernel({count // block}, threads=128) as b:
        for i in T.Parallel({block}):
{stores}
"""


def _check(backend: str, source: DType, casts: list[tuple[str, str, dict]]) -> None:
    values = all_values(source)
    random = np.random.default_rng(2).integers(0, 1 << 32, values.size, dtype=np.uint32)
    text = _kernel(source, [(name, options) for name, options, _ in casts], values.size)
    kernel = tile.compile(tile.from_source(text), **BACKENDS[backend])
    outputs = [empty_tensor(DType(name), values.size) for name, _, _ in casts]
    given = [to_tensor(values, source), torch.from_numpy(random), *outputs]
    if backend in ON_DEVICE:
        given = [t.cuda() for t in given]
    kernel(*given)
    outputs = [t.cpu() for t in given[2:]]
    for (name, options, given), output in zip(casts, outputs):
        target = DType(name)
        with np.errstate(all="ignore"):
            expected = convert(values, source, target, random=random if "rbits" in options else None, **given)
        same = equal_values(from_tensor(output, target), expected)
        assert same.all(), (name, options, values[~same][:4], from_tensor(output, target)[~same][:4])


@pytest.mark.parametrize(("backend", "source"), PAIRS)
def test_every_pair(backend, source):
    _check(backend, source, [(t.name, "", {}) for t in TYPES if t is not source])


@pytest.mark.parametrize(
    ("backend", "source"),
    [pytest.param(b, s, marks=_marks(b, s)) for b in BACKENDS for s in ("float32", "float64", "int64")],
)
def test_every_mode(backend, source):
    casts = []
    for name in MODES:
        rule = cast_rule(DType(source), DType(name))
        for mode in rule.roundings[1:]:
            bits = ", rbits=R[b * 1024 + i]" if mode == "rs" else ""
            casts.append((name, f', round="{mode}"{bits}', {"rounding": mode}))
        if rule.takes_saturation:
            casts.append((name, ", sat=False", {"saturate": False}))
            casts.append((name, ', round="rz", sat=False', {"rounding": "rz", "saturate": False}))
    _check(backend, DType(source), casts)


@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_the_device_compiler_takes_all_conversions(arch):
    from tile_cuda.toolchain.nvrtc import compile_device

    for source in ("float32", "int4"):
        casts = [(t.name, "") for t in TYPES if t.name != source]
        text = _kernel(DType(source), casts, 2048)
        kernel = tile.lower(tile.from_source(text), target=f"cuda -arch={arch}")
        assert compile_device(kernel.sources["kernel.cu"], arch).cubin
