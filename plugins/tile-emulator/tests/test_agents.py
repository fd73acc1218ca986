"""Producers and consumers over named barriers, and orders of atomics: what one schedule does not show."""

from __future__ import annotations

import ctypes
import itertools

import numpy as np
import pytest

SCHEDULES = [("in_order", 0), ("latest", 0), ("random", 1), ("random", 2), ("random", 3)]
each_schedule = pytest.mark.parametrize("schedule, seed", SCHEDULES, ids=lambda value: str(value))


def producer_consumer(releases: str = "late", arrivals: int = 1) -> str:
    """Warp 0 fills a ring of two slots, warp 1 empties it; barriers 1, 2 say full, 3, 4 say empty."""
    early, late = (("tile::bar_arrive(TILE_SYNC(3), 3 + s, 64);" if releases == r else "") for r in ("early", "late"))
    arrive = "tile::bar_arrive(TILE_SYNC(1), 1 + s, 64);  // @arrive\n" * arrivals
    return f"""
extern "C" __global__ void __launch_bounds__(64) ring(const float* A, float* B, int steps) {{
    TILE_SHARED(arena, 256);
    float* slots = (float*)(arena + 0);
    int lane = threadIdx.x % 32;
    if (threadIdx.x < 32) {{
        for (int i = 0; i < steps; ++i) {{
            int s = i % 2;
            if (i >= 2) tile::bar_sync(TILE_SYNC(0), 3 + s, 64);
            slots[s * 32 + lane] = A[i * 32 + lane];  // @fill
            {arrive}
        }}
    }} else {{
        for (int i = 0; i < steps; ++i) {{
            int s = i % 2;
            tile::bar_sync(TILE_SYNC(2), 1 + s, 64);
            {"if (i + 2 < steps) " + early if early else ""}
            B[i * 32 + lane] = slots[s * 32 + 31 - lane];  // @use
            {"if (i + 2 < steps) " + late if late else ""}
        }}
    }}
}}
"""


def run(kernel, schedule, seed, steps=6):
    a, b = np.random.rand(steps, 32).astype("f4"), np.zeros((steps, 32), "f4")
    report = kernel.run(1, 64, 256, schedule, seed, A=a, B=b, steps=ctypes.c_int(steps), fresh=("B",))
    return report, np.array_equal(b, a[:, ::-1])


@each_schedule
def test_a_ring_with_named_barriers_is_clean(hand_written, schedule, seed):
    report, right = run(hand_written(producer_consumer(), slots=(0, 256)), schedule, seed)
    assert report.clean, report.render()
    assert right


@each_schedule
def test_a_slot_that_is_released_before_it_is_read_is_a_race(hand_written, schedule, seed):
    kernel = hand_written(producer_consumer("early"), slots=(0, 256))
    report, _ = run(kernel, schedule, seed)
    assert {(f.kind, f.buffer) for f in report.findings} == {("race", "slots")}
    assert {frozenset(f.lines) for f in report.findings} == {frozenset(kernel.lines("fill", "use"))}


@each_schedule
def test_arriving_twice_in_one_phase_is_found(hand_written, schedule, seed):
    kernel = hand_written(producer_consumer(arrivals=2), slots=(0, 256))
    report, _ = run(kernel, schedule, seed)
    (finding,) = [f for f in report.findings if f.kind == "double-arrive"]
    assert finding.text == "a thread arrives twice at barrier 1 in one phase"
    assert set(finding.lines) <= {kernel.marks["arrive"] - 1, kernel.marks["arrive"]}


def zeros(**counts):
    return {name: np.zeros(count, "i4") for name, count in counts.items()}


TURNS = """
extern "C" __global__ void __launch_bounds__(1) turns(int* counter, int* data, int* out) {
    int turn = tile::atomic_add(counter, 1);
    if (turn == 0 && blockIdx.x == 1) {
        data[0] = 1;  // @second_first
    }
    if (turn == 1 && blockIdx.x == 0) {
        out[0] = data[0];  // @first_second
    }
    if (blockIdx.x == 2) {
        tile::atomic_add(counter, 1);
    }
}
"""


def test_exploring_finds_what_only_one_order_of_atomics_shows(hand_written):
    kernel = hand_written(TURNS)
    assert kernel.run(3, 1, 0, **zeros(counter=1, data=1, out=1)).clean, "in order, block 1 is never first"
    report = kernel.run(3, 1, 0, **zeros(counter=1, data=1, out=1), explore=100)
    (finding,) = report.findings
    assert (finding.kind, finding.buffer) == ("race", "data")
    assert finding.lines == kernel.lines("second_first", "first_second")


COUNT = """
extern "C" __global__ void __launch_bounds__(1) count(int* counter, int* out) {
    out[tile::atomic_add(counter, 1)] = blockIdx.x;
}
"""


def test_exploring_says_whether_it_saw_all_orders(hand_written):
    kernel = hand_written(COUNT)
    report = kernel.run(4, 1, 0, **zeros(counter=1, out=4), explore=1000)
    assert report.clean and report.exhausted and report.runs == 24
    report = kernel.run(4, 1, 0, **zeros(counter=1, out=4), explore=10)
    assert report.clean and not report.exhausted and report.runs == 10 and report.agents == 4


def test_a_kernel_without_atomics_has_one_order(hand_written):
    kernel = hand_written(producer_consumer(), slots=(0, 256))
    a, b = np.zeros((3, 32), "f4"), np.zeros((3, 32), "f4")
    report = kernel.run(1, 64, 256, A=a, B=b, steps=ctypes.c_int(3), explore=1000)
    assert report.clean and report.exhausted and report.runs == 1


