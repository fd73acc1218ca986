"""Planted mistakes are found with the right buffer and lines; the corrected kernels are clean in every schedule."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

SCHEDULES = [("in_order", 0), ("latest", 0), ("random", 1), ("random", 2), ("random", 3)]
each_schedule = pytest.mark.parametrize("schedule, seed", SCHEDULES, ids=lambda value: str(value))


def transpose(synchronised: bool) -> str:
    return f"""
extern "C" __global__ void __launch_bounds__(256) transpose(const float* A, float* B) {{
    TILE_SHARED(arena, 16 * 17 * 4);
    float* S = (float*)(arena + 0);
    int x = threadIdx.x % 16, y = threadIdx.x / 16;
    S[y * 17 + x] = A[y * 16 + x];  // @write
    {"tile::sync_threads(TILE_SYNC(0));" if synchronised else ""}
    B[y * 16 + x] = S[x * 17 + y];  // @read
}}
"""


@each_schedule
def test_a_transpose_with_its_barrier_is_clean(hand_written, schedule, seed):
    kernel = hand_written(transpose(True), S=(0, 16 * 17 * 4))
    a, b = np.random.rand(16, 16).astype("f4"), np.zeros((16, 16), "f4")
    report = kernel.run(1, 256, 16 * 17 * 4, schedule, seed, A=a, B=b, fresh=("B",))
    assert report.clean, report.render()
    assert np.array_equal(b, a.T)


@each_schedule
def test_a_transpose_without_its_barrier_is_a_race(hand_written, schedule, seed):
    kernel = hand_written(transpose(False), S=(0, 16 * 17 * 4))
    a, b = np.random.rand(16, 16).astype("f4"), np.zeros((16, 16), "f4")
    report = kernel.run(1, 256, 16 * 17 * 4, schedule, seed, A=a, B=b)
    races = [f for f in report.findings if f.kind == "race"]
    assert {f.buffer for f in races} == {"S"}
    assert {frozenset(f.lines) for f in races} == {frozenset(kernel.lines("write", "read"))}


REDUCE = """
extern "C" __global__ void __launch_bounds__(128) reduce(const float* A, float* B) {
    TILE_SHARED(arena, 512);
    float* S = (float*)(arena + 0);
    int t = threadIdx.x;
    S[t] = A[blockIdx.x * 128 + t];  // @fill
    for (int d = 64; d > 0; d >>= 1) {
        tile::sync_threads(TILE_SYNC(0));
        if (t < d) {
            S[t] = S[t] + S[t + d];  // @add
        }
    }
    if (t == 0) B[blockIdx.x] = S[0];
}
"""


@each_schedule
def test_a_reduction_is_clean_and_racy_with_its_barrier_switched_off(hand_written, schedule, seed):
    kernel = hand_written(REDUCE, S=(0, 512))
    a, b = np.random.rand(4, 128).astype("f4"), np.zeros(4, "f4")
    report = kernel.run(4, 128, 512, schedule, seed, A=a, B=b, fresh=("B",))
    assert report.clean, report.render()
    assert np.allclose(b, a.sum(1), rtol=1e-5)
    assert report.sites == [4 * 128 * 7]
    report = kernel.run(4, 128, 512, schedule, seed, A=a, B=b, off=(0,))
    races = [f for f in report.findings if f.kind == "race"]
    assert {f.buffer for f in races} == {"S"}
    fill, add = kernel.lines("fill", "add")
    assert {f.lines for f in races} <= {(fill, add), (add, fill), (add, add)}
    assert any(fill in f.lines for f in races)


def double_buffer(pending: int) -> str:
    return f"""
