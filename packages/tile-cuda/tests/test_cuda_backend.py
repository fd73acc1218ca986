from __future__ import annotations

import subprocess
import sys

import pytest

from tile_core.errors import TargetError
from tile_core.plugin import Ok, Reason, registry, resolve
from tile_core.target import Target, parse_target
from tile_cuda.driver import Device, detect
from tile_cuda.driver.detect import ask
from tile_cuda.plugin import BACKEND
from tile_cuda.target import ARCHITECTURES, architecture, resolve_target


def refused(text: str) -> TargetError:
    with pytest.raises(TargetError) as caught:
        resolve_target(parse_target(text))
    return caught.value


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_each_architecture_of_the_table_is_a_target(name):
    target = resolve_target(parse_target(f"cuda -arch={name}"))
    assert str(target) == f"cuda -arch={name}"
    assert architecture(target).name == name


@pytest.mark.parametrize(
    ("text", "code", "summary", "help"),
    [
        ("cuda -arch=sm_70", "E-CUDA-ARCH",
         "target cuda -arch=sm_70: sm_70 is too old, NVRTC 13 compiles for sm_75 and newer",
         "use a device of compute capability 7.5 or newer"),
        ("cuda -arch=sm_100a", "E-CUDA-ARCH",
         "target cuda -arch=sm_100a: sm_100a is newer than this version of tile-cuda knows",
         "upgrade tile-cuda once a release lists it; code for sm_90a does not run on it"),
        ("cuda -arch=80", "E-CUDA-ARCH", "target cuda -arch=80: '80' is not a CUDA architecture", "write -arch=sm_80"),
        ("cuda -arch=hopper", "E-CUDA-ARCH", "target cuda -arch=hopper: 'hopper' is not a CUDA architecture",
         "write -arch=sm_80"),
        ("cuda -chip=h200", "E-TARGET-OPTION",
         "target cuda -chip=h200 has an option -chip, which the CUDA backend does not know",
         "write cuda, or cuda -arch=sm_90a"),
    ],
)  # fmt: skip
def test_a_wrong_target_says_what_is_allowed(text, code, summary, help):
    error = refused(text)
    assert (error.code, error.summary, error.help) == (code, summary, help)


class Driver:
    """A driver library with one device, or with a status that it fails with."""

    def __init__(self, status=0, count=1, capability=(9, 0), describe=0) -> None:
        self.status, self.count, self.capability, self.describe = status, count, capability, describe

    def cuInit(self, flags):
        return self.status

    def cuDeviceGetCount(self, count):
        count._obj.value = self.count
        return 0

    def cuDeviceGet(self, handle, ordinal):
        return 0

    def cuDeviceGetName(self, text, size, handle):
        text.value = b"NVIDIA H200"
        return self.describe

    def cuDeviceGetAttribute(self, value, attribute, handle):
        value._obj.value = self.capability[attribute - 75]
        return 0


@pytest.mark.parametrize(
    ("driver", "found"),
    [
        (Driver(), Device("NVIDIA H200", 90)),
        (Driver(status=100), Reason("the NVIDIA driver shows no device")),
        (Driver(count=0), Reason("the NVIDIA driver shows no device")),
        (Driver(status=3), Reason("the NVIDIA driver does not start: cuInit gives error 3", "see nvidia-smi")),
        (Driver(describe=7), Reason("the NVIDIA driver does not describe its device: error 7", "see nvidia-smi")),
    ],
)
def test_the_driver_is_asked_plainly(driver, found):
    assert ask(driver) == found


@pytest.mark.parametrize(
    ("capability", "arch"), [(90, "sm_90a"), (89, "sm_89"), (86, "sm_86"), (88, "sm_87"), (75, "sm_75")]
)
def test_a_target_without_architecture_is_the_device_of_this_machine(monkeypatch, capability, arch):
    monkeypatch.setattr("tile_cuda.driver.device", lambda: Device("any", capability))
    assert resolve_target(Target("cuda")) == Target("cuda", {"arch": arch})


def test_a_device_too_old_is_refused_by_its_number(monkeypatch):
    monkeypatch.setattr("tile_cuda.driver.device", lambda: Device("Tesla V100", 70))
    assert "sm_70 is too old" in refused("cuda").summary


def test_without_a_device_the_default_is_sm_80(monkeypatch):
    monkeypatch.setattr("tile_cuda.driver.device", lambda: None)
    assert resolve_target(Target("cuda")) == Target("cuda", {"arch": "sm_80"})


def test_detection_says_what_is_there_or_what_is_missing():
    outcome = detect()
    assert isinstance(outcome, (Ok, Reason))
    assert outcome.detail if isinstance(outcome, Ok) else "NVIDIA driver" in outcome.text


def test_kernels_for_cuda_are_called_through_tvm_ffi():
    backend, target = registry.resolve_target("cuda -arch=sm_90a")
    assert registry.resolve_execution_backend("auto", backend, target).name == "tvm_ffi"


def test_everything_that_the_spec_names_exists():
    for reference in (BACKEND.resolve_target, BACKEND.detect, BACKEND.pipeline, BACKEND.candidates, BACKEND.codegen):
        assert callable(resolve(reference))
    assert resolve(BACKEND.toolchain).identity and resolve(BACKEND.emulation)().is_dir()


def test_reading_the_spec_loads_no_driver_and_no_vendor_package():
    program = (
        "import sys, tile_cuda.plugin; "
        "print([m for m in ('ctypes', 'cuda', 'torch', 'tile_cuda.driver') if m in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout == "[]\n"


def test_the_dialect_has_the_common_names_and_is_reached_through_t():
    import tile_core.language as T
    import tile_cuda.language

    assert tile_cuda.language.copy is T.copy
    assert set(T.__all__) <= set(tile_cuda.language.__all__)
    assert T.cuda is tile_cuda.language
