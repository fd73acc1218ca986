"""compile: keys, the two caches, processes, missing compilers, useless caches; on a backend made here."""

import os
import subprocess
import sys
import textwrap
import threading
import warnings
from pathlib import Path

import pytest
import torch

from tile_core.dtypes import DType
from tile_core.errors import CacheWarning, OptionError, ToolchainError
from tile_core.ir import Buffer, Evaluate, IntImm, PrimFunc
from tile_core.plugin.registry import use
from tile_runtime.compiler import clear_memory, compile_kernel, disk_cache
from tile_runtime.options import CompileOptions

# A whole backend in one module: its kernel adds the constant of its body to every element of A.
BACKEND = '''
import importlib, os, subprocess, tempfile
from pathlib import Path
from tile_core.codegen.host_c import abi_prelude
from tile_core.errors import ToolchainError
from tile_core.ffi import include_directories
from tile_core.plugin.api import Backend
from tile_core.plugin.registry import Registry
from tile_core.target import Target
from tile_core.transform.manager import Pipeline

LOG = []

def resolve_target(target):
    return target

def detect():
    return True

def pipeline(target, options):
    LOG.append("lower")
    return Pipeline("small", [])

def codegen(module, target):
    (function,) = module.functions
    add = function.body.value.value
    stub = """
    TVM_FFI_DLL_EXPORT int __tvm_ffi_%s(void* self, const TVMFFIAny* args, int32_t num_args, TVMFFIAny* result) {
      if (num_args != 1) return tile_bad_int("%s", "", "argument count", 1, num_args);
      DLTensor* A = tile_tensor(&args[0]);
      for (int64_t i = 0; i < A->shape[0]; ++i) ((float*)tile_data(A))[i] += %d;
      return 0;
    }
    """ % (function.name, function.name, add)
    return {"kernel.c": abi_prelude() + stub}

class Toolchain:
    def identity(self, target):
        if os.environ.get("NO_COMPILER"):
            raise ToolchainError("E-FFI", "no compiler")
        return os.environ.get("COMPILER_VERSION", "1")

    def build(self, artifact):
        self.identity(artifact.target)
        LOG.append("build")
        with tempfile.TemporaryDirectory() as folder:
            source = Path(folder, "kernel.c")
            source.write_text(artifact.sources["kernel.c"])
            command = ["cc", "-shared", "-fPIC", *artifact.notes["compile_flags"]]
            command += [f"-I{path}" for path in include_directories()]
            subprocess.run([*command, str(source), "-o", str(source) + ".so"], check=True)
            return {"kernel.so": Path(str(source) + ".so").read_bytes()}

TOOLCHAIN = Toolchain()
BACKEND = Backend(
    name="small", api=(1, 0), kinds=("small",), resolve_target="small_backend:resolve_target",
    detect="small_backend:detect", pipeline="small_backend:pipeline", candidates="small_backend:detect",
    codegen="small_backend:codegen", toolchain="small_backend:TOOLCHAIN", execution_backends=("tvm_ffi",),
)

class EntryPoint:
    def __init__(self, group, value):
        self.group, self.value, self.dist = group, value, None
        self.name = self.load().name

    def load(self):
        module, _, name = self.value.partition(":")
        return getattr(importlib.import_module(module), name)

def registry():
    return Registry(lambda: [
        EntryPoint("tile.backends", "small_backend:BACKEND"),
        EntryPoint("tile.execution_backends", "tile_runtime.backends.tvm_ffi:TVM_FFI"),
    ], choices={}, disabled=())
'''

PROGRAM = """
import torch, warnings
import small_backend
from tile_core.errors import CacheWarning
from tile_core.dtypes import DType
from tile_core.ir import Buffer, Evaluate, IntImm, PrimFunc
from tile_core.plugin.registry import use
from tile_runtime.compiler import compile_kernel
from tile_runtime.options import CompileOptions

warnings.simplefilter("error", CacheWarning)
function = PrimFunc("plus", (Buffer("A", (IntImm(4),), DType("float32")),), Evaluate(IntImm(7)))
with use(small_backend.registry()):
    kernel = compile_kernel(function, CompileOptions(target="small"))
A = torch.zeros(4)
kernel(A)
print(A.tolist() == [7.0] * 4, kernel.origin, ",".join(small_backend.LOG))
"""


