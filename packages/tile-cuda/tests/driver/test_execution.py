"""The execution backend nvrtc: the host function in Python, beside the same function as a C stub."""

from __future__ import annotations

import pytest
import torch

from tile_core.codegen import print_host_python
from tile_core.dtypes import DType
from tile_core.errors import ArgumentError, ToolchainError
from tile_core.ir import (
    Buffer,
    BufferLoad,
    BufferStore,
    IRModule,
    KernelLaunch,
    PrimFunc,
    SizeVar,
    Var,
    as_shape,
    binary,
    const,
)
from tile_core.plugin import Artifact
from tile_core.target import Target
from tile_core.transform import MakePackedAPI, SplitHostDevice
from tile_core.transform.base import PassContext
from tile_cuda.codegen import generate
from tile_cuda.driver import DriverModule
from tile_cuda.driver.execution import HostCall, available, build
from tile_cuda.target import resolve_target
from tile_cuda.testing import add_one

TARGET = resolve_target(Target("cuda", {"arch": "sm_80"}))
F32 = DType("float32")


class Recorder:
    """Takes launches down."""

    def __init__(self) -> None:
        self.launches: list[tuple] = []

    def launch(self, kernel, grid, threads, shared, arguments, device, stream, **options) -> None:
        found = (kernel, tuple(grid), tuple(threads), shared, [a.value for a in arguments])
        self.launches.append((*found, options) if options else found)


def scale(out_idx=()) -> PrimFunc:
    """B[n] = A[n] * factor, blocks of 128."""
    n, factor = SizeVar("n"), Var("factor", F32)
    a, b = Buffer("A", as_shape((n,)), F32), Buffer("B", as_shape((n,)), F32)
    bx, tx = Var("bx"), Var("tx")
    place = bx * 128 + tx
    body = BufferStore(b, binary("mul", BufferLoad(a, (place,)), factor), (place,))
    launch = KernelLaunch((bx,), (binary("floordiv", n + 127, 128),), (tx,), (const(128, "int32"),), body)
    return PrimFunc("scale", (a, factor, b), launch, (("out_idx", out_idx),) if out_idx else ())


def lowered(function: PrimFunc, device: str = "cpu") -> IRModule:
    context = PassContext(TARGET)
    return MakePackedAPI(device).apply(SplitHostDevice().apply(IRModule((function,)), context), context)


def host_call(function: PrimFunc) -> tuple[HostCall, Recorder]:
    """For CPU tensors, which is all that differs from the device's own."""
    recorder = Recorder()
    text = print_host_python(lowered(function)[function.name])
    return HostCall(function, text, recorder, {f"{function.name}_kernel": 96}), recorder


def test_the_host_function_prints_as_python():
    text = print_host_python(lowered(scale((2,)))["scale"])
    assert text.startswith("def entry(call, args):\n  outputs = []\n  if not (len(args) == 2):\n")
    assert "  n = int(call.field(A_tensor, 'shape', 0))\n" in text
    types = "['handle', 'float32', 'handle', 'int32']"
    assert text.endswith(f"[A_data, factor, B_data, n], {types})\n  return outputs\n")


def test_a_call_launches_with_what_the_tensors_hold():
    call, recorder = host_call(scale())
    a, b = torch.zeros(300), torch.zeros(300)
    assert call(a, 2, b) is None
    ((kernel, grid, threads, shared, arguments),) = recorder.launches
    assert (kernel, grid, threads, shared) == ("scale_kernel", (3, 1, 1), (128, 1, 1), 96)
    assert arguments == [a.data_ptr(), 2.0, b.data_ptr(), 300]


