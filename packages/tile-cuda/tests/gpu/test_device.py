"""Kernels on an NVIDIA GPU: expressions, matrix instructions, launches, streams, graphs, a second device, errors."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

from tile_core.errors import ToolchainError
from tile_core.plugin import Artifact
from tile_core.target import Target, parse_target
from tile_cuda.codegen import generate_kernels
from tile_cuda.driver import DriverModule
from tile_cuda.target import ARCHITECTURES, resolve_target
from tile_cuda.testing import add_one, gemm
from tile_cuda.testing.expressions import FLOATS, INTEGERS, tables
from tile_cuda.testing.matrix import (
    MATRIX_KERNELS,
    SPARSE_KERNELS,
    matrix_arguments,
    matrix_expected,
    matrix_source,
    sparse_arguments,
    sparse_source,
)
from tile_cuda.toolchain import TOOLCHAIN, compile_device
from tile_runtime.backends.tvm_ffi import build

pytestmark = pytest.mark.gpu


@pytest.fixture(scope="module")
def arch() -> str:
    return resolve_target(Target("cuda")).get("arch")


def loaded(flat, function, arch):
    """The kernel as tvm_ffi calls it."""
    kernel = flat(function, arch)
    target = resolve_target(parse_target(f"cuda -arch={arch}"))
    artifact = Artifact(target, function.name, function, kernel.module, kernel.sources, entry=function.name)
    artifact.binaries.update(TOOLCHAIN.build(artifact))
    return build(artifact)


class OnDevice:
    """A translation unit of kernels that take pointers, called with numpy arrays."""

    def __init__(self, source: str, arch: str) -> None:
        code = compile_device(source, arch)
        self.module = DriverModule(code.cubin, code.ptx)

    def run(self, kernel: str, arrays: list[np.ndarray], threads: int) -> None:
        import torch

        tensors = [torch.from_numpy(a.view(np.uint8).copy()).cuda() for a in arrays]
        pointers = [ctypes.c_void_p(t.data_ptr()) for t in tensors]
        self.module.launch(kernel, (1,), (threads,), 0, pointers, 0, torch.cuda.current_stream().cuda_stream)
        for array, tensor in zip(arrays, tensors):
            array[...] = tensor.cpu().numpy().view(array.dtype).reshape(array.shape)


@pytest.mark.parametrize("name", [*FLOATS, *INTEGERS])
def test_expressions_agree_with_the_interpreter(name, arch):
    found = {table.function().name: table for table in tables(name)}
    text, _ = generate_kernels({n: t.function() for n, t in found.items()}, ARCHITECTURES[arch])
    unit = OnDevice(text, arch)
    for kernel, table in found.items():
        given = table.arguments()
        unit.run(kernel, given, threads=1)
        table.check(given)


@pytest.fixture(scope="module")
def matrices(arch):
    number = ARCHITECTURES[arch].number
    return OnDevice(matrix_source([v for v in MATRIX_KERNELS if v[4] <= number]), arch)


@pytest.mark.parametrize("variant", MATRIX_KERNELS, ids=lambda v: f"{v[0]} {v[1]} {v[2]} {v[3]}")
def test_matrix_instructions_agree_with_numpy(variant, matrices, arch):
    if ARCHITECTURES[arch].number < variant[4]:
        pytest.skip(f"needs sm_{variant[4]}")
    name, arrays = matrix_arguments(variant)
    expected, limit = matrix_expected(variant, arrays)
    matrices.run(name, arrays, threads=32)
    np.testing.assert_allclose(arrays[2].astype(np.float64), expected, rtol=limit, atol=limit)


@pytest.fixture(scope="module")
def sparse_matrices(arch):
    number = ARCHITECTURES[arch].number
    return OnDevice(sparse_source([v for v in SPARSE_KERNELS if v[4] <= number]), arch)


@pytest.mark.parametrize("variant", SPARSE_KERNELS, ids=lambda v: f"{v[0]} {v[1]} {v[2]} {v[3]} {v[5]}")
def test_sparse_matrix_instructions_agree_with_numpy(variant, sparse_matrices, arch):
    if ARCHITECTURES[arch].number < variant[4]:
        pytest.skip(f"needs sm_{variant[4]}")
    name, arrays, whole = sparse_arguments(variant)
    expected, limit = matrix_expected(variant, [whole, *arrays[1:3]])
    sparse_matrices.run(name, arrays, threads=32)
    np.testing.assert_allclose(arrays[2].astype(np.float64), expected, rtol=limit, atol=limit)


@pytest.mark.parametrize("compiled_for", ["this device", "sm_80"])
def test_a_pipelined_gemm_runs_also_from_the_text_for_an_older_device(compiled_for, arch, flat):
    import torch

    torch.manual_seed(0)
    a, b = torch.randn(256, 512, device="cuda").half(), torch.randn(512, 384, device="cuda").half()
    d = torch.zeros(256 * 384, device="cuda", dtype=torch.half)
    kernel = loaded(flat, gemm(256, 384, 512), arch if compiled_for == "this device" else "sm_80")
    kernel(a.flatten(), b.flatten(), d)
    expected = a.float() @ b.float()
    torch.testing.assert_close(d.float().view(256, 384), expected, rtol=2e-2, atol=5e-2)


def test_much_shared_memory_streams_and_graphs(arch, flat):
    import torch

    kernel = loaded(flat, add_one(shared_bytes=96 * 1024, elements=16384), arch)
    a, b = torch.randn(16384, device="cuda"), torch.zeros(16384, device="cuda")
    stream = torch.cuda.Stream()
    # The first launch, which loads the code, is inside the capture.
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        kernel(a, b)
    assert b.abs().sum().item() == 0
    a += 1
    graph.replay()
    torch.cuda.synchronize()
    torch.testing.assert_close(b, a + 1)
    with torch.cuda.stream(stream):
        kernel(b, a)
    stream.synchronize()
    torch.testing.assert_close(a, b + 1)


@pytest.mark.gpu(2)
def test_the_tensors_device_counts(arch, flat):
    import torch

    kernel = loaded(flat, add_one(elements=1024), arch)
    for device in (1, 0, 1):
        a = torch.randn(1024, device=f"cuda:{device}")
        b = torch.zeros_like(a)
        kernel(a, b)
        torch.testing.assert_close(b, a + 1)


def test_a_launch_that_cannot_be_names_kernel_and_configuration(arch):
    unit = OnDevice('#include "tile_cuda.h"\nextern "C" __global__ void k(int* p) { *p = 1; }\n', arch)
    with pytest.raises(ToolchainError) as caught:
        unit.run("k", [np.zeros(1, np.int32)], threads=2048)
    assert caught.value.summary == "k: launch failed"
    assert caught.value.facts[0] == "configuration: grid (1, 1, 1), threads (2048, 1, 1), 0 bytes of shared memory"