@pytest.fixture
def small(tmp_path, monkeypatch):
    """The backend's module; the caches are empty and in a folder of their own."""
    site = tmp_path / "site"
    site.mkdir()
    (site / "small_backend.py").write_text(BACKEND)
    monkeypatch.syspath_prepend(str(site))
    monkeypatch.delitem(sys.modules, "small_backend", raising=False)
    import small_backend

    monkeypatch.setenv("TILE_CACHE_DIR", str(tmp_path / "cache"))
    clear_memory()
    with use(small_backend.registry()):
        yield small_backend
    clear_memory()


def function(add=1, name="plus", extent=4):
    return PrimFunc(name, (Buffer("A", (IntImm(extent),), DType("float32")),), Evaluate(IntImm(add)))


def compiled(prim_func=None, **options):
    return compile_kernel(prim_func or function(), CompileOptions.read({"target": "small", **options}))


def added(kernel):
    A = torch.zeros(4)
    kernel(A)
    return A[0].item()


def test_a_kernel_is_compiled_once_and_found_afterwards(small):
    first = compiled()
    assert added(first) == 1 and first.origin == "compiled" and small.LOG == ["lower", "build"]
    assert compiled() is first
    clear_memory()
    again = compiled()
    assert added(again) == 1 and again.origin == "disk" and small.LOG == ["lower", "build"]
    assert again.key == first.key and again.get_kernel_source() == first.get_kernel_source()


CHANGES = {
    "the body": lambda: compiled(function(add=2)),
    "an extent": lambda: compiled(function(extent=5)),
    "the name": lambda: compiled(function(name="other")),
    "the target": lambda: compiled(target="small -x=1"),
    "flags": lambda: compiled(compile_flags=["-O1"]),
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_changes_the_kernel_changes_the_key(small, change):
    first = compiled()
    second = CHANGES[change]()
    assert second.key != first.key and small.LOG == ["lower", "build"] * 2


def test_a_new_compiler_or_new_code_of_the_backend_changes_the_key(small, monkeypatch):
    keys = {compiled().key}
    clear_memory()
    monkeypatch.setenv("COMPILER_VERSION", "2")
    keys.add(compiled().key)
    clear_memory()
    path = Path(small.__file__)
    path.write_text(BACKEND + "\n# changed\n")
    keys.add(compiled().key)
    clear_memory()
    os.utime(path, (1, 1))
    keys.add(compiled().key)
    assert len(keys) == 3


def test_spans_and_debug_folders_do_not_change_the_key(small, tmp_path):
    from tile_core.source import Span

    first = compiled()
    moved = function().with_(span=Span("<elsewhere>", 9))
    assert compiled(moved, debug_root_path=tmp_path / "debug", verbose=False) is first


def test_without_a_cache_every_compile_is_new(small, monkeypatch):
    monkeypatch.setenv("TILE_DISABLE_CACHE", "1")
    assert compiled() is not compiled()
    assert small.LOG == ["lower", "build"] * 2
    assert not disk_cache().keys()


def test_sixteen_threads_compile_one_kernel_once(small):
    barrier, kernels = threading.Barrier(16), []

    def work():
        barrier.wait()
        kernels.append(compiled())

    threads = [threading.Thread(target=work) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert small.LOG == ["lower", "build"] and len(set(map(id, kernels))) == 1 and len(kernels) == 16


def start(small, **environment):
    paths = [str(Path(small.__file__).parent), os.environ.get("PYTHONPATH", "")]
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(PROGRAM)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths)), **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(process):
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    return out.strip().splitlines()[-1]


@pytest.mark.slow
def test_a_second_process_neither_lowers_nor_compiles(small):
    assert finish(start(small)) == "True compiled lower,build"
    assert finish(start(small)) == "True disk"


@pytest.mark.slow
def test_a_second_process_needs_no_compiler(small):
    finish(start(small))
    assert finish(start(small, NO_COMPILER="1")) == "True disk"


@pytest.mark.slow
def test_processes_that_compile_at_once_all_get_it_right(small):
    results = [finish(process) for process in [start(small) for _ in range(8)]]
    assert all(result.startswith("True ") for result in results)
    assert len(disk_cache().keys()) == 1
    assert finish(start(small)) == "True disk"


def test_a_missing_compiler_is_the_error_where_nothing_is_kept(small, monkeypatch):
    monkeypatch.setenv("NO_COMPILER", "1")
    with pytest.raises(ToolchainError, match="no compiler"):
        compiled()


