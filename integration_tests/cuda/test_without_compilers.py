"""Machines that lack something: what takes its place, and the sentence that says what to install."""

from __future__ import annotations

import sys
import warnings
from typing import Any

import pytest

import tile_core as tile
import tile_core.language as T
from tile_core.errors import TileWarning, ToolchainError
from tile_core.settings import settings
from tile_cuda.toolchain import nvrtc
from tile_runtime import compiler

TARGET = "cuda -arch=sm_80"


def twice(n: int) -> Any:
    @T.prim_func
    def main(A: T.Tensor((n,), "float32"), B: T.Tensor((n,), "float32")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(n):
                B[i] = A[i] * 2.0

    return main


@pytest.fixture
def bare(monkeypatch, tmp_path):
    """A cache of its own, nothing said yet; `bare()` takes the compilers off PATH."""

    def hide() -> None:
        monkeypatch.setenv("PATH", str(tmp_path))
        monkeypatch.delenv("TILE_CC", raising=False)
        monkeypatch.delenv("CXX", raising=False)

    monkeypatch.setattr(compiler, "_said", set())
    compiler.clear_memory()
    with settings.scope(cache_dir=tmp_path / "cache"):
        yield hide
    compiler.clear_memory()


@pytest.mark.layer("nvrtc")
def test_without_a_c_compiler_kernels_are_launched_from_python_which_is_said_once(bare):
    bare()
    with pytest.warns(TileWarning) as said:
        first = tile.compile(twice(50), target=TARGET)
    (message,) = (str(w.message) for w in said)
    assert message.startswith(
        "the launcher of a CUDA kernel needs a C compiler, and none was found; kernels are called by"
    )
    assert "nvrtc instead of tvm_ffi" in message and "install one" in message
    assert said[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert tile.compile(twice(60), target=TARGET).execution_backend == first.execution_backend == "nvrtc"
        compiler.clear_memory()
        assert tile.compile(twice(50), target=TARGET).origin == "disk"


@pytest.mark.layer("nvrtc")
def test_without_a_cache_too(bare):
    bare()
    with settings.scope(disable_cache=True), pytest.warns(TileWarning):
        assert tile.compile(twice(50), target=TARGET).execution_backend == "nvrtc"


@pytest.mark.layer("nvrtc")
def test_a_launcher_that_was_compiled_before_serves(bare):
    tile.compile(twice(50), target=TARGET)
    compiler.clear_memory()
    bare()
    kernel = tile.compile(twice(50), target=TARGET)
    assert (kernel.execution_backend, kernel.origin) == ("tvm_ffi", "disk")


def test_who_asks_for_the_c_launcher_gets_the_error(bare):
    bare()
    with pytest.raises(ToolchainError) as caught:
        tile.compile(twice(50), target=TARGET, execution_backend="tvm_ffi")
    assert caught.value.code == "E-CC-MISSING"
    assert caught.value.help.endswith('or use execution_backend="nvrtc"')


@pytest.mark.parametrize("execution_backend", ["auto", "tvm_ffi", "nvrtc"])
def test_without_nvrtc_the_packages_to_install_are_named(bare, monkeypatch, execution_backend):
    monkeypatch.setitem(sys.modules, "cuda.bindings.nvrtc", None)
    for cached in (nvrtc._nvrtc, nvrtc._nvrtc_version):
        cached.cache_clear()
    with pytest.raises(ToolchainError) as caught:
        tile.compile(twice(50), target=TARGET, execution_backend=execution_backend)
    assert caught.value.code == "E-NVRTC-MISSING" and "pip install" in caught.value.help
