"""Keys of real kernels: equal wherever the same code compiles the same kernel, different for every other input."""

import os
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import tile_core as tile
import tile_core.language as T
from tile_core import ffi
from tile_core.errors import CacheWarning
from tile_core.settings import settings
from tile_runtime.compiler import Request, clear_memory, disk_cache
from tile_runtime.options import CompileOptions

KERNEL = """
    import tile_core.language as T

    def make(m=64, block=16, dtype="float32"):
        @T.prim_func
        def product(A: T.Tensor((m, 48), dtype), B: T.Tensor((48, m), dtype), C: T.Tensor((m, m), "float32")):
            with T.Kernel(T.ceildiv(m, block), T.ceildiv(m, block), threads=64) as (bx, by):
                A_shared = T.alloc_shared((block, 16), dtype)
                B_shared = T.alloc_shared((16, block), dtype)
                C_local = T.alloc_fragment((block, block), "float32")
                T.clear(C_local)
                for k in T.Pipelined(3, num_stages=2):
                    T.copy(A[by * block, k * 16], A_shared)
                    T.copy(B[k * 16, bx * block], B_shared)
                    T.gemm(A_shared, B_shared, C_local)
                T.copy(C_local, C[by * block, bx * block])
        return product
"""
PROGRAM = """
    import sys
    import tile_core
    from kernel import make
    from tile_runtime.compiler import Request
    from tile_runtime.options import CompileOptions
    assert tile_core.__file__.startswith(sys.argv[1]), tile_core.__file__
    for target in ("cpu", "cuda -arch=sm_80"):
        request = Request(make(), CompileOptions.read({"target": target, "out_idx": [-1]}))
        print(request.base_key())
"""
SOURCES = """
    import hashlib, sys
    import tile_core as tile
    from kernel import make
    for block in (16, 32):
        for target in ("cpu", "cuda -arch=sm_80"):
            sources = tile.lower(make(96, block, "float16"), target).sources
            print(hashlib.sha256("".join(f"{n}:{t}" for n, t in sorted(sources.items())).encode()).hexdigest())
"""
ROOT = Path(__file__).parents[2]
PACKAGES = ("packages/tile-core", "packages/tile-runtime", "packages/tile-cuda", "plugins/tile-cpu")


def start(program, folder, *paths, **environment):
    (folder / "kernel.py").write_text(textwrap.dedent(KERNEL))
    (folder / "program.py").write_text(textwrap.dedent(program))
    search = os.pathsep.join([*map(str, paths), str(folder), os.environ.get("PYTHONPATH", "")])
    return subprocess.Popen(
        [sys.executable, str(folder / "program.py"), str(folder)],
        env={**os.environ, "PYTHONPATH": search, **environment},
        stdout=subprocess.PIPE,
        text=True,
    )


def output(process):
    text, _ = process.communicate(timeout=300)
    assert process.returncode == 0
    return text


@pytest.mark.slow
def test_two_copies_of_the_source_at_two_places_give_the_same_keys(tmp_path):
    texts, source = [], ROOT
    for name, seed in (("one", "1"), ("another/deeper", "2")):
        folder = tmp_path / name
        folder.mkdir(parents=True)
        for package in PACKAGES:
            ignore = shutil.ignore_patterns("__pycache__")
            shutil.copytree(
                source / package / "src", folder / package / "src", ignore=ignore, copy_function=shutil.copy
            )
        paths = [folder / package / "src" for package in PACKAGES]
        texts.append(output(start(PROGRAM, folder, *paths, PYTHONHASHSEED=seed, HOME=str(folder))))
        source = folder
    assert texts[0] == texts[1] and len(set(texts[0].split())) == 2


@pytest.mark.slow
def test_sources_are_equal_byte_for_byte_when_made_again_under_load(tmp_path):
    calm = output(start(SOURCES, tmp_path, PYTHONHASHSEED="1"))
    burn = "import time\nend = time.time() + 120\nwhile time.time() < end: sum(range(10**5))"
    burners = [subprocess.Popen([sys.executable, "-c", burn]) for _ in range(2 * (os.cpu_count() or 1))]
    try:
        # in the same folder: the table of lines holds the path of the kernel's file
        processes = [start(SOURCES, tmp_path, PYTHONHASHSEED=str(seed)) for seed in (2, 3)]
        busy = [output(process) for process in processes]
    finally:
        for burner in burners:
            burner.kill()
            burner.wait()
    assert busy == [calm, calm] and len(calm.split()) == 4


def make(value=1.0, extent=8, dtype="float32"):
    @T.prim_func
    def plus(A: T.Tensor((extent,), dtype), B: T.Tensor((extent,), dtype)):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(extent):
                B[i] = A[i] + T.cast(value, dtype)

    return plus


def key(function=None, **options):
    return Request(function or make(), CompileOptions.read({"target": "cpu -mcpu=x86-64-v3", **options})).base_key()