extern "C" __global__ void __launch_bounds__(64) copy(const float* A, float* B, int tiles) {{
    TILE_SHARED(arena, 2 * 1024);
    float* S = (float*)(arena + 0);
    int t = threadIdx.x;
    tile::cp_async<16>(S + 4 * t, A + 4 * t);  // @prologue
    tile::cp_async_commit();
    for (int i = 0; i < tiles; ++i) {{
        if (i + 1 < tiles)
            tile::cp_async<16>(S + (i + 1) % 2 * 256 + 4 * t, A + (i + 1) * 256 + 4 * t);  // @copy
        tile::cp_async_commit();
        tile::cp_async_wait<{pending}>(TILE_SYNC(0));
        tile::sync_threads(TILE_SYNC(1));
        for (int j = 0; j < 4; ++j)
            B[i * 256 + j * 64 + t] = S[i % 2 * 256 + j * 64 + t] * 2;  // @use
        tile::sync_threads(TILE_SYNC(2));
    }}
}}
"""


@each_schedule
@pytest.mark.parametrize("tiles", [1, 2, 5])
def test_double_buffering_is_clean(hand_written, schedule, seed, tiles):
    kernel = hand_written(double_buffer(1), S=(0, 2048))
    a, b = np.random.rand(tiles * 256).astype("f4"), np.zeros(tiles * 256, "f4")
    report = kernel.run(1, 64, 2048, schedule, seed, A=a, B=b, tiles=ctypes.c_int(tiles), fresh=("B",))
    assert report.clean, report.render()
    assert np.array_equal(b, a * 2)


@each_schedule
def test_a_wait_that_leaves_one_group_too_many_is_found(hand_written, schedule, seed):
    kernel = hand_written(double_buffer(2), S=(0, 2048))
    a, b = np.random.rand(5 * 256).astype("f4"), np.zeros(5 * 256, "f4")
    report = kernel.run(1, 64, 2048, schedule, seed, A=a, B=b, tiles=ctypes.c_int(5))
    assert {f.buffer for f in report.findings} == {"S"}
    assert "missing-wait" in {f.kind for f in report.findings}
    prologue, copy, use = kernel.lines("prologue", "copy", "use")
    assert {(prologue, use), (copy, use)} <= {f.lines for f in report.findings}
    if schedule == "latest":
        assert not np.array_equal(b, a * 2), "copies that land as late as they may give wrong numbers"


@each_schedule
def test_each_synchronisation_of_the_double_buffer_is_needed(hand_written, schedule, seed):
    kernel = hand_written(double_buffer(1), S=(0, 2048))
    a, b = np.random.rand(5 * 256).astype("f4"), np.zeros(5 * 256, "f4")
    for ordinal in range(3):
        report = kernel.run(1, 64, 2048, schedule, seed, A=a, B=b, tiles=ctypes.c_int(5), off=(ordinal,))
        assert {f.buffer for f in report.findings} == {"S"}, f"without synchronisation {ordinal}"


def partial(count: int) -> str:
    return f"""
