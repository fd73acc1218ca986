"""Tuning on the CPU: what works is ranked, what misbehaves is a recorded failure, and nothing is measured twice."""

import json
import pickle
import warnings

import pytest
import torch

import tile_core as tile
import tile_core.language as T
from tile_core.errors import CacheWarning, InternalError, OptionError
from tile_core.settings import settings
from tile_runtime.parallel import _Worker
from tile_runtime.profile import TensorSupplyType
from tile_runtime.tune import TuneError
from tile_runtime.tune.process import MeasuringProcess, measure_here

CODE = """
#include <unistd.h>
#include <csignal>
static int misbehave(int how) {
  if (how == 1) raise(SIGSEGV);
  while (how == 2) sleep(1);
  return 0;
}
"""


@tile.jit(out_idx=[2], target="cpu")
def add(N, block=64, how=0):
    @T.prim_func
    def adder(A: T.Tensor((N,), "float32"), B: T.Tensor((N,), "float32"), C: T.Tensor((N,), "float32")):
        with T.Kernel(T.ceildiv(N, block)) as bx:
            T.import_source(CODE)
            if how in (1, 2):
                T.call_extern("void", "misbehave", how)
            for i in T.Parallel(block):
                C[bx * block + i] = A[bx * block + i] + B[bx * block + i] + (1.0 if how == 3 else 0.0)

    return adder


@tile.jit(target="cpu")
def scale(A, factor: float = 2.0, block: int = 64):
    N = T.const("N")
    A: T.Tensor[[N], T.float32]
    B = T.empty((N,), T.float32)
    with T.Kernel(T.ceildiv(N, block)) as bx:
        for i in T.Parallel(block):
            B[bx * block + i] = A[bx * block + i] * factor
    return B


def total(a, b):
    return a + b


total.cache_key = "total 1"


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory):
    # compiled kernels are shared by the tests of this file, results of tuning are not
    root = tmp_path_factory.getbasetemp() / "tile-tune-cache"
    with settings.scope(cache_dir=root):
        yield root
    for kept in root.glob("autotune/*/*.json"):
        kept.unlink()


def tuner(configs, **profile):
    made = tile.AutoTuner.from_kernel(add, configs).set_kernel_parameters((1000,))
    return made.set_profile_args(**{"warmup": 1, "rep": 2, "timeout": 60, **profile})


def states(result):
    return [trial.state for trial in result.trials]


class Recorder:
    """In place of a measuring process: answers by the rules of a test."""

    asked = []

    def __init__(self, replies):
        self.replies = replies

    def __call__(self):
        return self

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        pass

    def ask(self, job, timeout):
        self.asked.append(job)
        reply = self.replies(job) if callable(self.replies) else self.replies[len(self.asked) - 1]
        if isinstance(reply, BaseException):
            raise reply
        return reply


@pytest.fixture
def replies(monkeypatch):
    def use(given):
        recorder = Recorder(given)
        recorder.asked = []
        monkeypatch.setattr("tile_runtime.tune.tuner.MeasuringProcess", recorder)
        # what is not measured need not be compiled: only the best is, at the end
        monkeypatch.setattr("tile_runtime.tune.tuner._build", lambda unit, pool: None)
        return recorder

    return use


def ok(latency):
    return {"state": "ok", "latency": latency, "spread": (latency, latency)}


@pytest.mark.slow
def test_what_misbehaves_is_a_recorded_failure_and_the_rest_goes_on():
    configs = [{"block": 32}, *({"block": 64, "how": how} for how in (1, 2, 3)), {"block": 0}, {"block": 512}]
    result = tuner(configs, ref_prog=total, timeout=8).run(progress=False)
    assert states(result) == ["ok", "crashed", "timeout", "wrong", "failed", "ok"]
    reasons = [trial.reason for trial in result.trials]
    assert "SIGSEGV" in reasons[1] and "longer than 8 s" in reasons[2] and "C: 1000 of 1000" in reasons[3]
    assert "divides by 0" in reasons[4]
    assert result.config in (configs[0], configs[5]) and result.latency > 0 and result.ref_latency > 0
    a, b = torch.randn(1000), torch.randn(1000)
    torch.testing.assert_close(result.kernel(a, b), a + b)
    assert result.kernel.get_tuner_result() == (result.latency, result.config, result.ref_latency)
    report = result.report()
    assert report.splitlines()[1].startswith("  1") and "crashed    block=64, how=1" in report
    # every one of them is known next time, without a process
    again = tuner(configs, ref_prog=total, timeout=8).run(progress=False)
    assert states(again) == states(result) and again.latency == result.latency
    assert [t.origin for t in again.trials] == ["disk", "disk", "disk", "disk", "measured", "disk"]


