"""Random pipelined loops: what fuzzers of the schedule, of its versions and of thread synchronisation run.

Loops fill tiles whole, in parts, on conditions or before they read them, change them in place, and read rows of tensors
that they write some iterations earlier or later. Nothing is read that was not written.
"""

from __future__ import annotations

import random
import re
import textwrap

from .. import tileop
from ..ir import PrimFunc, parse

__all__ = ["random_pipeline"]

assert tileop is not None  # the parser needs the core ops

_HEAD = """
@T.prim_func
def main(G: T.Buffer((16, W), T.float32), H: T.Buffer((16, W), T.float32), R: T.Buffer((W,), T.float32), E: T.int32):
    with T.Kernel(1, threads=(THREADS,)) as (bx, tx):
        s0 = T.alloc_buffer((W,), T.float32, scope="shared")
        s1 = T.alloc_buffer((W,), T.float32, scope="shared")
        s2 = T.alloc_buffer((W,), T.float32, scope="shared")
        f = T.alloc_buffer((W,), T.float32, scope="fragment")
        T.fill(f, value=0.0)
"""
_PARALLEL = "for i in T.Parallel(W):"


def random_pipeline(seed: int, width: int = 8, threads: int = 32) -> PrimFunc:
    """A function of two tensors [16, width], one [width] that gets a result, and a trip count of at most 6.

    Args:
        seed: of the loops.
        width: elements of a row and of a tile; even.
        threads: of the block.
    """
    chance = random.Random(seed)
    lines = _loop(chance)
    shape = chance.choice(["one loop", "one loop", "in a loop", "two loops"])
    if shape == "in a loop":
        lines = ["for m in T.serial(2):", *("    " + line for line in lines)]
    elif shape == "two loops":
        lines += _loop(chance)
    text = _HEAD + textwrap.indent("\n".join([*lines, "T.copy(f, R)"]), " " * 8) + "\n"
    for name, value in (("THREADS", threads), ("HALF", width // 2), ("LAST", width - 1), ("W", width)):
        text = re.sub(rf"\b{name}\b", str(value), text)
    function = parse(text)
    assert isinstance(function, PrimFunc)
    return function


def _fills(chance: random.Random, tile: str, row: str) -> list[str]:
    """Statements after which a tile is whole; those on a condition are so because the first iteration meets it."""
    first = ["if k == 0:", f"    T.fill({tile}, value=1.0)"]
    whole = f"T.copy({row}, 0:W], {tile})"
    halves = ["for i in T.Parallel(HALF):", f"    {tile}[i] = {row}, i]"]
    halves += ["for i in T.Parallel(HALF):", f"    {tile}[i + HALF] = {row}, i + HALF] * 0.5"]
    ways = [
        [whole],
        [whole],
        ["if k % 2 == 0:", f"    {whole}"],
        [*first, f"T.copy({row}, 0:HALF], {tile}[0:HALF])"],
        halves,
    ]
    return chance.choice(ways)


def _uses(chance: random.Random, tile: str, other: str, row: str) -> list[str]:
    """Statements that read a tile."""
    ways = [
        [_PARALLEL, f"    f[i] = f[i] * 0.5 + {tile}[LAST - i]"],
        [_PARALLEL, f"    {other}[i] = {tile}[i] * 0.5 + 1.0"],
        [_PARALLEL, f"    {tile}[i] = {tile}[i] * 0.5 + {row}, i]"],
        [f"T.copy({tile}, {row}, 0:W])"],
        ["if k % 3 == 1:", f"    T.copy({tile}, {row}, 0:W])"],
    ]
    return chance.choice(ways)


def _loop(chance: random.Random) -> list[str]:
    lines: list[str] = []
    ready: list[str] = []
    for _ in range(chance.randint(2, 5)):
        tile, row = chance.choice(["s0", "s1", "s2"]), f"{chance.choice('GH')}[k + {chance.choice([0, 0, 0, 1, 2, 3])}"
        if not ready or chance.random() < 0.35:
            lines += _fills(chance, tile, row)
            ready.append(tile)
        else:
            source = chance.choice(ready)
            new = _uses(chance, source, tile, row)
            lines += new
            ready += [tile] if f"{tile}[i] = " in new[-1] else []
    return [f"for k in T.Pipelined(E, num_stages={chance.randint(1, 4)}):", *("    " + line for line in lines)]
