"""From a decorated function to a kernel: how often it is traced, keys, redefinition, what a kernel shows of itself."""

import linecache
import textwrap

import pytest
import torch

import tile_core as tile
import tile_core.language as T
from tile_core.settings import settings
from tile_runtime.compiler import clear_memory, disk_cache

TRACES = []


def test_a_body_runs_once_for_each_kernel_and_not_to_find_the_mode():
    TRACES.clear()

    @tile.jit(target="cpu")
    def doubled(A):
        N = T.const("N")
        A: T.Tensor[[N], T.float32]
        TRACES.append("eager")
        B = T.empty((N,), T.float32)
        with T.Kernel(1, threads=32):
            for i in T.Parallel(N):
                B[i] = A[i] * 2
        return B

    assert doubled.mode == "eager" and not doubled.is_lazy_mode and TRACES == []
    for _ in range(3):
        assert torch.equal(doubled(torch.ones(8)), torch.full((8,), 2.0))
    first = len(TRACES)
    doubled(torch.ones(8))
    doubled.compile(torch.ones(8))
    assert len(TRACES) == first <= 2  # an extent that becomes a constant is seen in a second pass over the body

    @tile.jit(target="cpu", out_idx=[-1])
    def scaled(factor=2.0, *, n=8):
        TRACES.append("lazy")

        @T.prim_func
        def main(A: T.Tensor((n,), "float32"), B: T.Tensor((n,), "float32")):
            with T.Kernel(1, threads=32):
                for i in T.Parallel(n):
                    B[i] = A[i] * factor

        return main

    TRACES.clear()
    assert scaled.is_lazy_mode and scaled.initialize_jit_mode() == "lazy" and TRACES == []
    kernel = scaled()
    assert scaled(2.0) is kernel and scaled(factor=2.0, n=8) is kernel and scaled(2.0, n=8) is kernel
    assert TRACES == ["lazy"]
    assert scaled.parse_cache_key() == scaled.parse_cache_key(n=8, factor=2.0) != scaled.parse_cache_key(2)
    assert scaled.get_tir(3.0).script() == scaled.trace(3.0).script()
    assert scaled.get_kernel_source() == kernel.get_kernel_source()


def test_keys_of_the_eager_style_follow_types_and_fixed_extents():
    @tile.jit(target="cpu")
    def plus(A, block: int = 4):
        M, N = T.dynamic("M"), T.const("N")
        A: T.Tensor[[M, N], T.float32]
        with T.Kernel(M, threads=32) as row:
            for i in T.Parallel(N):
                A[row, i] = A[row, i] + block

    assert plus.parse_cache_key(torch.zeros(2, 8))[1] == (2, 8), "which extents matter is not known yet"
    plus(torch.zeros(2, 8))
    assert plus.parse_cache_key(torch.zeros(3, 8)) == plus.parse_cache_key(torch.ones(2, 8))
    assert plus.parse_cache_key(torch.zeros(2, 9)) != plus.parse_cache_key(torch.zeros(2, 8))
    assert plus.parse_cache_key(torch.zeros(2, 8), 5) != plus.parse_cache_key(torch.zeros(2, 8))
    assert plus.parse_cache_key(torch.zeros(2, 8))[1] == (8,)
    with pytest.raises(tile.ArgumentError, match="E-EAGER-ARGUMENT"):
        plus.parse_cache_key()


CELL = """
    import tile_core as tile
    import tile_core.language as T

    @tile.jit(target="cpu", out_idx=[-1])
    def step(n):
        @T.prim_func
        def main(A: T.Tensor((n,), "float32"), B: T.Tensor((n,), "float32")):
            with T.Kernel(1, threads=32):
                for i in T.Parallel(n):
                    B[i] = A[i] + VALUE
        return main
"""


@pytest.mark.parametrize("names", [("<cell 1>", "<cell 2>"), ("<cell>", "<cell>")], ids=["new cell", "same cell"])
def test_a_function_defined_again_in_a_notebook_gives_a_fresh_kernel(names):
    scope: dict = {}
    results = []
    for name, value in zip(names, ("1.0", "5.0")):
        text = textwrap.dedent(CELL).replace("VALUE", value)
        linecache.cache[name] = (len(text), None, text.splitlines(True), name)
        exec(compile(text, name, "exec"), scope)
        results.append(scope["step"](8)(torch.zeros(8))[0].item())
    assert results == [1.0, 5.0]