def test_an_interrupted_run_goes_on_where_it_was(replies):
    configs = [{"block": block} for block in (16, 32, 64)]
    seen = replies([ok(3.0), KeyboardInterrupt()])
    with pytest.raises(KeyboardInterrupt):
        tuner(configs, ref_prog=total).run(progress=False)
    assert len(seen.asked) == 2
    seen = replies([ok(2.0), ok(1.0)])
    result = tuner(configs, ref_prog=total).run(progress=False)
    assert len(seen.asked) == 2 and sorted(t.latency for t in result.trials) == [1.0, 2.0, 3.0]
    assert sum(t.origin == "disk" for t in result.trials) == 1
    # another reference, tolerance, shape or supply is another result
    other = replies([ok(1.0)] * 12)
    changed = [
        tuner(configs, ref_prog=total, rtol=0.5),
        tuner(configs, ref_prog=total, supply_type=TensorSupplyType.One),
        tuner(configs, ref_prog=total).set_kernel_parameters((999,)),
        tuner(configs),
    ]
    for one in changed:
        one.run(progress=False)
    assert len(other.asked) == 12


def test_results_of_callbacks_without_a_key_are_not_kept(replies, own_cache):
    replies([ok(1.0)] * 2)
    with pytest.warns(CacheWarning, match="ref_prog may compute anything"):
        tuner([{"block": 16}], ref_prog=lambda a, b: a + b).run(progress=False)
    assert not list(own_cache.glob("autotune/*/*.json"))
    with settings.scope(autotune_disable_cache=True), warnings.catch_warnings():
        warnings.simplefilter("error")
        tuner([{"block": 16}], ref_prog=total).run(progress=False)
    assert not list(own_cache.glob("autotune/*/*.json"))


def test_what_is_kept_can_be_read_and_a_broken_file_is_measured_again(replies, own_cache):
    seen = replies([ok(1.0), ok(2.0)])
    tuner([{"block": 16}]).run(progress=False)
    (kept,) = own_cache.glob("autotune/*/*.json")
    row = json.loads(kept.read_text())
    assert row["latency"] == 1.0 and row["config"] == "{'block': 16}" and row["key"] == kept.stem
    assert tuner([{"block": 16}]).generate_cache_key({"block": 16}) == kept.stem
    for text in ("", "[]", kept.read_text().replace('"ok"', '"fine"'), kept.read_text().replace(kept.stem, "0" * 64)):
        kept.write_text(text)
        seen.asked.clear()
        assert tuner([{"block": 16}]).run(progress=False).trials[0].origin == "measured"


def test_early_stop_hands_on_the_best_so_far(replies):
    seen = replies(
        lambda job: ok(4.0) if "early_stop_baseline" not in job["profile"] else {"state": "slow", "latency": 9.0}
    )
    result = tuner([{"block": block} for block in (16, 32)]).run(early_stop=True, early_stop_factor=1.5, progress=False)
    assert [job["profile"].get("early_stop_baseline") for job in seen.asked] == [None, 6.0]
    assert sorted(states(result)) == ["ok", "slow"] and "9 ms at first sight" in result.report()