def test_a_damaged_entry_is_compiled_anew_and_told_once(small):
    first = compiled()
    library = disk_cache().load(first.key).files["kernel.so"]
    for _ in range(2):
        clear_memory()
        compiled()
    # a new file: the old one is mapped by this process
    (library.parent / "short").write_bytes(library.read_bytes()[:-8])
    os.replace(library.parent / "short", library)
    clear_memory()
    with warnings.catch_warnings(record=True) as record:
        warnings.simplefilter("always")
        again = compiled()
        clear_memory()
        assert compiled().origin == "disk"
    assert again.origin == "compiled" and added(again) == 1
    (text,) = [str(warning.message) for warning in record if warning.category is CacheWarning]
    assert text.startswith(f"cache entry {first.key[:16]}… was damaged (kernel.so has ")


def test_a_whole_entry_that_does_not_load_is_replaced(small):
    finish(start(small))  # in another process: this one must not have the library open
    (key,) = disk_cache().keys()
    entry = disk_cache().load(key)
    files = {name: entry.read(name) for name in entry.files} | {"kernel.so": b"another machine's"}
    disk_cache().discard(key)
    disk_cache().publish(key, files)
    kernel = compiled(function(add=7))
    assert kernel.key == key and kernel.origin == "compiled" and added(kernel) == 7
    clear_memory()
    assert compiled(function(add=7)).origin == "disk"


def test_a_cache_folder_that_cannot_be_used_costs_the_cache_only(small, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("TILE_CACHE_DIR", str(tmp_path / "file"))
    with warnings.catch_warnings(record=True) as record:
        warnings.simplefilter("always")
        assert added(compiled()) == 1
        assert added(compiled(function(add=3))) == 3
    (text,) = [str(warning.message) for warning in record if warning.category is CacheWarning]
    assert text.startswith(f"the kernel cache {tmp_path / 'file'} cannot be used (Not a directory)")
    assert compiled() is compiled(), "the cache of this process works on"


def test_a_full_disk_costs_the_cache_only(small, monkeypatch):
    import errno

    def full(*args):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.warns(CacheWarning, match=r"cannot be used \(No space left on device\)"):
        assert added(compiled()) == 1
    assert not disk_cache().keys()


def test_sources_are_written_where_asked(small, tmp_path):
    compiled(debug_root_path=tmp_path / "debug")
    assert "__tvm_ffi_plus" in (tmp_path / "debug" / "plus" / "kernel.c").read_text()


def test_sources_are_written_for_a_kernel_from_the_caches_too(small, tmp_path):
    compiled()
    compiled(debug_root_path=tmp_path / "memory")
    clear_memory()
    compiled(debug_root_path=tmp_path / "disk")
    assert (tmp_path / "memory" / "plus" / "kernel.c").exists() and (tmp_path / "disk" / "plus" / "kernel.c").exists()


def test_who_dumps_the_ir_gets_it_although_the_kernel_is_on_disk(small, tmp_path, monkeypatch):
    compiled()
    clear_memory()
    monkeypatch.setenv("TILE_DUMP_IR_DIR", str(tmp_path / "ir"))
    compiled()
    assert small.LOG == ["lower", "build"] * 2 and any((tmp_path / "ir").rglob("*"))


def test_code_without_a_file_is_not_cached_and_says_so(small, monkeypatch):
    from tile_runtime import compiler

    real = compiler.code_digest
    monkeypatch.setattr(compiler, "code_digest", lambda module: None if module == "tile_core" else real(module))
    with pytest.warns(CacheWarning, match="plus is not cached: code of tile_core takes part in it and has no file"):
        first = compiled()
    with pytest.warns(CacheWarning):
        assert compiled() is not first
    assert not disk_cache().keys()


def test_verbose_says_what_happens(small, capsys):
    compiled(verbose=True)
    clear_memory()
    compiled(verbose=True)
    said = capsys.readouterr().err
    assert "tile: plus: compiling took " in said and "tile: plus: compiled for small as " in said
    assert "tile: plus: found on disk as " in said


def test_out_idx_of_the_call_wins_over_the_functions(small):
    kernel = compiled(function().with_attr("out_idx", (0,)), out_idx=[])
    assert kernel.out_idx == () and added(kernel) == 1
    with pytest.raises(OptionError, match="is no position"):
        compiled(out_idx=4)
