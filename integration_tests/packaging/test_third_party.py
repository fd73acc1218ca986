"""acme-tile: a backend written outside the repository, installed as a wheel, compiles and runs kernels."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tools.workspace import ROOT

pytestmark = pytest.mark.slow

KERNELS = """
import torch
import tile_core as tile
import tile_core.language as T


def matmul(M, N, K, block_M=32, block_N=32, block_K=16):
    @T.prim_func
    def kernel(A: T.Tensor((M, K), T.float32), B: T.Tensor((K, N), T.float32), C: T.Tensor((M, N), T.float32)):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=128) as (bx, by):
            A_shared = T.alloc_shared((block_M, block_K), T.float32)
            B_shared = T.alloc_shared((block_K, block_N), T.float32)
            C_local = T.alloc_fragment((block_M, block_N), T.float32)
            T.clear(C_local)
            for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=2):
                T.copy(A[by * block_M, k * block_K], A_shared)
                T.copy(B[k * block_K, bx * block_N], B_shared)
                T.gemm(A_shared, B_shared, C_local)
            T.copy(C_local, C[by * block_M, bx * block_N])

    return kernel


def softmax(M, N, dtype=T.float32):
    @T.prim_func
    def kernel(X: T.Tensor((M, N), dtype), Y: T.Tensor((M, N), dtype)):
        with T.Kernel(M, threads=64) as row:
            x = T.alloc_fragment((1, N), dtype)
            peak = T.alloc_fragment((1,), dtype)
            total = T.alloc_fragment((1,), dtype)
            T.copy(X[row, 0], x)
            T.reduce_max(x, peak, dim=1)
            for i, j in T.Parallel(1, N):
                x[i, j] = T.exp(x[i, j] - peak[i])
            T.reduce_sum(x, total, dim=1)
            for i, j in T.Parallel(1, N):
                x[i, j] = x[i, j] / total[i]
            T.copy(x, Y[row, 0])

    return kernel
"""

RUN = (
    KERNELS
    + """
a, b = torch.randn(70, 45), torch.randn(45, 50)
kernel = tile.compile(matmul(70, 50, 45), out_idx=[-1], target="acme")
torch.testing.assert_close(kernel(a, b), a @ b, rtol=1e-4, atol=1e-4)

x = torch.randn(5, 37)
torch.testing.assert_close(tile.compile(softmax(5, 37), out_idx=[-1], target="acme")(x), torch.softmax(x, 1))

native = tile.compile(matmul(70, 50, 45), out_idx=[-1], target="acme", execution_backend="acme_native")
torch.testing.assert_close(native(a, b), a @ b, rtol=1e-4, atol=1e-4)
print("agrees with torch")
"""
)

WRONG = (
    KERNELS
    + """
from tile_core.errors import TileError

kernel = tile.compile(matmul(70, 50, 45), out_idx=[-1], target="acme")
for attempt in (
    lambda: kernel(torch.randn(70, 44), torch.randn(45, 50)),
    lambda: tile.compile(softmax(5, 37, T.float16), target="acme"),
    lambda: tile.compile(softmax(5, 37), target="acme -fast=1"),
    lambda: tile.compile(softmax(5, 37), target="acme", execution_backend="acme_nativ"),
):
    try:
        attempt()
    except TileError as error:
        print(type(error).__name__, error.code)
"""
)


@pytest.fixture
def acme(clean_environment, acme_wheel):
    """Core, the runtime and acme; none of our own backends."""
    return clean_environment("tile-core", "tile-runtime", acme_wheel)


def test_its_wheel_comes_from_nothing_but_core():
    """Star topology holds outside too: acme imports tile_core alone."""
    source = ROOT / "integration_tests" / "packaging" / "acme_backend" / "src"
    code = "import sys; import acme_tile.plugin; print([m for m in sys.modules if m.startswith('tile_')])"
    done = subprocess.run([sys.executable, "-c", code], cwd=source, capture_output=True, text=True, check=True)
    assert all(module.split(".")[0] == "'tile_core" or "tile_core" in module for module in done.stdout.split(","))


def test_it_compiles_and_runs_kernels_that_agree_with_torch(acme):
    assert acme.script(RUN).stdout == "agrees with torch\n"


def test_a_second_process_finds_its_kernels_on_disk(acme):
    acme.script(RUN)
    told = acme.script(RUN, TILE_VERBOSE="1")
    assert told.stdout.endswith("agrees with torch\n")
    assert "found on disk" in told.stderr + told.stdout


def test_wrong_use_raises_typed_errors_of_core_and_of_its_own(acme):
    assert acme.script(WRONG).stdout.splitlines() == [
        "ArgumentError E-ARG-SHAPE",
        "CompileError E-ACME-DTYPE",
        "TargetError E-TARGET-OPTION",
        "OptionError E-EXECUTION-BACKEND",
    ]


def test_tile_info_lists_it_with_its_version(acme):
    told = acme.run("tile", "info").stdout
    assert "acme" in told and "acme-tile" in told and "1.0.0" in told


def test_removing_the_wheel_removes_the_backend(acme):
    acme.pip("uninstall", "-q", "-y", "acme-tile")
    assert "acme" not in acme.run("tile", "info").stdout
