"""Producers and consumers over named barriers, and orders of atomics: what one schedule does not show."""

from __future__ import annotations

import ctypes

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
    assert report.clean and not report.exhausted and report.runs == 10


def test_a_kernel_without_atomics_has_one_order(hand_written):
    kernel = hand_written(producer_consumer(), slots=(0, 256))
    a, b = np.zeros((3, 32), "f4"), np.zeros((3, 32), "f4")
    report = kernel.run(1, 64, 256, A=a, B=b, steps=ctypes.c_int(3), explore=1000)
    assert report.clean and report.exhausted and report.runs == 1


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
