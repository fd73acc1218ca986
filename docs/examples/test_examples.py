"""The examples compute what torch computes, on sizes that the demo does not show: on the CPU, and as CUDA in the
emulator; their CUDA compiles to machine code. Some kernels are interpreted as well."""

import importlib.util
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch

import tile_runtime.jit
from tile_core.interpreter import interpret
from tile_core.settings import settings
from tile_core.testing.compare import assert_close

HERE = Path(__file__).parent
EXAMPLES = sorted(path.stem for path in HERE.glob("*.py") if "\ndef cases(small" in path.read_text(encoding="utf-8"))
# Quick enough to be emulated whenever tests run.
QUICK = {"gemm_splitk", "quantise", "topk", "attention_varlen"}
OFTEN = [pytest.param(n, marks=() if n in QUICK else pytest.mark.slow) for n in EXAMPLES]


def load(name):
    """An example as a module."""
    spec = importlib.util.spec_from_file_location(f"example_{name}", HERE / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def check(kernel, reference, inputs, terms):
    ours, theirs = kernel(*inputs), reference(*inputs)
    assert ours.dtype == theirs.dtype
    scale = max(1.0, float(theirs.abs().max()))
    assert_close(ours, theirs, reduction=terms, scale=scale)


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)


def run_small(name):
    """Checks the small cases of an example; modules are loaded anew, as they keep the kernels that they compiled."""
    example, shared = load(name), load("_run")
    with warnings.catch_warnings():
        # That a race is not disproved is said once; here there is none.
        warnings.simplefilter("ignore")
        for case in example.cases(small=True):
            shared.check(name, case)


def test_there_is_an_example_for_every_kind_of_kernel():
    assert len(EXAMPLES) >= 25


@pytest.mark.parametrize("name", OFTEN)
def test_an_example_on_the_cpu(name):
    with settings.scope(default_target="cpu"):
        run_small(name)


@pytest.mark.layer("emulation")
@pytest.mark.parametrize("name", OFTEN)
def test_an_example_as_cuda(name, monkeypatch, tmp_path):
    """Emulated, and through the device compiler."""
    from tile_cuda.toolchain.nvrtc import compile_device

    arch = getattr(load(name), "ARCH", "sm_80")
    kernels = []
    compile_kernel = tile_runtime.jit.compile_kernel

    def recorded(function, options):
        kernels.append(compile_kernel(function, options))
        return kernels[-1]

    monkeypatch.setattr(tile_runtime.jit, "compile_kernel", recorded)
    with settings.scope(default_target=f"cuda -arch={arch}", execution_backend="emulate", cache_dir=tmp_path):
        run_small(name)
    assert kernels
    for kernel in kernels:
        assert compile_device(kernel.get_kernel_source(), arch).cubin[:4] == b"\x7fELF"


@pytest.mark.gpu
@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_on_a_gpu(name):
    with torch.device("cuda"):
        run_small(name)


@pytest.mark.parametrize(("m", "n", "k"), [(1, 1, 1), (128, 128, 32), (129, 65, 33), (100, 300, 7), (31, 17, 500)])
def test_gemm(m, n, k):
    gemm = load("gemm")
    check(gemm.matmul(m, n, k), gemm.reference, (torch.randn(m, k), torch.randn(k, n)), k)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_gemm_in_other_types(dtype):
    gemm = load("gemm")
    a, b = (torch.randn(shape).to(getattr(torch, dtype)) for shape in ((200, 100), (100, 300)))
    check(gemm.matmul(200, 300, 100, dtype=dtype), gemm.reference, (a, b), 100)


@pytest.mark.parametrize(("m", "n"), [(1, 1), (4, 128), (5, 1000), (33, 257)])
def test_softmax(m, n):
    softmax = load("softmax")
    check(softmax.softmax(m, n), softmax.reference, (torch.randn(m, n) * 10,), n)


@pytest.mark.parametrize(("m", "n"), [(1, 1), (4, 128), (5, 1000), (33, 257)])
def test_rmsnorm(m, n):
    rmsnorm = load("rmsnorm")
    check(rmsnorm.rmsnorm, rmsnorm.reference, (torch.randn(m, n), torch.randn(n)), n)


@pytest.mark.parametrize("n", [1, 4096, 10_001])
def test_a_chain_of_element_wise_operations(n):
    elementwise = load("elementwise")
    check(elementwise.gated, elementwise.reference, (torch.randn(n), torch.randn(n)), 1)


ATTENTION = [
    # batch, heads, kv heads, queries, keys, dim, causal
    (1, 1, 1, 64, 64, 64, False),
    (1, 2, 2, 64, 64, 64, True),
    (2, 4, 2, 50, 77, 32, False),
    (1, 6, 2, 130, 130, 64, True),
    (1, 2, 1, 1, 200, 64, False),
    (1, 2, 2, 200, 1, 64, False),
    (1, 2, 2, 65, 129, 128, True),
    (1, 2, 2, 129, 65, 16, True),
]


@pytest.mark.parametrize("shape", ATTENTION, ids=str)
def test_flash_attention(shape):
    flash = load("flash_attention")
    batch, heads, kv_heads, queries, keys, dim, causal = shape
    q = torch.randn(batch, heads, queries, dim)
    k, v = torch.randn(batch, kv_heads, keys, dim), torch.randn(batch, kv_heads, keys, dim)
    check(flash.attention(*shape), flash.reference(causal), (q, k, v), keys)


@pytest.mark.parametrize("shape", ATTENTION[2:4], ids=str)
def test_flash_attention_means_that_before_it_is_compiled(shape):
    flash = load("flash_attention")
    batch, heads, kv_heads, queries, keys, dim, causal = shape
    rng = np.random.default_rng(0)
    q = rng.standard_normal((batch, heads, queries, dim), dtype=np.float32)
    k, v = (rng.standard_normal((batch, kv_heads, keys, dim), dtype=np.float32) for _ in range(2))
    o = np.empty_like(q)
    interpret(flash.attention.trace(*shape), q, k, v, o, check_written=True)
    assert_close(o, flash.reference(causal)(*map(torch.from_numpy, (q, k, v))), reduction=keys)


def test_large_scores_do_not_overflow():
    flash = load("flash_attention")
    q, k, v = (torch.randn(1, 1, 100, 64) * 30 for _ in range(3))
    ours = flash.attention(1, 1, 1, 100, 100, 64)(q, k, v)
    assert torch.isfinite(ours).all()
    assert_close(ours, flash.reference(False)(q, k, v), "float32", reduction=100, scale=100.0)


def test_the_page_names_every_example():
    page = (HERE.parent / "examples.md").read_text(encoding="utf-8")
    assert [name for name in EXAMPLES if f"`{name}`" not in page] == []