extern "C" __global__ void __launch_bounds__(128) partial(const float* A, float* B) {{
    TILE_SHARED(arena, 256);
    float* S = (float*)(arena + 0);
    int t = threadIdx.x;
    if (t < 64) {{
        S[t] = A[t];  // @write
        tile::bar_sync(TILE_SYNC(0), 1, {count});  // @barrier
        B[t] = S[63 - t];  // @read
    }}
}}
"""


@each_schedule
def test_a_partial_barrier_with_the_right_count_is_clean(hand_written, schedule, seed):
    kernel = hand_written(partial(64), S=(0, 256))
    a, b = np.random.rand(64).astype("f4"), np.zeros(64, "f4")
    report = kernel.run(1, 128, 256, schedule, seed, A=a, B=b, fresh=("B",))
    assert report.clean, report.render()
    assert np.array_equal(b, a[::-1])


@each_schedule
def test_a_partial_barrier_with_too_high_a_count_is_a_deadlock_that_names_it(hand_written, schedule, seed):
    kernel = hand_written(partial(96), S=(0, 256))
    a, b = np.random.rand(64).astype("f4"), np.zeros(64, "f4")
    report = kernel.run(1, 128, 256, schedule, seed, A=a, B=b)
    (finding,) = report.findings
    assert finding.kind == "deadlock"
    assert finding.text == "barrier 1 waits for 96 threads; 64 came, and no more can"
    assert finding.lines == kernel.lines("barrier")
    assert {w.verb for w in finding.waiting} == {
        "threads 0-63 wait at bar_sync",
        "threads 64-127 have left the kernel",
    }


@each_schedule
def test_a_partial_barrier_with_too_low_a_count_is_a_race(hand_written, schedule, seed):
    kernel = hand_written(partial(32), S=(0, 256))
    a, b = np.random.rand(64).astype("f4"), np.zeros(64, "f4")
    report = kernel.run(1, 128, 256, schedule, seed, A=a, B=b)
    races = [f for f in report.findings if f.kind in ("race", "never-written")]
    assert races and {f.buffer for f in races} == {"S"}
    assert any(kernel.marks["read"] in f.lines for f in races)


def test_a_count_that_is_no_multiple_of_the_warp_is_told(hand_written):
    kernel = hand_written(partial(40), S=(0, 256))
    report = kernel.run(1, 128, 256, A=np.zeros(64, "f4"), B=np.zeros(64, "f4"))
    assert [f.kind for f in report.findings] == ["barrier-count"]
    assert report.findings[0].lines == kernel.lines("barrier")


def divergent(mask: str, guard: str) -> str:
    return f"""
extern "C" __global__ void __launch_bounds__(32) divergent(const float* A, float* B) {{
    int t = threadIdx.x;
    float value = A[t];
    if ({guard}) {{
        value += tile::shfl_down({mask}, value, 1);  // @shuffle
    }}
    B[t] = value;
}}
"""


@each_schedule
def test_a_collective_that_half_a_warp_skips_is_found(hand_written, schedule, seed):
    kernel = hand_written(divergent("~0u", "t < 16"))
    report = kernel.run(1, 32, 0, schedule, seed, A=np.ones(32, "f4"), B=np.zeros(32, "f4"))
    assert {f.kind for f in report.findings} == {"divergent-collective"}
    assert report.findings[0].lines == kernel.lines("shuffle")
    kernel = hand_written(divergent("0xFFFFu", "t < 16"))
    b = np.zeros(32, "f4")
    report = kernel.run(1, 32, 0, schedule, seed, A=np.ones(32, "f4"), B=b)
    assert report.clean, report.render()
    assert b.tolist() == [2.0] * 16 + [1.0] * 16


@each_schedule
def test_a_barrier_in_a_branch_is_found(hand_written, schedule, seed):
    kernel = hand_written("""
extern "C" __global__ void __launch_bounds__(64) branch(float* B) {
    if (threadIdx.x < 32) {
        tile::sync_threads(TILE_SYNC(0));  // @first
        B[threadIdx.x] = 1;
    } else {
        B[threadIdx.x] = 2;
        tile::sync_threads(TILE_SYNC(1));  // @second
    }
}
""")
    report = kernel.run(1, 64, 0, schedule, seed, B=np.zeros(64, "f4"))
    assert [f.kind for f in report.findings] == ["divergent-barrier"]
    assert set(report.findings[0].lines) == set(kernel.lines("first", "second"))


BOUNDS = """
extern "C" __global__ void __launch_bounds__(64) bounds(const float* A, float* B, int n) {
    int i = blockIdx.x * 64 + threadIdx.x;
    float value = A[i];  // @read
    if (i < n) B[i] = value;
}
"""


@each_schedule
def test_reading_past_a_tensor_is_found_though_memory_is_there(hand_written, schedule, seed):
    kernel = hand_written(BOUNDS)
    memory = np.zeros(128, "f4")
    b = np.zeros(100, "f4")
    report = kernel.run(2, 64, 0, schedule, seed, A=memory[:100], B=b, n=ctypes.c_int(100))
    (finding,) = report.findings
    assert (finding.kind, finding.buffer, finding.lines) == ("out-of-bounds", "A", kernel.lines("read"))
    assert finding.text.endswith("it has 400 bytes")
    report = kernel.run(2, 64, 0, schedule, seed, A=memory, B=b, n=ctypes.c_int(100))
    assert report.clean, report.render()


def tail(fills: bool) -> str:
    return f"""