def test_a_pipelined_run_measures_while_others_compile(replies, monkeypatch):
    import threading

    seen = replies([ok(3.0), ok(2.0), ok(1.0)])
    measured = threading.Event()

    def build(unit, pool):
        if unit[0].trial.config == {"block": 64}:
            assert measured.wait(20), "nothing was measured while this one compiled"

    monkeypatch.setattr("tile_runtime.tune.tuner._build", build)
    ask = seen.ask

    def noting(job, timeout):
        measured.set()
        return ask(job, timeout)

    monkeypatch.setattr(seen, "ask", noting)
    result = tuner([{"block": block} for block in (16, 32, 64)]).run(use_pipeline=True, num_workers=3, progress=False)
    assert states(result) == ["ok", "ok", "ok"] and result.config == {"block": 64}


@pytest.mark.slow
def test_a_unit_is_compiled_by_one_process_and_a_bad_one_again_one_by_one(monkeypatch, tmp_path):
    units = []
    ask = _Worker.ask

    def counting(worker, message, name, timeout=None):
        jobs = pickle.loads(message)
        units.append(len(jobs))
        if len(jobs) == 3:
            worker._child.end()  # so that it ends before it is done
            raise InternalError("E-WORKER-DIED", "gone")
        return ask(worker, message, name, timeout)

    monkeypatch.setattr(_Worker, "ask", counting)
    measuring = Recorder(lambda job: ok(1.0))
    monkeypatch.setattr("tile_runtime.tune.tuner.MeasuringProcess", measuring)
    scope = settings.scope(cache_dir=tmp_path)
    configs = [{"block": block} for block in (20, 40, 60)] + [{"block": 0}, {"block": 80}]
    grouped = {"enable_grouped_compile": True, "num_workers": 1, "progress": False}
    with scope:
        result = tuner(configs[:2]).run(group_compile_size=2, **grouped)
        assert states(result) == ["ok", "ok"] and units == [2]
        result = tuner(configs[1:]).run(group_compile_size=4, use_pipeline=True, **grouped)
        assert states(result) == ["ok", "ok", "failed", "ok"] and units[1:] == [2], "only what is new is compiled"
        units.clear()
        result = tuner([{"block": block} for block in (12, 24, 48)]).run(group_compile_size=3, **grouped)
        assert states(result) == ["ok"] * 3 and units == [3, 1, 1, 1]


def test_several_devices_share_the_work(replies, monkeypatch):
    monkeypatch.setattr("tile_runtime.tune.tuner._devices", lambda todo, given, all_gpus: ["cuda:0", "cuda:1"])
    seen = replies(lambda job: ok(float(job["device"][-1]) + 1))
    result = tuner([{"block": block} for block in (8, 16, 32, 64, 128)]).run(progress=False)
    assert states(result) == ["ok"] * 5 and {job["device"] for job in seen.asked} <= {"cuda:0", "cuda:1"}
    assert len(seen.asked) == 5


def test_the_callers_own_check_decides(replies):
    import io

    saved = io.BytesIO()
    torch.save([torch.ones(3)], saved)
    replies([{**ok(1.0), "results": saved.getvalue()}, {**ok(2.0), "results": saved.getvalue()}])
    calls = []

    def check(results, expected):
        calls.append((results, expected))
        assert len(calls) < 2, "no more"

    check.cache_key = "check"
    result = tuner([{"block": 16}, {"block": 32}], ref_prog=total, manual_check_prog=check).run(progress=False)
    assert sorted(states(result)) == ["ok", "wrong"] and torch.equal(calls[0][0][0], torch.ones(3))
    assert calls[0][1][0].shape == (1000,)


def test_when_nothing_works_every_reason_is_told(replies):
    replies([{"state": "crashed", "reason": "the process was ended by SIGSEGV"}])
    with pytest.raises(TuneError) as caught:
        tuner([{"block": 16}, {"block": 0}]).run(progress=False)
    assert caught.value.code == "E-TUNE" and "block=16: crashed: the process was ended by SIGSEGV" in str(caught.value)
    assert "none of 2 configurations works" in str(caught.value)


