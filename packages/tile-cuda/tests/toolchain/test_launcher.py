"""The launcher in the host stub, against a driver that writes down what it is asked."""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tile_cuda.testing import add_one

HERE = Path(__file__).parent
SCENARIOS: dict[str, tuple[str, list[int]]] = {
    "plain": ("", [0]),
    "twice": ("", [0, 0]),
    "two devices": ("", [0, 1]),
    "other context": ("other_context", [1]),
    "older code": ("no_binary", [0]),
    "newer ptx": ("no_binary no_ptx", [0]),
    "little shared memory": ("small_shared", [0]),
    "bad launch": ("bad_launch", [0]),
    "no device": ("no_device", [0]),
}


def run(library: Path, folder: Path, scenarios: dict[str, tuple[str, list[int]]], with_driver: bool) -> dict[str, dict]:
    environment = {**os.environ, "FAKE_CUDA_LOG": str(folder / "log"), "CUDA_VISIBLE_DEVICES": ""}
    if with_driver:
        environment["LD_LIBRARY_PATH"] = str(folder)
    given = json.dumps([{"words": words, "devices": devices} for words, devices in scenarios.values()])
    words = [sys.executable, str(HERE / "launch_script.py"), str(library), "add_one", "16384"]
    done = subprocess.run(words, input=given, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    return dict(zip(scenarios, json.loads(done.stdout.splitlines()[-1])))


@pytest.fixture(scope="module")
def library(tmp_path_factory, flat):
    folder = tmp_path_factory.mktemp("launcher")
    path = folder / "kernel.so"
    path.write_bytes(flat(add_one(shared_bytes=64 * 1024, elements=16384)).build()["kernel.so"])
    return path


@pytest.fixture(scope="module")
def driver(library):
    path = library.parent / "libcuda.so.1"
    source, soname = str(HERE / "fake_driver.c"), "-Wl,-soname,libcuda.so.1"
    subprocess.run(["cc", "-shared", "-fPIC", "-w", source, soname, "-o", str(path)], check=True)
    return path


@pytest.fixture(scope="module")
def outcomes(library, driver):
    return run(library, library.parent, SCENARIOS, with_driver=True)


LOAD = ["capture mode 2", "load cubin", "attribute 8 = 65536", "capture mode 0"]
LAUNCH = ["launch 128 blocks of 32", "shared 65536"]


def test_the_first_launch_opens_the_driver_and_loads_the_kernel(outcomes):
    assert outcomes["plain"] == {"asked": ["init", "retain 0", "push 0", *LOAD, *LAUNCH, "pop"], "error": ""}


def test_the_second_launch_only_launches(outcomes):
    assert outcomes["twice"]["asked"] == [*outcomes["plain"]["asked"], "push 0", *LAUNCH, "pop"]


def test_each_device_has_its_own_context_and_code(outcomes):
    second = ["retain 1", "push 1", *LOAD, *LAUNCH, "pop"]
    assert outcomes["two devices"]["asked"] == [*outcomes["plain"]["asked"], *second]


def test_the_tensors_device_counts_not_the_threads_context(outcomes):
    assert outcomes["other context"]["asked"] == ["init", "retain 1", "push 1", *LOAD, *LAUNCH, "pop"]


def test_a_newer_device_compiles_the_text(outcomes):
    assert outcomes["older code"]["asked"][3:6] == ["capture mode 2", "load cubin", "load ptx"]
    assert outcomes["older code"]["error"] == ""


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (
            "newer ptx",
            "add_one_kernel: loading the machine code: expected success with code for sm_80 on device 0 of compute "
            'capability 7.5; compile for target "cuda", which is the device, or update the driver, got '
            "CUDA_ERROR_UNSUPPORTED_PTX_VERSION (as the test wants it)",
        ),
        (
            "little shared memory",
            "add_one_kernel: setting the size of shared memory: expected success with 65536 bytes of shared memory, of "
            "which the device has 101376, got CUDA_ERROR (as the test wants it)",
        ),
        (
            "bad launch",
            "add_one_kernel: launch: expected success with grid (128, 1, 1), threads (32, 1, 1), 65536 bytes of shared "
            "memory, got CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES (as the test wants it)",
        ),
        ("no device", "add_one_kernel: cuInit: expected success, got CUDA_ERROR (as the test wants it)"),
    ],
)
def test_what_the_driver_refuses_is_said_with_kernel_and_configuration(name, text, outcomes):
    assert text in outcomes[name]["error"]


def kept_in_cache(elements: int):
    """add_one with half of its first tensor to stay in the second-level cache."""
    function = add_one(elements=elements)
    hint = ("l2_hit_ratio", ((function.params[0], 0.5),))
    return function.with_(body=function.body.with_(annotations=(hint,)))


WINDOW = ["window over 65536 bytes, first argument 1", "per mille 500, properties 21", "launch 128 blocks of 32"]


def test_a_launch_has_a_window_over_what_should_stay_in_the_cache(library, driver, flat, tmp_path):
    path = tmp_path / "kernel.so"
    path.write_bytes(flat(kept_in_cache(16384)).build()["kernel.so"])
    found = run(path, library.parent, {"twice": ("", [0, 0])}, with_driver=True)["twice"]
    assert found["error"] == ""
    # A part of the cache is set aside once.
    assert found["asked"][6:] == ["limit 6 = 65536", *WINDOW, "pop", "push 0", *WINDOW, "pop"]


def test_the_launch_from_python_has_the_same_window(driver, monkeypatch, tmp_path):
    from tile_cuda.driver import DriverModule, module

    monkeypatch.setattr(module, "_driver", lambda: ctypes.CDLL(str(driver)))
    monkeypatch.setattr(module, "_context", lambda device: ctypes.c_void_p(0x100))
    monkeypatch.setenv("FAKE_CUDA_LOG", str(tmp_path / "log"))
    kernels = DriverModule(b"\x7fELF")
    arguments = [ctypes.c_void_p(0x1000), ctypes.c_void_p(0x2000)]
    for _ in range(2):
        kernels.launch("k", (128,), (32,), 0, arguments, 0, 0, window=(0x1000, 65536, 0.5))
    asked = (tmp_path / "log").read_text().splitlines()
    assert asked[4:] == ["limit 6 = 65536", *WINDOW, "pop", "push 0", *WINDOW, "pop"]
    # More than the device sets aside, in a cooperative launch.
    kernels.launch("k", (2,), (32,), 0, arguments, 0, 0, cooperative=True, window=(0x1000, 1 << 30, 1.0))
    asked = (tmp_path / "log").read_text().splitlines()[-6:]
    assert asked == [
        f"limit 6 = {3 << 20}",
        f"window over {128 << 20} bytes, first argument 1",
        "per mille 1000, properties 21",
        "together 1",
        "launch 2 blocks of 32",
        "pop",
    ]


@pytest.mark.skipif(Path("/dev/nvidiactl").exists(), reason="this machine has a driver")
def test_a_machine_without_a_driver_is_told_what_to_install(library):
    found = run(library, library.parent, {"plain": ("", [0])}, with_driver=False)["plain"]
    assert "expected libcuda.so.1 of an NVIDIA driver, got none: install the NVIDIA driver" in found["error"]
    assert 'execution_backend="emulate"' in found["error"]
