"""The execution backend cython beyond what all share (integration_tests/runtime/test_adapters.py): what it needs."""

import importlib.util
import subprocess

import pytest
import torch

import tile_core as tile
import tile_core.language as T
from tile_core.plugin import Reason
from tile_core.settings import settings
from tile_runtime.backends import cython


@T.prim_func
def plus(A: T.Tensor((8,), "float32"), B: T.Tensor((8,), "float32"), C: T.Tensor((8,), "float32")):
    with T.Kernel(1, threads=32):
        for i in T.Parallel(8):
            B[i] = A[i] + 1
            C[i] = A[i] - 1


@pytest.mark.slow
def test_outputs_the_stream_and_the_kept_extension(tmp_path, monkeypatch):
    with settings.scope(cache_dir=tmp_path):
        monkeypatch.setattr(cython, "_loaded", [])
        kernel = tile.compile(plus, target="cpu", execution_backend="cython", out_idx=[1, 2])
        A = torch.arange(8.0)
        for stream in (None, 0):
            B, C = kernel(A, stream=stream)
            assert torch.equal(B, A + 1) and torch.equal(C, A - 1) and type(B) is torch.Tensor
        for _ in range(2000):
            kernel(A)
        many = [torch.ones(8)] * 2
        with pytest.raises(tile.ArgumentError, match="takes 1 argument, got 40"):
            kernel(*many * 20)
        monkeypatch.setattr(cython, "_loaded", [])
        monkeypatch.setattr(cython, "_build", lambda *given: pytest.fail("compiled again"))
        cython._extension()


def test_what_is_missing_is_said(monkeypatch, tmp_path):
    with monkeypatch.context() as patch:
        patch.setattr(importlib.util, "find_spec", lambda name: None)
        outcome = cython.available()
        assert isinstance(outcome, Reason) and outcome.text == "Cython is not installed"
        with pytest.raises(
            tile.PluginError, match="execution backend 'cython' cannot work here: Cython is not installed"
        ):
            tile.compile(plus, target="cpu", execution_backend="cython")
    with monkeypatch.context() as patch:
        patch.setattr(cython, "_compiler", lambda: None)
        assert cython.available().text == "there is no C compiler"
    with monkeypatch.context() as patch:
        patch.setattr(cython.sysconfig, "get_paths", lambda: {"include": str(tmp_path)})
        assert cython.available().text == "Python's headers are missing"


def test_a_compiler_that_fails_is_typed(monkeypatch, tmp_path):
    failed = subprocess.CompletedProcess([], 1, "", "no space\n")
    monkeypatch.setattr(cython.subprocess, "run", lambda *given, **options: failed)
    with pytest.raises(tile.ToolchainError) as caught:
        cython._build(tmp_path, ("cc",))
    assert caught.value.code == "E-CYTHON" and caught.value.facts == ("no space",)