def test_a_value_that_a_later_cell_changes_takes_effect():
    scope: dict = {"VALUE": 1.0}
    text = textwrap.dedent(CELL)
    linecache.cache["<cell 9>"] = (len(text), None, text.splitlines(True), "<cell 9>")
    exec(compile(text, "<cell 9>", "exec"), scope)
    assert scope["step"](8)(torch.zeros(8))[0].item() == 1
    exec("VALUE = 3.0", scope)
    assert scope["step"](8)(torch.zeros(8))[0].item() == 3


OUTER = """
import tile_core as tile
import tile_core.language as T

config = {"factor": 2.0}

def helper(x):
    return x * config["factor"]

@T.macro
def store(B, i, value):
    B[i] = value

@tile.jit(target="cpu")
def scaled(A):
    A: T.Tensor[[4], T.float32]
    B = T.empty((4,), T.float32)
    with T.Kernel(1):
        for i in T.serial(4):
            store(B, i, helper(A[i]))
    return B
"""


def test_what_helpers_macros_and_containers_become_takes_effect():
    scope: dict = {"__name__": "cells"}

    def cell(text):
        name = f"<outer {len(scope)} {hash(text)}>"
        linecache.cache[name] = (len(text), None, text.splitlines(True), name)
        exec(compile(text, name, "exec"), scope)

    cell(OUTER)
    ones = torch.ones(4)
    for change, expected in (
        ("", 2.0),
        ("config['factor'] = 3.0", 3.0),
        ("def helper(x):\n    return x * config['factor'] + 1", 4.0),
        ("@T.macro\ndef store(B, i, value):\n    B[i] = value + 10", 14.0),
        ("config = {'factor': 5.0}", 16.0),
    ):
        cell(change)
        for _ in range(3):  # the third call goes straight into the kernel of the last
            assert scope["scaled"](ones)[0].item() == expected


@T.prim_func
def move(A: T.Tensor((64, 64), "float16"), B: T.Tensor((64, 64), "float16")):
    with T.Kernel(2, threads=128) as part:
        tile_ = T.alloc_shared((32, 64), "float16")
        T.copy(A[part * 32, 0], tile_)
        T.copy(tile_, B[part * 32, 0])


def test_the_artifact_of_lower_has_its_parts():
    artifact = tile.lower(move, "cuda -arch=sm_80")
    assert [f.name for f in artifact.host.functions] == ["move"]
    assert [f.name for f in artifact.device.functions] == ["move_kernel"]
    assert [param.name for param in artifact.params] == ["A", "B"]
    assert "move_kernel" in artifact.kernel_source and "__tvm_ffi_move" in artifact.host_source
    one = tile.lower(move, "cpu")
    assert one.kernel_source == one.sources["kernel.cpp"] and one.source("nothing") is None