CHANGES = {
    "a value of the closure": lambda: key(make(value=2.0)),
    "an extent": lambda: key(make(extent=16)),
    "an element type": lambda: key(make(dtype="float64")),
    "the target": lambda: key(target="cpu -mcpu=x86-64-v2"),
    "an attribute of the target": lambda: key(target="cpu -mcpu=x86-64-v3 -vector_bits=128"),
    "a pass option": lambda: key(pass_configs={"tl.disable_safe_memory_legalize": True}),
    "compile flags": lambda: key(compile_flags=["-O1"]),
    "the order of compile flags": lambda: key(compile_flags=["-O1", "-g"]) + key(compile_flags=["-g", "-O1"])[:0],
    "the output": lambda: key(out_idx=[-1]),
    "the backend": lambda: key(target="cuda -arch=sm_80"),
    "the architecture": lambda: key(target="cuda -arch=sm_90"),
    "the execution backend": lambda: key(target="cuda -arch=sm_80", execution_backend="nvrtc"),
}


def test_every_input_gives_a_key_of_its_own():
    keys = {name: change() for name, change in CHANGES.items()}
    keys["nothing"] = key()
    assert len(set(keys.values())) == len(keys)
    assert key() == keys["nothing"] and key(make(value=1.0)) == keys["nothing"]
    assert key(compile_flags=["-O1", "-g"]) != key(compile_flags=["-g", "-O1"])


def test_another_release_of_tvm_ffi_gives_another_key(tmp_path, monkeypatch):
    before, (installed,) = key(), ffi.include_directories()
    shutil.copytree(installed, tmp_path / "include")
    monkeypatch.setattr(ffi, "include_directories", lambda: (tmp_path / "include",))
    assert key() == before, "the place of the headers is no part of the key"
    moved = tmp_path / "moved"
    shutil.copytree(installed, moved)
    with (moved / "tvm" / "ffi" / "c_api.h").open("a") as header:
        header.write("/* newer */\n")
    monkeypatch.setattr(ffi, "include_directories", lambda: (moved,))
    assert key() != before


@pytest.mark.parametrize("target", ["cpu", "cuda -arch=sm_80"])
def test_a_changed_header_of_the_users_is_compiled_anew(tmp_path, target):
    header = tmp_path / "mine.h"
    function = "static inline float mine(float x) { return x + 1234.5f; }\n"
    function = f"__device__ {function}" if target.startswith("cuda") else function

    @T.prim_func
    def added(A: T.Tensor((4,), "float32")):
        with T.Kernel(1, threads=32):
            T.import_source('#include "mine.h"')
            for i in T.serial(4):
                A[i] = T.call_extern("float32", "mine", A[i])

    keys, codes = [], []
    with settings.scope(cache_dir=tmp_path / "cache"):
        for text in (function, function.replace("1234", "4321"), function):
            header.write_text(text)
            clear_memory()
            kernel = tile.compile(added, target=target, compile_flags=[f"-I{tmp_path}"])
            keys.append(kernel.key)
            codes.append(kernel.get_ptx() if target.startswith("cuda") else kernel._binary("kernel.so"))
    assert keys[0] == keys[2] != keys[1] and kernel.origin == "disk"
    assert codes[0] == codes[2] != codes[1]


def test_a_postprocessing_function_is_part_of_the_key():
    plain = key()

    def comment(word):
        def add(code, target):
            return f"// {word}\n{code}"

        return add

    try:
        tile.register_c_postproc(comment("one"))
        first = key()
        tile.register_c_postproc(comment("two"))
        second = key()
    finally:
        tile.unregister_postproc("cpu")
    assert len({plain, first, second}) == 3 and key() == plain


def test_a_postprocessing_function_changes_what_is_compiled_and_shown(tmp_path):
    import torch

    def other(code, target):
        assert target.kind == "cpu"
        return code.replace("0x1.4p+2f", "0x1.8p+2f").replace("5.0f", "6.0f").replace("5.f", "6.f")

    with settings.scope(cache_dir=tmp_path):
        try:
            tile.register_c_postproc(other)
            kernel = tile.compile(make(value=5.0), target="cpu", out_idx=[-1])
        finally:
            tile.unregister_postproc("cpu")
        assert torch.equal(kernel(torch.zeros(8)), torch.full((8,), 6.0))
        clear_memory()
        assert torch.equal(
            tile.compile(make(value=5.0), target="cpu", out_idx=[-1])(torch.zeros(8)), torch.full((8,), 5.0)
        )


def test_a_postprocessing_function_without_text_is_not_cached(tmp_path):
    scope = {}
    exec("def nameless(code, target):\n    return code", scope)
    with settings.scope(cache_dir=tmp_path):
        try:
            tile.register_c_postproc(scope["nameless"])
            with pytest.warns(CacheWarning, match="a postprocessing function"):
                tile.compile(make(value=7.0), target="cpu")
        finally:
            tile.unregister_postproc("cpu")
        assert not disk_cache().keys()


def test_a_postprocessing_function_must_return_text_and_be_one():
    try:
        tile.register_c_postproc(lambda code, target: None)
        with pytest.raises(tile.CompileError, match="E-POSTPROC"):
            tile.lower(make(), "cpu")
    finally:
        tile.unregister_postproc("cpu")
    with pytest.raises(tile.OptionError, match="E-POSTPROC"):
        tile.register_cuda_postproc("text")
