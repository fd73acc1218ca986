"""An exported kernel works without Tile: from C++ through its header, from Python with tvm-ffi alone."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
import torch

import tile_core as tile
import tile_core.language as T
from tile_core.errors import CompileError, OptionError
from tile_core.ffi import include_directories
from tile_core.settings import settings


@T.prim_func
def scale(A: T.Tensor((4, 8), "float32"), factor: T.float32, times: T.int32, B: T.Tensor((4, 8), "float32")):
    with T.Kernel(4, threads=8) as row:
        for column in T.Parallel(8):
            B[row, column] = A[row, column] * factor + times


PROGRAM = r"""
#include <cstdio>
#include <tvm/ffi/tvm_ffi.h>
#include "scale.h"

int main() {
  float a[32], b[32];
  for (int i = 0; i < 32; ++i) a[i] = i;
  int64_t shape[2] = {4, 8}, strides[2] = {8, 1}, other[2] = {4, 7};
  DLTensor A = {a, {kDLCPU, 0}, 2, {kDLFloat, 32, 1}, shape, strides, 0};
  DLTensor B = A;
  B.data = b;
  if (tile_scale(&A, 0.5, 3, &B) != 0) return 1;
  for (int i = 0; i < 32; ++i) if (b[i] != i * 0.5f + 3) return 2;
  A.shape = other;
  if (tile_scale(&A, 0.5, 3, &B) != -1) return 3;
  TVMFFIObjectHandle raised;
  TVMFFIErrorMoveFromRaised(&raised);
  tvm::ffi::Error error = tvm::ffi::details::ObjectUnsafe::ObjectRefFromObjectPtr<tvm::ffi::Error>(
      tvm::ffi::details::ObjectUnsafe::ObjectPtrFromOwned<tvm::ffi::Object>(static_cast<TVMFFIObject*>(raised)));
  std::printf("%s\n", error.message().c_str());
  return 0;
}
"""


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    folder = tmp_path_factory.mktemp("exported")
    tile.compile(scale, target="cpu").export_library(folder / "libscale.so")
    return folder


def test_the_header_and_library_serve_a_cpp_program(exported):
    (exported / "program.cpp").write_text(PROGRAM)
    (include,) = include_directories()
    library = include.parent / "lib"
    words = ["g++", "-std=c++17", f"-I{include}", f"-I{exported}", str(exported / "program.cpp"), "-o"]
    words += [str(exported / "program"), f"-L{exported}", f"-L{library}", "-lscale", "-ltvm_ffi"]
    words += [f"-Wl,-rpath,{exported}", f"-Wl,-rpath,{library}"]
    subprocess.run(words, check=True)
    run = subprocess.run([str(exported / "program")], capture_output=True, text=True)
    assert (run.returncode, run.stdout) == (0, "scale: argument A: shape[1]: expected 8, got 7\n")


def test_the_header_is_c(exported):
    (exported / "plain.c").write_text('#include "scale.h"\nint use(DLTensor* t) { return tile_scale(t, 1, 2, t); }\n')
    (include,) = include_directories()
    words = ["cc", "-std=c11", "-Wall", "-Werror", f"-I{include}", f"-I{exported}", "-fsyntax-only"]
    subprocess.run([*words, str(exported / "plain.c")], check=True)


ALONE = """
    import ctypes, sys
    import tvm_ffi

    class Array(ctypes.Structure):
        _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int), ("device_id", ctypes.c_int),
                    ("ndim", ctypes.c_int), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8),
                    ("lanes", ctypes.c_uint16), ("shape", ctypes.c_void_p), ("strides", ctypes.c_void_p),
                    ("byte_offset", ctypes.c_uint64), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p)]

    new = ctypes.pythonapi.PyCapsule_New
    new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]

    class Tensor:
        def __init__(self, values):
            self.values = (ctypes.c_float * 32)(*values)
            self.shape = (ctypes.c_int64 * 2)(4, 8)
            self.array = Array(ctypes.addressof(self.values), 1, 0, 2, 2, 32, 1, ctypes.addressof(self.shape))
        def __dlpack__(self, **options):
            return new(ctypes.addressof(self.array), b"dltensor", None)
        def __dlpack_device__(self):
            return (1, 0)

    kernel = tvm_ffi.load_module(sys.argv[1]).scale
    a, b = Tensor(range(32)), Tensor([0] * 32)
    kernel(tvm_ffi.from_dlpack(a), 0.5, 3, tvm_ffi.from_dlpack(b))
    assert list(b.values) == [i * 0.5 + 3 for i in range(32)]
    try:
        kernel(tvm_ffi.from_dlpack(a), "half", 3, tvm_ffi.from_dlpack(b))
    except Exception as error:
        print(error)
    loaded = {name.partition(".")[0] for name in sys.modules}
    assert not loaded & {"tile_core", "tile_runtime", "torch", "numpy"}, loaded
"""


def test_python_with_tvm_ffi_alone_calls_it(exported, tmp_path):
    import tvm_ffi

    site = tmp_path / "site"
    site.mkdir()
    packages = Path(tvm_ffi.__file__).parents[1]
    for name in ("tvm_ffi", "typing_extensions.py"):
        if (packages / name).exists():
            os.symlink(packages / name, site / name)
    words = [sys.executable, "-I", "-S", "-c", f"import sys; sys.path.append({str(site)!r})\n{textwrap.dedent(ALONE)}"]
    run = subprocess.run([*words, str(exported / "libscale.so")], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    assert run.stdout == "scale: argument factor: type: expected float, got str\n"


def test_the_header_says_who_releases_outputs(tmp_path):
    kernel = tile.compile(scale, target="cpu", out_idx=[-1])
    kernel.export_library(tmp_path / "deep" / "scale.so")
    text = (tmp_path / "deep" / "scale.h").read_text()
    assert "static inline int tile_scale(DLTensor* A, double factor, int64_t times, TVMFFIAny* result) {" in text
    assert "   out B: float32[4, 8]" in text and "TVMFFIObjectDecRef" in text
    assert torch.equal(kernel(torch.ones(4, 8), 2.0, 1), torch.full((4, 8), 3.0))


@pytest.fixture
def own():
    """A kernel that no other test sees."""
    with settings.scope(disable_cache=True):
        return tile.compile(scale, target="cpu")


def test_a_kernel_without_library_says_so(own, tmp_path):
    own.artifact.binaries.pop("kernel.so")
    with pytest.raises(OptionError) as caught:
        own.export_library(tmp_path / "scale.so")
    assert caught.value.summary.startswith("scale: there is no library for cpu")
    assert not list(tmp_path.iterdir())


def test_a_name_that_c_does_not_have_is_refused(own, tmp_path):
    own.signature.name = "größe"
    with pytest.raises(CompileError, match="E-EXPORT-NAME"):
        own.export_library(tmp_path / "scale.so")
    assert not list(tmp_path.iterdir())
