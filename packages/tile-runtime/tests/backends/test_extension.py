"""The extension that calls kernels, beyond what all adapters share (integration_tests/runtime/test_adapters.py)."""

import gc
import shutil
import subprocess
import threading
import weakref

import pytest
import torch

import tile_core as tile
import tile_core.language as T
from tile_core.plugin import Reason
from tile_core.settings import settings
from tile_runtime.backends import cython, extension, tvm_ffi

M = T.dynamic("M")


@T.prim_func
def plus(A: T.Tensor((8,), "float32"), B: T.Tensor((8,), "float32"), C: T.Tensor((8,), "float32")):
    with T.Kernel(1, threads=32):
        for i in T.Parallel(8):
            B[i] = A[i] + 1
            C[i] = A[i] - 1


def made(dtype):
    @T.prim_func
    def convert(A: T.Tensor((M, 4), "float32"), C: T.Tensor((M, 4), dtype)):
        with T.Kernel(M, threads=32) as i:
            for j in T.Parallel(4):
                C[i, j] = T.cast(A[i, j], dtype)

    return tile.compile(convert, target="cpu", out_idx=-1)


@pytest.fixture(scope="module")
def kernel():
    return tile.compile(plus, target="cpu", out_idx=[1, 2])


def test_the_adapters_call_through_it(kernel):
    other = tile.compile(plus, target="cpu", execution_backend="cython", out_idx=[1, 2])
    Entry = extension.extension().Entry
    assert type(kernel.entry) is type(other.entry) is Entry
    assert other.entry.takes_stream and not kernel.entry.takes_stream


def test_torch_is_read_and_made_directly_here(monkeypatch):
    module = extension._imported(extension._compiled())
    samples = (torch.zeros(4, 6)[1:, ::2], torch.nn.Parameter(torch.zeros(2)))
    assert module.start(torch, samples) == (True, True)


def test_a_torch_that_has_no_such_functions_is_used_through_dlpack(monkeypatch, tmp_path):
    for name in ("packed_call.cpp", "torch_tensors.h"):
        text = extension._SOURCE.with_name(name).read_text("utf-8")
        text = text.replace("libtorch_cpu.so", "libtorch_none.so").replace("c10/core/TensorImpl.h", "c10/none.h")
        (tmp_path / name).write_text(text, "utf-8")
    monkeypatch.setattr(extension, "_SOURCE", tmp_path / "packed_call.cpp")
    monkeypatch.setattr(extension, "_loaded", [])
    with settings.scope(disable_cache=True):
        assert extension.extension().start(torch, ()) == (False, False)
        kernel = tile.compile(plus, target="cpu", out_idx=[1, 2])
        A = torch.nn.Parameter(torch.arange(8.0))
        B, C = kernel(A)
    assert torch.equal(B, A + 1) and torch.equal(C, A - 1)


def test_what_stands_in_a_kernels_slot_is_called(kernel, monkeypatch):
    def entry(*args):
        return args

    extension.extension()
    monkeypatch.setattr(kernel, "entry", entry)
    assert kernel(1, 2) == (1, 2)
    monkeypatch.setattr(type(kernel), "__call__", lambda self, *args: "patched")
    assert kernel(1, 2) == "patched"
    monkeypatch.undo()
    with pytest.raises(TypeError, match="a class with a slot"):
        extension.extension().hasten(int)
    extension.extension().hasten(type(kernel))


@pytest.mark.parametrize("dtype", ["float16", "float8_e4m3fn", "int16", "bool"])
def test_new_tensors_are_torchs_own(dtype):
    kernel = made(dtype)
    A = torch.ones(3, 4)
    for rows in (3, 1, 0):
        C = kernel(A[:rows])
        wanted = torch.empty(rows, 4, dtype=getattr(torch, dtype))
        assert (C.dtype, C.shape, C.stride()) == (wanted.dtype, wanted.shape, wanted.stride())
        assert torch.equal(C.float(), A[:rows])
        assert C.untyped_storage().resizable() and C.is_leaf and not C.requires_grad
    with torch.inference_mode():
        assert kernel(A).is_inference()


def test_calls_keep_nothing(kernel):
    A = torch.arange(8.0)
    B, _ = kernel(A)
    gone = weakref.ref(B)
    del B, _
    assert gone() is None
    for _ in range(200):
        kernel(A)
    before = sum(map(torch.is_tensor, gc.get_objects()))
    for _ in range(2000):
        kernel(A)
    assert sum(map(torch.is_tensor, gc.get_objects())) == before