def test_outputs_are_allocated_and_returned():
    call, recorder = host_call(scale((2,)))
    out = call(torch.zeros(5), 1.5)
    assert out.shape == (5,) and out.dtype is torch.float32
    assert out.data_ptr() in recorder.launches[0][4]


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ((torch.zeros(4),), "E-ARG-COUNT"),
        ((None, 1.0, torch.zeros(4)), "E-ARG-NONE"),
        ((torch.zeros(4), "two", torch.zeros(4)), "E-ARG-TYPE"),
        ((torch.zeros(4, 1), 1.0, torch.zeros(4)), "E-ARG-NDIM"),
        ((torch.zeros(4).half(), 1.0, torch.zeros(4)), "E-ARG-DTYPE"),
        ((torch.zeros(4), 1.0, torch.zeros(5)), "E-ARG-SHAPE"),
        ((torch.zeros(8)[::2], 1.0, torch.zeros(4)), "E-ARG-STRIDE"),
        ((torch.zeros(4), 1.0, torch.zeros(4, device="meta")), "E-ARG-STORAGE"),
    ],
)
def test_a_wrong_argument_has_the_code_that_the_c_stub_gives(arguments, code):
    call, recorder = host_call(scale())
    with pytest.raises(ArgumentError) as caught:
        call(*arguments)
    assert caught.value.code == code and not recorder.launches


def test_a_tensor_that_should_stay_in_the_cache_comes_with_its_size():
    function = scale()
    hint = ("l2_hit_ratio", ((function.params[2], 0.25),))
    hinted = function.with_(body=function.body.with_(annotations=(hint,)))
    recorder = Recorder()
    text = print_host_python(lowered(hinted)["scale"])
    call = HostCall(hinted, text, recorder, {"scale_kernel": 0}, windows={"scale_kernel": (2, 0.25)})
    a, b = torch.zeros(300), torch.zeros(300)
    call(a, 2.0, b)
    ((*_, arguments, options),) = recorder.launches
    assert arguments == [a.data_ptr(), 2.0, b.data_ptr(), 300]
    assert options == {"window": (b.data_ptr(), 1200, 0.25)}


def test_an_artifact_becomes_a_callable_that_wants_device_tensors():
    module = lowered(add_one(), "cuda")
    # As the disk cache gives it: sources and binaries, nothing lowered.
    artifact = Artifact(TARGET, "add_one", add_one(), IRModule((add_one(),)), generate(module, TARGET), entry="add_one")
    artifact.binaries["kernel.cubin"] = b"none"
    assert available()
    with pytest.raises(ArgumentError, match="must be on cuda, got cpu:0"):
        build(artifact)(torch.zeros(1024), torch.zeros(1024))


def test_without_a_driver_the_launch_says_so(monkeypatch):
    from tile_cuda.driver import module

    def missing(name):
        raise OSError(f"{name}: cannot open shared object file")

    module._driver.cache_clear()
    monkeypatch.setattr(module.ctypes, "CDLL", missing)
    with pytest.raises(ToolchainError) as caught:
        DriverModule(b"").launch("k", (1,), (32,), 0, [], 0, 0)
    assert caught.value.code == "E-CUDA-DRIVER"
    assert caught.value.help == 'install the driver, or compile with execution_backend="emulate" to run on the CPU'


def test_a_grid_beyond_the_limits_names_the_configuration():
    with pytest.raises(ToolchainError) as caught:
        DriverModule(b"").launch("k", (1, 70000), (32,), 64, [], 0, 0)
    assert caught.value.facts[0] == "configuration: grid (1, 70000, 1), threads (32, 1, 1), 64 bytes of shared memory"
    DriverModule(b"").launch("k", (0,), (32,), 0, [], 0, 0)


def test_code_for_another_architecture_is_said_with_both(monkeypatch):
    from tile_cuda.driver import module

    class Newer:
        """A device of compute capability 9.0 whose driver takes nothing."""

        def cuDeviceGetAttribute(self, value, attribute, handle):
            value._obj.value = {75: 9, 76: 0}[attribute]
            return 0

        def cuModuleLoadData(self, loaded, image):
            return 209

        def __getattr__(self, name):
            return lambda *args: 0

    monkeypatch.setattr(module, "_driver", Newer)
    monkeypatch.setattr(module, "_context", lambda device: None)
    monkeypatch.setattr(module, "_said", lambda status: f"result {status}")
    with pytest.raises(ToolchainError) as caught:
        DriverModule(b"code", b"", "sm_80").launch("k", (1,), (32,), 0, [], 1, 0)
    assert caught.value.code == "E-LAUNCH" and caught.value.summary == "k: loading the machine code failed"
    facts = ("configuration: code for sm_80 on device 1 of compute capability 9.0", "the driver says: result 209")
    assert tuple(caught.value.facts) == facts
    assert caught.value.help == 'compile for target "cuda", which is the device, or update the driver'
