"""`compile` of a tuned function: the best configuration's kernel, for values and for sizes by name."""

import pytest
import torch

import tile_core as tile
import tile_core.language as T
from tile_core.errors import ArgumentError

CONFIGS = [{"block": 16}, {"block": 32}]


@tile.autotune(configs=CONFIGS, warmup=1, rep=2)
@tile.jit(target="cpu")
def negated(A, block: int = 64):
    N = T.const("N")
    A: T.Tensor[[N], T.float32]
    B = T.empty((N,), T.float32)
    with T.Kernel(T.ceildiv(N, block), threads=32) as bx:
        for i in T.Parallel(block):
            B[bx * block + i] = -A[bx * block + i]
    return B


@tile.autotune(configs=CONFIGS, warmup=1, rep=2)
@tile.jit(out_idx=-1, target="cpu")
def doubled(N, block=64):
    @T.prim_func
    def main(A: T.Tensor((N,), "float32"), B: T.Tensor((N,), "float32")):
        with T.Kernel(T.ceildiv(N, block), threads=32) as bx:
            for i in T.Parallel(block):
                B[bx * block + i] = A[bx * block + i] * 2.0

    return main


@pytest.mark.slow
@pytest.mark.parametrize(("function", "factor"), [(negated, -1.0), (doubled, 2.0)])
def test_the_best_configurations_kernel(function, factor):
    kernel, a = function.compile(N=96), torch.rand(96)
    assert torch.equal(kernel(a), a * factor)
    assert kernel.config in CONFIGS and kernel.latency > 0 and kernel.ref_latency is None
    assert function.compile(N=96) is kernel


def test_a_parameter_that_is_given_is_not_tuned():
    a = torch.rand(96)
    assert torch.equal(doubled.compile(N=96, block=48)(a), a * 2)
    kernel = negated.compile(N=96, block=48)
    assert torch.equal(kernel(a), -a) and kernel is negated.jit.compile(N=96, block=48)
    with pytest.raises(ArgumentError, match="M is neither a parameter"):
        negated.compile(N=96, M=4, block=48)
