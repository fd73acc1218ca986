"""Random code in which lanes work together under conditions and in loops that differ between threads, run before and
after LowerThreadCode."""

import random

import pytest

from tile_core.transform import LowerThreadCode


class Writer:
    """Statements of a block of `threads` threads on integers of their own."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.threads = self.random.choice((32, 64, 40, 96))
        self.lines: list[str] = []
        self.count = 0

    def line(self, depth: int, text: str) -> None:
        self.lines.append("    " * (depth + 2) + text)

    def value(self) -> str:
        choices = ["own[0]", "own[1]", "tx", "A[bx, tx]", str(self.random.randrange(9))]
        first, second = (self.random.choice(choices) for _ in range(2))
        return f"({first} {self.random.choice('+-*')} {second})"

    def together(self, depth: int) -> None:
        """A call in which lanes work together; each takes what it gets."""
        self.count += 1
        name, size = f"g{self.count}", self.random.choice((2, 8, 32))
        mask = "T.uint32(4294967295)"
        kind = self.random.randrange(7)
        if kind == 0:
            call = f"T.shfl_xor({self.value()}, {self.random.choice((1, 2, 5, 16))}, {size}, {mask})"
        elif kind == 1:
            call = f"T.shfl_down({self.value()}, {self.random.randrange(4)}, {size}, {mask})"
        elif kind == 2:
            call = f"T.shfl_up({self.value()}, tx % 3, {size}, {mask})"
        elif kind == 3:
            call = f"T.shfl({self.value()}, tx + {self.random.randrange(9)}, {size}, {mask})"
        elif kind == 4:
            call = f"T.warp_reduce_{self.random.choice(('sum', 'max', 'min', 'bitand', 'bitor'))}({self.value()})"
        elif kind == 5:
            vote = self.random.choice(("ballot", "match_any", "match_all"))
            value = f"{self.value()} > 3" if vote == "ballot" else f"{self.value()} % 3"
            self.line(depth, f"{name}: T.uint32 = T.{vote}({value}, {mask})")
            self.line(depth, f"own[0] = T.cast({name} % T.uint32(1009), T.int32)")
            return
        else:
            vote = self.random.choice(("any_sync", "all_sync"))
            self.line(depth, f"{name}: T.bool = T.{vote}({self.value()} > 2, {mask})")
            self.line(depth, f"own[1] = own[1] + T.cast({name}, T.int32)")
            return
        self.line(depth, f"{name}: T.int32 = {call}")
        self.line(depth, f"own[{self.random.randrange(2)}] = {name} % 1009")

    def statement(self, depth: int) -> None:
        kind = self.random.randrange(8 if depth < 3 else 5)
        if kind < 3:
            self.together(depth)
        elif kind == 3:
            self.line(depth, f"own[{self.random.randrange(2)}] = {self.value()} % 1009")
        elif kind == 4:
            self.line(depth, f"A[bx, tx] = A[bx, tx] + {self.value()} % 1009")
        elif kind == 5:
            condition = self.random.choice(("tx < 20", "tx % 3 == 1", "own[0] > own[1]", "bx == 0"))
            self.line(depth, f"if {condition}:")
            self.body(depth + 1)
            if self.random.randrange(2):
                self.line(depth, "else:")
                self.body(depth + 1)
        elif kind == 6:
            self.line(depth, f"for k{depth} in T.serial({self.random.choice(('2', 'tx % 4', 'bx + 1'))}):")
            self.body(depth + 1)
            self.line(depth + 1, f"own[0] = own[0] + k{depth}")
        else:
            self.line(depth, "T.sync_warp(T.uint32(4294967295))")

    def body(self, depth: int) -> None:
        for _ in range(self.random.randrange(1, 4)):
            self.statement(depth)

    def text(self) -> str:
        self.line(0, "own[0] = tx")
        self.line(0, "own[1] = A[bx, tx]")
        for _ in range(self.random.randrange(3, 8)):
            self.statement(0)
        self.line(0, "A[bx, tx] = A[bx, tx] * 3 + own[0] * 5 + own[1]")
        head = [
            "@T.prim_func",
            f"def main(A: T.Buffer((2, {self.threads}), T.int32)):",
            f"    with T.Kernel(2, threads=({self.threads},)) as (bx, tx):",
            '        own = T.alloc_buffer((2,), T.int32, scope="local")',
        ]
        return "\n".join([*head, *self.lines])


@pytest.mark.parametrize("seed", range(60))
def test_loops_over_threads_compute_what_lanes_do_together(check_pass, seed):
    check_pass(LowerThreadCode, Writer(seed).text(), None, sizes=[{}])
