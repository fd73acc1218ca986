"""What users' modules, other processes and torch.compile do with kernels and jit functions besides calling them."""

import copy
import pickle
import subprocess
import sys

import numpy as np
import pytest
import torch

import tile_core as tile
import tile_core.language as T


@tile.jit(target="cpu")
def doubled(A):
    N = T.const("N")
    A: T.Tensor[[N], T.float32]
    B = T.empty((N,), T.float32)
    with T.Kernel(1):
        for i in T.Parallel(N):
            B[i] = A[i] * 2
    return B


@tile.op
@tile.jit(target="cpu")
def operator(A):
    N = T.const("N")
    A: T.Tensor[[N], T.float32]
    B = T.empty((N,), T.float32)
    with T.Kernel(1):
        for i in T.Parallel(N):
            B[i] = A[i] * 2
    return B


@tile.autotune(configs=[{"block": 8}])
@tile.jit(target="cpu")
def tuned(A, block=8):
    A: T.Tensor[[8], T.float32]
    with T.Kernel(1):
        A[0] = block


@tile.jit(target="cpu", out_idx=[1])
def tripled(N):
    @T.prim_func
    def triple(A: T.Tensor((N,), "float32"), B: T.Tensor((N,), "float32")):
        with T.Kernel(1):
            for i in T.Parallel(N):
                B[i] = A[i] * 3

    return triple


@pytest.mark.parametrize("name", ["doubled", "operator", "tuned", "tripled"])
def test_a_decorated_function_is_itself_in_copies_and_pickles(name):
    function = globals()[name]
    assert copy.copy(function) is function and copy.deepcopy({"held": function})["held"] is function
    assert pickle.loads(pickle.dumps(function)) is function


def test_a_function_that_its_name_does_not_find_cannot_be_pickled():
    other = tile.jit(doubled.function, target="cpu", pass_configs={})
    with pytest.raises(pickle.PicklingError, match="not the same object"):
        pickle.dumps(other)


class Layer(torch.nn.Module):
    def __init__(self, kernel):
        super().__init__()
        self.kernel, self.op = kernel, tile.op(kernel)
        self.weight = torch.nn.Parameter(torch.ones(8))

    def forward(self, x):
        return self.op(self.kernel(x) * self.weight.detach())


READER = """
import pickle, sys
import torch

kernel = pickle.load(open(sys.argv[1], "rb"))
assert kernel(torch.ones(8)).tolist() == [3.0] * 8 and kernel.get_tuner_result()[:2] == (0.5, {"block": 1})
print(kernel.origin)
"""


@pytest.mark.slow
def test_a_kernel_travels_to_another_process(tmp_path):
    kernel = tripled(8)
    layer = copy.deepcopy(Layer(kernel))
    assert layer.kernel is kernel and torch.equal(layer(torch.ones(8)), torch.full((8,), 9.0))
    again = pickle.loads(pickle.dumps(layer))
    assert torch.equal(again(torch.ones(8)), torch.full((8,), 9.0)) and again.kernel.key == kernel.key
    kernel.update_tuner_result(0.5, {"block": 1})
    (tmp_path / "kernel").write_bytes(pickle.dumps(kernel))
    run = subprocess.run([sys.executable, "-c", READER, str(tmp_path / "kernel")], capture_output=True, text=True)
    assert run.stdout.strip() == "disk", run.stderr


@pytest.mark.slow
@pytest.mark.parametrize("given", [doubled, "kernel"])
def test_torch_compile_breaks_its_graph_and_names_the_operator_where_it_must_not(given):
    function = tripled(8) if given == "kernel" else given
    x = torch.ones(8)
    expected = function(x + 1) + 1
    torch._dynamo.reset()
    assert torch.equal(torch.compile(lambda a: function(a + 1) + 1, backend="eager")(x), expected)
    with pytest.raises(torch._dynamo.exc.Unsupported, match=r"must be an operator: tile\.op"):
        torch.compile(lambda a: function(a + 1) + 1, backend="eager", fullgraph=True)(x)


def test_what_torch_func_and_nested_tensors_wrap_is_refused_by_name():
    kernel = tripled(8)
    with pytest.raises(tile.ArgumentError, match="E-ARG-STORAGE") as caught:
        torch.vmap(kernel)(torch.ones(2, 8))
    assert "a tensor inside a transform of torch.func" in str(caught.value) and "tile.op" in str(caught.value)
    with pytest.raises(tile.ArgumentError, match="E-ARG-STORAGE"):
        torch.func.grad(lambda a: kernel(a).sum())(torch.ones(8))
    with pytest.raises(tile.ArgumentError, match="A must be a dense tensor, got a nested tensor"):
        kernel(torch.nested.nested_tensor([torch.ones(4), torch.ones(4)]))
    with pytest.raises(tile.ArgumentError, match="A must be of type float32, got complex64"):
        kernel(torch.ones(8, dtype=torch.complex64))


def test_arrays_that_numpy_does_not_hand_over_are_refused_by_name():
    kernel = tripled(8)
    frozen = np.ones(8, np.float32)
    frozen.setflags(write=False)
    with pytest.raises(tile.ArgumentError, match="A must be a writable array, got a read-only array"):
        kernel(frozen)
    swapped = np.ones(8, np.dtype(np.float32).newbyteorder())
    with pytest.raises(tile.ArgumentError, match=r"A must be of type float32, got .f4 \(swapped bytes\)"):
        kernel(swapped)
