"""Code for a processor that this machine has not: compiled, and refused with a sentence when it is called."""

import pytest
import torch

import tile_core as tile
import tile_core.language as T
from tile_core.errors import SettingError
from tile_core.settings import settings
from tile_core.target import Target
from tile_cpu import machine, target
from tile_cpu.machine import runnable
from tile_cpu.toolchain import compiler


@T.prim_func
def plus(A: T.Tensor((8,), "float32"), B: T.Tensor((8,), "float32")):
    with T.Kernel(1, threads=32):
        for i in T.Parallel(8):
            B[i] = A[i] + 1


def resolved(text="cpu", **attrs):
    return target.resolve_target(Target("cpu", attrs))


@pytest.fixture
def old_processor(monkeypatch):
    """An x86 machine of 2009."""
    monkeypatch.setattr(machine.platform, "machine", lambda: "x86_64")
    monkeypatch.setattr(machine, "processor_words", lambda: frozenset({"sse4_1", "sse4_2", "ssse3", "popcnt", "cx16"}))


def test_levels_are_compared_with_what_the_processor_has(old_processor):
    assert runnable(resolved(mcpu="x86-64")) and runnable(resolved(mcpu="x86-64-v2"))
    refused = runnable(resolved(mcpu="haswell"))
    assert not refused
    assert refused.text == (
        "this machine's processor lacks avx, avx2, bmi1, bmi2, f16c, fma, movbe, which code for haswell may use"
    )
    assert runnable(resolved(mcpu="neoverse-n1")).text == (
        "neoverse-n1 is another kind of processor than this machine's x86_64"
    )


def test_a_native_artifact_of_a_better_machine_is_refused(old_processor):
    native = Target("cpu", {"mcpu": "native", "features": "sse4_2+avx512f", "vector_bits": 512, "fma": 1})
    assert runnable(native).text == "it was compiled on a machine whose processor has avx512f; this one has not"
    assert runnable(Target("cpu", {"mcpu": "native", "features": "sse4_2"}))


def test_a_system_that_tells_nothing_refuses_nothing(monkeypatch):
    monkeypatch.setattr(machine.platform, "machine", lambda: "x86_64")
    monkeypatch.setattr(machine, "processor_words", frozenset)
    assert runnable(resolved(mcpu="sapphirerapids"))


def test_every_processor_that_can_be_named_is_known_here():
    assert {**machine._X86, **machine._ARM}.keys() == target._LEVELS.keys()


def test_it_runs_what_is_compiled_for_this_machine():
    assert runnable(resolved())


def test_compiling_for_another_processor_works_and_calling_is_a_typed_error(monkeypatch, tmp_path):
    from tile_cpu.toolchain import compiler

    monkeypatch.setattr(compiler, "runnable", machine.runnable)
    monkeypatch.setattr(machine, "processor_words", lambda: frozenset({"sse4_2"}))
    with settings.scope(cache_dir=tmp_path):
        kernel = tile.compile(plus, target="cpu -mcpu=x86-64-v3", out_idx=[-1])
        assert "__tvm_ffi_plus" in kernel.get_host_source()
        kernel.export_library(tmp_path / "plus.so")
        with pytest.raises(tile.TargetError) as caught:
            kernel(torch.zeros(8))
    assert caught.value.code == "E-TARGET-MACHINE"
    assert caught.value.summary.startswith("plus cannot run on this machine: this machine's processor lacks avx, avx2")
    assert caught.value.help.startswith("compile for cpu, which is this machine")


def test_a_wrong_number_of_threads_is_said_when_a_kernel_is_loaded(monkeypatch):
    monkeypatch.setenv("TILE_NUM_THREADS", "many")
    with pytest.raises(SettingError, match="TILE_NUM_THREADS"):
        compiler.TOOLCHAIN.runnable(resolved())
    monkeypatch.setenv("TILE_NUM_THREADS", "2")
    assert compiler.TOOLCHAIN.runnable(resolved())
