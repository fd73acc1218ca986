"""Kernels on side streams, in graphs, from several threads and on a second GPU, through both execution backends."""

from __future__ import annotations

import threading

import pytest
import torch

import tile_core as tile
import tile_core.language as T
from tile_core.errors import ArgumentError
from tile_cuda.testing import tiles

pytestmark = pytest.mark.gpu

BACKENDS = ["tvm_ffi", "nvrtc"]
SLEEP = 50_000_000  # cycles: some 30 ms, which a launch that does not wait would not see


def scale(n: int):
    @T.prim_func
    def main(A: T.Tensor((n,), "float32"), B: T.Tensor((n,), "float32"), factor: T.float32):
        with T.Kernel(T.ceildiv(n, 256), threads=128) as bx:
            for i in T.Parallel(256):
                B[bx * 256 + i] = A[bx * 256 + i] * factor

    return main


@pytest.fixture(params=BACKENDS)
def backend(request):
    return request.param


@pytest.fixture
def scaling(backend):
    return tile.compile(scale(4096), target="cuda", execution_backend=backend)


@pytest.fixture
def product(backend):
    """A pipelined gemm with more than 48 KB of shared memory, 256 x 256 x 512."""
    function = tiles.tiled_gemm(256, 256, 512, (128, 128, 32), stages=4)
    return tile.compile(function, target="cuda", execution_backend=backend)


def halves(*shape: int, device: int = 0):
    return torch.randn(*shape, device=f"cuda:{device}").half()


def close(c, a, b):
    torch.testing.assert_close(c, a.float() @ b.float(), rtol=1e-2, atol=1e-1)


def test_a_launch_goes_to_the_current_stream(scaling):
    a, b = torch.zeros(4096, device="cuda"), torch.zeros(4096, device="cuda")
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        torch.cuda._sleep(SLEEP)
        a.fill_(3)
        scaling(a, b, 2.0)
    stream.synchronize()
    assert b.eq(6).all()


def test_launches_on_two_streams_wait_by_events_only(scaling):
    a, b, c = (torch.zeros(4096, device="cuda") for _ in range(3))
    first, second = torch.cuda.Stream(), torch.cuda.Stream()
    torch.cuda.synchronize()
    with torch.cuda.stream(first):
        torch.cuda._sleep(SLEEP)
        a.fill_(1)
        scaling(a, b, 3.0)
        ready = first.record_event()
    with torch.cuda.stream(second):
        second.wait_event(ready)
        scaling(b, c, 5.0)
    torch.cuda.synchronize()
    assert c.eq(15).all()


@pytest.mark.parametrize("warm", [True, False], ids=["loaded before", "loaded while capturing"])
def test_a_graph_of_kernels_is_replayed_with_new_inputs(product, scaling, warm):
    a, b, c = halves(256, 512), halves(512, 256), torch.zeros(256, 256, device="cuda")
    x, y = torch.randn(4096, device="cuda"), torch.zeros(4096, device="cuda")
    if warm:
        product(a, b, c)
        scaling(x, y, 1.0)
        torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        product(a, b, c)
        scaling(x, y, 2.0)
        scaling(y, x, 0.25)
    for _ in range(3):
        a.copy_(halves(256, 512))
        before = x.clone()
        graph.replay()
        torch.cuda.synchronize()
        close(c, a, b)
        assert torch.equal(x, before / 2)


def test_outputs_that_the_call_allocates_live_in_the_graph(backend):
    kernel = tile.compile(
        tiles.tiled_gemm(256, 256, 512, (128, 128, 32)), out_idx=[-1], target="cuda", execution_backend=backend
    )
    a, b = halves(256, 512), halves(512, 256)
    kernel(a, b)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        c = kernel(a, b)
    a.copy_(halves(256, 512))
    graph.replay()
    torch.cuda.synchronize()
    close(c, a, b)


def test_threads_launch_on_streams_of_their_own(product):
    failed = []

    def work(seed: int) -> None:
        try:
            torch.cuda.set_device(0)
            with torch.cuda.stream(torch.cuda.Stream()):
                for _ in range(20):
                    a, b, c = halves(256, 512), halves(512, 256), torch.zeros(256, 256, device="cuda")
                    product(a, b, c)
                    close(c, a, b)
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed, failed[0]


# Two GPUs.


@pytest.fixture
def back():
    """The first device is the current one again after the test."""
    yield
    torch.cuda.set_device(0)


@pytest.mark.gpu(2)
def test_the_device_of_the_tensors_counts_not_the_current_one(back, product):
    for current, device in ((0, 1), (1, 0), (0, 0), (1, 1), (0, 1)):
        torch.cuda.set_device(current)
        a, b = halves(256, 512, device=device), halves(512, 256, device=device)
        c = torch.zeros(256, 256, device=f"cuda:{device}")
        torch.cuda.synchronize(device)
        product(a, b, c)
        torch.cuda.synchronize(device)
        close(c, a, b)
        assert torch.cuda.current_device() == current


@pytest.mark.gpu(2)
def test_a_callee_allocates_where_the_inputs_are(back, backend):
    kernel = tile.compile(
        tiles.tiled_gemm(256, 256, 512, (128, 128, 32)), out_idx=[-1], target="cuda", execution_backend=backend
    )
    for device in (1, 0):
        a, b = halves(256, 512, device=device), halves(512, 256, device=device)
        c = kernel(a, b)
        assert c.device == a.device
        close(c, a, b)


@pytest.mark.gpu(2)
def test_tensors_on_two_devices_are_refused(back, scaling):
    with pytest.raises(ArgumentError) as caught:
        scaling(torch.zeros(4096, device="cuda:0"), torch.zeros(4096, device="cuda:1"), 1.0)
    assert caught.value.code == "E-ARG-DEVICE"


@pytest.mark.gpu(2)
def test_each_device_has_a_stream_and_a_graph(back, scaling):
    held = []
    for device in (0, 1):
        torch.cuda.set_device(device)
        a, b = torch.ones(4096, device=f"cuda:{device}"), torch.zeros(4096, device=f"cuda:{device}")
        stream = torch.cuda.Stream(device)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            scaling(a, b, 7.0)
        held.append((device, graph, a, b))
    for device, graph, a, b in held:
        with torch.cuda.device(device):
            a.fill_(device + 2)
            graph.replay()
            torch.cuda.synchronize(device)
        assert b.eq(7 * (device + 2)).all()


def test_both_devices_work_at_once_from_two_threads(two, product):
    failed = []

    def work(device: int) -> None:
        try:
            torch.cuda.set_device(device)
            with torch.cuda.stream(torch.cuda.Stream(device)):
                for _ in range(20):
                    a, b = halves(256, 512, device=device), halves(512, 256, device=device)
                    c = torch.zeros(256, 256, device=f"cuda:{device}")
                    product(a, b, c)
                    close(c, a, b)
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=work, args=(device,)) for device in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed, failed[0]


def test_a_product_split_over_two_devices(two, backend):
    """Half of the rows on each; the halves meet on the first device."""
    function = tiles.tiled_gemm(128, 256, 512, (128, 128, 32), stages=3)
    kernel = tile.compile(function, target="cuda", execution_backend=backend)
    a, b = halves(256, 512), halves(512, 256)
    parts = []
    for device in (0, 1):
        own = a[device * 128 : (device + 1) * 128].to(f"cuda:{device}")
        c = torch.zeros(128, 256, device=f"cuda:{device}")
        kernel(own, b.to(f"cuda:{device}"), c)
        parts.append(c)
    close(torch.cat([p.to("cuda:0") for p in parts]), a, b)
