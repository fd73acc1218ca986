"""do_bench: counts, summaries, bad requests."""

import time

import pytest

from tile_core.errors import OptionError
from tile_runtime.profile import do_bench
from tile_runtime.profile.bench import summarize


def test_a_sleep_takes_as_long_as_it_sleeps():
    assert 2.0 <= do_bench(lambda: time.sleep(0.002), n_warmup=1, n_repeat=5, backend="wall", return_mode="min") < 20


def test_counts_are_kept():
    calls = []
    do_bench(lambda: calls.append(1), n_warmup=3, n_repeat=7, backend="wall")
    assert len(calls) == 2 + 3 + 7  # one that may compile, one to estimate


def test_budgets_become_counts():
    calls = []

    def work():
        calls.append(1)
        time.sleep(0.005)

    do_bench(work, warmup=20, rep=50, backend="wall")
    assert 2 + 2 + 5 <= len(calls) <= 2 + 4 + 10


@pytest.mark.parametrize(("mode", "value"), [("mean", 3.0), ("median", 2.0), ("min", 1.0), ("max", 6.0)])
def test_return_modes(mode, value):
    assert summarize([6.0, 1.0, 2.0], None, mode) == value


def test_quantiles_interpolate_and_one_comes_alone():
    assert summarize([4.0, 1.0, 2.0, 3.0], [0.0, 0.5, 1.0]) == [1.0, 2.5, 4.0]
    assert summarize([4.0, 1.0, 2.0, 3.0], [0.5]) == 2.5


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"return_mode": "best"}, "error[E-BENCH]: do_bench: return_mode='best'\n   allowed: mean, median, min, max"),
        ({"backend": "clock"}, "error[E-BENCH]: do_bench: backend='clock'\n   allowed: auto, wall, event"),
        ({"quantiles": [2]}, "error[E-BENCH]: do_bench: quantile 2\n   allowed: numbers from 0 to 1"),
    ],
)
def test_a_bad_request_says_what_is_allowed(options, text):
    with pytest.raises(OptionError) as caught:
        do_bench(lambda: None, **options)
    assert str(caught.value) == text


def test_events_without_a_device_are_refused(monkeypatch):
    import torch

    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(OptionError, match="needs a CUDA device"):
        do_bench(lambda: None, backend="event")