def test_pass_options_may_be_part_of_a_configuration(replies):
    replies([ok(1.0)])
    with pytest.raises(TuneError, match=r"block=16, pass_configs=.*no\.such\.option.*: failed: E-"):
        tuner([{"block": 16, "pass_configs": {"no.such.option": 1}}]).run(progress=False)


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: tuner([]), "there are no configurations"),
        (lambda: tuner([{"blok": 1}]), "add has no parameter 'blok'"),
        (lambda: tuner([3]), "is no dict"),
        (lambda: tuner([{"block": 1}], timeout=0), "timeout=0"),
        (lambda: tuner([{"block": 1}], backend="clock"), "backend='clock'"),
        (lambda: tuner([{"block": 1}], supply_type=3), "supply_type=3"),
        (lambda: tuner([{"block": 1}], ref_prog=3), "ref_prog=3 cannot be called"),
        (lambda: tuner([{"block": 1}]).run(early_stop_factor=0.5), "early_stop_factor=0.5"),
        (lambda: tuner([{"block": 1}]).run(group_compile_size=0), "group_compile_size=0"),
        (lambda: tuner([{"block": 1}]).run(benchmark_multi_gpu=True, progress=False), "kernels for cpu are measured"),
        (lambda: tile.autotune(add, configs=[{"block": 1}], do_not_specialize=["M"]), "do_not_specialize names M"),
        (lambda: tile.autotune(lambda: 1, configs=[{"block": 1}]), "is no jit function"),
        (lambda: tile.autotune(configs=[{"x": 1}])(add), "add has no parameter 'x'"),
    ],
)
def test_wrong_arguments_are_named(make, text):
    with pytest.raises(OptionError) as caught:
        make()
    assert text in str(caught.value) and caught.value.code == "E-TUNE-OPTION"


def test_the_host_is_this_machine():
    assert tuner([{"block": 1}]).set_compile_args(target_host="c").run(progress=False).config == {"block": 1}
    with pytest.raises(tile.TargetError, match="E-TARGET-HOST"):
        tuner([{"block": 1}]).set_compile_args(target_host="llvm")


def test_the_number_of_supplied_inputs_is_checked(replies):
    replies([ok(1.0)])
    with (
        tile.set_autotune_inputs(torch.ones(3)),
        pytest.raises(OptionError, match="takes 2 inputs, and 1 are supplied"),
    ):
        tuner([{"block": 16}]).run(progress=False)
    assert tile.get_autotune_inputs() is None


def test_inputs_come_from_the_caller_or_a_supply(replies):
    seen = replies([ok(1.0)] * 3)
    mine = (torch.zeros(1000), torch.ones(1000))
    with tile.set_autotune_inputs(*mine):
        tuner([{"block": 16}]).run(progress=False)

    def supply(params):
        assert [param.name for param in params] == ["A", "B", "C"]
        return [torch.full(param.shape, 5.0) for param in params[:2]]

    supply.cache_key = "fives"
    tuner([{"block": 16}], supply_prog=supply).run(progress=False)
    assert len(seen.asked) == 2


@pytest.mark.slow
def test_a_decorated_factory_tunes_once_for_each_call_form():
    tuned = tile.autotune(add, configs=[{"block": 16}, {"block": 256}], warmup=1, rep=2)
    kernel = tuned(500)
    assert kernel is tuned(500) and kernel.config in ({"block": 16}, {"block": 256}) and kernel.latency > 0
    torch.testing.assert_close(kernel(torch.ones(500), torch.ones(500)), torch.full((500,), 2.0))
    assert tuned(500, block=32).config is None, "the caller has decided"
    assert tuned.result(500).kernel is kernel


