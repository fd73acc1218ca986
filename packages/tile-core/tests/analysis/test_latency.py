"""The latency model: its figures, what each synchronisation costs, boundaries."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tile_core.analysis.latency import PROTOCOLS, Costs, Rates, estimate

COSTS = Costs(issue=1, latency=30, compute=20, barrier=8)


@pytest.mark.parametrize(("depth", "cycles"), [(3, [350, 350, 388, 478, 628]), (6, [350, 350, 358, 478, 628])])
def test_sixteen_iterations_take_so_many_cycles(depth, cycles):
    assert [estimate(COSTS, depth, 16, protocol).cycles for protocol in PROTOCOLS] == cycles


@pytest.mark.parametrize(("depth", "steps"), [(3, [20.0, 20.0, 22.6, 28.0, 38.0]), (6, [20.0, 20.0, 20.0, 28.0, 38.0])])
def test_in_the_steady_state_an_iteration_takes_so_many(depth, steps):
    assert [round(estimate(COSTS, depth, 16, protocol).step, 1) for protocol in PROTOCOLS] == steps


def test_copies_that_are_waited_for_cost_their_whole_latency():
    assert estimate(Costs(latency=120), 3, 16, "sync-copy").step == 128


def test_one_version_takes_turns():
    one = estimate(COSTS, 1, 4, "war")
    assert one.step == COSTS.latency + COSTS.compute + COSTS.barrier


def test_no_iteration_takes_no_time():
    assert estimate(COSTS, 3, 0).cycles == 0 and estimate(COSTS, 3, 0).step == 0
    assert estimate(COSTS, 3, 1).step == estimate(COSTS, 3, 1).cycles == 58


@pytest.mark.parametrize("wrong", [{"depth": 0}, {"trips": -1}, {"protocol": "hope"}])
def test_what_cannot_be_estimated_is_refused(wrong):
    with pytest.raises(ValueError, match=r"protocols: none, war"):
        estimate(COSTS, **{"depth": 2, "trips": 3, "protocol": "war", **wrong})
    with pytest.raises(ValueError, match=r"latency=-1"):
        Costs(latency=-1)


def test_work_becomes_cycles():
    costs = Rates(latency=500, barrier=9).costs(16384, 128 * 128 * 32, 0, 128)
    assert costs == Costs(issue=8, latency=500, compute=512, barrier=9)


NUMBERS = st.integers(0, 60)


@given(st.builds(Costs, NUMBERS, NUMBERS, NUMBERS, NUMBERS), st.integers(1, 6), st.integers(1, 20))
def test_more_depth_and_fewer_waits_never_cost_time(costs, depth, trips):
    taken = [estimate(costs, depth, trips, protocol).cycles for protocol in PROTOCOLS[:4]]
    assert taken == sorted(taken)
    for protocol in PROTOCOLS:
        now, deeper = estimate(costs, depth, trips, protocol), estimate(costs, depth + 1, trips, protocol)
        assert deeper.cycles <= now.cycles
        # No version is filled while it is in use.
        if protocol != "none":
            for early, late in zip(now.iterations, now.iterations[depth:]):
                assert late.issued >= early.ended
