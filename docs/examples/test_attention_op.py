"""The attention operator and its gradients: against torch, against finite differences, and as torch sees it."""

import importlib.util
from pathlib import Path

import pytest
import torch


@pytest.fixture(scope="module")
def example():
    spec = importlib.util.spec_from_file_location("attention_op", Path(__file__).with_name("attention_op.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def inputs(rows, keys, dim=32, dtype=torch.float32):
    torch.manual_seed(0)
    make = lambda extent: torch.randn(2, 2, extent, dim, dtype=dtype, device=DEVICE, requires_grad=True)  # noqa: E731
    return make(rows), make(keys), make(keys)


@pytest.mark.parametrize(("rows", "keys", "causal"), [(64, 64, False), (100, 70, False), (70, 70, True)])
def test_gradients_are_those_of_torch(example, rows, keys, causal):
    q, k, v = inputs(rows, keys)
    o, lse = example.attention(q, k, v, causal)
    weight, lse_weight = torch.randn_like(o), torch.randn_like(lse)
    ours = torch.autograd.grad((o * weight).sum() + (lse * lse_weight).sum(), (q, k, v))
    scores = q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5
    if causal:
        scores = scores.masked_fill(~torch.ones(rows, keys, dtype=torch.bool, device=DEVICE).tril(), float("-inf"))
    expected, expected_lse = scores.softmax(-1) @ v, scores.logsumexp(-1)
    theirs = torch.autograd.grad((expected * weight).sum() + (expected_lse * lse_weight).sum(), (q, k, v))
    torch.testing.assert_close(o, expected)
    torch.testing.assert_close(lse, expected_lse)
    torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("causal", [False, True])
def test_gradients_pass_gradcheck(example, causal):
    torch.manual_seed(0)
    q, k, v = (torch.randn(1, 1, 5, 4, dtype=torch.float64, device=DEVICE, requires_grad=True) for _ in range(3))
    assert torch.autograd.gradcheck(lambda *args: example.attention(*args, causal, 16, 16), (q, k, v))


@pytest.mark.slow
def test_opcheck_is_clean_and_the_graph_has_no_break(example):
    q, k, v = inputs(40, 40)
    form = example.attention.form(q, k, v, True)
    torch.library.opcheck(form.overload, (q, k, v, True, 64, 64))

    def loss(q, k, v):
        return example.attention(q, k, v, True)[0].square().sum()

    ours = torch.autograd.grad(torch.compile(loss, fullgraph=True)(q, k, v), (q, k, v))
    torch.testing.assert_close(ours, torch.autograd.grad(loss(q, k, v), (q, k, v)))
