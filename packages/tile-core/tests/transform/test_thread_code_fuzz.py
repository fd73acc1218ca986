"""Random thread code with syncs, run before and after LowerThreadCode."""

import random

import pytest

from tile_core.transform import LowerThreadCode


class Writer:
    """Statements of a block of 16 threads. Between two syncs, threads read one shared buffer and write their own
    element of the other."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.lines: list[str] = []
        self.names: list[str] = []
        self.read, self.write = "S", "R"

    def line(self, depth: int, text: str) -> None:
        self.lines.append("    " * (depth + 2) + text)

    def value(self) -> str:
        choices = [
            "acc[0]",
            "acc[1]",
            f"{self.read}[15 - tx]",
            f"{self.read}[(tx + 3) % 16]",
            f"{self.read}[5]",
            "T.cast(tx, T.float32)",
        ]
        choices += self.names
        first, second = (self.random.choice(choices) for _ in range(2))
        return f"{first} {self.random.choice('+-*')} {second}"

    def thread_statement(self, depth: int) -> None:
        kind = self.random.randrange(6)
        if kind == 0 and depth == 0:
            name = f"v{len(self.names)}"
            self.line(depth, f"{name}: T.float32 = {self.value()}")
            self.names.append(name)
        elif kind == 1:
            self.line(depth, f"if tx < {self.random.randrange(1, 16)}:")
            self.line(depth + 1, f"acc[{self.random.randrange(2)}] = {self.value()}")
        elif kind == 2:
            self.line(depth, f"for k{depth} in T.serial({self.random.choice(['3', 'tx % 4', '1'])}):")
            self.line(depth + 1, "acc[0] = acc[0] * 0.5 + 1.0")
        elif kind == 3:
            self.line(depth, f"{self.write}[tx] = {self.value()}")
        else:
            self.line(depth, f"acc[{self.random.randrange(2)}] = {self.value()}")

    def sync(self, depth: int) -> None:
        self.line(depth, f"{self.write}[tx] = {self.value()}")
        self.line(depth, "T.sync_threads()")
        self.read, self.write = self.write, self.read

    def block_statement(self) -> None:
        kind = self.random.randrange(4)
        if kind == 0:
            self.sync(0)
        elif kind == 1:
            count = self.random.randrange(1, 4)
            self.line(0, f"for r in T.serial({count}):")
            for _ in range(2):
                self.sync(1)
                self.thread_statement(1)
        elif kind == 2:
            self.line(0, f"if bx > {self.random.randrange(2)}:")
            for _ in range(2):
                self.sync(1)
        else:
            self.thread_statement(0)

    def text(self) -> str:
        self.line(0, "acc[0] = 1.0")
        self.line(0, "acc[1] = T.cast(tx, T.float32)")
        self.line(0, "S[tx] = A[bx, tx]")
        self.line(0, "R[tx] = 0.0")
        self.line(0, "T.sync_threads()")
        for _ in range(self.random.randrange(3, 9)):
            self.block_statement()
        self.line(0, "T.sync_threads()")
        self.line(0, f"A[bx, tx] = {' + '.join(['acc[0]', 'acc[1]', 'S[tx]', 'R[tx]', *self.names])}")
        head = [
            "@T.prim_func",
            "def main(A: T.Buffer((2, 16), T.float32)):",
            "    with T.Kernel(2, threads=(16,)) as (bx, tx):",
            '        S = T.alloc_buffer((16,), T.float32, scope="shared")',
            '        R = T.alloc_buffer((16,), T.float32, scope="shared")',
            '        acc = T.alloc_buffer((2,), T.float32, scope="local")',
        ]
        return "\n".join([*head, *self.lines])


@pytest.mark.parametrize("seed", range(60))
def test_loops_over_threads_compute_what_threads_do(check_pass, seed):
    check_pass(LowerThreadCode, Writer(seed).text(), None, sizes=[{}])