def test_a_decorated_eager_function_is_measured_on_its_tensors(replies):
    seen = replies(lambda job: ok(float(len(job["function"]))))

    @tile.autotune(configs=lambda A, **rest: ({"block": size} for size in (16, 128 if len(A) > 100 else 32)))
    @tile.jit(target="cpu")
    def half(A, factor: float = 0.5, block: int = 64):
        N = T.const("N")
        A: T.Tensor[[N], T.float32]
        B = T.empty((N,), T.float32)
        with T.Kernel(T.ceildiv(N, block)) as bx:
            for i in T.Parallel(block):
                B[bx * block + i] = A[bx * block + i] * factor
        return B

    a = torch.randn(200)
    for _ in range(3):
        torch.testing.assert_close(half(a), a / 2)
    assert len(seen.asked) == 2
    torch.testing.assert_close(half(a, factor=3.0), a * 3)
    assert len(seen.asked) == 4
    torch.testing.assert_close(half(a, block=8), a / 2)
    torch.testing.assert_close(half(torch.ones(9)), torch.full((9,), 0.5))
    assert len(seen.asked) == 6
    assert half.result(a).config["block"] in (16, 128)


def test_values_that_need_no_tuning_of_their_own(replies):
    seen = replies([ok(1.0)])
    tuned = tile.autotune(scale, configs=[{"block": 16}], do_not_specialize=["factor"])
    a = torch.ones(64)
    assert tuned(a, factor=3.0)[0] == 3.0 and tuned(a, factor=4.0)[0] == 4.0
    assert len(seen.asked) == 1


@pytest.mark.slow
def test_a_dask_cluster_of_two_worker_processes_tunes(own_cache):
    import distributed

    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None) as cluster,
        distributed.Client(cluster) as client,
    ):
        configs = [{"block": 16}, {"block": 64, "how": 1}, {"block": 64, "how": 3}, {"block": 256}]
        with client.get_executor() as executor:
            result = tuner(configs, ref_prog=total).run(executor=executor, progress=False)
        assert states(result) == ["ok", "crashed", "wrong", "ok"]
        where = client.run(lambda: __import__("tile_runtime.tune.process").tune.process._own.started)
        assert len(where) == 2 and any(where.values())


def test_an_executor_that_fails_is_a_failure_of_the_configuration():
    from concurrent.futures import Future

    class Broken:
        def submit(self, function, payload):
            assert function is measure_here
            future = Future()
            future.set_exception(OSError("the machine is gone"))
            return future

    with pytest.raises(TuneError, match="the executor: OSError: the machine is gone"):
        tuner([{"block": 16}]).run(executor=Broken(), progress=False)


def test_a_process_that_cannot_start_says_so(monkeypatch):
    import subprocess
    import sys

    def start(module):
        return subprocess.Popen([sys.executable, "-c", "exit(3)"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    monkeypatch.setattr("tile_runtime.child.start_module", start)
    with MeasuringProcess() as process:
        reply = process.ask({}, 5)
    assert reply["state"] == "failed" and "exit code 3" in reply["reason"]


@pytest.mark.gpu
def test_a_gpu_kernel_that_breaks_its_context_or_never_ends_breaks_only_its_process():
    code = """
__device__ void misbehave(int how) {
  if (how == 1) *(volatile int*)8 = 1;
  while (how == 2) __nanosleep(1000);
}
"""

    @tile.jit(out_idx=[1], target="cuda")
    def double(N, block=256, how=0):
        @T.prim_func
        def doubler(A: T.Tensor((N,), "float32"), C: T.Tensor((N,), "float32")):
            with T.Kernel(T.ceildiv(N, block), threads=128) as bx:
                T.import_source(code)
                if how in (1, 2):
                    T.call_extern("void", "misbehave", how)
                for i in T.Parallel(block):
                    C[bx * block + i] = A[bx * block + i] * (2.0 if how != 3 else 3.0)

        return doubler

    def reference(a):
        return a * 2

    reference.cache_key = "double"
    configs = [{"how": 1}, {"how": 2}, {"how": 3}, {"block": 512}, {"block": 1024}]
    made = tile.AutoTuner.from_kernel(double, configs).set_kernel_parameters((1 << 20,))
    result = made.set_profile_args(ref_prog=reference, timeout=20).run(progress=False)
    assert states(result) == ["failed", "timeout", "wrong", "ok", "ok"]
    assert "illegal" in result.trials[0].reason.lower() or "address" in result.trials[0].reason.lower()
    a = torch.randn(1 << 20, device="cuda")
    torch.testing.assert_close(result.kernel(a), a * 2)