@pytest.mark.layer("nvrtc")
def test_a_cuda_kernel_shows_registers_ptx_and_says_what_machine_code_needs(tmp_path, monkeypatch):
    kernel = tile.compile(move, target="cuda -arch=sm_80")
    (row,) = kernel.resource_usage
    assert row["name"] == "move_kernel" and row["threads"] == 128 and row["shared_bytes"] == 32 * 64 * 2
    assert 8 <= kernel.n_regs <= 255 and kernel.n_spills == 0 and kernel.n_max_threads == 128
    assert ".entry move_kernel" in kernel.get_ptx()
    kernel.export_ptx(tmp_path / "k.ptx")
    assert (tmp_path / "k.ptx").read_text() == kernel.get_ptx()
    monkeypatch.setenv("PATH", str(tmp_path))
    for name in ("CUDA_HOME", "CUDA_PATH"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(tile.ToolchainError) as caught:
        kernel.show_sass()
    assert caught.value.summary == "showing machine code needs cuobjdump or nvdisasm, and neither was found"
    tool = tmp_path / "nvdisasm"
    tool.write_text('#!/bin/sh\necho "/*0000*/ EXIT ; $1"\n')
    tool.chmod(0o755)
    kernel.export_sass(tmp_path / "k.sass")
    assert (tmp_path / "k.sass").read_text() == "/*0000*/ EXIT ; -c\n"
    tool.write_text("#!/bin/sh\necho broken >&2; exit 3\n")
    with pytest.raises(tile.ToolchainError, match="nvdisasm failed"):
        kernel.get_sass()


@pytest.mark.layer("nvrtc")
def test_device_code_is_found_by_its_source_when_the_kernels_key_is_new(tmp_path, monkeypatch):
    from tile_cuda.toolchain import nvrtc

    with settings.scope(cache_dir=tmp_path / "cache"):
        clear_memory()
        nvrtc._done.clear()
        first = tile.compile(move, target="cuda -arch=sm_80")
        clear_memory()
        nvrtc._done.clear()
        monkeypatch.setitem(nvrtc._COMPILE, "nvrtc", lambda *given: pytest.fail("compiled again"))
        disk_cache().clear()
        second = tile.compile(move, target="cuda -arch=sm_80")
        assert second.origin == "compiled" and second.get_ptx() == first.get_ptx()
        assert second.resource_usage == first.resource_usage
        clear_memory()
        nvrtc._done.clear()
        with pytest.raises(pytest.fail.Exception):
            tile.compile(move, target="cuda -arch=sm_80", pass_configs={"tl.enable_fast_math": True})


def test_a_cpu_kernel_says_that_it_has_no_ptx_and_no_registers():
    kernel = tile.compile(move, target="cpu")
    for ask in (kernel.get_ptx, kernel.get_sass, lambda: kernel.n_regs):
        with pytest.raises(tile.OptionError, match="E-KERNEL-SOURCE"):
            ask()
    assert kernel.adapter == "tvm_ffi" and kernel.torch_function is kernel.entry
    assert kernel.get_tuner_result() == (None, None, None)
    assert kernel.update_tuner_result(0.5, {"block": 32}, 1.0) is kernel
    assert (kernel.latency, kernel.config, kernel.ref_latency) == (0.5, {"block": 32}, 1.0)
    assert kernel.get_kernel_source(kernel_only=False).count("__tvm_ffi_move(") == 1


@pytest.fixture
def held():
    clear_memory()
    yield
    settings._held.pop("disable_cache", None)


def test_switching_the_caches_off_and_on_and_clearing_them(tmp_path, held):
    with settings.scope(cache_dir=tmp_path / "cache"):
        assert tile.is_cache_enabled()
        tile.disable_cache()
        assert not tile.is_cache_enabled()
        assert tile.compile(move, target="cpu") is not tile.compile(move, target="cpu")
        assert not (tmp_path / "cache").exists()
        tile.enable_cache()
        kernel = tile.compile(move, target="cpu")
        assert tile.compile(move, target="cpu") is kernel and disk_cache().keys() == (kernel.key,)
        tile.clear_cache()
        assert disk_cache().keys() == () and tile.compile(move, target="cpu") is not kernel


def test_an_enabled_cache_wins_over_the_environment(monkeypatch, held):
    monkeypatch.setenv("TILE_DISABLE_CACHE", "1")
    assert not tile.is_cache_enabled()
    tile.enable_cache()
    assert tile.is_cache_enabled()
    with settings.scope(disable_cache=True):
        assert not tile.is_cache_enabled()
    with pytest.raises(AttributeError, match="did you mean 'disable_cache'"):
        settings.hold(disable_cach=True)


def test_a_kernel_launched_from_python_shows_the_host_function_that_runs():
    @T.prim_func
    def plain(A: T.Tensor((32,), "float32")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(32):
                A[i] = 1.0

    kernel = tile.compile(plain, target="cuda -arch=sm_80", execution_backend="nvrtc")
    assert kernel.get_host_source().startswith("def entry(call, args):")
    with pytest.raises(tile.OptionError, match="there is no library") as caught:
        kernel.export_library("libplain.so")
    assert caught.value.help == "compile it with execution_backend='tvm_ffi'"
    compiled = tile.compile(plain, target="cuda -arch=sm_80", execution_backend="tvm_ffi")
    assert "__tvm_ffi_plain" in compiled.get_host_source()
