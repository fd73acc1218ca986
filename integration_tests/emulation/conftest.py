"""Each pipelined kernel, compiled once for the emulator."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import pytest

import tile_core as tile

_spec = importlib.util.spec_from_file_location("pipelined_kernels", Path(__file__).parent / "pipelined.py")
_pipelined: Any = importlib.util.module_from_spec(_spec)  # type: ignore[arg-type]
sys.modules[_spec.name] = _pipelined  # type: ignore[union-attr]  # dataclasses look their module up
_spec.loader.exec_module(_pipelined)  # type: ignore[union-attr]


def pytest_generate_tests(metafunc):
    if "pipelined" in metafunc.fixturenames:
        metafunc.parametrize("pipelined", list(_pipelined.KERNELS), indirect=True, scope="module")


@pytest.fixture(scope="module")
def pipelined(request):
    """(name, kernel, compiled)."""
    kernel = _pipelined.KERNELS[request.param]
    compiled = tile.compile(kernel.make(), target="cuda -arch=sm_80", execution_backend="emulate")
    return request.param, kernel, compiled