extern "C" __global__ void __launch_bounds__(64) tail(const float* A, float* B, int n) {{
    TILE_SHARED(arena, 1024);
    float* S = (float*)(arena + 256);
    int t = threadIdx.x;
    if (t < n) S[t] = A[t];
    {"else S[t] = 0;" if fills else ""}
    tile::sync_threads(TILE_SYNC(0));
    float sum = S[t];  // @read
    for (int d = 16; d > 0; d >>= 1) sum += tile::shfl_xor(sum, d);
    if (t % 32 == 0) B[t / 32] = sum;
}}
"""


@each_schedule
def test_a_tail_that_nobody_fills_is_found(hand_written, schedule, seed):
    a, b = np.ones(50, "f4"), np.zeros(2, "f4")
    kernel = hand_written(tail(False), S=(256, 256))
    report = kernel.run(1, 64, 1024, schedule, seed, A=a, B=b, n=ctypes.c_int(50))
    (finding,) = report.findings
    assert (finding.kind, finding.buffer, finding.lines) == ("never-written", "S", kernel.lines("read"))
    assert finding.count == 14 and 200 <= finding.offset < 256
    assert np.isnan(b[1]), "poison shows in the numbers"
    report = hand_written(tail(True), S=(256, 256)).run(1, 64, 1024, schedule, seed, A=a, B=b, n=ctypes.c_int(50))
    assert report.clean, report.render()
    assert b.tolist() == [32.0, 18.0]


def flag(released: bool, acquired: bool) -> str:
    return f"""
extern "C" __global__ void __launch_bounds__(32) flag(int* data, int* ready, int* out) {{
    if (threadIdx.x != 0) return;
    if (blockIdx.x == 0) {{
        data[0] = 42;  // @write
        {"tile::fence();" if released else ""}
        tile::atomic_store(ready, 1);
    }} else {{
        while (tile::atomic_load(ready) == 0) {{}}  // @poll
        {"tile::fence();" if acquired else ""}
        out[0] = data[0];  // @read
    }}
}}
"""


@each_schedule
def test_a_flag_between_blocks_needs_release_and_acquire(hand_written, schedule, seed):
    for released, acquired in ((True, True), (False, True), (True, False)):
        kernel = hand_written(flag(released, acquired))
        data, ready, out = (np.zeros(1, "i4") for _ in range(3))
        report = kernel.run(2, 32, 0, schedule, seed, data=data, ready=ready, out=out)
        if released and acquired:
            assert report.clean, report.render()
            assert out[0] == 42
            continue
        (finding,) = report.findings
        assert (finding.kind, finding.buffer, finding.lines) == ("race", "data", kernel.lines("write", "read"))
        assert finding.accesses[0].block == 0 and finding.accesses[1].block == 1


@each_schedule
def test_polling_for_what_never_comes_is_a_livelock(hand_written, schedule, seed):
    kernel = hand_written("""
extern "C" __global__ void __launch_bounds__(32) wait(const int* ready) {
    while (tile::atomic_load(ready) == 0) {}  // @poll
}
""")
    report = kernel.run(2, 32, 0, schedule, seed, ready=np.zeros(1, "i4"))
    (finding,) = report.findings
    assert finding.kind == "livelock" and finding.lines == kernel.lines("poll")


def aliased(keeps: bool) -> str:
    return f"""
