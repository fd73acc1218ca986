"""An execution backend from elsewhere, by the contract of docs/plugins.md: it interprets, and loads nothing."""

import numpy as np
import pytest
import torch

import tile_core as tile
import tile_core.language as T
from tile_core.codegen import HostCall, print_host_python
from tile_core.interpreter import interpret
from tile_core.plugin import ExecutionBackend, Ok, Reason
from tile_core.plugin import registry as plugins
from tile_core.plugin.registry import Registry, use
from tile_core.settings import settings

PRESENT = [True]


def available():
    return Ok("interprets") if PRESENT[0] else Reason("the interpreter is away", "wait for it")


class Interpreted:
    """Checks by the host function in Python, runs by the interpreter."""

    takes_stream = True

    def __init__(self, artifact):
        self.function = artifact.function
        host = tile.lower(artifact.function, "cpu").host.functions[0]
        self.checks = HostCall(artifact.function, print_host_python(host), lambda *given: None)
        self.streams = []

    def __call__(self, *args, stream=None):
        self.checks(*args)
        self.streams.append(stream)
        arrays = [a.numpy() if isinstance(a, torch.Tensor) else a for a in args]
        interpret(self.function, *arrays)


def build(artifact):
    return Interpreted(artifact)


SLOW = ExecutionBackend(
    name="slow",
    api=(1, 0),
    targets=("cpu",),
    available=f"{__name__}:available",
    build=f"{__name__}:build",
    files=(),
    stream="pass",
)


class _Listed:
    """The entry point of a distribution that is not ours."""

    group, name, value, dist = "tile.execution_backends", "slow", f"{__name__}:SLOW", None

    def load(self):
        return SLOW


@pytest.fixture(autouse=True)
def registry():
    known = list(plugins.current()._entry_points())
    with settings.scope(disable_cache=True), use(Registry(lambda: [*known, _Listed()], choices={}, disabled=())):
        yield


@T.prim_func
def double(A: T.Tensor((4,), "float32"), B: T.Tensor((4,), "float32")):
    with T.Kernel(1, threads=32):
        for i in T.Parallel(4):
            B[i] = A[i] * 2


def test_it_is_called_by_its_name_and_given_the_stream():
    kernel = tile.compile(double, target="cpu", execution_backend="slow")
    A, B = torch.arange(4.0), torch.zeros(4)
    assert kernel(A, B, stream=7) is None and np.array_equal(B.numpy(), 2 * A.numpy())
    assert kernel.adapter == "slow" and kernel.entry.streams == [7]
    with pytest.raises(tile.ArgumentError, match=r"double: shape\[0\] of A must be 4, got 5"):
        kernel(torch.zeros(5), B)
    assert "through slow" in kernel.explain()


def test_auto_does_not_take_it_and_a_name_that_cannot_work_says_why():
    assert tile.compile(double, target="cpu").adapter == "tvm_ffi"
    PRESENT[0] = False
    try:
        with pytest.raises(tile.PluginError) as caught:
            tile.compile(double, target="cpu", execution_backend="slow")
    finally:
        PRESENT[0] = True
    assert caught.value.summary == "execution backend 'slow' cannot work here: the interpreter is away"
    assert caught.value.help == "wait for it"


def test_it_does_not_serve_other_targets():
    with pytest.raises(tile.OptionError, match="execution backend 'slow' does not serve target cuda") as caught:
        tile.compile(double, target="cuda -arch=sm_80", execution_backend="slow")
    assert "for cuda: tvm_ffi, nvrtc, cython, emulate" in caught.value.facts
    with pytest.raises(tile.OptionError, match="there is no execution backend 'tvmffi'") as caught:
        tile.compile(double, target="cpu", execution_backend="tvmffi")
    assert any(fact.startswith("for cpu: tvm_ffi") and "slow" in fact for fact in caught.value.facts)


def test_who_does_not_take_a_stream_is_not_given_one():
    kernel = tile.compile(double, target="cpu")
    with pytest.raises(tile.ArgumentError, match="there is no input stream"):
        kernel(torch.zeros(4), torch.zeros(4), stream=0)
