"""The execution backend: an artifact of the CUDA backend, called with CPU tensors."""

from __future__ import annotations

import pytest
import torch

from tile_core.dtypes import DType
from tile_core.errors import ArgumentError, OptionError, PluginError
from tile_core.ir import (
    Block,
    Buffer,
    BufferLoad,
    BufferStore,
    Call,
    Evaluate,
    If,
    IRModule,
    KernelLaunch,
    PrimFunc,
    SizeVar,
    Var,
    as_shape,
    binary,
    const,
    seq,
)
from tile_core.plugin import Artifact
from tile_core.source import Span
from tile_core.target import parse_target
from tile_core.transform import MakePackedAPI, SplitHostDevice
from tile_core.transform.base import PassContext
from tile_cuda.codegen import generate
from tile_cuda.target import resolve_target
from tile_emulator import EmulationError, emulation
from tile_emulator.execution import build

FILE = "mirror.py"
TARGET = resolve_target(parse_target("cuda -arch=sm_80"))


def lowered(synchronised: bool, out_idx: tuple[int, ...], scale: DType | None) -> tuple[PrimFunc, IRModule]:
    """B[i] = A[128·b + 127 − t] through shared memory, in forms FLAT and PACKED."""
    size = SizeVar("n", DType("int32"))
    a, b = (Buffer(name, as_shape((size,)), DType("float32"), span=Span(FILE, 3)) for name in "AB")
    held = Buffer("held", as_shape((128,)), DType("float32"), "shared")
    block, thread = Var("bx"), Var("tx")
    place = binary("add", binary("mul", block, 128), thread)
    inside = binary("lt", place, size)
    put = BufferStore(held, BufferLoad(a, (place,)), (thread,), span=Span(FILE, 11))
    zero = BufferStore(held, const(0.0, "float32"), (thread,), span=Span(FILE, 11))
    meet = Evaluate(Call("cuda.sync_threads", (), DType("void")), span=Span(FILE, 12))
    value = BufferLoad(held, (binary("sub", 127, thread),))
    factor = Var("factor", scale) if scale else None
    if factor is not None:
        value = binary("mul", value, factor)
    take = BufferStore(b, value, (place,), span=Span(FILE, 13))
    body = seq(If(inside, put, zero), *([meet] if synchronised else []), If(inside, take))
    grid = binary("floordiv", binary("add", size, 127), 128)
    launch = KernelLaunch((block,), (grid,), (thread,), (const(128, "int32"),), Block((held,), body))
    params = (a, b) if factor is None else (a, b, factor)
    function = PrimFunc("mirror", params, launch, span=Span(FILE, 2)).with_attr("out_idx", out_idx or None)
    context = PassContext(TARGET)
    return function, MakePackedAPI("cuda").apply(SplitHostDevice().apply(IRModule((function,)), context), context)


def mirror(synchronised: bool = True, out_idx: tuple[int, ...] = (1,), scale: DType | None = None) -> Artifact:
    function, module = lowered(synchronised, out_idx, scale)
    return Artifact(TARGET, "mirror", function, module, generate(module, TARGET), entry="mirror")


def expected(a: torch.Tensor) -> torch.Tensor:
    padded = torch.zeros(-(-len(a) // 128) * 128)
    padded[: len(a)] = a
    return padded.view(-1, 128).flip(1).reshape(-1)[: len(a)]


@pytest.mark.parametrize("schedule", ["in_order", "latest", "random"])
def test_a_kernel_for_cuda_runs_on_cpu_tensors_and_allocates_its_output(schedule):
    kernel = build(mirror())
    for count in (1, 128, 300):
        a = torch.randn(count)
        with emulation(schedule) as session:
            assert torch.equal(kernel(a), expected(a))
        (report,) = session.reports
        assert report.clean and report.launches == 1 and report.accesses > 0


def test_outputs_that_the_caller_gives_are_filled():
    kernel = build(mirror(out_idx=()))
    a, b = torch.randn(200), torch.zeros(200)
    assert kernel(a, b) is None
    assert torch.equal(b, expected(a))


def test_a_view_with_an_offset_keeps_what_lies_around_it():
    kernel = build(mirror(out_idx=()))
    whole = torch.arange(400, dtype=torch.float32)
    source, target = whole[100:300], torch.full((400,), -1.0)
    kernel(source, target[3:203])
    assert torch.equal(target[3:203], expected(source))
    assert (target[:3] == -1).all() and (target[203:] == -1).all()


def test_a_race_raises_with_both_lines_of_the_kernel():
    kernel = build(mirror(synchronised=False))
    with pytest.raises(EmulationError) as caught:
        kernel(torch.randn(128))
    finding = caught.value.report.findings[0]
    assert finding.kind == "race" and finding.buffer == "held"
    assert {(a.file, a.line) for a in finding.accesses} == {(FILE, 11), (FILE, 13)}
    text = str(caught.value)
    assert text.startswith("error[E-EMU-FINDING]: mirror: race: held, byte")
    assert f"{FILE}:11" in text and f"{FILE}:13" in text
    with emulation(raises=False) as session:
        kernel(torch.randn(128))
    assert {f.kind for f in session.reports[0].findings} == {"race"}


def test_a_synchronisation_that_is_switched_off_is_missed():
    kernel = build(mirror())
    with pytest.raises(EmulationError), emulation(switched_off=[0]):
        kernel(torch.randn(128))
    kernel(torch.randn(128))


def test_arguments_are_checked_before_anything_runs():
    kernel = build(mirror())
    with pytest.raises(ArgumentError, match="float32"):
        kernel(torch.randn(128).double())


def test_scalars_reach_the_kernel():
    kernel = build(mirror(scale=DType("float32")))
    a = torch.randn(128)
    assert torch.equal(kernel(a, 2.0), expected(a) * 2)


def test_a_half_reaches_the_kernel():
    source = torch.arange(128, dtype=torch.float32)
    assert torch.equal(build(mirror(scale=DType("float16")))(source, 0.5), expected(source) * 0.5)


def test_a_target_without_emulation_is_told():
    artifact = mirror()
    artifact.target = parse_target("cpu")
    with pytest.raises(PluginError, match="kernels for cpu can't be emulated"):
        build(artifact)


def test_inline_ptx_is_unchecked():
    artifact = mirror()
    artifact.sources["kernel.cu"] += '\n__device__ void nap() { asm volatile("nanosleep.u32 20;"); }\n'
    with pytest.raises(EmulationError, match="inline PTX can't be emulated") as caught:
        build(artifact)
    assert caught.value.code == "E-EMU-UNCHECKED"
    assert "nanosleep" in str(caught.value)


def test_wrong_options_are_told():
    with pytest.raises(OptionError, match="no schedule 'latst'"), emulation("latst"):
        raise AssertionError("the block runs")
    with pytest.raises(OptionError, match="not negative"), emulation("random", seed=-1):
        raise AssertionError("the block runs")