def test_a_kernel_and_its_entry_go_together():
    @T.prim_func
    def once(A: T.Tensor((8,), "float32")):
        with T.Kernel(1, threads=32):
            A[0] = 7.5

    kernel = tile.compile(once, target="cpu")
    kernel(A=torch.ones(8))
    gone = weakref.ref(kernel)
    from tile_runtime.compiler import clear_memory

    clear_memory()
    del kernel
    gc.collect()
    assert gone() is None


def test_more_arguments_than_have_room_are_counted(kernel):
    with pytest.raises(tile.ArgumentError, match="takes 1 argument, got 40"):
        kernel(*[torch.ones(8)] * 40)


def test_arguments_by_name_and_the_stream(kernel):
    A = torch.arange(8.0)
    other = tile.compile(plus, target="cpu", execution_backend="cython", out_idx=[1, 2])
    for outputs in (kernel(A=A), other(A, stream=0), other(A=A, stream=None), other(A, skip_tensor_validation=True)):
        assert torch.equal(outputs[0], A + 1) and torch.equal(outputs[1], A - 1)
    with pytest.raises(tile.ArgumentError, match="there is no input stream"):
        kernel(A, stream=0)
    with pytest.raises(tile.ArgumentError, match="A is given twice"):
        other(A, A=A)


def test_memory_that_there_is_not_is_torchs_error():
    @T.prim_func
    def huge(A: T.Tensor((M,), "float32"), C: T.Tensor((M, 1 << 46), "float32")):
        with T.Kernel(M, threads=32) as i:
            C[i, 0] = A[i]

    kernel = tile.compile(huge, target="cpu", out_idx=-1)
    assert kernel(torch.ones(0)).shape == (0, 1 << 46)
    with pytest.raises(MemoryError, match="can't allocate memory"):
        kernel(torch.ones(1))


def test_calls_from_threads_do_not_mix(kernel):
    wrong = []

    def work(number):
        A = torch.full((8,), float(number))
        for _ in range(300):
            B, C = kernel(A)
            if not (torch.equal(B, A + 1) and torch.equal(C, A - 1)):
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert wrong == []


def test_it_is_kept_and_what_is_missing_is_said(monkeypatch, tmp_path):
    with settings.scope(cache_dir=tmp_path):
        first = extension._compiled()
        monkeypatch.setattr(extension, "_build", lambda *given: pytest.fail("compiled again"))
        assert extension._compiled() == first
    with monkeypatch.context() as patch:
        patch.setattr(extension, "_compiler", lambda: None)
        assert cython.available().text == "there is no C++ compiler"
        assert "there is no C++ compiler" in tvm_ffi.available().detail
        with pytest.raises(tile.PluginError, match="backend 'cython' cannot work here: there is no C"):
            tile.compile(plus, target="cpu", execution_backend="cython")
    with monkeypatch.context() as patch:
        patch.setattr(extension.sysconfig, "get_paths", lambda: {"include": str(tmp_path)})
        outcome = cython.available()
        assert isinstance(outcome, Reason) and outcome.text == "Python's headers are missing"


def test_a_compiler_that_fails_is_typed_and_tvm_ffi_does_without(monkeypatch, tmp_path, capsys):
    failed = subprocess.CompletedProcess([], 1, "", "no space\n")
    monkeypatch.setattr(extension.subprocess, "run", lambda *given, **options: failed)
    with pytest.raises(tile.ToolchainError) as caught:
        extension._build(tmp_path, shutil.which("c++"))
    assert caught.value.code == "E-EXTENSION" and caught.value.facts == ("no space",)
    artifact = tile.compile(plus, target="cpu", out_idx=[1, 2]).artifact
    monkeypatch.setattr(extension, "_loaded", [])
    with settings.scope(disable_cache=True):
        entry = tvm_ffi.build(artifact)
    said = capsys.readouterr().err
    assert said.startswith("tile: c++ failed on the extension that calls kernels; they are called through tvm-ffi")
    assert type(entry).__name__ == "function"
    B, C = entry(torch.arange(8.0))
    assert B[0] == 1 and C[0] == -1
    with pytest.raises(tile.ToolchainError):
        cython.build(artifact)
