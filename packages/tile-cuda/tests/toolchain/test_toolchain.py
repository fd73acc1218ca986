"""What the toolchain says when something is missing or wrong, and what it keeps."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tile_core.errors import InternalError, OptionError, ToolchainError
from tile_core.target import parse_target
from tile_core.transform import Options
from tile_cuda.target import resolve_target
from tile_cuda.toolchain import COMPILER_OPTION, TOOLCHAIN, compile_device, nvrtc
from tile_cuda.toolchain.host import HostCompile, find_c_compiler
from tile_cuda.toolchain.nvrtc import DeviceCode
from tile_cuda.toolchain.toolchain import device_flags

TARGET = resolve_target(parse_target("cuda -arch=sm_80"))
SOURCE = '#include "tile_cuda.h"\nextern "C" __global__ void k(int* p) { *p = 1; }\n'


def forget(monkeypatch):
    for function in (nvrtc._nvrtc, nvrtc._nvrtc_version, nvrtc._nvcc, nvrtc._nvcc_version):
        function.cache_clear()
    monkeypatch.setattr(nvrtc, "_done", {})


@pytest.fixture
def fresh(monkeypatch):
    """Nothing remembered, before and after."""
    forget(monkeypatch)
    yield monkeypatch
    monkeypatch.undo()
    for function in (nvrtc._nvrtc, nvrtc._nvrtc_version, nvrtc._nvcc, nvrtc._nvcc_version):
        function.cache_clear()


def test_without_nvrtc_the_packages_to_install_are_named(fresh):
    fresh.setitem(sys.modules, "cuda.bindings.nvrtc", None)
    with pytest.raises(ToolchainError) as caught:
        compile_device(SOURCE, "sm_80")
    assert caught.value.code == "E-NVRTC-MISSING"
    assert caught.value.summary == "compiling for CUDA needs NVRTC 13: the package cuda.bindings cannot be imported"
    assert caught.value.help == "install them with: pip install 'nvidia-cuda-nvrtc>=13,<14' 'cuda-python>=13,<14'"
    with pytest.raises(ToolchainError):
        TOOLCHAIN.identity(TARGET)


def test_an_older_nvrtc_is_refused(fresh):
    class Old:
        @staticmethod
        def nvrtcVersion():
            return 0, 12, 4

    fresh.setattr(nvrtc, "_nvrtc", lambda: Old)
    with pytest.raises(ToolchainError) as caught:
        compile_device(SOURCE, "sm_80")
    assert caught.value.summary == "compiling for CUDA needs NVRTC 13" and "found: NVRTC 12.4" in str(caught.value)


@pytest.mark.layer("nvrtc")
def test_rejected_source_is_a_fault_of_ours_that_keeps_the_source():
    with pytest.raises(InternalError) as caught:
        compile_device(SOURCE.replace("1;", "nothing;"), "sm_80", name="broken")
    assert caught.value.code == "E-NVRTC-FAILED"
    assert caught.value.summary == "NVRTC rejected the code generated for broken"
    kept = Path(caught.value.facts[0].removeprefix("the source is kept in "))
    assert kept.read_text().endswith("*p = nothing; }\n")
    assert any('identifier "nothing" is undefined' in fact for fact in caught.value.facts)
    kept.unlink()


@pytest.mark.layer("nvrtc")
def test_flags_of_the_users_that_do_not_exist_are_theirs():
    with pytest.raises(ToolchainError) as caught:
        compile_device(SOURCE, "sm_80", flags=("--no-such-flag",))
    assert caught.value.help == "check compile_flags: --no-such-flag"
    Path(caught.value.facts[0].removeprefix("the source is kept in ")).unlink()


@pytest.mark.layer("nvrtc")
def test_a_text_is_compiled_once_for_an_architecture():
    first = compile_device(SOURCE, "sm_80")
    assert compile_device(SOURCE, "sm_80") is first
    other = compile_device(SOURCE, "sm_86")
    assert other is not first and b".target sm_86" in other.ptx and other.cubin[:4] == b"\x7fELF"


def test_without_nvcc_the_option_that_asks_for_it_is_named(fresh, tmp_path):
    fresh.setenv("PATH", str(tmp_path))
    fresh.delenv("CUDA_HOME", raising=False)
    fresh.delenv("CUDA_PATH", raising=False)
    with pytest.raises(ToolchainError) as caught:
        compile_device(SOURCE, "sm_80", "nvcc")
    assert caught.value.code == "E-NVCC-MISSING"
    assert caught.value.help == f"install the CUDA toolkit 13, or leave out {COMPILER_OPTION} to use NVRTC"


def test_nvcc_is_called_with_the_device_header_and_the_architecture(fresh, tmp_path):
    script = tmp_path / "bin" / "nvcc"
    script.parent.mkdir()
    script.write_text(
        f'#!/bin/sh\necho "$@" >> {tmp_path}/calls\nwhile [ "$1" != -o ]; do shift; done\necho made > "$2"\n'
    )
    script.chmod(0o755)
    fresh.setenv("CUDA_HOME", str(tmp_path))
    assert compile_device(SOURCE, "sm_90a", "nvcc", ("-O1",)) == DeviceCode(b"made\n", b"made\n")
    calls = (tmp_path / "calls").read_text().splitlines()
    assert calls[0] == "--version" and calls[1].startswith("-cubin -arch=sm_90a") and calls[2].startswith("-ptx -arch")
    assert "-O1 -I" in calls[1] and os.path.join("device", "include") in calls[1]


def test_the_option_takes_two_values():
    assert Options({COMPILER_OPTION: "nvcc"})[COMPILER_OPTION] == "nvcc"
    with pytest.raises(OptionError, match="allowed: nvrtc, nvcc"):
        Options({COMPILER_OPTION: "clang"})


def test_options_become_flags():
    options = {"tl.device_compile_flags": "-a -b", "tl.enable_fast_math": True, "tl.ptxas_register_usage_level": 5}
    assert device_flags(options) == ("-a", "-b", "--use_fast_math", "--ptxas-options=--register-usage-level=5")
    assert device_flags({}) == ()


def test_a_missing_c_compiler_is_named(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("TILE_CC", raising=False)
    monkeypatch.delenv("CXX", raising=False)
    with pytest.raises(ToolchainError) as caught:
        find_c_compiler()
    assert caught.value.summary == "the launcher of a CUDA kernel needs a C compiler, and none was found"


def test_a_rejected_launcher_is_a_fault_of_ours_that_keeps_the_source(tmp_path):
    with pytest.raises(InternalError) as caught:
        HostCompile("int broken(", "stub", tmp_path).link(DeviceCode(b"", b""))
    kept = Path(caught.value.facts[0].removeprefix("the source is kept in "))
    assert caught.value.code == "E-CC-FAILED" and kept.read_text() == "int broken("
    kept.unlink()


@pytest.mark.layer("nvrtc")
def test_an_execution_backend_without_a_launcher_gets_machine_code_only(flat):
    from tile_core.plugin import Artifact
    from tile_cuda.testing import add_one

    kernel = flat(add_one())
    artifact = Artifact(kernel.target, "add_one", kernel.function, kernel.module, kernel.sources)
    assert sorted(TOOLCHAIN.for_files(("kernel.cubin",)).build(artifact)) == [
        "kernel.cubin",
        "kernel.ptx",
        "ptxas.txt",
    ]


@pytest.mark.layer("nvrtc")
def test_a_fault_in_the_users_own_text_is_theirs():
    with pytest.raises(ToolchainError) as caught:
        compile_device("__device__ int mine() { return nothing; }\n" + SOURCE, "sm_80", users_text=True)
    assert caught.value.help == "check the text given to T.import_source"
    Path(caught.value.facts[0].removeprefix("the source is kept in ")).unlink()
