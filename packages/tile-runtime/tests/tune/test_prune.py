"""What is left out without compiling, and which configurations are suggested."""

import pytest

import tile_core as tile
import tile_core.language as T
from tile_core.plugin import registry
from tile_core.target import Target
from tile_runtime.tune import attention_configs, elementwise_configs, matmul_configs
from tile_runtime.tune.prune import DeviceLimits, Estimate, estimate, limits_for, losers
from tile_runtime.tune.tuner import AutoTuner


@tile.jit(target="cuda -arch=sm_80")
def gemm(M, N, K, block_M=128, block_N=128, block_K=32, num_stages=3, threads=128):
    @T.prim_func
    def matmul(A: T.Tensor((M, K), "float16"), B: T.Tensor((K, N), "float16"), C: T.Tensor((M, N), "float16")):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=threads) as (bx, by):
            a = T.alloc_shared((block_M, block_K), "float16")
            b = T.alloc_shared((block_K, block_N), "float16")
            acc = T.alloc_fragment((block_M, block_N), "float32")
            T.clear(acc)
            for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=num_stages):
                T.copy(A[by * block_M, k * block_K], a)
                T.copy(B[k * block_K, bx * block_N], b)
                T.gemm(a, b, acc)
            T.copy(acc, C[by * block_M, bx * block_N])

    return matmul


LIMITS = DeviceLimits(163 << 10, processors=108, processor_shared=164 << 10, bandwidth=6e12, rates={"float16": 312e12})


def needs(**config):
    return estimate(gemm.trace(1024, 1024, 1024, **config), LIMITS)


def test_tiles_of_a_pipeline_count_once_for_each_stage():
    assert needs().shared == 3 * (128 * 32 + 32 * 128) * 2
    assert needs(num_stages=0).shared == 0, "one copy of each may share memory with others"
    over = needs(block_K=128, num_stages=3)
    assert over.refusal == "192.0 KiB of shared memory in a pipelined loop; a block can have 163 KiB"


def test_accumulators_count_as_registers():
    assert needs().registers == 128 and needs(threads=256).registers == 64
    over = needs(block_M=256, block_N=256)
    assert over.refusal == "accumulators take 512 registers of each thread; there are 255"


def test_threads_are_limited():
    small = DeviceLimits(64 << 10, block_threads=64)
    assert estimate(gemm.trace(64, 64, 64), small).refusal == "128 threads in a block; it can have 64"


def test_the_bound_follows_traffic_occupancy_and_waves():
    one = needs()
    assert one.occupancy == 3 and one.waves == pytest.approx(64 / (3 * 108)) and one.milliseconds > 0
    small = needs(block_M=16, block_N=16)
    assert small.work.asked > 4 * one.work.asked and small.milliseconds > one.milliseconds


def test_losers_are_told_against_whom():
    found = losers([Estimate(milliseconds=1.0), Estimate(milliseconds=4.1), Estimate(refusal="no"), None, Estimate()])
    assert list(found) == [1] and found[1].startswith("cannot be faster than 4.1 ms") and "bound is 1 ms" in found[1]
    assert losers([Estimate(milliseconds=9.0)]) == {}


def test_limits_are_those_of_the_target():
    assert limits_for(Target("cpu")) is None
    hopper = limits_for(Target("cuda", {"arch": "sm_90a"}))
    assert hopper.block_shared == 227 << 10 and hopper.processors >= 1


def test_the_tuner_prunes_without_compiling(monkeypatch):
    monkeypatch.setattr("tile_runtime.tune.prune.limits_for", lambda target: LIMITS)
    monkeypatch.setattr("tile_runtime.tune.tuner.limits_for", lambda target: LIMITS)
    configs = [
        {"block_K": 128},
        {"block_K": 32},
        {"block_M": 256, "block_N": 256, "block_K": 16},
        {"block_M": 16, "block_N": 16},
    ]
    tuner = AutoTuner.from_kernel(gemm, configs).set_kernel_parameters((8192, 8192, 8192))
    from tile_runtime.tune.result import Trial

    candidates = tuner._traced([Trial(config) for config in configs])
    tuner._prune(candidates)
    assert [c.trial.state for c in candidates] == ["pruned", "", "pruned", "pruned"]
    assert "shared memory" in candidates[0].trial.reason and "cannot be faster" in candidates[3].trial.reason
    tuner.prune = False
    candidates = tuner._traced([Trial(config) for config in configs])
    tuner._prune(candidates)
    assert not any(c.trial.state for c in candidates)


@pytest.mark.parametrize("target", ["cuda -arch=sm_80", "cuda -arch=sm_90a", "cuda -arch=sm_75", "cpu"])
def test_suggestions_fit_the_target(target):
    limits = limits_for(registry.resolve_target(target)[1])
    found = matmul_configs(4096, 4096, 4096, "float16", target)
    assert len(found) == 10 and len({tuple(c.items()) for c in found}) == 10
    for config in found:
        if limits is not None:
            tiles = (config["block_M"] + config["block_N"]) * config["block_K"] * 2 * config["num_stages"]
            assert tiles <= limits.block_shared
    assert len(matmul_configs(4096, 4096, 4096, "float16", target, topk=3)) == 3
    assert all(config["block_M"] <= 64 for config in matmul_configs(16, 4096, 4096, "float16", target))
    assert attention_configs(4096, 4096, 128, "float16", target)
    assert elementwise_configs(1 << 24, "float32", target)[0]["block_N"] % 128 == 0


def test_suggestions_are_configurations_of_the_examples_gemm():
    names = set(matmul_configs(512, 512, 512, "float32", "cpu")[0])
    assert names == {"block_M", "block_N", "block_K", "num_stages", "threads"}
