"""Random programs over shared memory, against an oracle that compares all pairs of accesses."""

from __future__ import annotations

import random
from itertools import combinations

import numpy as np
import pytest

from tile_emulator.session import Session

THREADS = 64
WORDS = 96
PROGRAMS = 60

# A thread's place in shared memory; all stay inside WORDS.
PLACES = {
    "t": lambda t: t,
    "(t + 1) % 64": lambda t: (t + 1) % 64,
    "63 - t": lambda t: 63 - t,
    "t / 2": lambda t: t // 2,
    "t ^ 1": lambda t: t ^ 1,
    "t ^ 32": lambda t: t ^ 32,
    "t + 32": lambda t: t + 32,
    "64 + t % 32": lambda t: 64 + t % 32,
    "5": lambda t: 5,
}
GUARDS = {
    "true": lambda t: True,
    "t < 32": lambda t: t < 32,
    "t >= 32": lambda t: t >= 32,
    "t == 7": lambda t: t == 7,
    "t % 2 == 0": lambda t: t % 2 == 0,
}


def program(seed: int) -> list[tuple[str, str, str]]:
    """Steps: ("read" | "write", guard, place), ("block", …), ("warp", …), ("half", …)."""
    choose = random.Random(seed)
    steps = []
    for _ in range(choose.randint(3, 9)):
        kind = choose.choices(["read", "write", "block", "warp", "half"], [4, 4, 5, 2, 1])[0]
        steps.append((kind, choose.choice(list(GUARDS)), choose.choice(list(PLACES))))
    return steps


def text(seed: int) -> tuple[list[str], dict[int, int]]:
    """The kernel's lines, and which step each (by position) is."""
    lines = [f'extern "C" __global__ void __launch_bounds__({THREADS}) program_{seed}(float* B) {{']
    lines += [f"TILE_SHARED(arena, {WORDS * 4});", "volatile float* S = (float*)(arena + 0);", "int t = threadIdx.x;"]
    lines += [f"S[t] = t; if (t < {WORDS - THREADS}) S[{THREADS} + t] = t;", "tile::sync_threads(TILE_SYNC(0));"]
    lines += ["float sum = 0;"]
    places = {}
    for number, (kind, guard, place) in enumerate(program(seed)):
        places[len(lines)] = number
        lines.append(
            {
                "read": f"if ({guard}) sum += S[{place}];",
                "write": f"if ({guard}) S[{place}] = {number};",
                "block": "tile::sync_threads(TILE_SYNC(1));",
                "warp": "tile::sync_warp(TILE_SYNC(2));",
                "half": "if (t < 32) tile::bar_sync(TILE_SYNC(3), 1, 32);",
            }[kind]
        )
    lines += ["B[t] = sum;", "}"]
    return lines, places


def races(seed: int) -> set[frozenset[int]]:
    """Pairs of steps with accesses of one word by two threads, of which nothing orders one before the other."""
    steps = program(seed)
    found = set()
    accesses = [
        (number, thread, PLACES[place](thread), kind == "write")
        for number, (kind, guard, place) in enumerate(steps)
        if kind in ("read", "write")
        for thread in range(THREADS)
        if GUARDS[guard](thread)
    ]
    by_word: dict[int, list] = {}
    for access in accesses:
        by_word.setdefault(access[2], []).append(access)
    for group in by_word.values():
        for (i, t, _, w), (j, u, _, v) in combinations(group, 2):
            if t == u or not (w or v):
                continue
            between = [kind for kind, *_ in steps[min(i, j) : max(i, j)]]
            same_warp = t // 32 == u // 32
            ordered = "block" in between or (same_warp and "warp" in between)
            ordered = ordered or (t < 32 and u < 32 and "half" in between)
            if not ordered:
                found.add(frozenset((i, j)))
    return found


@pytest.fixture(scope="module")
def programs(hand_written):
    lines, starts = [], {}
    for seed in range(PROGRAMS):
        kernel, places = text(seed)
        starts[seed] = {len(lines) + 2 + offset: number for offset, number in places.items()}  # line 1 is an include
        lines += kernel
    return hand_written("\n".join(lines) + "\n", S=(0, WORDS * 4)), starts


@pytest.mark.parametrize("schedule, seed", [("in_order", 0), ("latest", 0), ("random", 5)])
def test_programs_are_racy_exactly_when_two_accesses_are_unordered(programs, schedule, seed):
    kernel, starts = programs
    racy = 0
    for number in range(PROGRAMS):
        arguments = {"B": np.zeros(THREADS, "f4")}
        session = Session(schedule, seed)
        report = kernel.library.launch(f"program_{number}", (1,), (THREADS,), WORDS * 4, arguments, session)
        wanted = races(number)
        found = {frozenset(starts[number][line] for line in f.lines) for f in report.findings}
        assert {f.kind for f in report.findings} <= {"race"}, report.render()
        assert found <= wanted, f"program {number} {program(number)}: {found - wanted} are ordered"
        assert bool(found) == bool(wanted), f"program {number} {program(number)}: missed {wanted}"
        racy += bool(wanted)
    assert PROGRAMS // 5 < racy < PROGRAMS * 4 // 5, "programs of both kinds are tried"