extern "C" __global__ void __launch_bounds__(64) alias(const float* A, float* B) {{
    TILE_SHARED(arena, 512);
    float* first = (float*)(arena + 0);
    float* second = (float*)(arena + {256 if keeps else 128});
    int t = threadIdx.x;
    first[t] = A[t];
    tile::sync_threads(TILE_SYNC(0));
    second[t] = A[t] * 2;  // @overwrite
    tile::sync_threads(TILE_SYNC(1));
    B[t] = first[63 - t];  // @use
    B[t] += second[63 - t];
}}
"""


@each_schedule
def test_a_tile_that_lost_its_bytes_to_another_is_found(hand_written, schedule, seed):
    a, b = np.random.rand(64).astype("f4"), np.zeros(64, "f4")
    kernel = hand_written(aliased(True), first=(0, 256), second=(256, 256))
    report = kernel.run(1, 64, 512, schedule, seed, A=a, B=b)
    assert report.clean, report.render()
    assert np.allclose(b, 3 * a[::-1])
    kernel = hand_written(aliased(False), first=(0, 256), second=(128, 256))
    (finding,) = kernel.run(1, 64, 512, schedule, seed, A=a, B=b).findings
    assert (finding.kind, finding.buffer, finding.lines) == ("aliased", "first", kernel.lines("overwrite", "use"))
    assert finding.text == "reads bytes that were last written as second, which shares them"


@each_schedule
def test_updates_of_many_places_are_no_polling_even_where_they_add_nothing(hand_written, schedule, seed):
    kernel = hand_written("""
extern "C" __global__ void __launch_bounds__(64) add(int* total) {
    for (int i = 0; i < 32; ++i) tile::atomic_add(total + i, 0);
}
""")
    assert kernel.run(2, 64, 0, schedule, seed, total=np.zeros(32, "i4")).clean


@pytest.mark.slow
def test_a_loop_without_end_that_touches_no_memory_is_told(hand_written):
    kernel = hand_written("""
extern "C" __global__ void __launch_bounds__(32) endless(int* B, int n) {
    unsigned x = n;
    do {
        x = x * 1664525u + 1013904223u;  // @loop
        asm volatile("" : "+r"(x));
    } while (x | 1);
    B[0] = x;
}
""")
    report = kernel.run(1, 32, 0, B=np.zeros(1, "i4"), n=ctypes.c_int(1))
    (finding,) = report.findings
    assert (finding.kind, finding.text) == ("livelock", "a loop that touches no memory does not end")
    assert finding.lines[0] in range(kernel.marks["loop"] - 1, kernel.marks["loop"] + 3)
    # The process goes on, and so does the engine.
    again = hand_written(tail(True), S=(256, 256))
    assert again.run(1, 64, 1024, A=np.ones(50, "f4"), B=np.zeros(2, "f4"), n=ctypes.c_int(50)).clean


GUARDED = """
extern "C" __global__ void __launch_bounds__(64) guarded(const float* A, float* B) {
    TILE_LOCAL(float, value, 1);
    TILE_LOCAL(float, sum, 1);
    int x = threadIdx.x;
    if (x < 15) value[0] = A[x];
    if (x < 15) sum[0] = 0.0f;
    for (int i = 0; i < 3; ++i) {
        if (x < 15) sum[0] = value[0] >= 1.0f ? sum[0] + value[0] : sum[0] * 0.5f;
    }
    if (x < READERS) B[x] = sum[0];
}
"""


def test_reads_stay_behind_the_condition_of_the_source(hand_written):
    # A compiler may load before the loop what only some threads load inside it; threads without a value then seem to
    # read it.
    kernel = hand_written(GUARDED.replace("READERS", "15"))
    a, b = np.random.rand(16).astype("f4"), np.zeros(16, "f4")
    assert kernel.run(1, 64, 0, "in_order", 0, A=a, B=b).clean
    report = hand_written(GUARDED.replace("READERS", "16")).run(1, 64, 0, "in_order", 0, A=a, B=b)
    assert [(f.kind, f.buffer) for f in report.findings] == [("never-written", "sum")]