PROGRAM = """
extern "C" __global__ void __launch_bounds__(256) run(const int* steps, int* memory, int* out, int length, int lanes) {
    int agent = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32, sum = 0;
    if (threadIdx.x % 32 >= lanes) return;
    for (int i = 0; i < length; ++i) {
        int step = steps[agent * length + i], place = step / 3;
        if (step % 3 == 0) sum += tile::atomic_add(memory + place, 1);
        if (step % 3 == 1) sum += tile::atomic_load(memory + place);
        if (step % 3 == 2) tile::atomic_store(memory + place, agent);
    }
    tile::atomic_add(out + 32 * agent + threadIdx.x % 32, sum);
}
"""
ADD, LOAD, STORE = 0, 1, 2


def explored(hand_written, steps, blocks=1, lanes=1, bound=100_000):
    """The report for agents that each take steps (kind, place); they are warps of one block, or of several."""
    coded = np.array([[kind + 3 * place for kind, place in agent] for agent in steps], "i4")
    agents, length = coded.shape
    arrays = {"steps": coded.ravel(), **zeros(memory=16, out=32 * agents)}
    numbers = {"length": ctypes.c_int(length), "lanes": ctypes.c_int(lanes)}
    return hand_written(PROGRAM).run(blocks, 32 * agents // blocks, 0, **arrays, **numbers, explore=bound)


def orders_that_differ(steps):
    """How many classes of interleavings there are, by looking at all of them."""
    names = [(agent, i) for agent, own in enumerate(steps) for i in range(len(own))]
    pairs = [
        (a, b)
        for a, b in itertools.combinations(names, 2)
        if a[0] != b[0]
        and steps[a[0]][a[1]][1] == steps[b[0]][b[1]][1]
        and not (steps[a[0]][a[1]][0] == steps[b[0]][b[1]][0] == LOAD)
    ]
    classes = set()
    for word in set(itertools.permutations([agent for agent, own in enumerate(steps) for _ in own])):
        counts = [0] * len(steps)
        at = {}
        for time, agent in enumerate(word):
            at[agent, counts[agent]] = time
            counts[agent] += 1
        classes.add(tuple(at[a] < at[b] for a, b in pairs))
    return len(classes)


@pytest.mark.parametrize(
    ("steps", "runs"),
    [
        ([[(ADD, agent)] for agent in range(8)], 1),
        ([[(LOAD, 0)] for _ in range(4)], 1),
        ([[(ADD, 0)], [(ADD, 0)], [(ADD, 1)], [(ADD, 1)]], 4),
        ([[(STORE, 0), (LOAD, 1)], [(STORE, 1), (LOAD, 0)]], 3),
        ([[(LOAD, 0), (LOAD, 0)], [(STORE, 0), (LOAD, 1)]], 3),
    ],
)
def test_only_orders_that_differ_are_run(hand_written, steps, runs):
    assert orders_that_differ(steps) == runs
    report = explored(hand_written, steps)
    assert report.clean and report.exhausted
    assert (report.runs, report.agents) == (runs, len(steps))


@pytest.mark.parametrize("seed", range(12))
def test_every_order_that_differs_is_run_once(hand_written, seed):
    random = np.random.default_rng(seed)
    agents, length = (2, 4) if seed % 3 == 0 else (3, 2)
    steps = [[(int(random.integers(3)), int(random.integers(3))) for _ in range(length)] for _ in range(agents)]
    for blocks in (1, agents):
        report = explored(hand_written, steps, blocks)
        assert report.clean and report.exhausted
        assert report.runs == orders_that_differ(steps), steps


def test_the_lanes_of_a_warp_are_one_agent(hand_written):
    assert explored(hand_written, [[(ADD, 0)]], lanes=32).runs == 1
    report = explored(hand_written, [[(ADD, 0)], [(ADD, 0)]], lanes=32)
    assert (report.runs, report.exhausted) == (2, True)


def test_what_synchronisation_orders_is_not_tried_the_other_way_round(hand_written):
    source = """
extern "C" __global__ void __launch_bounds__(64) phases(int* memory) {
    if (threadIdx.x == 0) tile::atomic_add(memory, 1);
    tile::sync_threads(TILE_SYNC(0));
    if (threadIdx.x == 32) tile::atomic_add(memory, 1);
}
"""
    report = hand_written(source).run(1, 64, 0, **zeros(memory=1), explore=100)
    assert report.clean and report.exhausted and report.runs == 1


def test_a_bound_is_kept_and_said(hand_written):
    steps = [[(ADD, 0), (ADD, 0)] for _ in range(4)]
    report = explored(hand_written, steps, bound=50)
    assert not report.exhausted and report.runs + report.cut == 50


TICKETS = """
extern "C" __global__ void __launch_bounds__(32) chain(int* turn, int* out) {
    if (threadIdx.x != 0) return;
    while (tile::atomic_load(turn) != blockIdx.x) {}
    tile::fence();
    out[0] = out[0] * 3 + blockIdx.x;
    tile::fence();
    tile::atomic_store(turn, blockIdx.x + 1);
}
"""


@each_schedule
def test_a_chain_of_many_blocks_that_wait_for_one_another_comes_to_an_end(hand_written, schedule, seed):
    kernel = hand_written(TICKETS)
    out = np.zeros(1, "i4")
    report = kernel.run(40, 32, 0, schedule, seed, turn=np.zeros(1, "i4"), out=out)
    assert report.clean, report.render()
    wanted = 0
    for block in range(40):
        wanted = (wanted * 3 + block) & 0xFFFFFFFF
    assert out[0] == np.uint32(wanted).astype("i4")
